// What the tests of all pages share: opening one and watching over it, and measuring what a person would see.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before } from "node:test";
import { Browser, findChromium } from "./browser.mjs";

// A function that opens a page of the folder, acts on it, and finds no errors and no requests beside the page itself.
export function opener() {
  let browser;
  before(async () => (browser = await Browser.start(findChromium())));
  after(() => browser.stop());
  return async (name, options, act) => {
    const tab = await browser.open(join(process.env.PAGES, `${name}.html`), options);
    await tab.settle();
    try {
      await act(tab);
      assert.deepEqual(tab.errors, [], "errors in the console");
      assert.deepEqual(tab.requests.filter((url) => !url.startsWith("file:") || !new URL(url).pathname.endsWith(`/${name}.html`)), [], "requests beside the page itself");
    } finally {
      if (process.env.SCREENSHOTS) writeFileSync(join(process.env.SCREENSHOTS, `${name}-${options.scheme ?? "light"}-${options.width ?? 1280}.png`), await tab.screenshot());
      await tab.close();
    }
  };
}

// Texts whose contrast with what lies behind them is less than people can read (WCAG's 4.5, large ones 3), of those shown.
export const unreadable = `(() => {
  const numbers = (color) => {
    const parts = color.match(/[\\d.]+/g).map(Number);
    return color.startsWith("color(") ? [...parts.slice(0, 3).map((part) => part * 255), parts[3] ?? 1] : [...parts.slice(0, 3), parts[3] ?? 1];
  };
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255).map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)).reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = numbers(getComputedStyle(at).backgroundColor);
      if (color[3] > 0.5) return color;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== "");
    if (!hasText || !element.checkVisibility() || element.closest("script, style, .tip, [aria-pressed=true]")) continue;
    const style = getComputedStyle(element);
    const [front, back] = [light(numbers(element instanceof SVGElement ? style.fill : style.color)), light(behind(element))];
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 18 ? 3 : 4.5)) found.push(element.tagName + " " + element.className + ": " + element.textContent.trim().slice(0, 40) + " " + ratio.toFixed(2));
  }
  return found;
})()`;

// What a page owes to those who do not see it or have no pointer.
export const owed = `(() => {
  const complaints = [];
  if (document.querySelectorAll("h1").length !== 1) complaints.push("not one h1");
  for (const name of ["header", "nav", "main", "footer"]) if (!document.querySelector(name)) complaints.push("no " + name);
  let level = 1;
  for (const head of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const next = Number(head.tagName[1]);
    if (next > level + 1) complaints.push("a level is left out before " + head.textContent);
    level = next;
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) complaints.push("twice: " + id);
  for (const link of document.querySelectorAll("a[href^='#']:not([data-finding])")) if (!document.getElementById(link.getAttribute("href").slice(1))) complaints.push("leads nowhere: " + link.getAttribute("href"));
  for (const part of document.querySelectorAll("section, nav, [role=img], [role=group], [role=list], [role=region]")) if (!part.hasAttribute("aria-label") && !part.hasAttribute("aria-labelledby")) complaints.push("no name: " + part.outerHTML.slice(0, 80));
  for (const button of document.querySelectorAll("button")) if (!(button.textContent.trim() || button.getAttribute("aria-label"))) complaints.push("a button without a name");
  return complaints;
})()`;

// The texts of a table's column as they stand.
export const column = (table, index) => `[...document.querySelector("${table}").tBodies[0].rows].map((row) => Number(row.cells[${index}].dataset.value))`;
