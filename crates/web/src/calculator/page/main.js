// Puts it together.
"use strict";

// An answer that takes longer, in milliseconds, is preceded by a draft, which follows the shown steps only.
const SLOW = 25;
let slowness = 0;

const askWhole = latest(async () => {
  const asked = query();
  const missing = missingFile();
  if (missing) {
    drawRefusal({ title: words("needs-file", { file: missing }), message: words("needs-file-help", { file: missing }) });
    page.asked = asked;
    page.ready = true;
    return;
  }
  const begun = performance.now();
  try {
    const answer = await ask(`api/estimate?${asked}`);
    slowness = performance.now() - begun;
    complain(null);
    const isNewest = asked === query();
    // The draft of a newer question is not replaced by the answer to an older one.
    if (isNewest || page.drafted !== query()) drawAnswer(answer);
    if (isNewest) takeNames(answer);
    page.asked = isNewest ? query() : asked;
    if (page.first === null) requestAnimationFrame(() => { page.first = performance.now(); });
  } catch (error) {
    if (error.status === 404 && state.file) {
      // The server keeps few files; this one was in the way of others.
      await openFile(state.file.name, state.file.bytes, state.file.linked);
      changed();
    } else if (error instanceof Refused) {
      complain(null);
      drawRefusal(error);
      page.asked = asked;
    } else complain(error);
  }
  page.ready = true;
}, () => (slowness > SLOW ? 120 : 0));

// A link written by hand may name model and GPU as the command line does; the lists have them as the answer does.
function takeNames(answer) {
  const plain = (name) => name.toLowerCase().replaceAll(/[ _-]/g, "");
  if (answer.built_in && plain(answer.built_in) === plain(get("model"))) set("model", answer.built_in);
  if (answer.fit?.gpu) set("gpu", answer.fit.gpu);
}

const askDraft = latest(async () => {
  const asked = query();
  if (missingFile()) return;
  try {
    const answer = await ask(`api/estimate?${asked}&draft=true`);
    if (page.asked === asked) return;
    drawAnswer(answer);
    page.drafted = asked;
  } catch {
    // The whole answer has the same problem and says so.
  }
});

function askEstimate() {
  if (slowness > SLOW) askDraft();
  return askWhole();
}

let largestFor = null;
// The largest batch depends on everything but the batch, and takes longer than an estimate.
const askLargest = latest(async () => {
  const asked = query({ batch: undefined });
  if (asked === largestFor) return;
  largest = null;
  drawLargest();
  try {
    largest = (get("gpu") || get("vram")) && !missingFile() ? await ask(`api/max-batch?${asked}`) : null;
    largestFor = asked;
  } catch {
    // The estimate has the same problem and says so.
    largestFor = null;
  }
  if (asked === query({ batch: undefined })) drawLargest();
}, () => 250);

const askOthers = latest(async () => {
  const rows = await Promise.all(state.also.map(async (gpu) => {
    try {
      return { gpu, answer: await ask(`api/estimate?${query({ gpu })}`) };
    } catch (error) {
      return { gpu, error };
    }
  }));
  element("compared").replaceChildren(...rows.map(({ gpu, answer, error }) => {
    const name = make("button", { type: "button", class: "link" }, gpu);
    name.addEventListener("click", () => {
      state.also = state.also.map((other) => (other === gpu ? get("gpu") : other));
      set("gpu", gpu);
      drawControls();
      changed();
    });
    const remove = make("button", { type: "button", class: "remove", "aria-label": words("remove", { gpu }) }, "×");
    remove.addEventListener("click", () => {
      state.also = state.also.filter((other) => other !== gpu);
      changed();
      element("also").focus();
    });
    const { title, text, kind } = answer ? verdictWords(answer) : { title: said(error.message, REFUSALS).text, text: "", kind: "bad" };
    return make("li", { class: kind }, make("div", { class: "title-row" }, make("span", {}, name, " ", make("b", {}, title)), remove), answer ? bar(parts(answer), answer.fit?.capacity, { small: true }) : null, make("p", { class: "help" }, text));
  }));
}, () => 120);

function changed() {
  askEstimate();
  rememberAddress();
  drawLink();
  markPlans();
  drawLargest();
  askLargest();
  askOthers();
}

// As many bytes as a server takes.
const LARGEST_FILE = 16 * 2 ** 20;

// A file that is refused changes nothing: the answer stays that of the model before.
async function takeFile(file) {
  if (!file) return;
  const isMissing = file.name === missingFile();
  try {
    if (!ENGINE && file.size > LARGEST_FILE) throw new Refused(413, { error: words("too-large", { file: file.name, size: size(file.size), most: size(LARGEST_FILE) }) });
    await openFile(file.name, new Uint8Array(await file.arrayBuffer()));
  } catch (error) {
    if (!(error instanceof Refused)) return complain(error);
    element("file-refused").hidden = false;
    element("file-refused").replaceChildren(...refusal(error));
    return undefined;
  } finally {
    // The same file may be chosen again once it is mended.
    element("file").value = "";
  }
  element("file-refused").hidden = true;
  if (!isMissing) forgetSizes();
  complain(null);
  drawControls();
  changed();
  return undefined;
}

// Sizes of one model mean little for another.
function forgetSizes() {
  ["batch", "seq", "size", "freeze", "optimizer-groups", "lora-targets"].forEach((name) => set(name, undefined));
  if (!["none", "blocks", undefined].includes(get("checkpoint"))) set("checkpoint", undefined);
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without https only pages of this machine may use the clipboard.
    const area = make("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = words("copied");
  setTimeout(() => { button.textContent = words("copy"); }, 1500);
}

function listen() {
  element("question").addEventListener("submit", (event) => event.preventDefault());
  element("model").addEventListener("change", () => {
    const name = element("model").value;
    if (state.file && name !== state.file.model.name) state.file = null;
    forgetSizes();
    element("file-refused").hidden = true;
    set("model", name);
    drawControls();
    changed();
  });
  element("gpu").addEventListener("change", () => {
    set("gpu", element("gpu").value);
    changed();
  });
  element("also").addEventListener("change", () => {
    const gpu = element("also").value;
    element("also").value = "";
    if (gpu && gpu !== get("gpu") && !state.also.includes(gpu)) state.also.push(gpu);
    changed();
  });
  element("file").addEventListener("change", () => takeFile(element("file").files[0]));
  element("search").addEventListener("click", searchPlans);
  element("fix").addEventListener("click", () => {
    element("plan-title").scrollIntoView({ block: "start" });
    element("search").focus({ preventScroll: true });
    searchPlans();
  });
  element("reset").addEventListener("click", () => {
    const kept = { model: get("model"), gpu: get("gpu") };
    state.fields = new Map();
    Object.entries(kept).forEach(([name, value]) => set(name, value));
    drawControls();
    changed();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(element(button.dataset.copy).textContent, button);
    const language = event.target.closest("[data-language]");
    if (language) {
      state.language = language.dataset.language;
      translate();
      drawControls();
      drawPlans();
      if (lastAnswer) drawAnswer(lastAnswer);
      changed();
    }
  });
  for (const kind of ["dragenter", "dragover"]) document.addEventListener(kind, (event) => {
    event.preventDefault();
    element("drop").hidden = false;
  });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) element("drop").hidden = true; });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    element("drop").hidden = true;
    takeFile(event.dataTransfer.files[0]);
  });
  element("login").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("vramfit-token", element("token").value);
    element("login").hidden = true;
    start();
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width === innerWidth || !lastAnswer) return;
    width = innerWidth;
    drawTimeline(lastAnswer);
    drawPlans();
  });
  addEventListener("hashchange", start);
  // A phone shows a small verdict while the large one is out of sight.
  new IntersectionObserver(([seen]) => { element("mini").hidden = seen.isIntersecting; }).observe(element("says"));
}

async function start() {
  const file = readAddress();
  translate();
  lastAnswer = null;
  try {
    if (file) await openFile(file.name, file.bytes, file.linked);
    // The answer comes first; what there is to choose from, after it.
    await askEstimate();
    await Promise.all(["models", "gpus", "options"].filter((name) => !lists[name].length).map(async (name) => { lists[name] = (await ask(`api/${name}`))[name]; }));
    drawControls();
    askLargest();
    askOthers();
  } catch (error) {
    if (error.status !== 401) (error instanceof Refused ? drawRefusal : complain)(error);
    page.ready = true;
  }
}

listen();
start();
