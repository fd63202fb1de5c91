// Values as a page writes them: durations and sizes by scale with three digits, ranks as runs, moments from the start.

/** Three significant digits, four only from 1000 on; halves are rounded up, as in the report. @param {number} value @param {number} factor */
function digits(value, factor) {
  const size = Math.abs(value);
  let scaled = 0;
  for (const decimals of [2, 1, 0]) {
    scaled = Math.floor((size * 10 ** decimals) / factor + 0.5);
    if (scaled < 1000 || decimals === 0) return `${value < 0 ? "-" : ""}${(scaled / 10 ** decimals).toFixed(decimals)}`;
  }
  return String(scaled);
}

/** @param {number | null | undefined} ns */
export function duration(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return null;
  if (ns === 0) return "0";
  const size = Math.abs(ns);
  if (size < 999.5) return `${size < 10 && !Number.isInteger(ns) ? digits(ns, 1) : Math.round(ns)} ns`;
  if (size < 999.5e3) return `${digits(ns, 1e3)} us`;
  if (size < 999.5e6) return `${digits(ns, 1e6)} ms`;
  if (size < 999.5e9) return `${digits(ns, 1e9)} s`;
  return size < 6e12 ? `${digits(ns, 6e10)} min` : `${digits(ns, 3.6e12)} h`;
}

/** @param {number | null | undefined} bytes */
export function bytes(bytes) {
  if (bytes === null || bytes === undefined) return null;
  const size = Math.abs(bytes);
  if (size < 1e3) return `${Math.round(bytes)} B`;
  const [unit, factor] = size < 999.5e3 ? ["kB", 1e3] : size < 999.5e6 ? ["MB", 1e6] : size < 999.5e9 ? ["GB", 1e9] : ["TB", 1e12];
  return `${digits(bytes, /** @type {number} */ (factor))} ${unit}`;
}

/** @param {number | null | undefined} gb gigabytes a second */
export function bandwidth(gb) {
  if (gb === null || gb === undefined) return null;
  const size = Math.abs(gb);
  if (size === 0) return "0 GB/s";
  const [unit, factor] = size < 999.5e-6 ? ["kB/s", 1e-6] : size < 0.9995 ? ["MB/s", 1e-3] : ["GB/s", 1];
  return `${digits(gb, /** @type {number} */ (factor))} ${unit}`;
}

/** Per cent of the whole, both whole numbers: to the digit as the report has it. @param {number} part @param {number} whole */
export function share(part, whole) {
  if (!(whole > 0)) return "";
  const tenths = Math.floor((2000 * part + whole) / (2 * whole));
  return part > 0 && tenths === 0 ? "<0.1%" : `${(tenths / 10).toFixed(1)}%`;
}

const MANY = 10; // times the whole: per cents of it say less than how often it fits

/** @param {number | null | undefined} value */
export function percent(value) {
  if (value === null || value === undefined) return null;
  if (Math.abs(value) >= MANY) return `${digits(value, 1)}×`;
  if (value !== 0 && Math.abs(value) < 0.0005) return value > 0 ? "<0.1%" : ">−0.1%";
  return `${(100 * value).toFixed(1)}%`;
}

/** @param {number | null | undefined} value */
export function number(value) {
  if (value === null || value === undefined) return null;
  if (Number.isInteger(value)) return grouped(value);
  const size = Math.abs(value);
  return size >= 1000 ? grouped(Math.round(value)) : size >= 0.01 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
}

/** @param {number | string} value */
const grouped = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** `0 to 7, 9`. @param {number[]} values @param {string} to */
export function runs(values, to = "to") {
  const ordered = [...new Set(values)].sort((a, b) => a - b);
  /** @type {number[][]} */
  const found = [];
  for (const value of ordered) {
    const last = found.at(-1);
    if (last && value === last[1] + 1) last[1] = value;
    else found.push([value, value]);
  }
  const words = found.map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a} ${to} ${b}`));
  return words.length > 7 ? `${words.slice(0, 6).join(", ")}, … (${ordered.length})` : words.join(", ");
}

/** Nanoseconds between two moments that may exceed what a double holds. @param {string | number} at @param {string | number} from */
export const since = (at, from) => Number(BigInt(at) - BigInt(from));

/** @param {number | null | undefined} ms a time of milliseconds in a document */
export const ns = (ms) => (ms === null || ms === undefined ? null : Math.round(ms * 1e6));

/** @param {string} text @param {number} limit */
export const clip = (text, limit) => (text.length <= limit ? text : `${text.slice(0, limit)}… (+${text.length - limit})`);

// Characters that would turn the direction of writing, or hide.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** @param {string} text */
export const clean = (text) => text.replace(HIDDEN, (one) => (/\s/.test(one) ? " " : "\ufffd"));
