// Data: every table there is, those of the document and those in the cache, with nothing left out.

import { h } from "../dom.js";
import { number } from "../format.js";
import { chiefRank, once, param, tables, to } from "../data.js";
import { table } from "../table.js";
import { t } from "../translate.js";
import { generic, heading, rankPicker, tableTitle } from "./parts.js";

/** @param {HTMLElement} main */
export async function render(main) {
  main.append(...heading("data", t("data.lead")));
  const chosen = param("table");
  const { rank, control } = rankPicker(true);
  const sizes = await once("sizes", { rank: rank ?? chiefRank() });
  const item = (/** @type {string} */ key, /** @type {number} */ rows, /** @type {string} */ about) => h("li", {}, h("a", { href: to("/data", { table: key, rank: param("rank") }), "aria-current": key === chosen ? "true" : null }, about.startsWith("`") ? key : tableTitle(key)), h("span", { class: "count" }, number(rows)));
  const listed = tables().find((one) => one.key === chosen);
  const shown = listed
    ? generic(listed)
    : chosen in sizes
      ? h("div", {}, h("div", { class: "controls" }, control), table({ table: chosen, rank, title: chosen, about: t("data.row_is", { row: sizes[chosen][1] }), timeline: true, view: 40 }))
      : h("p", { class: "none" }, t("data.choose"));
  main.append(h("div", { class: "columns" },
    h("div", { class: "tablelist" },
      h("h2", {}, t("data.analysis")), h("ul", {}, tables().map((one) => item(one.key, one.rows, ""))),
      h("h2", {}, t("data.cached")), h("ul", {}, Object.entries(sizes).filter(([, [rows]]) => rows).map(([key, [rows]]) => item(key, rows, "`"))),
      h("p", { class: "about" }, t("data.absent"), " ", Object.entries(sizes).filter(([, [rows]]) => !rows).map(([key]) => key).join(", ") || t("none"))),
    h("div", { class: "tableshown" }, shown)));
}
