// The search for plans: a plot of memory against time, the plans as a list, code to copy.
"use strict";

const GROUP_COLORS = { none: "--c4", "mixed-precision": "--c1", "weight-state": "--c2", "smaller-dtype": "--c5", "smaller-training": "--c6" };
let found = null;
let chosenPlan = 0;

async function searchPlans() {
  const button = element("search");
  const asked = planQuery();
  button.disabled = true;
  element("plans").replaceChildren(make("p", { class: "busy" }, words("searching")));
  try {
    const answer = await ask(`api/plan?${asked}`);
    found = { asked, ...answer };
    chosenPlan = 0;
    drawPlans();
  } catch (error) {
    found = null;
    element("plans").replaceChildren(make("p", { class: "refusal" }, ...refusal(error)));
  } finally {
    button.disabled = false;
  }
}

// Plans belong to the settings they were searched for.
function markPlans() {
  element("plans").classList.toggle("stale", found !== null && found.asked !== planQuery());
}

// What a plan may take to the most.
function taken(plan) {
  const own = found.fit.gpu ? plan.device_used : plan.peak_reserved;
  return Math.max(own, found.fit.capacity - plan.free);
}

// The same in words: as expected, as the verdict and the command line say it, to the most.
const takenWords = (plan) => bounds(found.fit.gpu && plan.settings.vram === null ? plan.device_used : plan.peak_reserved, taken(plan));

// The candidates that fit and that no faster one beats in memory, the fastest first.
function best(frontier) {
  let least = Infinity;
  return frontier.filter((point) => point.fits).sort((a, b) => a.slowdown - b.slowdown || a.taken - b.taken).filter((point) => point.taken < least && (least = point.taken));
}

function plot() {
  const [width, height, left, bottom, top, right] = [Math.max(320, Math.min(900, element("plans").clientWidth)), 230, 46, 34, 10, 14];
  const points = found.groups.flatMap((group) => group.frontier);
  const slow = found.plans.map((plan) => plan.slowdown).concat(points.map((point) => point.slowdown), 1);
  const [least, most] = [Math.log(Math.min(...slow) * 0.95), Math.log(Math.max(...slow) * 1.05)];
  const highest = Math.max(found.fit.capacity * 1.15, ...found.plans.map(taken));
  const x = (slowdown) => left + ((Math.log(slowdown) - least) / (most - least)) * (width - left - right);
  const y = (bytes) => top + (1 - Math.min(bytes, highest) / highest) * (height - top - bottom);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", "aria-hidden": "true" });
  const { levels, unit } = axis(highest);
  for (const [level, text] of levels) {
    drawn.append(svg("line", { x1: left, x2: width - right, y1: y(level), y2: y(level), class: "grid" }), svg("text", { x: left - 6, y: y(level) + 4, class: "axis end" }, text));
  }
  for (const tick of [0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20].filter((tick) => Math.log(tick) > least && Math.log(tick) < most)) {
    drawn.append(svg("line", { x1: x(tick), x2: x(tick), y1: top, y2: height - bottom, class: tick === 1 ? "boundary" : "grid" }), svg("text", { x: x(tick), y: height - bottom + 14, class: "axis middle" }, `${tick}×`));
  }
  drawn.append(svg("text", { x: (left + width - right) / 2, y: height - 4, class: "axis middle" }, words("time-axis")), svg("text", { x: 2, y: height - bottom + 14, class: "axis" }, unit));
  drawn.append(svg("line", { x1: left, x2: width - right, y1: y(found.fit.capacity), y2: y(found.fit.capacity), class: "capacity" }));
  for (const group of found.groups) {
    const spots = best(group.frontier).map((point) => `${x(point.slowdown).toFixed(1)} ${y(point.taken).toFixed(1)}`);
    const path = svg("path", { class: "frontier", d: spots.length ? `M${spots.join("L")}` : "" });
    path.style.setProperty("--c", `var(${GROUP_COLORS[group.group]})`);
    drawn.append(path);
  }
  found.plans.forEach((plan, index) => {
    const spot = svg("circle", { cx: x(plan.slowdown), cy: y(taken(plan)), r: index === chosenPlan ? 8 : 5.5, class: index === chosenPlan ? "spot chosen" : "spot" }, svg("title", {}, planWords(plan)));
    spot.style.setProperty("--c", `var(${GROUP_COLORS[plan.group]})`);
    spot.addEventListener("click", () => choosePlan(index));
    drawn.append(spot);
  });
  return drawn;
}

const changeWords = (plan) => plan.changes.map((change) => said(change.after).text).join(words("between-changes")) || words("as-it-is");
const changeLanguage = (plan) => (plan.changes.some((change) => said(change.after).lang === "en") ? "en" : undefined);
const planWords = (plan) => `${takenWords(plan)}, ${words("times", { times: plan.slowdown.toFixed(2) })}: ${changeWords(plan)}`;

function choosePlan(index) {
  chosenPlan = index;
  const had = element("plans").contains(document.activeElement) && document.activeElement.name === "plan";
  drawPlans();
  if (had) element(`plan-${index}`).focus();
}

// The GPUs to spread the training over.
function drawCluster() {
  const choose = (name, none) => (value) => {
    set(name, value === none ? undefined : value);
    if (!get("gpus")) CLUSTER.forEach((field) => set(field, undefined));
    drawCluster();
    changed();
    element("cluster").querySelector(`input[name=${name}]:checked`).focus();
  };
  const gpus = get("gpus") ?? "1";
  const link = get("link") ?? "pcie";
  const numbers = [...new Set(["1", "2", "4", "8", gpus])].map((value) => [value, value]);
  const links = [["pcie", "PCIe"], ["nvlink", "NVLink"], ...(["pcie", "nvlink"].includes(link) ? [] : [[link, `${link} GB/s`]])];
  element("cluster").replaceChildren(
    segments("gpus", words("gpus"), numbers, gpus, choose("gpus", "1")),
    ...(gpus === "1" ? [] : [segments("link", words("link"), links, link, choose("link", "pcie"))]));
}

// What a plan takes on one GPU and on all of them.
function ranksTable({ all_ranks: all, settings, peak_reserved: reserved }) {
  if (!all) return null;
  const micro = all.batch === null ? null : all.batch / all.world;
  const rows = [
    [words("ranks-reserved"), size(reserved), size(all.peak_reserved)],
    [words("ranks-sent"), size(all.sent / all.world), size(all.sent)],
    ...(micro === null ? [] : [[words("ranks-batch"), settings.accumulate > 1 ? `${settings.accumulate} × ${micro / settings.accumulate}` : micro, all.batch]]),
  ];
  const head = ["", words("one-gpu"), words("all-gpus", { number: all.world })].map((text) => (text ? make("th", { scope: "col" }, text) : make("td")));
  return make("table", { class: "ranks" }, make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows.map(([name, one, together]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "number" }, one), make("td", { class: "number" }, together)))));
}

function codeBlock(id, text) {
  return make("div", { class: "code" }, make("pre", { id, tabindex: "0" }, text), make("button", { type: "button", "data-copy": id }, words("copy")));
}

function drawPlans() {
  drawCluster();
  if (!found) return;
  if (!found.plans.length) {
    const nothing = found.nothing_fits;
    const gpus = nothing ? [nothing.gpu_without_changes, nothing.gpu].filter(Boolean).sort((one, other) => one.capacity - other.capacity) : [];
    const text = nothing ? words("nothing-fits", { missing: size(nothing.missing), gpu: gpus[0]?.name ?? "–" }) : words("none-found");
    element("plans").replaceChildren(make("p", { class: "refusal" }, text));
    return;
  }
  let group = null;
  const rows = [];
  found.plans.forEach((plan, index) => {
    if (plan.group !== group) {
      group = plan.group;
      const swatch = make("i", { class: "swatch", "aria-hidden": "true" });
      swatch.style.setProperty("--c", `var(${GROUP_COLORS[group]})`);
      rows.push(make("p", { class: "plan-group" }, swatch, words(`group-${group}`)));
    }
    const input = make("input", { type: "radio", name: "plan", id: `plan-${index}`, value: index });
    input.checked = index === chosenPlan;
    input.addEventListener("change", () => choosePlan(index));
    rows.push(make("label", { class: "plan" }, input,
      make("span", {}, make("b", {}, takenWords(plan)), " · ", words("times", { times: plan.slowdown.toFixed(2) }), make("small", { lang: changeLanguage(plan) }, changeWords(plan)))));
  });
  const plan = found.plans[chosenPlan];
  const accelerate = plan.accelerate ? [make("h4", {}, words("accelerate")), codeBlock("plan-accelerate", plan.accelerate)]
    : plan.no_accelerate ? [make("p", { class: "help", lang: said(plan.no_accelerate).lang }, words("no-accelerate", { why: said(plan.no_accelerate).text }))] : [];
  const use = make("button", { type: "button", class: "main" }, words("use-plan"));
  use.addEventListener("click", () => usePlan(plan));
  const cut = found.cut_short ? make("p", { class: "help" }, words("cut-short")) : null;
  element("plans").replaceChildren(
    ...[plot(), make("p", { class: "help" }, words("plot-help", { number: found.simulated })), cut].filter(Boolean),
    make("fieldset", { class: "plan-list" }, make("legend", { class: "unseen" }, words("plan")), ...rows),
    make("h4", {}, words("code")), make("p", { class: "help", lang: said(plan.why ?? "").lang }, said(plan.why ?? "").text), ...[ranksTable(plan)].filter(Boolean), codeBlock("plan-code", plan.code), ...accelerate, use);
  markPlans();
}

// How the training is spread over GPUs.
const RANKS = ["parallel", "world", "shard", "reshard-after-forward", "param-dtype", "reduce-dtype", "cpu-offload", "gradient-as-bucket-view", "static-graph", "no-sync", "reduce-bucket-size", "offload-param"];

const DEEPSPEED = ["overlap-comm", "gradient-clipping", "stage3-prefetch-bucket-size", "stage3-max-live-parameters", "stage3-max-reuse-distance", "stage3-param-persistence-threshold"];

// Sets everything as a plan has it.
function usePlan(plan) {
  const { sizes, precision, settings } = { ...plan.settings, settings: plan.settings };
  for (const [name, value] of Object.entries(sizes)) setSize(name, value);
  const [, autocast, dtype] = precision.match(/^(amp-)?(bf16|fp16|fp32|fp64)$/) ?? [];
  set("amp", autocast ? dtype : undefined);
  set("dtype", autocast ? undefined : dtype);
  for (const option of lists.options) {
    const key = option.name.replaceAll("-", "_");
    if (!(key in settings) || ["gpu", "vram", "size", "lora", "quantize", "loss", "grad", "steps", "mode", ...DEEPSPEED, ...RANKS].includes(option.name)) continue;
    const value = settings[key];
    const isDefault = value === null || value === "" || value === 0 || value === false || String(value) === option.default;
    set(option.name, isDefault ? undefined : value);
  }
  const isSpread = settings.parallel !== "none";
  const isSharded = settings.parallel === "fsdp2" || settings.parallel.startsWith("hsdp:");
  for (const name of RANKS) {
    const value = settings[name.replaceAll("-", "_")];
    if (name === "shard" || name === "no-sync") {
      const hasEffect = name === "shard" ? isSharded && value !== "blocks" : settings.accumulate > 1 && !settings.parallel.startsWith("deepspeed:");
      set(name, hasEffect ? String(value) : undefined);
      continue;
    }
    const isDefault = value === "none" || value === false || value === 0 || String(value) === lists.options.find((option) => option.name === name)?.default || value === "default";
    set(name, isSpread && !isDefault ? value : undefined);
  }
  if (isSpread) set("world", settings.world);
  // Some of their defaults depend on the stage; without DeepSpeed they are false or null.
  const hasEngine = settings.parallel.startsWith("deepspeed:");
  for (const name of DEEPSPEED) {
    const value = settings[name.replaceAll("-", "_")];
    set(name, hasEngine && value !== null ? String(value) : undefined);
  }
  for (const name of ["lora", "quantize"]) set(name, settings[name] === "none" ? undefined : settings[name]);
  drawControls();
  changed();
  element("answer").scrollIntoView({ block: "start" });
}
