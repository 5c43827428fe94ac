// All other settings, from the server's list of the command line's flags.
"use strict";

// These have controls of their own.
const ELSEWHERE = ["batch", "seq", "dtype", "amp", "optimizer", "checkpoint", "accumulate", "lora", "quantize", "gpu"];

function optionControl(option) {
  const id = `option-${option.name}`;
  const value = option.several ? (state.fields.get(option.name) ?? []).join(option.name === "size" ? " " : ",") : get(option.name);
  let control;
  if (option.value === null) {
    control = make("input", { type: "checkbox", id });
    control.checked = value === "" || value === "true";
    control.addEventListener("change", () => apply(option, control.checked ? "true" : undefined));
  } else if (option.values.length) {
    const unset = option.default === null ? [["", words("unset")]] : [];
    const entries = [...unset, ...option.values.map((name) => [name, name])];
    control = make("select", { id }, ...entries.map(([name, text]) => make("option", { value: name, selected: name === (value ?? option.default ?? "") }, text)));
    control.addEventListener("change", () => apply(option, control.value === option.default ? undefined : control.value));
  } else {
    control = make("input", { type: "text", id, placeholder: option.default ?? option.value, spellcheck: "false" });
    control.value = value ?? "";
    control.addEventListener("change", () => apply(option, control.value.trim()));
  }
  control.setAttribute("aria-describedby", `${id}-help`);
  return make("div", { class: option.value === null ? "option switch" : "option" },
    make("label", { for: id }, optionName(option.name), " ", make("code", {}, `--${option.name}`)), control,
    help(option, id));
}

function help(option, id) {
  const translated = state.language === "zh" ? HELP[option.name] : undefined;
  return make("p", { class: "help", id: `${id}-help`, lang: translated ? undefined : "en" }, translated ?? option.help);
}

function apply(option, value) {
  set(option.name, option.name === "size" && value ? value.split(/\s+/) : value);
  if (option.name === "size") drawSizes();
  drawOptionCount();
  changed();
}

function drawOptions() {
  const shown = lists.options.filter((option) => !ELSEWHERE.includes(option.name));
  const groups = grouped(shown, (option) => option.group, (option) => option);
  element("options").replaceChildren(...groups.map(([group, members]) =>
    make("fieldset", {}, make("legend", {}, groupName(group)), ...members.map(optionControl))));
  drawOptionCount();
}

function drawOptionCount() {
  const number = [...state.fields.keys()].filter((name) => lists.options.some((option) => option.name === name) && !ELSEWHERE.includes(name)).length;
  element("more-count").textContent = number ? words("changed", { number }) : "";
}
