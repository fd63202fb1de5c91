// The language of the pages: English or Chinese, as the browser has it until it is turned.

import { speakMessages } from "./say.js";
import { teach } from "./sentences.js";
import { current, speak } from "./translate.js";

/** @type {Record<string, [string, string]>} */
let catalogue = {};
const LANGUAGES = ["en", "zh"];

/** @type {Promise<Record<string, string>> | undefined} */
let sentences;

/** By language, each asked for once. @type {Map<string, Promise<Record<string, string>>>} */
const messages = new Map();

/** @param {string} language */
function messagesOf(language) {
  const asked = messages.get(language) ?? fetch(`/static/messages.${language}.json`).then((answer) => answer.json());
  messages.set(language, asked);
  return asked;
}

/** @param {string} language */
async function use(language) {
  speakMessages(await messagesOf(language), language);
  // What is no message yet is English; in other languages its sentences are asked for once.
  if (language === "zh") teach(await (sentences ??= fetch("/static/sentences.json").then((answer) => answer.json())));
  else teach({});
  const place = LANGUAGES.indexOf(language);
  speak(Object.fromEntries(Object.entries(catalogue).map(([key, both]) => [key, both[place]])), language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
}

export async function load() {
  const answer = await fetch("/static/english_chinese.json");
  catalogue = await answer.json();
  await use(localStorage.getItem("hermes-language") ?? (navigator.language.startsWith("zh") ? "zh" : "en"));
}

/** Words that came with the data; the page's own stay. @param {Record<string, [string, string]>} more */
export async function learn(more) {
  catalogue = { ...more, ...catalogue };
  await use(current());
}

export async function turn() {
  const language = current() === "en" ? "zh" : "en";
  localStorage.setItem("hermes-language", language);
  await use(language);
}
