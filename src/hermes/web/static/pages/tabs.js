// Tables behind tabs: one at a time, made when it is first shown; those without rows are named and not shown.

import { button, h } from "../dom.js";
import { keep, once, param, rowsOf, tables } from "../data.js";
import { number } from "../format.js";
import { table } from "../table.js";
import { has, t } from "../translate.js";
import { title } from "../cells.js";

/** @typedef {Parameters<typeof table>[0]} Options */

/** @type {Record<string, number>} */
const ASIDE = { ArrowLeft: -1, ArrowRight: 1 };

/** @param {string} key */
export const tableTitle = (key) => (has(`table.${key}`) ? t(`table.${key}`) : key.split(".").map(title).join(" · "));

/** How many rows there are: of an analysis it is known, of the cache it is asked for. @param {Options} one @returns {Promise<number>} */
async function size(one) {
  if (tables().some((listed) => listed.key === one.table)) return rowsOf(one.table);
  const { table: name, rank = null, only } = one;
  return (await once("rows", { table: name, rank, only, limit: 1 })).total;
}

/**
 * @param {Options[]} all in the order of the tabs @param {string} [own] in the address, where a page has several
 */
export function tabs(all, own = "tab") {
  const panel = h("div", { class: "tabpanel", role: "tabpanel", id: `${own}-panel` });
  const counts = all.map(() => h("span", { class: "count" }));
  const buttons = all.map((one, at) => button(one.title ?? tableTitle(one.table), () => { keep({ [own]: one.table }); choose(at); }, { role: "tab", id: `${own}-${at}`, "aria-controls": panel.id }));
  buttons.forEach((one, at) => one.append(counts[at]));
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": t("tabs"), onkeydown: (event) => {
    const shown = buttons.filter((one) => !one.hidden);
    const to = shown[shown.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement)) + (ASIDE[event.key] ?? NaN)];
    if (to) { to.click(); to.focus(); event.preventDefault(); }
  } }, buttons);
  const nothing = h("p", { class: "none" });
  /** @type {Map<number, HTMLElement>} */
  const made = new Map();
  let chosen = -1;
  const choose = (/** @type {number} */ at) => {
    chosen = at;
    buttons.forEach((one, place) => { one.setAttribute("aria-selected", String(place === at)); one.tabIndex = place === at ? 0 : -1; });
    panel.setAttribute("aria-labelledby", `${own}-${at}`);
    let shown = made.get(at);
    if (!shown) made.set(at, shown = table({ ...all[at], title: all[at].title ?? tableTitle(all[at].table) }));
    panel.replaceChildren(shown);
  };
  const asked = all.findIndex((one) => one.table === param(own));
  const element = h("section", { class: "block tabbed", "aria-label": t("tabs") }, list, panel, nothing);
  const empty = all.map(() => false);
  const told = (/** @type {number} */ at, /** @type {number} */ rows) => {
    counts[at].textContent = ` ${number(rows)}`;
    empty[at] = buttons[at].hidden = !rows;
    const absent = all.filter((_, place) => empty[place]).map((one) => one.title ?? tableTitle(one.table));
    nothing.textContent = absent.length ? `${t("tabs.empty")} ${absent.join(", ")}` : "";
    const first = empty.indexOf(false);
    list.hidden = panel.hidden = first < 0;
    if (empty[chosen] && first >= 0) choose(first);
  };
  all.forEach((one, at) => { if (tables().some((listed) => listed.key === one.table)) told(at, rowsOf(one.table)); });
  if (empty.includes(false)) choose(asked >= 0 && !empty[asked] ? asked : empty.indexOf(false));
  all.forEach((one, at) => size(one).then((rows) => told(at, rows), () => {}));
  return element;
}
