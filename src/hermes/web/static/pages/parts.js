// Pieces that several pages have: headings, pickers, links to the timeline, and tables that nobody described.

import { copy } from "../copying.js";
import { button, h, prose, say } from "../dom.js";
import { clean } from "../format.js";
import { chiefRank, doc, keep, param, tables } from "../data.js";
import { text, title } from "../cells.js";
import { told } from "../sentences.js";
import { current, has, t } from "../translate.js";
import { tableTitle } from "./tabs.js";

/** A text that the server says in every language, in the reader's. @param {Record<string, string> | null | undefined} text */
export const own = (text) => clean(text?.[current()] ?? text?.en ?? "");

/** @param {string} name @param {string} [about] */
export const heading = (name, about) => [h("h1", {}, t(`page.${name}`)), ...(about ? [h("p", { class: "lead" }, prose(about))] : [])];

/**
 * A choice that stands in the address; the page is drawn anew, without what depended on the choice before.
 * @param {string} name @param {string} label @param {[string, string][]} options @param {string} value @param {string[]} [forget]
 */
export function picker(name, label, options, value, forget = []) {
  const select = /** @type {HTMLSelectElement} */ (h("select", { onchange: () => { keep({ ...Object.fromEntries(forget.map((old) => [old, null])), [name]: select.value }); window.dispatchEvent(new Event("hermes:show")); } }, options.map(([key, text]) => h("option", { value: key }, /^rank \d/.test(text) ? told(text) : text))));
  select.value = value;
  return h("label", { class: "picker" }, label, select);
}

/** One of the collected ranks, or all of them where that is allowed. @param {boolean} all */
export function rankPicker(all) {
  const seen = doc().coverage.ranks_seen;
  const any = all && seen.length <= 64;
  const value = param("rank", any && seen.length > 1 ? "all" : String(chiefRank()));
  const options = seen.map((rank) => /** @type {[string, string]} */ ([String(rank), `rank ${rank}`]));
  const shown = any && seen.length > 1 ? [/** @type {[string, string]} */ (["all", t("all_ranks")]), ...options] : options;
  return { rank: value === "all" ? null : Number(value), control: seen.length > 1 ? picker("rank", t("rank"), shown, value, ["frame"]) : null };
}

/** What is not known: said, not hidden. @param {string} message @param {string} [more] */
export const empty = (message, more) => h("div", { class: "empty" }, h("p", {}, prose(message)), more ? h("p", { class: "about" }, prose(more)) : null);

/**
 * Tables of the document under these prefixes that no page describes, whatever an analysis calls them, for `tabs`.
 * @param {string[]} prefixes @param {string[]} [known]
 */
export function rest(prefixes, known = []) {
  const under = (/** @type {string} */ key) => prefixes.some((prefix) => key === prefix || key.startsWith(`${prefix}.`));
  return tables().filter((one) => under(one.key) && !known.includes(one.key)).map((one) => described(one));
}

/** How a table is shown that no page describes. @param {import("../data.js").Listed} one */
export function described(one) {
  const times = one.columns.find((name) => name === "total_ms") ?? one.columns.find((name) => /(^|_)ms$/.test(name));
  return {
    table: one.key,
    title: tableTitle(one.key),
    about: has(`about.${one.key}`) ? t(`about.${one.key}`) : undefined,
    bar: times,
    timeline: one.columns.some((name) => name === "start_ns" || name === "longest_at_ns"),
  };
}

/** Single values and sentences of a block of the document. @param {string[]} blocks */
export function facts(blocks) {
  const found = blocks.flatMap((name) => {
    const block = doc()[name];
    if (!block || typeof block !== "object" || Array.isArray(block)) return [];
    return Object.entries(block).filter(([, value]) => value !== null && (typeof value !== "object" || (Array.isArray(value) && value.length && typeof value[0] !== "object")));
  });
  if (!found.length) return null;
  return h("dl", { class: "facts" }, found.flatMap(([name, value]) => [
    h("dt", {}, title(name)),
    h("dd", {}, Array.isArray(value) && typeof value[0] === "string" ? h("ul", {}, value.map((one) => h("li", {}, clean(one)))) : text(name, value) ?? "–"),
  ]));
}

/** @param {string} name @param {...(Node | null | (Node | null)[])} children */
export const section = (name, ...children) => h("section", { class: "block" }, h("h2", {}, name), ...children);

/** Whose step: a capture without marks has none. @param {number} rank @param {number | string | null} step */
export const stepOf = (rank, step) => `rank ${rank}${step === null || step === "" ? "" : `, ${t("step")} ${step}`}`;

/** Lines of code or a command, with what copies them. @param {string} text */
export function copied(text) {
  const go = button(t("copy"), async () => {
    const done = await copy(text);
    go.textContent = t(done ? "copied_it" : "not_copied");
    say(go.textContent);
  }, { class: "copyit" });
  return h("div", { class: "copied" }, h("pre", {}, text.split("\n").map(clean).join("\n")), go);
}
