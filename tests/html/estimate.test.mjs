// Looks at the page of `vramfit estimate --html` in a real browser: the viewer on a simulated run, the treemap, the table.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Browser, findChromium } from "./browser.mjs";

const file = join(process.env.PAGES, "estimate.html");
const shown = "window.vramfit.page";
let browser;
before(async () => (browser = await Browser.start(findChromium())));
after(() => browser.stop());

async function opened(options, act) {
  const tab = await browser.open(file, options);
  await tab.settle();
  try {
    await act(tab);
    assert.deepEqual(tab.errors, [], "errors in the console");
    assert.deepEqual(tab.requests.filter((url) => !url.endsWith("estimate.html")), [], "requests beside the page itself");
  } finally {
    if (process.env.SCREENSHOTS) writeFileSync(join(process.env.SCREENSHOTS, `estimate-${options.scheme ?? "light"}-${options.width ?? 1280}.png`), await tab.screenshot());
    await tab.close();
  }
}

for (const scheme of ["light", "dark"]) {
  for (const width of [1280, 420]) {
    test(`timeline, treemap and modules are drawn, ${scheme}, ${width} wide`, () =>
      opened({ scheme, width }, async (tab) => {
        const legend = await tab.evaluate("document.getElementById('legend').innerText");
        for (const name of ["parameters", "activations", "optimizer", "gradients"]) assert.match(legend, new RegExp(name));
        assert.equal(await tab.evaluate("document.documentElement.scrollWidth"), width, "nothing sticks out at the side");
        assert.ok((await tab.evaluate("document.querySelectorAll('#treemap rect').length")) > 20);
        assert.ok((await tab.evaluate("document.querySelectorAll('.layers tbody tr').length")) > 100);
      }));
  }
}

test("the simulated run adds up: blocks lie in segments, levels are those of the numbers", () =>
  opened({}, async (tab) => {
    const sums = await tab.evaluate(`[0.2, 0.5, 1].map((share) => { const r = ${shown}.recording; const at = Math.floor(r.events * share); const segments = r.segmentsAt(at); const live = r.liveAt(at); return { reserved: segments.reduce((sum, s) => sum + s.size, 0) - r.reserved[at], held: live.reduce((sum, i) => sum + r.size[i], 0) - r.allocated[at], outside: live.filter((i) => !segments.some((s) => s.address <= r.address[i] && r.address[i] + r.size[i] <= s.address + s.size)).length }; })`);
    for (const { reserved, held, outside } of sums) assert.deepEqual([reserved, held, outside], [0, 0, 0]);
    const { peak, most } = await tab.evaluate(`({ peak: ${shown}.recording.allocated[${shown}.recording.peak + 1], most: ${shown}.recording.mostAllocated })`);
    assert.equal(peak, most, "the peak is where the most is allocated");
    assert.equal(await tab.evaluate(`${shown}.recording.steps.length`), 3);
  }));

test("the timeline can be coloured by module and by line", () =>
  opened({}, async (tab) => {
    for (const [mode, name] of [["module", /bert\.embeddings\.word_embeddings/], ["line", /modeling_bert\.py:\d+/]]) {
      await tab.evaluate(`(() => { const s = document.getElementById("grouping"); s.value = "${mode}"; s.dispatchEvent(new Event("change")); })()`);
      await tab.settle();
      assert.match(await tab.evaluate("document.getElementById('legend').innerText"), name);
    }
  }));

test("a block tells its module and its line", () =>
  opened({}, async (tab) => {
    const block = await tab.evaluate(`(() => { const p = ${shown}; const r = p.recording; const at = r.peak + 1; const b = r.liveAt(at).find((i) => r.roles[r.role[i]] === "gradients"); p.select(b, at); return b; })()`);
    assert.ok(block >= 0);
    const text = await tab.evaluate("document.getElementById('details').innerText");
    assert.match(text, /module\s+bert/);
    assert.match(text, /\.py:\d+ in/);
  }));
