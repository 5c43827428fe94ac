// Numbers as people read them. Units are binary and say so.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function bytesText(bytes) {
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

function countText(number) {
  return Math.round(number).toLocaleString("en-US");
}

function timeText(microseconds) {
  if (microseconds < 1000) return `${Math.round(microseconds)} µs`;
  if (microseconds < 1e6) return `${(microseconds / 1e3).toFixed(microseconds < 1e4 ? 2 : 1)} ms`;
  return `${(microseconds / 1e6).toFixed(microseconds < 1e7 ? 3 : 2)} s`;
}

// A step for an axis of about `wanted` marks: a power of two for bytes, 1, 2 or 5 times a power of ten otherwise.
function niceStep(span, wanted, isBytes) {
  const raw = Math.max(span / Math.max(wanted, 1), 1e-9);
  if (isBytes) return 2 ** Math.ceil(Math.log2(raw));
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw);
}
