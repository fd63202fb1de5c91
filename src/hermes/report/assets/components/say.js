// Sentences of messages, by the catalogue of the page's language: the same as hermes/base/say.py makes.

import { bytes, duration } from "./format.js";
import { told } from "./sentences.js";

/**
 * @typedef {{text: string, foreign: boolean}} Piece  foreign text comes from outside or is code, and stays as it is
 * @typedef {{id?: string, arguments?: Record<string, Record<string, any>>, text: string}} Text  as `told` of say.py writes it
 * @typedef {{name: string} | {parts: Part[]} | string} Part
 */

/** By identifier; with a plural, by its category. @type {Record<string, string | Record<string, string>>} */
let templates = {};
let language = "en";
const DIGITS = 3;
const RUNS_SHOWN = 6;
const GAP = /\{\{|\}\}|\[\[|\]\]|\{(\w+)\}/g;
/** @type {Map<string, Part[]>} */
const parsed = new Map();

/** From here on `said` speaks these. @param {Record<string, string | Record<string, string>>} known @param {string} code */
export function speakMessages(known, code) {
  templates = known;
  language = code;
}

/** The sentence of a text of a document. @param {Text} text */
export const said = (text) => pieces(text).map((piece) => piece.text).join("");

/** The sentence, with text from outside in elements of its own, whose direction of writing stays inside. @param {Text} text @returns {Node[]} */
export const spoken = (text) => pieces(text).map((piece) => {
  if (!piece.foreign) return document.createTextNode(piece.text);
  const element = document.createElement("bdi");
  element.textContent = piece.text;
  return element;
});

/** The sentence in pieces. A sentence that is no message yet is put into the page's language by its pattern. @param {Text} text @returns {Piece[]} */
export function pieces(text) {
  if (!text.id) return text.text ? [own(told(text.text))] : [];
  const values = text.arguments ?? {};
  return filled(parts(template(text.id, values)), values).filter((piece) => piece.text);
}

/** @param {string} text @returns {Piece} */
const own = (text) => ({ text, foreign: false });

/** @param {string} id @param {Record<string, Record<string, any>>} values */
function template(id, values) {
  const found = templates[id];
  if (found === undefined) return [id, ...Object.keys(values).map((name) => `${name}={${name}}`)].join(" ");
  if (typeof found === "string") return found;
  return found[new Intl.PluralRules(language).select(value(values.n) ?? 0)] ?? found.other;
}

/** @param {Record<string, any>} argument */
const value = (argument) => Object.values(argument)[0] ?? null;

/** @param {string} text @returns {Part[]} */
function parts(text) {
  const known = parsed.get(text);
  if (known) return known;
  /** @type {Part[][]} */
  const levels = [[]];
  let at = 0;
  for (const found of text.matchAll(GAP)) {
    const level = /** @type {Part[]} */ (levels.at(-1));
    level.push(text.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[0] === "[[") levels.push([]);
    else if (found[0] === "]]" && levels.length > 1) {
      levels.pop();
      /** @type {Part[]} */ (levels.at(-1)).push({ parts: level });
    } else level.push(found[1] ? { name: found[1] } : found[0] === "]]" ? "]]" : found[0][0]);
  }
  const made = [...levels[0], text.slice(at)];
  parsed.set(text, made);
  return made;
}

/** @param {any} one */
const absent = (one) => one === null || one === "" || (Array.isArray(one) && !one.length);

/** @param {Part[]} all @param {Record<string, Record<string, any>>} values @returns {Piece[]} */
function filled(all, values) {
  return all.flatMap((part) => {
    if (typeof part === "string") return [own(part)];
    if ("name" in part) return written(values[part.name]);
    const missing = part.parts.some((one) => typeof one === "object" && "name" in one && absent(value(values[one.name])));
    return missing ? [] : filled(part.parts, values);
  });
}

/** An argument in words. @param {Record<string, any>} argument @returns {Piece[]} */
function written(argument) {
  const [kind, one] = Object.entries(argument)[0];
  if (one === null || one === undefined) return pieces({ id: "base.not_measured", text: "" });
  if (kind === "name") return [{ text: oneLine(one), foreign: true }];
  if (kind === "names") return listed(one.map((/** @type {string} */ name) => [{ text: oneLine(name), foreign: true }]));
  if (kind === "message") return pieces(one);
  if (kind === "messages") return listed(one.map(pieces));
  return [own(WRITTEN[kind](one))];
}

/** One line that cannot turn the direction of writing, as `clean` of base/sanitize_text.py makes it. @param {string} text */
const oneLine = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Z}]/gu, (one) => (/[\p{Z}\t-\r\x1c-\x1f\x85]/u.test(one) ? " " : "\ufffd"));

/** `a, b and c`. @param {Piece[][]} items @returns {Piece[]} */
function listed(items) {
  const format = new Intl.ListFormat(language === "en" ? "en-GB" : language, { type: "conjunction" });
  let at = 0;
  return format.formatToParts(items.map(String)).flatMap((part) => (part.type === "element" ? items[at++] : [own(part.value)]));
}

/** A number as it is, with halves rounded to even. @param {number} one @param {Intl.NumberFormatOptions} options */
const decimal = (one, options = {}) => new Intl.NumberFormat(language, /** @type {any} */ ({ ...options, roundingMode: "halfEven" })).format(one);

/** A number with three significant digits. @param {number} one */
export function threeDigits(one) {
  const digits = DIGITS - 1 - (one ? Math.floor(Math.log10(Math.abs(one))) : 0);
  if (Math.abs(digits) > 2 * DIGITS) {
    const [figures, power] = decimal(one, { notation: "scientific", minimumFractionDigits: 2, maximumFractionDigits: 2 }).split("E");
    return `${figures}e${power[0] === "-" ? "-" : "+"}${power.replace("-", "").padStart(2, "0")}`;
  }
  return decimal(one, { maximumFractionDigits: Math.max(digits, 0) });
}

/** Per cent, whole from ten on. @param {number} one */
export function shareOf(one) {
  if (one > 0 && one < 0.0005) return "<0.1%";
  // By its shortest text, as Python takes it: the number itself may lie beside it.
  return decimal(/** @type {any} */ (String(one)), { style: "percent", maximumFractionDigits: Math.abs(one) >= 0.0995 ? 0 : 1 });
}

/** Whole numbers, runs of three and more shortened; of many the first. @param {number[]} values */
function runsOf(values) {
  /** @type {number[][]} */
  const found = [];
  for (const one of values) {
    const last = found.at(-1);
    if (last && one === /** @type {number} */ (last.at(-1)) + 1) last.push(one);
    else found.push([one]);
  }
  const kept = found.length <= RUNS_SHOWN ? found : found.slice(0, RUNS_SHOWN / 2);
  const words = kept.flatMap((run) => (run.length > 2 ? [base("range", { first: { name: String(run[0]) }, last: { name: String(run.at(-1)) } })] : run.map(String)));
  if (kept.length < found.length) words.push(base("more", { n: { count: values.length - kept.flat().length } }));
  // No space stands between numbers and the Chinese word for "and".
  if (language === "zh" && words.every((one) => /^[\x00-\x7f]*$/.test(one))) return words.join("、");
  return listed(words.map((one) => [own(one)])).map((piece) => piece.text).join("");
}

/** @param {string} name @param {Record<string, Record<string, any>>} values */
const base = (name, values = {}) => said({ id: `base.${name}`, arguments: values, text: "" });

/** @param {string} noun */
const numbered = (noun) => (/** @type {number | number[]} */ given) => {
  const values = Array.isArray(given) ? given : [given];
  return values.length ? base(noun, { n: { count: values.length }, which: { name: runsOf(values) } }) : base(`no_${noun}`);
};

/** @type {Record<string, (one: any) => string>} */
const WRITTEN = {
  ns: (one) => duration(one) ?? "", bytes: (one) => bytes(one) ?? "", count: (one) => decimal(one), number: threeDigits, share: shareOf,
  rank: numbered("ranks"), ranks: numbered("ranks"), step: numbered("steps"), steps: numbered("steps"),
};
