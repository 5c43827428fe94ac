// Looks at the page of `vramfit estimate --html` in a real browser: the viewer on a simulated run, the treemap, the table.
import assert from "node:assert/strict";
import { test } from "node:test";
import { column, opener, owed, unreadable } from "./look.mjs";

const opened = opener();
const shown = "window.vramfit.page";

for (const scheme of ["light", "dark"]) {
  for (const width of [1280, 380]) {
    test(`verdict, peak, timeline, treemap and modules are drawn, ${scheme}, ${width} wide`, () =>
      opened("estimate", { scheme, width }, async (tab) => {
        assert.match(await tab.evaluate("document.querySelector('.verdict.good').innerText"), /Fits on the RTX 3060/);
        assert.ok((await tab.evaluate("document.querySelectorAll('#peak .meter span').length")) > 5);
        const legend = await tab.evaluate("document.getElementById('legend').innerText");
        for (const name of ["parameters", "activations", "optimizer", "gradients"]) assert.match(legend, new RegExp(name));
        assert.equal(await tab.evaluate("document.documentElement.scrollWidth"), width, "nothing sticks out at the side");
        assert.ok((await tab.evaluate("document.querySelectorAll('.treemap.by-kind .piece').length")) > 20);
        assert.ok((await tab.evaluate("document.querySelectorAll('.layers tbody tr').length")) > 100);
        assert.deepEqual(await tab.evaluate(unreadable), []);
        assert.deepEqual(await tab.evaluate(owed), []);
      }));
  }
}

test("the simulated run adds up: blocks lie in segments, levels are those of the numbers, phases follow each other", () =>
  opened("estimate", {}, async (tab) => {
    const sums = await tab.evaluate(`[0.2, 0.5, 1].map((share) => { const r = ${shown}.recording; const at = Math.floor(r.events * share); const segments = r.segmentsAt(at); const live = r.liveAt(at); return { reserved: segments.reduce((sum, s) => sum + s.size, 0) - r.reserved[at], held: live.reduce((sum, i) => sum + r.size[i], 0) - r.allocated[at], outside: live.filter((i) => !segments.some((s) => s.address <= r.address[i] && r.address[i] + r.size[i] <= s.address + s.size)).length }; })`);
    for (const { reserved, held, outside } of sums) assert.deepEqual([reserved, held, outside], [0, 0, 0]);
    const { peak, most } = await tab.evaluate(`({ peak: ${shown}.recording.allocated[${shown}.recording.peak + 1], most: ${shown}.recording.mostAllocated })`);
    assert.equal(peak, most, "the peak is where the most is allocated");
    assert.equal(await tab.evaluate(`${shown}.recording.steps.length`), 3);
    const phases = await tab.evaluate(`${shown}.recording.phases`);
    assert.deepEqual(phases.slice(0, 4).map((phase) => phase[2]), ["build", "forward", "backward", "optimizer"]);
    for (let index = 1; index < phases.length; index += 1) assert.equal(phases[index][0], phases[index - 1][1]);
    assert.equal(await tab.evaluate(`${shown}.recording.phaseAt(${phases[2][0] + 1})`), "backward");
  }));

for (const name of ["estimate-dies", "estimate-dies-early"]) {
  test(`${name}: the verdict says what is needed and where it dies; the timeline is that of a run without the limit`, () =>
    opened(name, {}, async (tab) => {
      assert.match(await tab.evaluate("document.querySelector('.verdict.bad').innerText"), /Does not fit: needs [^]* short, dies [^]*CUDA out of memory\. Tried to allocate/);
      const { ooms, steps, at, most, reserved, segments } = await tab.evaluate(`(() => { const r = ${shown}.recording; return { ooms: r.ooms, steps: r.steps.length, at: r.allocated[r.peak + 1], most: r.mostAllocated, reserved: r.reserved[r.events], segments: r.segmentsAt(r.events).reduce((sum, s) => sum + s.size, 0) }; })()`);
      assert.deepEqual([ooms, steps], [[], 3]);
      assert.ok(most > 0 && at === most, "the peak");
      assert.equal(segments, reserved);
    }));
}

test("the timeline can be coloured by module and by line", () =>
  opened("estimate", {}, async (tab) => {
    for (const [mode, name] of [["module", /bert\.embeddings\.word_embeddings/], ["line", /modeling_bert\.py:\d+/]]) {
      await tab.evaluate(`(() => { const s = document.getElementById("grouping"); s.value = "${mode}"; s.dispatchEvent(new Event("change")); })()`);
      await tab.settle();
      assert.match(await tab.evaluate("document.getElementById('legend').innerText"), name);
    }
  }));

test("a block tells its module, its line and its phase", () =>
  opened("estimate", {}, async (tab) => {
    const block = await tab.evaluate(`(() => { const p = ${shown}; const r = p.recording; const at = r.peak + 1; const b = r.liveAt(at).find((i) => r.roles[r.role[i]] === "gradients"); p.select(b, at); return b; })()`);
    assert.ok(block >= 0);
    const text = await tab.evaluate("document.getElementById('details').innerText");
    assert.match(text, /module\s+\S/);
    assert.match(text, /\.py:\d+ in/);
    assert.match(text, /made\s+event [\d,]+, step \d+, backward/);
  }));

test("the treemap is grouped by purpose or by module, and its pieces can be reached with keys", () =>
  opened("estimate", {}, async (tab) => {
    const seen = "[...document.querySelectorAll('.treemap')].filter((map) => map.checkVisibility()).map((map) => map.className)";
    assert.deepEqual(await tab.evaluate(seen), ["treemap by-kind"]);
    await tab.evaluate("document.querySelector('input[value=owner]').click()");
    assert.deepEqual(await tab.evaluate(seen), ["treemap by-owner"]);
    await tab.evaluate("document.querySelector('.by-owner').scrollIntoView({ block: 'center' }); document.querySelector('.by-owner [tabindex=\"0\"]').focus()");
    const first = await tab.evaluate("document.querySelector('.tip:not([hidden])').textContent");
    await tab.press("ArrowRight");
    const second = await tab.evaluate("document.querySelector('.tip:not([hidden])').textContent");
    assert.match(first, /: [\d.]+ [KMG]iB \([\d.]+ %\)/);
    assert.notEqual(first, second);
    await tab.press("Escape");
    assert.equal(await tab.evaluate("document.querySelector('.tip').hidden"), true);
  }));

test("modules are sorted by a column with a key press, with their whole paths, and put back", () =>
  opened("estimate", {}, async (tab) => {
    const before = await tab.evaluate(column(".layers", 4));
    await tab.evaluate("document.querySelectorAll('.layers thead button')[3].focus()");
    const enter = async () => { for (const type of ["keyDown", "keyUp"]) await tab.send("Input.dispatchKeyEvent", { type, key: "Enter", code: "Enter", windowsVirtualKeyCode: 13, text: type === "keyDown" ? "\r" : undefined }); };
    await enter();
    assert.deepEqual(await tab.evaluate(column(".layers", 4)), [...before].sort((a, b) => b - a));
    assert.equal(await tab.evaluate("document.querySelector('.layers [aria-sort=descending]').innerText.trim()"), "saved for backward");
    assert.ok(await tab.evaluate("document.querySelector('.layers tbody .path').checkVisibility()"));
    await enter();
    await enter();
    assert.deepEqual(await tab.evaluate(column(".layers", 4)), before);
  }));

test("the page says how to make it again, without a path of this machine", () =>
  opened("estimate", {}, async (tab) => {
    assert.equal(await tab.evaluate("document.querySelector('#reproduce pre').textContent"), "vramfit estimate bert-base --batch 4 --seq 64 --gpu 'RTX 3060' --html estimate.html");
    assert.match(await tab.evaluate("document.querySelector('#reproduce').textContent"), /vramfit \d+\.\d+\.\d+[^]*batch4[^]*optimizeradamw/);
    assert.ok(!(await tab.evaluate("document.documentElement.outerHTML")).includes(process.env.PAGES));
  }));

test("names out of a model stay text", () =>
  opened("estimate-hostile", {}, async (tab) => {
    await tab.evaluate(`${shown}.group("module")`);
    await tab.settle();
    assert.equal(await tab.evaluate("window.harmed"), undefined);
    assert.equal(await tab.evaluate("document.images.length"), 0);
    for (const place of ["#legend", ".treemap", ".layers"]) assert.match(await tab.evaluate(`document.querySelector("${place}").textContent`), /<img src=x onerror=harmed=1>/, place);
  }));
