// The pages' own words, from english_chinese.json; sentences of the analysis come as they are.

import { told } from "./sentences.js";

/** @type {Record<string, string>} */
let words = {};
let language = "en";

/** From here on `t` says these. @param {Record<string, string>} known by key @param {string} code their language */
export function speak(known, code) {
  words = known;
  language = code;
}

export const current = () => language;

/** Whether there is such a word. @param {string} key */
export const has = (key) => key in words;

/** A word or sentence; `{name}` in it is filled in. @param {string} key @param {Record<string, unknown>} [values] */
export function t(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => told(String(values[name] ?? "")));
}
