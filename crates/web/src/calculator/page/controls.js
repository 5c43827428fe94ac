// The controls that most people need: model, GPU, sizes, precision, optimizer, checkpointing, adapters.
"use strict";

const lists = { models: [], gpus: [], options: [] };

function options(groups, chosen) {
  return groups.map(([label, entries]) => {
    const made = entries.map(([value, text]) => make("option", { value, selected: value === chosen }, text));
    return label ? make("optgroup", { label }, ...made) : made;
  }).flat();
}

function grouped(rows, key, entry) {
  const groups = new Map();
  for (const row of rows) {
    const name = key(row);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(entry(row));
  }
  return [...groups];
}

function modelOptions() {
  const groups = grouped(lists.models, (row) => row.family, (row) => [row.name, `${row.name} · ${count(row.parameters)}`]);
  if (state.file) groups.unshift([words("your-file"), [[state.file.model.name, state.file.name]]]);
  return options(withChosen(groups, get("model")), get("model"));
}

function gpuOptions(chosen) {
  const newest = [...lists.gpus].reverse();
  const label = ({ name, memory }) => (name.endsWith(`${memory / GIB}GB`) ? name : `${name} · ${memory / GIB} GB`);
  return options(withChosen(grouped(newest, (gpu) => gpu.architecture, (gpu) => [gpu.name, label(gpu)]), chosen), chosen);
}

// A name that is in no list, such as one of the Hub or a mistyped one, is shown as it is.
function withChosen(groups, chosen) {
  const isKnown = !chosen || groups.some(([, entries]) => entries.some(([value]) => value === chosen));
  return isKnown ? groups : [["", [[chosen, chosen]]], ...groups];
}

// The model's row: of the list, or of the file.
function modelRow() {
  return state.file?.model ?? lists.models.find((row) => row.name === get("model")) ?? lists.models.find((row) => row.name === lastAnswer?.built_in);
}

// Sizes that make sense, closer together where they are small, up to the largest that the model takes.
function ladder(name, current, initial, most = Infinity) {
  const values = new Set([initial, most].filter((value) => value > 0 && value < Infinity));
  if (name === "height" || name === "width" || name === "image") {
    for (let size = 32; size <= 1024; size += 32) values.add(size);
  } else if (name.startsWith("seq")) {
    for (let size = 16; size <= 131072; size *= 2) for (const part of [1, 1.25, 1.5, 1.75]) values.add(size * part);
    values.forEach((value) => value > 131072 && values.delete(value));
  } else {
    for (let size = 1; size < 16; size += 1) values.add(size);
    for (let size = 16; size <= 4096; size *= 2) for (const part of [1, 1.125, 1.25, 1.375, 1.5, 1.75]) values.add(size * part);
    values.forEach((value) => value > 4096 && values.delete(value));
  }
  const possible = [...values].filter((value) => value <= most && value !== current);
  return [...possible, ...(current > 0 ? [current] : [])].sort((a, b) => a - b);
}

// Sizes of the model; an image's height and width move together while they are equal.
function sizeRows(row) {
  const names = Object.keys(row?.sizes ?? {});
  const value = (name) => sizeOf(name) ?? row.sizes[name];
  const isSquare = names.includes("height") && names.includes("width") && value("height") === value("width");
  const rows = [];
  for (const name of names) {
    if (isSquare && name === "width") continue;
    const members = isSquare && name === "height" ? ["height", "width"] : [name];
    const shown = members.length === 2 ? "image" : name;
    rows.push({ name: shown, members, value: value(name), initial: row.sizes[name], most: row.limits[name] });
  }
  return rows;
}

function drawSizes() {
  const made = sizeRows(modelRow()).map(({ name, members, value, initial, most }) => {
    const steps = ladder(name, value, initial, most);
    const label = sizeName(name);
    const slider = make("input", { type: "range", min: 0, max: steps.length - 1, step: 1, id: `slider-${name}`, "data-size": name });
    const number = make("input", { type: "number", min: 1, max: most, step: 1, "aria-label": label, id: `number-${name}` });
    const show = (size) => {
      slider.value = String(steps.findIndex((step) => step >= size));
      slider.setAttribute("aria-valuetext", String(size));
    };
    number.value = value ?? "";
    show(value);
    const choose = (size) => {
      members.forEach((member) => setSize(member, size));
      slider.setAttribute("aria-valuetext", String(size));
      changed();
    };
    slider.addEventListener("input", () => {
      number.value = steps[slider.value];
      choose(steps[slider.value]);
    });
    const wrong = make("small", { class: "wrong", id: `wrong-${name}`, role: "alert" });
    number.addEventListener("input", () => {
      const size = Number(number.value);
      const isSize = Number.isSafeInteger(size) && size >= 1;
      number.setAttribute("aria-invalid", String(!isSize));
      wrong.textContent = isSize ? "" : words("whole-number");
      if (!isSize) return;
      show(size);
      choose(size);
    });
    const extra = name === "batch" ? make("button", { type: "button", id: "largest", class: "link", hidden: true }) : null;
    return make("div", { class: "size" }, make("label", { for: slider.id }, label), number, wrong, slider, extra);
  });
  element("sizes").replaceChildren(...made);
  element("largest")?.addEventListener("click", (event) => {
    setSize("batch", Number(event.currentTarget.dataset.batch));
    drawSizes();
    drawLargest();
    changed();
    element("slider-batch").focus();
  });
}

// A group of buttons of which one is chosen: radio buttons, which keyboards and screen readers know.
function segments(name, label, entries, chosen, choose) {
  const buttons = entries.map(([value, text]) => {
    const input = make("input", { type: "radio", name, value, class: "unseen" });
    input.checked = value === chosen;
    input.addEventListener("change", () => choose(value));
    return make("label", {}, input, make("span", {}, text));
  });
  return make("fieldset", { class: "segments" }, make("legend", {}, label), make("div", {}, ...buttons));
}

function chosenPrecision() {
  if (get("amp")) return `amp-${get("amp")}`;
  return get("dtype") ?? "";
}

function drawChoices() {
  const then = (apply) => (value) => {
    apply(value);
    changed();
  };
  const precision = segments("precision", words("precision"),
    [["", words("as-built")], ["bf16", "bf16"], ["fp16", "fp16"], ["amp-bf16", words("autocast", { dtype: "bf16" })], ["amp-fp16", words("autocast", { dtype: "fp16" })]],
    chosenPrecision(), then((value) => {
      set("amp", value.startsWith("amp-") ? value.slice(4) : undefined);
      set("dtype", value.startsWith("amp-") ? undefined : value);
    }));
  const optimizer = make("select", { id: "optimizer" },
    ...(lists.options.find((option) => option.name === "optimizer")?.values ?? [get("optimizer") ?? "adamw"])
      .map((value) => make("option", { value, selected: value === (get("optimizer") ?? "adamw") }, value)));
  optimizer.addEventListener("change", () => then((value) => set("optimizer", value === "adamw" ? undefined : value))(optimizer.value));
  const kept = get("checkpoint") ?? "none";
  const known = ["none", "blocks"].includes(kept);
  const checkpoint = segments("checkpoint", words("checkpoint"),
    [["none", words("off")], ["blocks", words("blocks")], ...(known ? [] : [[kept, words("chosen-modules")]])],
    kept, then((value) => set("checkpoint", value === "none" ? undefined : value)));
  const lora = segments("lora", "LoRA", [["", words("off")], ["8", "8"], ["16", "16"], ["64", "64"], ...(["", "8", "16", "64"].includes(get("lora") ?? "") ? [] : [[get("lora"), get("lora")]])],
    get("lora") ?? "", then((value) => set("lora", value)));
  const quantize = segments("quantize", words("quantize"), [["", words("off")], ["nf4", "nf4"], ["int8", "int8"]],
    get("quantize") ?? "", then((value) => set("quantize", value)));
  const accumulate = segments("accumulate", words("accumulate"),
    [...new Set(["1", "2", "4", "8", "16", get("accumulate") ?? "1"])].map((value) => [value, value]),
    get("accumulate") ?? "1", then((value) => set("accumulate", value === "1" ? undefined : value)));
  element("choices").replaceChildren(
    precision,
    make("div", { class: "field" }, make("label", { for: "optimizer" }, words("optimizer")), optimizer),
    checkpoint, accumulate, lora, quantize);
}

function drawControls() {
  element("model").replaceChildren(...modelOptions());
  element("gpu").replaceChildren(...gpuOptions(get("gpu")));
  element("also").replaceChildren(make("option", { value: "" }, words("add-gpu")), ...gpuOptions(null));
  const row = modelRow();
  const about = row && (state.file ? `${row.class}, ${count(row.parameters)}` : `${row.family}, ${taskName(row.task)}, ${count(row.parameters)}`);
  element("model-help").textContent = about ? `${about} ${words("parameters")}` : "";
  drawSizes();
  drawChoices();
  drawOptions();
  drawCluster();
}
