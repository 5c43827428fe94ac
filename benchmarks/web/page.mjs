// Times the calculator in headless Chromium: from the page to its first answer, and from a slider's step to the new answer.
//
//     node benchmarks/web/page.mjs PATH_OF_VRAMFIT [REPETITIONS [PATH_OF_VRAMFIT_BROWSER_WASM]]
//
// With the WebAssembly module it times the exported page, whose engine is in the browser, behind a plain file server.
//
// The first: from the end of DOMContentLoaded to the first frame after the answer is drawn, in a new tab each time. The
// second: from the event of the slider to the first frame after the answer to it is drawn; where an answer takes long, that is a draft from the
// steps shown, and the whole answer is timed too. Exits with 1 if the median of the first is above 150 ms, or that of the second above 50 ms.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Browser, findChromium } from "../../tests/html/browser.mjs";
import { serveFolder, serveProgram } from "../../tests/web/serving.mjs";

const [program, repetitions = "15", module] = process.argv.slice(2);
if (!program || !findChromium()) {
  console.error("needed: the path of vramfit, and Chromium");
  process.exit(2);
}
const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const most = (values) => Math.max(...values);

async function exported() {
  const folder = mkdtempSync(join(tmpdir(), "vramfit-export-"));
  const made = spawnSync(program, ["web", "--export", folder, "--engine", module], { encoding: "utf8" });
  if (made.status !== 0) throw new Error(made.stderr);
  const files = await serveFolder(folder);
  return { base: files.base, close: () => { files.close(); rmSync(folder, { recursive: true }); } };
}

const { base, close } = await (module ? exported() : serveProgram(program));
const browser = await Browser.start(findChromium());
let isSlow = false;
try {
  for (const model of ["gpt2", "resnet50", "llama-8b"]) {
    const first = [];
    let tab;
    for (let round = 0; round < Number(repetitions); round += 1) {
      if (tab) await tab.close();
      // Another batch each time: the server keeps estimates.
      tab = await browser.open(`${base}#model=${model}&gpu=RTX+4090&batch=${round + 1}`, { width: 1440 });
      first.push(await tab.evaluate("page.first - performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"));
    }
    await tab.until("document.getElementById('slider-batch') && !document.getElementById('largest').hidden");
    const steps = await tab.evaluate(`(async () => {
      const slider = document.getElementById("slider-batch");
      const taken = [];
      for (let step = 0; step < 40; step += 1) {
        const begun = performance.now();
        slider.value = String(20 + step);
        slider.dispatchEvent(new Event("input"));
        const until = async (isDrawn) => {
          while (!isDrawn()) await new Promise((resolve) => setTimeout(resolve, 0));
          await new Promise((resolve) => requestAnimationFrame(resolve));
          return performance.now() - begun;
        };
        const drawn = await until(() => page.asked === query() || page.drafted === query());
        taken.push([drawn, page.asked === query() ? drawn : await until(() => page.asked === query())]);
        await new Promise((resolve) => setTimeout(resolve, 30));
      }
      return taken;
    })()`);
    await tab.close();
    const [drawn, whole] = [0, 1].map((which) => steps.map((times) => times[which]));
    isSlow ||= middle(first) > 150 || middle(drawn) > 50;
    const line = (values) => `median ${middle(values).toFixed(0)} ms, at most ${most(values).toFixed(0)} ms`;
    console.log(`${model}: first answer ${line(first)} (${first.length} tabs); slider ${line(drawn)}, the whole answer ${line(whole)} (${steps.length} steps)`);
  }
} finally {
  await browser.stop();
  close();
}
process.exit(isSlow ? 1 : 0);
