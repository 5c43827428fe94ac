// Looks at the page of `vramfit plan --html` in a real browser: plans, the frontier, tables, code to copy, paper.
import assert from "node:assert/strict";
import { test } from "node:test";
import { column, opener, owed, unreadable } from "./look.mjs";

const opened = opener();

for (const scheme of ["light", "dark"]) {
  for (const width of [1280, 380]) {
    test(`the plans can be read, ${scheme}, ${width} wide`, () =>
      opened("plan", { scheme, width }, async (tab) => {
        assert.match(await tab.evaluate("document.querySelector('.verdict').innerText"), /Does not fit as it is in 600 MiB; fits with changes/);
        for (const id of ["none", "mixed-precision", "weight-state", "smaller-dtype", "smaller-training", "frontier", "tricks", "reproduce"]) assert.ok(await tab.evaluate(`document.querySelector("nav a[href='#${id}']") !== null && document.getElementById("${id}").checkVisibility()`), id);
        assert.ok((await tab.evaluate("document.querySelectorAll('#none .changes del').length")) > 0);
        assert.match(await tab.evaluate("document.querySelector('#plan-none-1 pre').innerText"), /import torch[^]*\.backward\(\)/);
        assert.match(await tab.evaluate("document.querySelector('#plan-none-1 .help').innerText"), /Why that is the peak: .*next is/);
        assert.equal(await tab.evaluate("document.documentElement.scrollWidth"), width, "nothing sticks out at the side");
        assert.deepEqual(await tab.evaluate(unreadable), []);
        assert.deepEqual(await tab.evaluate(owed), []);
      }));
  }
}

test("arrow keys go from mark to mark of the frontier, a tip tells what is there, Enter leads to the plan", () =>
  opened("plan", {}, async (tab) => {
    assert.equal(await tab.evaluate("document.querySelectorAll('.frontier [tabindex=\"0\"]').length"), 1, "one stop of the Tab key");
    await tab.evaluate("document.querySelector('.frontier').scrollIntoView({ block: 'center' }); document.querySelector('.frontier [tabindex=\"0\"]').focus()");
    const said = new Set();
    let isLink = false;
    for (let press = 0; press < 80 && !isLink; press += 1) {
      await tab.press("ArrowRight");
      said.add(await tab.evaluate("document.querySelector('.tip:not([hidden])')?.textContent"));
      isLink = await tab.evaluate("document.activeElement.tagName.toLowerCase() === 'a'");
    }
    assert.ok(isLink && said.size >= 2 && !said.has(undefined), [...said].join("\n"));
    const link = await tab.evaluate("document.activeElement.getAttribute('href')");
    await tab.evaluate("document.activeElement.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }))");
    assert.equal(await tab.evaluate("location.hash"), link);
  }));

test("tricks are sorted by what they save, the other way round, and put back", () =>
  opened("plan", {}, async (tab) => {
    const before = await tab.evaluate(column(".tricks", 2));
    const click = "document.querySelectorAll('.tricks thead button')[2].click()";
    const falling = [...before].sort((a, b) => b - a);
    await tab.evaluate(click);
    assert.deepEqual(await tab.evaluate(column(".tricks", 2)), falling);
    assert.equal(await tab.evaluate("document.querySelector('.tricks [aria-sort]').getAttribute('aria-sort')"), "descending");
    await tab.evaluate(click);
    assert.deepEqual(await tab.evaluate(column(".tricks", 2)), falling.reverse());
    await tab.evaluate(click);
    assert.deepEqual(await tab.evaluate(column(".tricks", 2)), before);
  }));

test("the code of a plan is copied whole", () =>
  opened("plan", {}, async (tab) => {
    await tab.evaluate("Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.copied = text; } } })");
    await tab.evaluate("document.querySelector('#plan-none-1 .code button').click()");
    await tab.until("window.copied !== undefined");
    assert.equal(await tab.evaluate("window.copied"), await tab.evaluate("document.querySelector('#plan-none-1 pre').textContent"));
    await tab.until("document.querySelector('#plan-none-1 .code button').textContent === 'Copied'");
  }));

test("on paper everything is open, light and without buttons", () =>
  opened("plan", { scheme: "dark" }, async (tab) => {
    await tab.send("Emulation.setEmulatedMedia", { media: "print", features: [{ name: "prefers-color-scheme", value: "dark" }] });
    await tab.evaluate("dispatchEvent(new Event('beforeprint'))");
    assert.equal(await tab.evaluate("document.querySelectorAll('details:not([open])').length"), 0);
    assert.equal(await tab.evaluate("[...document.querySelectorAll('.code button, nav')].filter((part) => part.checkVisibility()).length"), 0);
    assert.equal(await tab.evaluate("getComputedStyle(document.body).color"), "rgb(28, 35, 48)");
    await tab.evaluate("dispatchEvent(new Event('afterprint'))");
    assert.ok((await tab.evaluate("document.querySelectorAll('details:not([open])').length")) > 0, "and closed again");
  }));

test("nothing fits: what is missing, the floor and the GPU that would do", () =>
  opened("plan-nothing", {}, async (tab) => {
    const text = await tab.evaluate("document.querySelector('.verdict.bad').innerText");
    assert.match(text, /nothing makes it fit/);
    assert.match(text, /are missing for what needs the least, [^]*Its floor: parameters [\d.]+ MiB/);
    assert.match(text, /the smallest GPU that would do: \S/);
    assert.deepEqual(await tab.evaluate(owed), []);
  }));

test("names out of a model stay text in plans and their code", () =>
  opened("plan-hostile", {}, async (tab) => {
    assert.equal(await tab.evaluate("window.harmed"), undefined);
    assert.equal(await tab.evaluate("document.images.length"), 0);
    assert.match(await tab.evaluate("document.body.textContent"), /<img src=x onerror=harmed=1>/);
  }));
