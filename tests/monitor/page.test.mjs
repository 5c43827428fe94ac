// The page of `vramfit serve` in a real browser: VRAMFIT names the program, STANDIN the folder of the NVML stand-in.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Browser, findChromium } from "../html/browser.mjs";

const MIB = 2 ** 20;
const folder = mkdtempSync(join(tmpdir(), "vramfit-serve-"));
let browser;
const servers = [];

function gpu(index) {
  return { name: `NVIDIA <b>H100</b> ${index}`, uuid: `GPU-${index}`, temperature: 40, fan: null, utilization: 50 + index, encoder: 0, decoder: 0, power: 300000, power_limit: 700000, memory: { total: 80000 * MIB, used: (1 + index) * 10000 * MIB, free: 1000 * MIB }, compute: [{ pid: process.pid, memory: 500 * MIB }, { pid: 4000000000, memory: 900 * MIB }], graphics: [] };
}

function write(name, scenario) {
  writeFileSync(join(folder, `${name}.part`), JSON.stringify(scenario));
  renameSync(join(folder, `${name}.part`), join(folder, name));
}

async function serve(name, ...flags) {
  const server = spawn(process.env.VRAMFIT, ["serve", "--port", "0", "-i", "0.3", ...flags], { env: { ...process.env, LD_LIBRARY_PATH: process.env.STANDIN, NVML_STANDIN_SCENARIO: join(folder, name) }, stdio: ["ignore", "ignore", "pipe"] });
  servers.push(server);
  let said = "";
  return new Promise((resolve, reject) => {
    server.stderr.on("data", (data) => {
      said += data;
      const address = /http:\/\/\S+?\//.exec(said);
      if (address) resolve(address[0]);
    });
    server.on("exit", (code) => reject(new Error(`vramfit serve ended with ${code}: ${said}`)));
  });
}

before(async () => {
  browser = await Browser.start(findChromium());
});

after(async () => {
  for (const server of servers) server.kill();
  await browser?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("cards and processes are shown, live, with nothing from elsewhere", async () => {
  write("two", { driver_version: "570.86.15", gpus: [gpu(0), gpu(1)] });
  const address = await serve("two");
  const tab = await browser.open(address);
  assert.equal(await tab.evaluate("document.querySelectorAll('.card').length"), 2);
  assert.equal(await tab.evaluate("document.querySelector('.card h3 span').textContent"), "NVIDIA <b>H100</b> 0", "names are text, never markup");
  assert.match(await tab.evaluate("document.querySelector('.card').textContent"), /9.8 GiB of 78.1 GiB|10000 MiB of 78.1 GiB/);
  assert.match(await tab.evaluate("document.querySelector('.card .facts').textContent"), /fan not supported/);
  assert.equal(await tab.evaluate("document.querySelectorAll('#processes tr').length"), 4);
  assert.match(await tab.evaluate("document.getElementById('processes').textContent"), /hidden/);
  await tab.until("document.querySelector('svg.busy path.edge').getAttribute('d').split('L').length > 3");
  assert.ok(tab.requests.every((url) => url.startsWith(address) || url.startsWith("data:") || url === "about:blank"), tab.requests.join(" "));

  await tab.evaluate("[...document.querySelectorAll('th button')].find((button) => button.textContent === 'PID').click()");
  assert.equal(await tab.evaluate("document.querySelector('th[aria-sort]').textContent"), "PID");
  await tab.evaluate("document.activeElement.blur()");

  write("two", { driver_version: "570.86.15", gpus: [gpu(0), gpu(1)], faults: [{ function: "nvmlDeviceGetHandleByIndex", gpu: 1, code: 15 }] });
  await tab.until("document.querySelector('.card.lost')?.textContent.includes('GPU is lost')");
  assert.match(await tab.evaluate("document.querySelector('.card.lost').textContent"), /H100/, "a lost GPU keeps its name");
  if (process.env.SCREENSHOTS) {
    for (const [name, options] of [["light", {}], ["dark", { scheme: "dark" }], ["narrow", { width: 380 }]]) {
      const shown = await browser.open(address, options);
      await new Promise((resolve) => setTimeout(resolve, 4000));
      writeFileSync(join(process.env.SCREENSHOTS, `serve-${name}.png`), await shown.screenshot());
      assert.ok(await shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing sticks out");
    }
  }
  servers[0].kill();
  await tab.until("document.getElementById('problem').hidden === false");
  assert.deepEqual(tab.errors, []);
});

test("with a token the page asks for it and then shows", async () => {
  write("one", { driver_version: "570.86.15", gpus: [gpu(0)] });
  writeFileSync(join(folder, "token"), "correct-horse-battery\n");
  const tab = await browser.open(await serve("one", "--token-file", join(folder, "token")));
  await tab.until("document.getElementById('login').hidden === false");
  assert.equal(await tab.evaluate("document.querySelectorAll('.card').length"), 0);
  const enter = (text) => tab.evaluate(`document.getElementById('token').value = ${JSON.stringify(text)}; document.querySelector('#login button').click()`);
  await enter("wrong-horse-battery!");
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(await tab.evaluate("document.querySelectorAll('.card').length"), 0);
  await enter("correct-horse-battery");
  await tab.until("document.querySelectorAll('.card').length === 1");
  assert.equal(await tab.evaluate("document.getElementById('login').hidden"), true);
});

test("a demo is drawn at the times of its samples, not of the browser", async () => {
  const address = await serve("two", "--demo");
  const tab = await browser.open(address);
  await tab.until("(window.vramfit.history.get(0)?.length ?? 0) > 3");
  const times = JSON.parse(await tab.evaluate("JSON.stringify(window.vramfit.history.get(0).map((point) => point.at))"));
  const { taken_at_ms: newest } = await (await fetch(`${address}api/gpus`)).json();
  assert.ok(times.every((at, number) => number === 0 || at > times[number - 1]), `times rise: ${times}`);
  assert.ok(times[times.length - 1] <= newest, `${times[times.length - 1]} is the time of a sample, the newest is of ${newest}`);
  const line = await tab.evaluate("document.querySelector('svg.memory path.edge').getAttribute('d')");
  const across = line.slice(1).split("L").map((spot) => Number(spot.split(" ")[0]));
  assert.ok(Math.max(...across) - Math.min(...across) > 0, `the line has a width: ${line}`);
});

test("a replay of another day is drawn at that day's times", async () => {
  const file = join(folder, "recorded.jsonl");
  const recorder = spawn(process.env.VRAMFIT, ["serve", "--port", "0", "--demo", "--record", file], { stdio: "ignore" });
  servers.push(recorder);
  let lines = [];
  for (let tries = 0; lines.length < 6 && tries < 100; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    lines = existsSync(file) ? readFileSync(file, "utf8").split("\n").filter((line) => line.endsWith("}")) : [];
  }
  recorder.kill();
  // In 2001, and ten seconds apart.
  const samples = lines.slice(1).map((line, number) => ({ ...JSON.parse(line), taken_at: (1_000_000_000 + 10 * number) * 1_000_000 }));
  writeFileSync(file, [lines[0], ...samples.map((sample) => JSON.stringify(sample)), ""].join("\n"));
  const tab = await browser.open(await serve("two", "--replay", file));
  await tab.until("(window.vramfit.history.get(0)?.length ?? 0) > 1");
  const times = JSON.parse(await tab.evaluate("JSON.stringify(window.vramfit.history.get(0).map((point) => point.at))"));
  const recorded = samples.map((sample) => sample.taken_at / 1000);
  assert.ok(times.every((at) => recorded.includes(at)), `${times} are of ${recorded}`);
  const line = await tab.evaluate("document.querySelector('svg.memory path.edge').getAttribute('d')");
  const across = line.slice(1).split("L").map((spot) => Number(spot.split(" ")[0]));
  assert.ok(across[across.length - 1] - across[0] > 10, `ten seconds are a sixth of the shortest chart: ${line}`);
});
