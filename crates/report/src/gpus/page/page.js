// The page of `vramfit serve`: asks for the newest sample, draws cards and the table of processes.
"use strict";

const element = (id) => document.getElementById(id);
const POINTS = 600;
const view = { ready: false, sort: "memory", falling: true, history: new Map(), interval: 1000, sample: null };
window.vramfit = view;

// Text only: names and commands are other people's words.
function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const size = (bytes) => (bytes >= 10 * 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.round(bytes / 2 ** 20)} MiB`);

function age(seconds) {
  const [days, hours, minutes] = [86400, 3600, 60].map((unit) => Math.floor(seconds / unit));
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
}

async function ask(path) {
  const token = sessionStorage.getItem("vramfit-token");
  const answer = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, signal: AbortSignal.timeout(8000) });
  if (answer.status === 401) throw new Error("token");
  if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).trim()}`);
  return answer.json();
}

function remember(sample) {
  // The sample's own time: a demo or a replay plays faster than the clock, or from another day.
  const at = sample.taken_at_ms;
  for (const gpu of sample.gpus) {
    if (!view.history.has(gpu.index)) view.history.set(gpu.index, []);
    const points = view.history.get(gpu.index);
    const last = points.length ? points[points.length - 1].at : -1;
    // Asked again before the next sample; or the replay has started over.
    if (at === last) continue;
    if (at < last) points.length = 0;
    const used = gpu["memory.used.bytes"];
    points.push({ at, memory: used === null ? null : (used / gpu["memory.total.bytes"]) * 100, busy: gpu["utilization.gpu"] });
    while (points.length > POINTS) points.shift();
  }
}

// Gaps stay gaps: where a value was missing the line is broken.
function graph(points, key, label) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const end = points.length ? points[points.length - 1].at : 0;
  const span = Math.max(60000, points.length ? end - points[0].at : 0);
  svg.setAttribute("viewBox", "0 0 100 100");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.setAttribute("class", key);
  const runs = [];
  let run = null;
  for (const point of points) {
    if (point[key] === null || point[key] === undefined) run = null;
    else {
      if (!run) runs.push((run = []));
      run.push(`${(100 - ((end - point.at) / span) * 100).toFixed(2)} ${(100 - Math.min(100, point[key])).toFixed(1)}`);
    }
  }
  for (const [name, close] of [["area", true], ["edge", false]]) {
    const path = document.createElementNS(space, "path");
    path.setAttribute("class", name);
    path.setAttribute("d", runs.map((spots) => {
      const line = `M${spots.join("L")}`;
      return close ? `${line}L${spots[spots.length - 1].split(" ")[0]} 100L${spots[0].split(" ")[0]} 100Z` : line;
    }).join(""));
    svg.append(path);
  }
  return svg;
}

function value(gpu, key, show) {
  if (gpu[key] !== null) return document.createTextNode(show(gpu[key]));
  return make("span", { class: "missing" }, gpu.missing[key] ?? "missing");
}

function card(gpu) {
  const points = view.history.get(gpu.index) ?? [];
  const name = gpu.name ?? gpu.last_known?.name ?? "GPU";
  const made = make("article", { class: gpu.unavailable ? "card lost" : "card", "data-gpu": gpu.index },
    make("h3", {}, make("b", {}, `[${gpu.index}]`), make("span", { title: gpu.uuid ?? "" }, name)));
  if (gpu.unavailable) {
    made.append(make("p", { class: "reason" }, gpu.unavailable));
    return made;
  }
  const total = gpu["memory.total.bytes"];
  const free = gpu["memory.free.bytes"];
  made.append(
    make("div", { class: "row" }, make("span", {}, "Memory ", value(gpu, "memory.used.bytes", (used) => `${size(used)} of ${size(total)}`)), make("small", {}, free === null ? "" : `${size(free)} free`)),
    graph(points, "memory", `Memory in use on GPU ${gpu.index}`),
    make("div", { class: "row" }, make("span", {}, "Busy ", value(gpu, "utilization.gpu", (percent) => `${percent} %`))),
    graph(points, "busy", `Utilisation of GPU ${gpu.index}`),
    make("p", { class: "facts" },
      value(gpu, "temperature.gpu", (degrees) => `${degrees} °C`), " · ",
      value(gpu, "power.draw", (watts) => `${watts} W`), gpu["enforced.power.limit"] === null ? "" : ` of ${gpu["enforced.power.limit"]} W`, " · fan ",
      value(gpu, "fan.speed", (percent) => `${percent} %`)));
  if (gpu.mig.length) {
    made.append(make("ul", { class: "mig" }, ...gpu.mig.map((part) => make("li", {}, `MIG ${part.index}: ${part.name ?? ""} `, value(part, "memory.used.bytes", (used) => `${size(used)} of ${size(part["memory.total.bytes"])}`)))));
  }
  return made;
}

const COLUMNS = [
  ["gpu", "GPU", true, (row) => row.gpu, (row) => row.gpu],
  ["pid", "PID", true, (row) => row.pid, (row) => row.pid],
  ["user", "User", false, (row) => row.username ?? "", (row) => row.username ?? "hidden"],
  ["memory", "GPU memory", true, (row) => row.gpu_memory_bytes ?? -1, (row) => (row.gpu_memory_bytes === null ? row.missing.gpu_memory_bytes : size(row.gpu_memory_bytes))],
  ["busy", "GPU %", true, (row) => row.gpu_utilization ?? -1, (row) => row.gpu_utilization ?? "–"],
  ["cpu", "CPU %", true, (row) => row.cpu_percent ?? -1, (row) => (row.cpu_percent === null ? "–" : row.cpu_percent.toFixed(0))],
  ["host", "Host memory", true, (row) => row.cpu_memory_usage ?? -1, (row) => (row.cpu_memory_usage === null ? "–" : size(row.cpu_memory_usage))],
  ["age", "Age", true, (row) => row.age_seconds ?? -1, (row) => (row.age_seconds === null ? "–" : age(row.age_seconds))],
  ["container", "Container", false, (row) => row.container ?? "", (row) => row.container ?? ""],
  ["command", "Command", false, (row) => (row.full_command ?? []).join(" "), (row) => (row.full_command ? row.full_command.join(" ") : row.missing.command)],
];

function drawTable(sample) {
  const rows = sample.gpus.flatMap((gpu) => (gpu.processes ?? []).map((process) => ({ gpu: gpu.index, ...process })));
  const chosen = COLUMNS.find(([key]) => key === view.sort);
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (view.falling ? -1 : 1);
  rows.sort((a, b) => order(chosen[3](a), chosen[3](b)) || a.gpu - b.gpu || a.pid - b.pid);
  element("columns").replaceChildren(...COLUMNS.map(([key, title, number]) => {
    const button = make("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      view.falling = view.sort === key ? !view.falling : number;
      view.sort = key;
      drawTable(view.sample);
    });
    return make("th", { class: number ? "number" : undefined, "aria-sort": view.sort === key ? (view.falling ? "descending" : "ascending") : undefined }, button);
  }));
  element("processes").replaceChildren(...rows.map((row) => make("tr", {}, ...COLUMNS.map(([key, , number, , show]) => {
    const text = String(show(row));
    return make("td", { class: number ? "number" : key, title: key === "command" ? text : undefined }, text);
  }))));
  element("nobody").hidden = rows.length > 0;
  element("who").hidden = false;
}

function draw(sample) {
  view.sample = sample;
  element("host").textContent = sample.hostname;
  document.title = `${sample.hostname} · GPUs`;
  element("about").textContent = `${sample.gpus.length} ${sample.gpus.length === 1 ? "GPU" : "GPUs"} · driver ${sample.driver_version ?? "unknown"}`;
  element("cards").replaceChildren(...sample.gpus.map(card));
  if (!sample.gpus.length) element("cards").append(make("p", {}, "The driver is there, but no GPU."));
  // While a column's button has the keyboard, the table is left alone.
  if (!element("columns").contains(document.activeElement) || !view.ready) drawTable(sample);
  const late = sample.sample_age_seconds > Math.max(5, 3 * sample.interval_seconds);
  element("age").textContent = late ? `${Math.round(sample.sample_age_seconds)} s old` : sample.query_time.slice(11, 19);
  element("age").className = late ? "late" : "";
}

function complain(text) {
  element("problem").hidden = !text;
  element("problem").textContent = text ?? "";
}

async function step() {
  try {
    if (!view.history.size) {
      const past = await ask("api/history");
      for (const gpu of past.gpus) view.history.set(gpu.index, gpu.at.map((at, number) => ({ at, memory: gpu.memory[number], busy: gpu.utilization[number] })));
    }
    const sample = await ask("api/gpus");
    view.interval = sample.interval_seconds * 1000;
    remember(sample);
    draw(sample);
    complain(null);
    element("login").hidden = true;
    view.ready = true;
  } catch (error) {
    if (error.message === "token") {
      sessionStorage.removeItem("vramfit-token");
      element("login").hidden = false;
      view.ready = true;
      return;
    }
    complain(`No answer from the server (${error.message}). Trying again.`);
  }
  setTimeout(step, Math.max(500, document.hidden ? 5000 : view.interval));
}

element("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("vramfit-token", element("token").value);
  step();
});
step();
