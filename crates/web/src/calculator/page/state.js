// What is asked, as the fields of a query: the same in the address, in the API and on the command line.
"use strict";

const DEFAULTS = { model: "gpt2", gpu: "RTX 3060" };
// Small text files travel in the address, so that a link is complete.
const LARGEST_LINKED_FILE = 6000;

const state = {
  fields: new Map(),
  // Other GPUs to compare with.
  also: [],
  language: "en",
  // An uploaded file: its name, its bytes, and what the server says about it.
  file: null,
};

const get = (name) => state.fields.get(name)?.[0];

function set(name, value) {
  if (value === undefined || value === null || value === "") state.fields.delete(name);
  else state.fields.set(name, [].concat(value).map(String));
}

// The value of a size: of its own flag, or of --size NAME=N.
function sizeOf(name) {
  if (name === "batch" || name === "seq") return get(name) === undefined ? undefined : Number(get(name));
  const found = (state.fields.get("size") ?? []).find((pair) => pair.startsWith(`${name}=`));
  return found === undefined ? undefined : Number(found.slice(name.length + 1));
}

function setSize(name, value) {
  if (name === "batch" || name === "seq") return set(name, value);
  const others = (state.fields.get("size") ?? []).filter((pair) => !pair.startsWith(`${name}=`));
  const sizes = value === undefined ? others : [...others, `${name}=${value}`];
  set("size", sizes.length ? sizes : undefined);
}

// What only the search for plans knows: the GPUs to spread a training over.
const CLUSTER = ["gpus", "nodes", "link", "network"];

// The query of a question; `changes` replaces fields.
function query(changes = {}, isPlan = false) {
  const fields = new URLSearchParams();
  for (const [name, values] of state.fields) {
    if (name in changes || (CLUSTER.includes(name) && !isPlan)) continue;
    for (const value of values) fields.append(name, value);
  }
  for (const [name, value] of Object.entries(changes)) if (value !== undefined) fields.append(name, value);
  return fields.toString();
}

const planQuery = () => query({}, true);

function address() {
  const fields = new URLSearchParams(query(state.file ? { model: state.file.name } : {}, true));
  for (const gpu of state.also) fields.append("also", gpu);
  if (state.file?.linked) fields.append("file", state.file.linked);
  if (state.language !== ownLanguage()) fields.append("lang", state.language);
  return `${location.origin}${location.pathname}#${fields}`;
}

// The reader's language, where a link names none.
const ownLanguage = () => (navigator.language.startsWith("zh") ? "zh" : "en");

let addressTimer;
// Browsers refuse an address that changes with every movement of a slider.
function rememberAddress() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => history.replaceState(null, "", address()), 250);
}

// The name of an opened file in an address that does not have the file itself; `null` where there is none.
function missingFile() {
  const name = get("model");
  return !state.file && /\.(vramfit|pt2|json|toml)$/i.test(name) ? name : null;
}

// Takes the state from the address. Returns the file in it, or null.
function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  state.fields = new Map();
  state.also = fields.getAll("also");
  state.file = null;
  state.language = (fields.get("lang") ?? ownLanguage()) === "zh" ? "zh" : "en";
  for (const name of new Set(fields.keys())) {
    if (name !== "also" && name !== "file" && name !== "lang") set(name, fields.getAll(name));
  }
  for (const [name, value] of Object.entries(DEFAULTS)) if (get(name) === undefined) set(name, value);
  const linked = fields.get("file");
  return linked ? { name: get("model"), bytes: fromBase64(linked), linked } : null;
}

const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));

function fromBase64(text) {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
