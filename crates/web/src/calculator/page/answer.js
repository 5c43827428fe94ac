// Draws an answer: verdict, bar, numbers, timeline, holders.
"use strict";

let lastAnswer = null;

const SYMBOLS = { fits: "✓", "too-close": "≈", "does-not-fit": "✗" };

function verdictWords(answer) {
  const { fit } = answer;
  if (!fit) return { title: size(answer.device_used), text: words("no-limit"), kind: "" };
  const where = fit.gpu && answer.settings.vram === null ? words("on-gpu", { gpu: fit.gpu }) : words("in-cap", { cap: size(fit.capacity) });
  const title = `${SYMBOLS[fit.verdict]} ${words("title", { verdict: words(`verdict-${fit.verdict}`), where })}`;
  const left = fit.margin ?? 0;
  // What stays free counts from the most that it may need.
  const most = fit.verdict === "fits" ? Math.max(fit.needed, fit.capacity - left) : fit.needed;
  const need = words("needs", { needed: bounds(fit.needed, most, gib), capacity: bounds(fit.capacity, fit.capacity_high, gib) });
  if (fit.verdict === "fits") {
    return { title, text: `${need}${words("stays-free", { left: size(left), share: Math.round((100 * left) / fit.capacity) })}`, kind: "good" };
  }
  const short = fit.short ? words("short", { short: size(fit.short) }) : "";
  return { title, text: `${need}${short}${fit.dies_in ? death(fit.dies_in) : mayDie(answer)}`, kind: fit.verdict === "too-close" ? "close" : "bad" };
}

// Nothing that was simulated dies: what is not simulated may not fit.
function mayDie({ communication }) {
  return communication ? words("nccl-may", { most: size(communication.nccl.high) }) : words("may-die");
}

function death(place) {
  if (place.step === null) return words("dies-build");
  const when = words("when", { step: place.step + 1, phase: phaseName(place.phase) });
  const op = place.op?.split(".")[1];
  const what = op && place.module ? words("op-of", { op, module: place.module }) : (op ?? place.module);
  return what ? words("dies-in", { what, when }) : words("dies-when", { when });
}

function drawVerdict(answer) {
  const { title, text, kind } = verdictWords(answer);
  element("verdict").className = `panel hero ${kind}`;
  write(element("verdict-title"), title);
  write(element("verdict-text"), text);
  if (document.title !== `${title} · vramfit`) document.title = `${title} · vramfit`;
  const shown = parts(answer);
  const capacity = answer.fit?.capacity;
  redraw(element("bar"), bar(shown, capacity));
  element("next").hidden = !["bad", "close"].includes(kind) || answer.settings.mode !== "train";
  element("mini").className = kind;
  write(element("mini-title"), title);
  redraw(element("mini-bar"), bar(shown, capacity, { small: true }));
  redraw(element("legend"), ...shown.map((part) => {
    const swatch = make("i", { class: "swatch", "aria-hidden": "true" });
    swatch.style.setProperty("--c", `var(${part.color})`);
    return make("li", { title: words(`about-${part.name}`) }, swatch, words(`part-${part.name}`), " ", make("b", {}, size(part.bytes)));
  }));
}

function range({ low, high }) {
  if (low === high) return words("exact");
  if (size(low) === size(high)) return words("give-or-take", { bytes: size(high - low) });
  return bounds(low, high);
}

function drawNumbers(answer) {
  const { fit } = answer;
  // What does not fit may be needed in a later step than the ones shown.
  const later = fit?.gpu && answer.settings.vram === null && fit.needed > answer.device_used ? words("later", { needed: size(fit.needed) }) : "";
  const rows = [
    [words("peak-allocated"), size(answer.peak_allocated), range(answer.range)],
    [words("peak-reserved"), size(answer.peak_reserved), range(answer.reserved_range)],
    [words("device-used"), size(answer.device_used), words("with-context", { context: size(answer.context) }) + later],
  ];
  if (answer.peak) {
    const { step, phase, module, op } = answer.peak;
    rows.push([words("peak-at"), step === null ? phaseName(phase) : words("when", { step: step + 1, phase: phaseName(phase) }), [module, op?.split(".")[1]].filter(Boolean).join(" · ")]);
  }
  redraw(element("numbers"), ...rows.map(([name, value, about]) => make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, about)))));
}

function drawHolders(answer) {
  const head = make("thead", {}, make("tr", {}, ...["holder-size", "holder-kind", "holder-module", "holder-code"].map((key) => make("th", { scope: "col" }, words(key)))));
  const rows = answer.holders.slice(0, 10).map((holder) => make("tr", {},
    make("td", { class: "number" }, size(holder.bytes)), make("td", { class: "kind" }, words(`part-${holder.category}`)),
    make("td", { class: "path" }, ...breakable(holder.module ?? words("the-model"))),
    make("td", { class: "path" }, ...breakable([holder.op?.split(".")[1], holder.source?.replace("site-packages/", "")].filter(Boolean).join(", ")))));
  redraw(element("holders"), head, make("tbody", {}, ...rows));
}

let spokenTimer;
// A screen reader hears the verdict once the slider rests.
function speak(answer) {
  clearTimeout(spokenTimer);
  spokenTimer = setTimeout(() => {
    const { title, text } = verdictWords(answer);
    element("spoken").textContent = `${title}. ${text}`;
  }, 700);
}

const timelineWidth = () => Math.max(320, Math.min(1100, element("timeline").clientWidth));

function drawTimeline(answer, wide = timelineWidth()) {
  write(element("timeline-title"), words("timeline", { steps: answer.settings.steps }));
  redraw(element("timeline"), timeline(answer.timeline, answer.fit?.capacity, wide));
}

function drawAnswer(answer) {
  lastAnswer = answer;
  // Before anything changes: asked for later it would need another layout.
  const wide = timelineWidth();
  element("refused").hidden = true;
  element("answer").className = "";
  write(element("draft"), answer.draft ? words("draft", { steps: answer.settings.steps }) : "");
  drawVerdict(answer);
  drawNumbers(answer);
  drawTimeline(answer, wide);
  drawHolders(answer);
  write(element("command"), answer.command);
  redraw(element("notes"), ...(answer.notes ?? []).map((note) => said(note)).map(({ text, lang }) => make("li", { lang }, text)));
  drawLink();
  speak(answer);
}

function drawLink() {
  write(element("link"), address());
  write(element("link-help"), words(state.file && !state.file.linked ? "link-help-file" : "link-help", { file: state.file?.name }));
}

function drawRefusal(error) {
  const title = error.title ?? words("no-answer");
  // What was drawn before belongs to other settings; at first there is nothing.
  element("answer").className = lastAnswer ? "stale" : "empty";
  element("verdict").className = "panel hero";
  element("next").hidden = true;
  element("draft").textContent = "";
  element("verdict-title").textContent = title;
  element("verdict-text").textContent = "";
  element("mini").className = "bad";
  write(element("mini-title"), title);
  element("mini-bar").replaceChildren();
  element("refused").hidden = !error.message;
  element("refused").replaceChildren(...refusal(error));
  drawLink();
}

let largest = null;

function drawLargest() {
  const button = element("largest");
  if (!button) return;
  button.hidden = !largest;
  if (!largest) return;
  button.dataset.batch = largest.max_batch;
  button.disabled = largest.max_batch < 1 || largest.max_batch === sizeOf("batch");
  write(button, largest.max_batch < 1 ? words("no-batch") : words(largest.final ? "largest" : "at-least", { batch: largest.max_batch }));
}
