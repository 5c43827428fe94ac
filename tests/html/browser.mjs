// A headless Chromium, spoken to over two pipes: no package needed.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const NAMES = [process.env.CHROMIUM, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

// The first Chromium there is, or null.
export function findChromium() {
  const found = NAMES.filter(Boolean).find((name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0);
  return found ?? null;
}

export class Browser {
  static async start(program) {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), "vramfit-chromium-"));
    const options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe", `--user-data-dir=${browser.profile}`, "about:blank"];
    browser.process = spawn(program, options, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"], detached: true });
    browser.waiting = new Map();
    browser.listeners = [];
    browser.next = 1;
    let rest = Buffer.alloc(0);
    browser.process.stdio[4].on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        browser.receive(JSON.parse(rest.subarray(0, end).toString()));
        rest = rest.subarray(end + 1);
      }
    });
    return browser;
  }

  receive(message) {
    if (message.id === undefined) {
      for (const listener of this.listeners) listener(message);
      return;
    }
    const { resolve, reject } = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (message.error) reject(new Error(message.error.message));
    else resolve(message.result);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  // Opens a file or an address and waits until its page says that it is ready.
  async open(place, { width = 1280, height = 1000, scheme = "light" } = {}) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const tab = new Tab(this, sessionId, targetId);
    await tab.send("Page.enable");
    await tab.send("Runtime.enable");
    await tab.send("Network.enable");
    await tab.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
    await tab.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
    await tab.send("Page.navigate", { url: place.startsWith("http") ? place : pathToFileURL(place).href });
    await tab.until("window.vramfit?.ready === true || document.getElementById('problem')?.hidden === false");
    return tab;
  }

  async stop() {
    const gone = new Promise((resolve) => this.process.once("exit", resolve));
    await Promise.race([this.send("Browser.close").catch(() => {}), gone]);
    const timer = setTimeout(() => process.kill(-this.process.pid, "SIGKILL"), 3000);
    await gone;
    clearTimeout(timer);
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

export class Tab {
  constructor(browser, session, target) {
    Object.assign(this, { browser, session, target });
    this.errors = [];
    this.requests = [];
    browser.listeners.push(({ method, params, sessionId }) => {
      if (sessionId !== session) return;
      if (method === "Runtime.exceptionThrown") this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
      if (method === "Runtime.consoleAPICalled" && params.type === "error") this.errors.push(params.args.map((value) => value.value).join(" "));
      if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
    });
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  async until(expression, patience = 20000) {
    const end = Date.now() + patience;
    while (!(await this.evaluate(`Boolean(${expression})`))) {
      if (Date.now() > end) throw new Error(`waited in vain for ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  }

  // Two frames later everything that was asked for is drawn.
  async settle() {
    await this.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve, 30))))");
  }

  async mouse(type, x, y, more = {}) {
    await this.send("Input.dispatchMouseEvent", { type, x, y, ...more });
  }

  async press(key) {
    for (const type of ["keyDown", "keyUp"]) await this.send("Input.dispatchKeyEvent", { type, key, text: key.length === 1 ? key : undefined });
  }

  async screenshot() {
    const { data } = await this.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
    return Buffer.from(data, "base64");
  }

  async close() {
    await this.browser.send("Target.closeTarget", { targetId: this.target });
  }
}
