// How a value is written, told by the name and the kind of its column: what an analysis adds is written well unasked.

import { h } from "./dom.js";
import { bandwidth, bytes, clean, clip, duration, number, percent, runs, since } from "./format.js";
import { said } from "./say.js";
import { told } from "./sentences.js";
import { has, t } from "./translate.js";
import { plain } from "./kernels.js";

const MOMENT = /^(start|ts|alloc|release|launch|src|dst|longest_at|.*_at)_ns$/;
const SHARE = /(^|_)(share|usage|mfu|overlap|fragmentation|empty|full|busiest|roof_share|coverage)$/;
const NAMES = new Set(["rank", "of_rank", "peer", "step", "device_id", "stream", "pid", "tid", "least_rank", "most_rank", "plane", "src_rank", "dst_rank", "member", "global_rank", "peer_rank", "first_rank", "last_rank"]);
const UNITS = { tflops: "TFLOP/s", mhz: "MHz" };
const LONG = 400;

/** A cell that was written before: its text, the exact value behind it, and what stands small beside it. */
export class Written {
  /** @param {string} text @param {string} exact @param {string} note @param {boolean} absent nothing was measured @param {string} [href] what the text leads to */
  constructor(text, exact, note, absent, href = "") {
    this.text = text;
    this.exact = exact;
    this.note = note;
    this.absent = absent;
    this.href = href;
  }
}

let origin = /** @type {string | number | null} */ (null);

/** Moments are told from here on. @param {string | number | null} first */
export const setOrigin = (first) => { origin = first; };

/** Whether a value is what Hermes says: a message, or a sentence that is none yet. @param {object} value @returns {value is import("./say.js").Text} */
const isText = (value) => "text" in value && Object.keys(value).every((key) => key === "id" || key === "arguments" || key === "text");

/** @param {string} name */
export function title(name) {
  if (has(`col.${name}`)) return t(`col.${name}`);
  const words = name.replace(/_(ms|us|ns|bytes)$/, "").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** @param {string} name @param {string} kind */
export const numeric = (name, kind) => (kind === "int" || kind === "real") && name !== "group";

/** What is shown for a value; null when there is none. @param {string} name @param {unknown} value @returns {string | null} */
export function text(name, value) {
  if (value === null || value === undefined) return null;
  if (value instanceof Written) return value.note ? `${value.text} ${value.note}` : value.text;
  if (Array.isArray(value)) return list(name, value);
  if (typeof value === "object" && isText(value)) return clean(said(value));
  if (typeof value === "object") return Object.entries(value).map(([key, one]) => `${title(key)} ${text(key, one) ?? "–"}`).join(", ");
  if ((name === "verdict" || name === "component") && has(`${name}.${value}`)) return t(`${name}.${value}`);
  if (typeof value === "boolean") return value ? t("yes") : t("no");
  if (MOMENT.test(name)) return moment(/** @type {string | number} */ (value));
  if ((name === "group" || name === "detail") && typeof value === "string") return groupName(value);
  if (typeof value === "string") return /^-?\d{16,}$/.test(value) && name.endsWith("_ns") ? duration(Number(value)) : shortGroups(clean(value));
  return measure(name, /** @type {number} */ (value));
}

/** @param {string} name @param {number} value */
function measure(name, value) {
  if (name === "ms" || name.endsWith("_ms")) return duration(Math.round(value * 1e6));
  if (name.endsWith("_us")) return duration(Math.round(value * 1e3));
  if (name.endsWith("_ns")) return duration(value);
  if (name === "bytes" || name.endsWith("_bytes")) return bytes(value);
  if (SHARE.test(name)) return percent(value);
  if (NAMES.has(name)) return String(value);
  if (name === "gb_per_s" || name.endsWith("_gb_per_s")) return bandwidth(value);
  const unit = UNITS[/** @type {keyof typeof UNITS} */ (name)];
  return unit ? `${number(value)} ${unit}` : number(value);
}

/** A value in the unit that a document names. @param {string} name @param {number} value @param {string} unit */
export function measureText(name, value, unit) {
  if (unit === "ns") return duration(value);
  if (unit === "bytes" || unit === "B") return bytes(value);
  if (unit.startsWith("of ") || unit === "share") return percent(value);
  return unit === "GB/s" ? bandwidth(value) : `${number(value)} ${unit}`;
}

/** A process group as people can tell it from others: the end of a long number does. @param {string} name */
export const groupName = (name) => (/^\d{12,}$/.test(name) ? `…${name.slice(-6)}` : clean(name));

/** Text with process groups in it, as `groupName` writes them; a number alone, a moment and a path stay. @param {string} text */
export const shortGroups = (text) => (/^-?\d+$/.test(text) ? text : text.replace(/(?<![\w./-])\d{15,}(?![\w./-]| ns)/g, (number) => groupName(number)));

/** @param {string | number} value */
export function moment(value) {
  if (origin === null) return String(value);
  const gap = since(value, origin);
  return gap < 0 ? `−${duration(-gap)}` : `+${duration(gap)}`;
}

/** @param {string} name @param {unknown[]} values */
function list(name, values) {
  if (!values.length) return "–";
  if (values.every((one) => Number.isInteger(one))) return runs(/** @type {number[]} */ (values), t("to"));
  const shown = values.slice(0, 8).map((one) => {
    if (typeof one !== "object" || one === null) return told(text(name, one) ?? "–");
    return isText(one) ? clean(said(one)) : thing(/** @type {Record<string, unknown>} */ (one));
  });
  return shown.join(name.endsWith("curve") ? " " : ", ") + (values.length > 8 ? ` … (${values.length})` : "");
}

/** An object in a cell: what it is called, and its values by their names. @param {Record<string, unknown>} one */
function thing(one) {
  const said = Object.entries(one).filter(([, value]) => value !== null && value !== "").slice(0, 4);
  const head = said.findIndex(([, value]) => typeof value === "string" || (Array.isArray(value) && value.every((part) => typeof part === "string")));
  const rest = said.filter((_, at) => at !== head).map(([key, value]) => (key === "ms" ? text(key, value) : `${told(key === "ranks" ? "rank" : title(key).toLowerCase())} ${told(text(key, value) ?? "")}`)).join(", ");
  if (head < 0) return rest;
  return `${told(text(...said[head]) ?? "")}${rest ? ` (${rest})` : ""}`;
}

/** The value as text for programs: nanoseconds where the document has milliseconds. @param {string} name @param {unknown} value */
export function exact(name, value) {
  if (value === null || value === undefined) return "";
  if (value instanceof Written) return value.exact;
  if (typeof value === "number" && (name === "ms" || name.endsWith("_ms"))) return String(Math.round(value * 1e6));
  if (typeof value === "object") return text(name, value) ?? "";
  return String(value);
}

/** @param {string} name */
export function exactTitle(name) {
  if (name === "ms" || name.endsWith("_ms")) return `${name.replace(/_?ms$/, "") || "time"}_ns`;
  return name;
}

/** Text from a trace in the page: one line, cut, its end readable on focus. @param {string} value @param {number} [limit] */
export function spelt(value, limit = LONG) {
  const said = plain(value);
  const shown = clip(clean(said), limit);
  return h("bdi", { class: "name", title: shown.length > 24 || said !== value ? clip(clean(value), 2000) : null }, shown);
}
