// The language of the pages: English or Chinese, as the browser has it until it is turned.

import { current, speak } from "./translate.js";

/** @type {Record<string, [string, string]>} */
let catalogue = {};
const LANGUAGES = ["en", "zh"];

/** @param {string} language */
function use(language) {
  const place = LANGUAGES.indexOf(language);
  speak(Object.fromEntries(Object.entries(catalogue).map(([key, both]) => [key, both[place]])), language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
}

export async function load() {
  const answer = await fetch("/static/english_chinese.json");
  catalogue = await answer.json();
  use(localStorage.getItem("hermes-language") ?? (navigator.language.startsWith("zh") ? "zh" : "en"));
}

/** Words that came with the data; the page's own stay. @param {Record<string, [string, string]>} more */
export function learn(more) {
  catalogue = { ...more, ...catalogue };
  use(current());
}

export function turn() {
  const language = current() === "en" ? "zh" : "en";
  localStorage.setItem("hermes-language", language);
  use(language);
}
