// Bars and lines.
"use strict";

const GIB = 2 ** 30;

// Three digits, as the command line writes sizes.
function size(bytes) {
  const [value, unit] = bytes >= GIB ? [bytes / GIB, "GiB"] : bytes >= 2 ** 20 ? [bytes / 2 ** 20, "MiB"] : bytes >= 1024 ? [bytes / 1024, "KiB"] : [bytes, "B"];
  return `${unit === "B" ? value : value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
}

const gib = (bytes) => (bytes / GIB).toFixed(bytes >= 100 * GIB ? 0 : bytes >= 10 * GIB ? 1 : 2);

// Two bounds as one number where they are written alike.
function bounds(low, high, written = size) {
  const [least, most] = [written(low), written(high)];
  return least === most ? least : words("between", { low: least, high: most });
}

function count(number) {
  if (number === null || number === undefined) return "?";
  const [value, unit] = number >= 1e9 ? [number / 1e9, "B"] : number >= 1e6 ? [number / 1e6, "M"] : number >= 1e3 ? [number / 1e3, "K"] : [number, ""];
  return `${value >= 100 || unit === "" ? value.toFixed(0) : value.toFixed(1)}${unit}`;
}

// What the device's memory is made of at the peak, in the order of the bar. The colours are those of the page of `estimate --html`.
const PARTS = [
  ["parameters", "--c1"], ["gradients", "--c2"], ["optimizer", "--c3"], ["activations", "--c4"], ["outputs", "--c6"], ["inputs", "--c5"],
  ["temporary", "--c7"], ["workspace", "--c8"], ["communication", "--c9"], ["rounding", "--c10"], ["cached", "--c0"], ["context", "--c12"],
];

function parts(answer) {
  const bytes = { ...answer.breakdown, cached: Math.max(0, answer.peak_reserved - answer.peak_allocated) };
  // A cap limits what PyTorch reserves; the context is beyond it.
  if (answer.fit?.gpu && answer.settings.vram === null) bytes.context = answer.context;
  return PARTS.map(([name, color]) => ({ name, color, bytes: bytes[name] ?? 0 })).filter((part) => part.bytes > 0);
}

// A bar of parts against the capacity's line, which it may cross.
function bar(shown, capacity, { small = false } = {}) {
  const total = shown.reduce((sum, part) => sum + part.bytes, 0);
  const scale = Math.max(total, capacity ?? 0) * (capacity ? 1.02 : 1);
  const made = make("div", { class: small ? "bar small" : "bar" });
  for (const part of shown) {
    const piece = make("span", { title: `${words(`part-${part.name}`)}: ${size(part.bytes)}` });
    piece.style.width = `${(100 * part.bytes) / scale}%`;
    piece.style.setProperty("--c", `var(${part.color})`);
    made.append(piece);
  }
  if (capacity) {
    if (total > capacity) {
      const beyond = make("i", { class: "beyond" });
      beyond.style.left = `${(100 * capacity) / scale}%`;
      beyond.style.width = `${(100 * (total - capacity)) / scale}%`;
      made.append(beyond);
    }
    const line = make("i", { class: "line" });
    line.style.left = `${(100 * capacity) / scale}%`;
    made.append(line);
    if (!small) {
      const label = make("b", { class: capacity > scale / 2 ? "limit before" : "limit" }, size(capacity));
      label.style.left = `${(100 * capacity) / scale}%`;
      made.append(label);
    }
  }
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", capacity ? words("bar-label", { needed: size(total), capacity: size(capacity) }) : size(total));
  return made;
}

// About how wide a text of an axis is; asking the browser would cost a layout.
const textWidth = (text) => [...text].reduce((sum, letter) => sum + (letter > "\u2e80" ? 11.5 : 6.2), 0);

// Allocated memory over the requests of the run.
function timeline(data, capacity, wide) {
  const [width, height, left, bottom, top] = [wide, 190, 46, 22, 10];
  const points = data.allocated;
  const peak = Math.max(...points, 1);
  const most = capacity && capacity < peak * 2.2 ? Math.max(peak, capacity) * 1.06 : peak * 1.12;
  const x = (share) => left + share * (width - left - 8);
  const y = (bytes) => top + (1 - bytes / most) * (height - top - bottom);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words("timeline-label", { peak: size(peak) }) });
  const { levels, unit } = axis(most);
  for (const [level, text] of levels) {
    drawn.append(svg("line", { x1: left, x2: width - 8, y1: y(level), y2: y(level), class: "grid" }), svg("text", { x: left - 6, y: y(level) + 4, class: "axis end" }, text));
  }
  drawn.append(svg("text", { x: 2, y: height - 6, class: "axis" }, unit));
  let before = 0;
  data.phases.forEach((phase, index) => {
    const [begin, end] = [x(before), x(phase.end)];
    before = phase.end;
    drawn.append(svg("rect", { x: begin, y: top, width: Math.max(0, end - begin), height: height - top - bottom, class: `phase ${phase.phase}` }));
    const name = [phaseName(phase.phase), shortPhaseName(phase.phase)].find((text) => end - begin > textWidth(text) + 4);
    if (name) drawn.append(svg("text", { x: (begin + end) / 2, y: height - 6, class: "axis middle" }, svg("title", {}, phaseName(phase.phase)), name));
    if (index && phase.phase === "forward") drawn.append(svg("line", { x1: begin, x2: begin, y1: top, y2: height - bottom, class: "boundary" }));
  });
  const line = points.map((bytes, index) => `${x((index + 0.5) / points.length).toFixed(1)} ${y(bytes).toFixed(1)}`);
  drawn.append(svg("path", { class: "area", d: `M${x(0)} ${y(0)}L${line.join("L")}L${x(1)} ${y(0)}Z` }), svg("path", { class: "edge", d: `M${line.join("L")}` }));
  if (capacity && capacity <= most) {
    drawn.append(svg("line", { x1: left, x2: width - 8, y1: y(capacity), y2: y(capacity), class: "capacity" }),
      svg("text", { x: left + 6, y: y(capacity) + (y(capacity) > top + 16 ? -6 : 15), class: "axis strong" }, size(capacity)));
  }
  if (data.peak !== null) drawn.append(svg("circle", { cx: x(data.peak), cy: y(peak), r: 4, class: "peak" }));
  return drawn;
}

// The levels of an axis of bytes with their texts. Its steps are powers of two below a GiB: each half takes one more digit.
function axis(most) {
  const step = niceStep(most);
  const [unit, one] = step >= GIB / 2 ? ["GiB", GIB] : ["MiB", 2 ** 20];
  const digits = Math.max(0, -Math.log2(step / one));
  const levels = [];
  for (let level = 0; level <= most; level += step) levels.push([level, level === 0 ? "0" : (level / one).toFixed(digits)]);
  return { levels, unit };
}

function niceStep(most) {
  const raw = most / 4;
  const power = 2 ** Math.floor(Math.log2(raw));
  return power >= GIB ? GIB * [1, 2, 5, 10, 20, 50, 100, 200, 500].findLast((step) => step * GIB <= Math.max(raw, GIB)) : power;
}
