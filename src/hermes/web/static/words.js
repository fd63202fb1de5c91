// The page's own words, in English and Chinese, from one catalogue; sentences of the analysis come as they are.

/** @type {Record<string, [string, string]>} */
let catalogue = {};
const LANGUAGES = ["en", "zh"];
let language = localStorage.getItem("hermes-language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");

export async function load() {
  const answer = await fetch("/static/catalogue.json");
  catalogue = await answer.json();
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
}

export const current = () => language;

export function turn() {
  language = LANGUAGES[1 - LANGUAGES.indexOf(language)];
  localStorage.setItem("hermes-language", language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
}

/** Whether there is such a word. @param {string} key */
export const has = (key) => key in catalogue;

/** A word or sentence; `{name}` in it is filled in. @param {string} key @param {Record<string, unknown>} [values] */
export function t(key, values = {}) {
  const text = catalogue[key]?.[LANGUAGES.indexOf(language)] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}
