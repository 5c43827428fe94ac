// The calculator in headless Chromium: what it shows, its address, its keyboard, its languages, and what people can read.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { Browser, findChromium } from "../html/browser.mjs";
import { unreadable } from "../html/look.mjs";

const base = process.env.WEB;
let browser;
before(async () => (browser = await Browser.start(findChromium())));
after(() => browser.stop());

async function on(hash, options, act) {
  const tab = await browser.open(`${base}${hash}`, options);
  await tab.until("document.querySelectorAll('#model option').length > 1");
  try {
    await act(tab);
    assert.deepEqual(tab.errors, [], "errors in the console");
    assert.equal(await text(tab, "problem"), "", "the page says that it failed");
    assert.deepEqual(tab.requests.filter((url) => !url.startsWith(base) && !url.startsWith("data:")), [], "requests to elsewhere");
  } finally {
    await tab.close();
  }
}

const text = (tab, id) => tab.evaluate(`document.getElementById('${id}').textContent`);
// Changes a control as a person does, and waits until the answer to the new settings is drawn.
async function change(tab, id, value, event = "input") {
  await tab.evaluate(`(() => { const it = document.getElementById('${id}'); it.value = '${value}'; it.dispatchEvent(new Event('${event}', { bubbles: true })); })()`);
  await tab.until("page.asked === query()");
}

test("the first answer is there without a click", () => on("", {}, async (tab) => {
  assert.equal(await text(tab, "verdict-title"), "✓ Fits on the RTX 3060");
  assert.match(await text(tab, "verdict-text"), /^Needs [\d.]+ to [\d.]+ of 11\.8 GiB; .* stay free\.$/);
  assert.equal(await text(tab, "command"), "vramfit estimate gpt2 --gpu 'RTX 3060'");
}));

test("the answer follows the slider, the bar crosses the line, and the address has it all", () => on("#model=gpt2&gpu=RTX+3060", {}, async (tab) => {
  await change(tab, "number-batch", 64);
  assert.equal(await text(tab, "verdict-title"), "✗ Does not fit on the RTX 3060");
  assert.match(await text(tab, "verdict-text"), /short\. Dies in .+ \(step 1, forward\)\.$/);
  assert.equal(await tab.evaluate("document.querySelectorAll('#bar .beyond').length"), 1);
  await tab.until("location.hash.includes('batch=64')");
  const address = await text(tab, "link");
  await on(address.slice(base.length), {}, async (other) => {
    assert.equal(await text(other, "verdict-text"), await text(tab, "verdict-text"));
    assert.equal(await other.evaluate("document.getElementById('number-batch').value"), "64");
  });
}));

test("the levels of a timeline are what their labels say", () => on("#model=gpt2", {}, async (tab) => {
  const wrong = await tab.evaluate(`(() => {
    const wrong = [];
    for (let peak = 1e5; peak < 4e11; peak *= 1.13) {
      const drawn = timeline({ allocated: [peak], phases: [{ phase: "forward", end: 1 }], peak: 0 }, null, 600);
      const labels = [...drawn.querySelectorAll("text.end")].map((it) => Number(it.textContent));
      const steps = labels.slice(1).map((level, index) => level - labels[index]);
      if (labels.length < 2 || new Set(steps.map((step) => step.toFixed(3))).size > 1) wrong.push([peak, ...labels]);
    }
    return wrong;
  })()`);
  assert.deepEqual(wrong, []);
}));

test("the bar has all that is on the device, what goes to other GPUs too", () => on("#model=llama-1b&gpu=A100+SXM4+80GB&parallel=fsdp2&world=4", {}, async (tab) => {
  assert.ok(await tab.evaluate("lastAnswer.breakdown.communication > 0"));
  assert.equal(await tab.evaluate("parts(lastAnswer).reduce((sum, part) => sum + part.bytes, 0) - lastAnswer.device_used"), 0);
  assert.match(await text(tab, "legend"), /communication/);
}));

test("where an answer takes long, a draft of it is drawn first and says so", () => on("#model=gpt2&gpu=RTX+3060", {}, async (tab) => {
  await tab.evaluate("window.seen = []; new MutationObserver(() => seen.push(document.getElementById('draft').textContent)).observe(document.getElementById('draft'), { childList: true }); slowness = 1000; 0");
  await change(tab, "number-batch", 64);
  await tab.until("document.getElementById('draft').textContent === ''");
  assert.match((await tab.evaluate("seen"))[0], /^from the 3 steps shown/);
  assert.equal(await text(tab, "verdict-title"), "✗ Does not fit on the RTX 3060");
  assert.equal(await tab.evaluate("page.drafted === query()"), true);
}));

test("the largest batch is offered, and fits", () => on("#model=gpt2&gpu=RTX+3060&batch=64", {}, async (tab) => {
  await tab.until("document.getElementById('largest')?.hidden === false");
  await tab.evaluate("document.getElementById('largest').click()");
  await tab.until("page.asked === query()");
  assert.match(await text(tab, "verdict-title"), /^✓/);
  const batch = Number(await tab.evaluate("get('batch')"));
  await change(tab, "number-batch", batch + 1);
  assert.match(await text(tab, "verdict-text"), /short|others do not/);
}));

for (const [name, most, hash] of [["built-in", 1024, "#model=gpt2"], ["built-in", 512, "#model=bert-base"], ["without a limit", 131072, "#model=qwen2-0.5b"]]) {
  test(`a slider ends at what the model takes: ${name}, ${most}`, () => on(hash, {}, async (tab) => {
    await change(tab, "slider-seq", await tab.evaluate("element('slider-seq').max"));
    assert.equal(await tab.evaluate("get('seq')"), String(most));
    assert.equal(await text(tab, "refused"), "");
  }));
}

test("a slider of an opened file ends at what the model takes", () => on("", {}, async (tab) => {
  const config = JSON.stringify({ model_type: "gpt2", architectures: ["GPT2LMHeadModel"], n_embd: 64, n_layer: 2, n_head: 2, n_positions: 300, vocab_size: 100 });
  await tab.evaluate(`takeFile(new File([${JSON.stringify(config)}], "config.json"))`);
  await tab.until("state.file !== null && page.asked === query()");
  await change(tab, "slider-seq", await tab.evaluate("element('slider-seq').max"));
  assert.deepEqual([await tab.evaluate("get('seq')"), await text(tab, "refused")], ["300", ""]);
  assert.equal(await tab.evaluate("element('number-seq').max"), "300");
}));

test("what is needed and what stays free are together what there is", () => on("", {}, async (tab) => {
  const numbers = (await text(tab, "verdict-text")).match(/([\d.]+) of ([\d.]+) GiB; ([\d.]+) GiB/).slice(1).map(Number);
  assert.ok(Math.abs(numbers[0] + numbers[2] - numbers[1]) < 0.06, numbers.join(" "));
  await tab.evaluate("set('gpu', 'RTX 3060 Laptop'); drawControls(); changed()");
  await tab.until("page.asked === query()");
  assert.match(await text(tab, "verdict-text"), /of [\d.]+ to [\d.]+ GiB/, "as the command line shows what is not recorded");
}));

test("a link may name model and GPU as the command line does", () => on("#model=GPT2&gpu=3060", {}, async (tab) => {
  assert.equal(await tab.evaluate("element('model').value"), "gpt2");
  assert.equal(await tab.evaluate("element('gpu').value"), "RTX 3060");
  assert.equal(await tab.evaluate("document.querySelectorAll('#slider-batch').length"), 1);
  await on("#model=openai-community%2Fgpt2", {}, async (other) => {
    assert.equal(await text(other, "verdict-text"), await text(tab, "verdict-text"));
    assert.equal(await other.evaluate("element('model').value"), "openai-community/gpt2");
    assert.equal(await other.evaluate("document.querySelectorAll('#slider-batch').length"), 1);
  });
}));

test("a link without its file asks for the file, and keeps the settings", () => on("#model=net.toml&gpu=RTX+3060&batch=7", {}, async (tab) => {
  assert.equal(await text(tab, "verdict-title"), "Open net.toml again");
  await tab.evaluate(`takeFile(new File(['input = ["batch", 512]\\nsizes = { batch = 64 }\\nlayers = ["Linear(512, 4096)"]\\n'], "net.toml"))`);
  await tab.until("state.file !== null && page.asked === query()");
  assert.equal(await text(tab, "command"), "vramfit estimate net.toml --gpu 'RTX 3060' --batch 7");
}));

test("without an answer nothing empty is shown, and nothing of other settings can be copied", () => on("#model=gpt2&seq=5000", { width: 360, height: 780 }, async (tab) => {
  const seen = (id) => tab.evaluate(`element("${id}").checkVisibility()`);
  for (const id of ["bar", "timeline", "holders", "command"]) assert.equal(await seen(id), false, id);
  assert.match(await text(tab, "link"), /seq=5000/);
  assert.notEqual(await text(tab, "mini-title"), "");
  await change(tab, "number-seq", 512);
  for (const id of ["bar", "timeline", "holders", "command"]) assert.equal(await seen(id), true, id);
  await change(tab, "number-batch", 999999999);
  assert.equal(await seen("command"), false);
  assert.equal(await tab.evaluate("getComputedStyle(document.querySelector('#timeline').parentElement).opacity"), "0.35");
}));

for (const value of ["0", "-3", ""]) test(`a batch of "${value}" is no size`, () => on("", {}, async (tab) => {
  await change(tab, "number-batch", value);
  assert.equal(await text(tab, "wrong-batch"), "needs a whole number from 1 on");
  assert.equal(await tab.evaluate("element('number-batch').getAttribute('aria-invalid')"), "true");
  await change(tab, "number-batch", 9);
  assert.equal(await text(tab, "wrong-batch"), "");
}));

test("a token that is not the server's is called that", () => on("", {}, async (tab) => {
  await tab.evaluate("fetch = async () => new Response('', { status: 401 }); changed(); 0");
  await tab.until("!element('login').hidden && element('verdict-title').textContent === 'This server wants a token'");
  await tab.evaluate("sessionStorage.setItem('vramfit-token', 'x'); changed(); 0");
  await tab.until("element('verdict-title').textContent === 'Not the token of this server'");
  assert.equal(await tab.evaluate("element('login').getAttribute('aria-labelledby')"), "token-label", "a form with a name is a landmark");
  await tab.evaluate("sessionStorage.clear()");
}));

test("a file that is too large is refused before it is sent", () => on("", {}, async (tab) => {
  await tab.evaluate("takeFile({ name: 'net.pt2', size: 17 * 2 ** 20 })");
  assert.match(await text(tab, "file-refused"), /^net\.pt2 has 17\.0 MiB; at most 16\.0 MiB/);
}));

test("arrow keys move a slider and the answer", () => on("", {}, async (tab) => {
  await tab.evaluate("document.getElementById('slider-batch').focus()");
  for (const type of ["keyDown", "keyUp"]) await tab.send("Input.dispatchKeyEvent", { type, key: "ArrowRight", code: "ArrowRight", windowsVirtualKeyCode: 39 });
  await tab.until("get('batch') === '9' && page.asked === query()");
  assert.equal(await tab.evaluate("document.getElementById('slider-batch').getAttribute('aria-valuetext')"), "9");
}));

test("settings are flags: choices, switches and lists end up in the command", () => on("", {}, async (tab) => {
  await tab.evaluate("document.querySelector('input[name=precision][value=amp-bf16]').click()");
  await tab.evaluate("document.querySelector('input[name=checkpoint][value=blocks]').click()");
  await tab.evaluate("document.getElementById('option-clip-grad').click()");
  await change(tab, "option-freeze", "transformer.wte", "change");
  await change(tab, "optimizer", "sgd", "change");
  assert.equal(await text(tab, "command"), "vramfit estimate gpt2 --gpu 'RTX 3060' --amp bf16 --checkpoint blocks --clip-grad --freeze transformer.wte --optimizer sgd");
  await change(tab, "option-steps", "many", "change");
  assert.match(await text(tab, "refused"), /--steps/);
  await tab.evaluate("document.getElementById('reset').click()");
  await tab.until("page.asked === query() && document.getElementById('refused').hidden");
  assert.equal(await text(tab, "command"), "vramfit estimate gpt2 --gpu 'RTX 3060'");
}));

test("a file is opened, and a link has a small one inside", () => on("", {}, async (tab) => {
  const sketch = 'input = ["batch", 512]\nsizes = { batch = 64 }\nlayers = ["Linear(512, 4096)", "ReLU()", "Linear(4096, 10)"]\n';
  await tab.evaluate(`takeFile(new File([${JSON.stringify(sketch)}], "model.toml"))`);
  await tab.until("page.asked === query() && state.file !== null");
  assert.equal(await text(tab, "command"), "vramfit estimate model.toml --gpu 'RTX 3060'");
  await on((await text(tab, "link")).slice(base.length), {}, async (other) => {
    await other.until("document.getElementById('verdict-text').textContent !== ''");
    assert.equal(await text(other, "verdict-text"), await text(tab, "verdict-text"));
  });
  await tab.evaluate('takeFile(new File(["<img src=x onerror=harmed=1>"], "<b>.json"))');
  await tab.until("!document.getElementById('file-refused').hidden");
  assert.equal(await tab.evaluate("document.querySelectorAll('#file-refused :not(span)').length"), 0, "a name never becomes markup");
  assert.equal(await text(tab, "command"), "vramfit estimate model.toml --gpu 'RTX 3060'", "the model before stays");
  assert.match(await text(tab, "verdict-title"), /^✓/);
  await tab.evaluate(`takeFile(new File([${JSON.stringify(sketch)}], "model.toml"))`);
  await tab.until("document.getElementById('file-refused').hidden");
}));

test("plans are searched, chosen by dot or list, and applied", () => on("#model=resnet18&vram=2GiB&batch=64&gpu=RTX+3060", {}, async (tab) => {
  await tab.evaluate("document.getElementById('search').click()");
  await tab.until("found !== null", 60000);
  const dots = await tab.evaluate("document.querySelectorAll('#plans .spot').length");
  assert.ok(dots > 1, `${dots} plans`);
  await tab.evaluate("document.querySelectorAll('#plans .spot')[1].dispatchEvent(new MouseEvent('click'))");
  assert.equal(await tab.evaluate("document.querySelector('input[name=plan]:checked').value"), "1");
  assert.match(await text(tab, "plan-code"), /optimizer\.step|optimizer/);
  await tab.evaluate("document.querySelector('input[name=plan][value=\"0\"]').click(); document.querySelector('#plans > button.main').click()");
  await tab.until("page.asked === query()");
  assert.match(await text(tab, "verdict-title"), /^✓/, await text(tab, "command"));
}));

test("a training is spread over several GPUs, and the plan is applied", () => on("#model=llama-1b&gpu=RTX+3090&batch=1&seq=512&dtype=bf16", {}, async (tab) => {
  await tab.evaluate("document.querySelector('input[name=gpus][value=\"2\"]').click()");
  await tab.evaluate("document.querySelector('input[name=link][value=nvlink]').click()");
  await tab.until("page.asked === query()");
  assert.equal(await text(tab, "refused"), "", "an estimate knows nothing of --gpus");
  await tab.evaluate("document.getElementById('search').click()");
  await tab.until("found !== null", 60000);
  assert.equal(await tab.evaluate("found.command"), "vramfit plan llama-1b --gpu 'RTX 3090' --batch 1 --seq 512 --dtype bf16 --gpus 2 --link nvlink");
  assert.match(await tab.evaluate("document.querySelector('#plans .ranks').textContent"), /one GPU.*all 2 GPUs.*reserved at the peak/);
  await tab.evaluate("document.querySelector('#plans > button.main').click()");
  await tab.until("page.asked === query()");
  assert.match(await text(tab, "command"), /--parallel (ddp|zero1|fsdp2) .*--world 2/);
  assert.match(await text(tab, "verdict-title"), /^✓/, await text(tab, "command"));
  await tab.until("location.hash.includes('gpus=2') && location.hash.includes('link=nvlink')");
}));

test("several GPUs stand side by side", () => on("#model=llama-1b&gpu=RTX+3060&also=H200&also=RTX+4090", {}, async (tab) => {
  await tab.until("document.querySelectorAll('#compared li').length === 2");
  assert.match(await tab.evaluate("document.querySelector('#compared li').textContent"), /✓ Fits on the H200/);
}));

test("Chinese is complete, and in the address", () => on("#lang=zh", {}, async (tab) => {
  assert.equal(await tab.evaluate("document.documentElement.lang"), "zh-CN");
  assert.equal(await text(tab, "verdict-title"), "✓ RTX 3060 放得下");
  await tab.evaluate("document.querySelector('[data-language=en]').click()");
  assert.equal(await text(tab, "verdict-title"), "✓ Fits on the RTX 3060");
}));

// What the engine says is English; the page has it in Chinese.
for (const hash of ["", "#model=gpt2&gpu=RTX+3060", "#model=resnet50&gpu=GTX+1080+Ti&amp=bf16", "#model=bert-base&gpu=RTX+4060+Laptop&torch=2.8&mode=eval&ema=true", "#model=gpt2&gpu=A100+SXM4+40GB&parallel=fsdp2&world=4", "#model=gpt2&gpu=H200&optimizer=paged-adamw8bit", "#model=clip-vit-b-32&gpu=RTX+4090&optimizer-state=cpu"]) {
  test(`notes and help are Chinese: ${hash || "at first"}`, () => on(`${hash || "#"}&lang=zh`, {}, async (tab) => {
    await tab.evaluate("document.getElementById('more').open = true");
    assert.equal(await text(tab, "refused"), "");
    assert.notEqual(await text(tab, "notes"), "", "notes were there to translate");
    assert.deepEqual(await tab.evaluate("[...document.querySelectorAll('#notes [lang=en], #options [lang=en]')].map((it) => it.textContent)"), []);
  }));
}

for (const [hash, why] of [
  ["#model=gpt2&batch=0", "需要 1 到"], ["#model=gpt2&seq=5000", "只有 1024 行"], ["#model=gpt2&batch=1000000000", "请用 --batch"], ["#gpu=RTX+9999", "没有名为"],
  ["#model=nope", "没有 `nope`"], ["#steps=many", "不是数字"], ["#optimizer=x", "可以是"], ["#vram=12", "没有单位"], ["#steps=600", "最多模拟"], ["#checkpoint=x", "没有这样的模块"],
]) test(`a refusal is Chinese: ${hash}`, () => on(`${hash}&lang=zh`, {}, async (tab) => {
  assert.match(await text(tab, "refused"), new RegExp(why));
  assert.deepEqual(await tab.evaluate("[...document.querySelectorAll('#refused [lang=en]')].map((it) => it.textContent)"), []);
}));

test("a file that is no model is refused in Chinese", () => on("#lang=zh", {}, async (tab) => {
  for (const [name, length] of [["x.txt", 5], ["config.json", 2], ["model.toml", 3], ["x.pt2", 9], ["x.pth", 9], ["train.py", 9], ["a.ipynb", 9]]) {
    await tab.evaluate(`element("file-refused").replaceChildren(), takeFile(new File([new Uint8Array(${length}).fill(120)], "${name}"))`);
    await tab.until("element('file-refused').textContent");
    assert.deepEqual(await tab.evaluate("[...document.querySelectorAll('#file-refused [lang=en]')].map((it) => it.textContent)"), [], name);
  }
  // A file of 17 MiB would take the browser's own recording of requests ten seconds.
  assert.equal(await tab.evaluate("said('the body has more bytes than are taken here', REFUSALS).lang"), "zh-CN");
}));

test("plans are Chinese", () => on("#model=resnet50&batch=256&gpu=RTX+3060&lang=zh", {}, async (tab) => {
  await tab.evaluate("document.getElementById('search').click()");
  await tab.until("found !== null", 60000);
  assert.ok(await tab.evaluate("found.plans.length") > 2);
  assert.deepEqual(await tab.evaluate("found.plans.flatMap((plan) => [plan.why, ...plan.changes.flatMap((change) => [change.after, change.warning])]).filter((text) => text && said(text).lang === 'en' && !/^(autocast bf16|PYTORCH_CUDA_ALLOC_CONF=.*)$/.test(text))"), []);
}));

for (const [name, hash, options] of [
  ["wide", "#model=llama-1b&gpu=RTX+3060&also=H200", { width: 1600 }],
  ["phone", "", { width: 360, height: 780 }],
  ["phone, without an answer", "#model=gpt2&seq=5000", { width: 360, height: 780 }],
  ["dark", "#model=gpt2&gpu=RTX+3060&batch=64", { scheme: "dark" }],
  ["Chinese, dark, tablet", "#lang=zh", { width: 800, scheme: "dark" }],
]) test(`everything can be read and reached: ${name}`, () => on(hash, options, async (tab) => {
  await tab.evaluate("document.getElementById('more').open = true");
  await tab.settle();
  assert.equal(await tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), true, "it scrolls sideways");
  assert.deepEqual(await tab.evaluate(unreadable), []);
  const unnamed = `[...document.querySelectorAll("input, select, button, a, [role=img], [role=region]")].filter((it) => it.checkVisibility() && !(it.labels?.length || it.getAttribute("aria-label") || it.getAttribute("aria-labelledby") || it.textContent.trim())).map((it) => it.outerHTML.slice(0, 80))`;
  assert.deepEqual(await tab.evaluate(unnamed), [], "controls without a name");
  assert.deepEqual(await tab.evaluate("[...document.querySelectorAll('[id]')].map((it) => it.id).filter((id, index, all) => all.indexOf(id) !== index)"), [], "ids that occur twice");
  // axe-core is no part of this repository; AXE names its axe.min.js.
  if (!process.env.AXE) return;
  await tab.evaluate(readFileSync(process.env.AXE, "utf8") + "; 0");
  const found = await tab.evaluate("axe.run(document).then((result) => result.violations.map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 90)).join(' | ')}`))");
  assert.deepEqual(found, []);
}));
