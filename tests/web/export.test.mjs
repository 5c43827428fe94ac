// What the exported calculator answers, beside what the program answers: byte for byte, in headless Chromium and a plain file server.
//
//     VRAMFIT=… ENGINE=vramfit_browser.wasm node --test tests/web/export.test.mjs
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Browser, findChromium } from "../html/browser.mjs";
import { serveFolder, serveProgram } from "./serving.mjs";

const [program, module] = [process.env.VRAMFIT, process.env.ENGINE];
// A machine's own calibrations are no part of an exported page.
const environment = { ...process.env, XDG_CONFIG_HOME: join(tmpdir(), "vramfit-no-such-folder") };
const folder = mkdtempSync(join(tmpdir(), "vramfit-export-"));
let browser, files, server, base;

before(async () => {
  const made = spawnSync(program, ["web", "--export", join(folder, "site"), "--engine", module], { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  files = await serveFolder(join(folder, "site"));
  server = await serveProgram(program, { env: environment });
  base = server.base;
  browser = await Browser.start(findChromium());
});
after(async () => {
  await browser?.stop();
  server?.close();
  files?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function on(hash, act) {
  const tab = await browser.open(`${files.base}${hash}`);
  try {
    await act(tab);
    assert.deepEqual(tab.errors, [], "errors in the console");
    const elsewhere = tab.requests.filter((url) => !url.startsWith(files.base) && !url.startsWith("data:") && !url.startsWith("blob:"));
    assert.deepEqual(elsewhere, [], "requests to elsewhere");
    assert.deepEqual(tab.requests.filter((url) => url.includes("/api/")), [], "requests to a server that is not there");
  } finally {
    await tab.close();
  }
}

const ofServer = async (path, options) => {
  const response = await fetch(base + path, options);
  return { status: response.status, text: await response.text() };
};
const ofEngine = (tab, path, bytes) =>
  tab.evaluate(`askEngine(${JSON.stringify(path)}, ${bytes ? `{ body: new Uint8Array(${JSON.stringify([...bytes])}) }` : "{}"})`);

// Answers are long: what is said of two that differ is where they begin to.
function same(one, other, question) {
  // How many candidates a search simulates depends on the number of threads; what it finds does not.
  const [found, expected] = [one, other].map(({ status, text }) => ({ status, text: text.replace(/"simulated":\d+/, "") }));
  let at = 0;
  while (at < expected.text.length && found.text[at] === expected.text[at]) at += 1;
  const around = (text) => text.slice(Math.max(0, at - 120), at + 60);
  assert.equal(found.status, expected.status, `${question}: ${found.text.slice(0, 300)}`);
  assert.ok(found.text === expected.text, `${question}: at ${at} found …${around(found.text)}…, needed …${around(expected.text)}…`);
}

const QUESTIONS = [
  "api/models", "api/gpus", "api/options",
  "api/estimate?model=gpt2&gpu=RTX+3060", "api/estimate?model=gpt2&gpu=RTX+3060&batch=64",
  "api/estimate?model=resnet50&gpu=H200&batch=32&amp=bf16", "api/estimate?model=llama-8b&gpu=H100+SXM&lora=16&quantize=nf4&checkpoint=blocks",
  "api/estimate?model=llama-70b&gpu=H200&parallel=fsdp2&world=8&dtype=bf16&batch=1", "api/estimate?model=bert-base&optimizer=adafactor&mode=train&seq=77&batch=3",
  "api/max-batch?model=gpt2&gpu=RTX+3060", "api/max-batch?model=resnet18&gpu=RTX+3060&amp=bf16",
  "api/plan?model=resnet18&vram=2GiB&batch=64&gpu=RTX+3060", "api/plan?model=gpt2&gpu=RTX+3060&batch=64",
  // Refused.
  "api/estimate?model=gpt2&batch=many", "api/estimate?model=no-such-model", "api/estimate?model=gpt2&gpu=RTX+9999", "api/estimate?batch=1",
  "api/estimate?model=gpt2&html=x", "api/plan?model=gpt2", "api/max-batch?model=gpt2&gpu=RTX+3060&margin=2", "api/estimate?model=gpt2&steps=1000&accumulate=1000",
];

test("the engine answers as the program does, byte for byte", () => on("#model=gpt2", async (tab) => {
  for (const question of QUESTIONS) {
    const [expected, found] = [await ofServer(question), await ofEngine(tab, question)];
    same(found, expected, question);
  }
}));

test("files are opened in the browser", () => on("", async (tab) => {
  const sketch = Buffer.from('input = ["batch", 512]\nsizes = { batch = 64 }\nlayers = ["Linear(512, 4096)", "ReLU()", "Linear(4096, 10)"]\n');
  const uploads = [["model.toml", sketch], ["config.json", Buffer.from("{}")], ["a.vramfit", Buffer.from([0x1f, 0x8b, 8, 0, 1])]];
  for (const path of ["crates/readers/tests/archives/attends.pt2", "validation/captures/adversary.vramfit"]) uploads.push([path.split("/").pop(), readFileSync(path)]);
  for (const [name, bytes] of uploads) {
    const path = `api/models?${new URLSearchParams({ name })}`;
    const expected = await ofServer(path, { method: "POST", body: bytes });
    same(await ofEngine(tab, path, bytes), expected, name);
    if (expected.status !== 200) continue;
    // A worker that has not seen the file gets it before the question.
    for (const kind of ["estimate", "max-batch"]) {
      const question = `api/${kind}?${new URLSearchParams({ model: JSON.parse(expected.text).name, gpu: "RTX 3060", vram: "512MiB" })}`;
      same(await ofEngine(tab, question), await ofServer(question), question);
    }
  }
}));

test("the page shows the answer, follows the slider and finds plans without a server", () => on("#model=gpt2&gpu=RTX+3060", async (tab) => {
  await tab.until("document.querySelectorAll('#model option').length > 1");
  const text = (id) => tab.evaluate(`document.getElementById('${id}').textContent`);
  assert.equal(await text("verdict-title"), "✓ Fits on the RTX 3060");
  await tab.evaluate("(() => { const it = document.getElementById('number-batch'); it.value = '64'; it.dispatchEvent(new Event('input', { bubbles: true })); })()");
  await tab.until("page.asked === query()");
  assert.equal(await text("verdict-title"), "✗ Does not fit on the RTX 3060");
  assert.match(await text("footer"), /in this browser/);
  await tab.until("document.getElementById('largest')?.hidden === false", 60000);
  await tab.evaluate("document.getElementById('search').click()");
  await tab.until("found !== null", 90000);
  assert.ok(await tab.evaluate("document.querySelectorAll('#plans .spot').length") > 1);
}));

test("a host that does not know the type of the module serves it all the same", async () => {
  const plain = await serveFolder(join(folder, "site"), { typed: false });
  const tab = await browser.open(plain.base);
  assert.match(await tab.evaluate("document.getElementById('verdict-title').textContent"), /^✓/);
  await tab.close();
  plain.close();
});

test("a worker that fails is replaced, and whoever waits for it is told", () => on("", async (tab) => {
  const failed = await tab.evaluate("(() => { const asked = askEngine('api/gpus'); return asked.then(() => { const next = askEngine('api/plan?model=llama-8b&gpu=H200'); return new Promise((r) => setTimeout(r, 50)).then(() => { engine.workers.get('plan').fail('a test'); return next; }); }); })()");
  assert.equal(failed.status, 500);
  assert.equal(JSON.parse((await ofEngine(tab, "api/plan?model=gpt2")).text).error, JSON.parse((await ofServer("api/plan?model=gpt2")).text).error);
  tab.errors.length = 0;
}));
