// Data: every table there is, those of the document and those in the cache, with nothing left out.

import { copy, csv } from "../copying.js";
import { button, h, prose, say } from "../dom.js";
import { clean, clip, number } from "../format.js";
import { ask, chiefRank, keep, once, param, tables, to } from "../data.js";
import { table } from "../table.js";
import { t } from "../translate.js";
import { described, heading, rankPicker, section } from "./parts.js";
import { tableTitle } from "./tabs.js";

/** @param {HTMLElement} main */
export async function render(main) {
  main.append(...heading("data", t("data.lead")));
  const chosen = param("table");
  const { rank, control } = rankPicker(true);
  const sizes = await once("sizes", { rank: rank ?? chiefRank() });
  const item = (/** @type {string} */ key, /** @type {number} */ rows, /** @type {string} */ about) => h("li", {}, h("a", { href: to("/data", { table: key, rank: param("rank") }), "aria-current": key === chosen ? "true" : null }, about.startsWith("`") ? key : tableTitle(key)), h("span", { class: "count" }, number(rows)));
  const listed = tables().find((one) => one.key === chosen);
  const shown = listed
    ? table(described(listed))
    : chosen in sizes
      ? h("div", {}, h("div", { class: "controls" }, control), table({ table: chosen, rank, title: chosen, about: t("data.row_is", { row: sizes[chosen][1] }), timeline: true, view: 40 }))
      : h("p", { class: "none" }, t("data.choose"));
  main.append(h("div", { class: "columns" },
    h("div", { class: "tablelist" },
      h("h2", {}, t("data.analysis")), h("ul", {}, tables().map((one) => item(one.key, one.rows, ""))),
      h("h2", {}, t("data.cached")), h("ul", {}, Object.entries(sizes).filter(([, [rows]]) => rows).map(([key, [rows]]) => item(key, rows, "`"))),
      h("p", { class: "about" }, t("data.absent"), " ", Object.entries(sizes).filter(([, [rows]]) => !rows).map(([key]) => key).join(", ") || t("none"))),
    h("div", { class: "tableshown" }, shown, asking())));
}

const FIRST = "select name, count(*) as calls, sum(dur_ns) / 1e6 as ms\nfrom kernel group by name order by ms desc limit 20";

/** A box for questions in SQL, what they find, and what the tables hold. */
function asking() {
  const box = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 4, spellcheck: "false", maxlength: 4000, "aria-label": t("sql") }));
  box.value = param("sql", FIRST);
  const found = h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t("sql.found"), "aria-live": "polite" });
  const go = async () => {
    keep({ sql: box.value });
    found.replaceChildren(h("p", { class: "about" }, t("loading")));
    try {
      found.replaceChildren(...result(await ask("sql", { q: box.value })));
    } catch (error) {
      const { wrong } = /** @type {import("../data.js").Refused} */ (error);
      found.replaceChildren(h("p", { class: "wrong", role: "alert" }, clean(/** @type {Error} */ (error).message), wrong?.hint ? h("small", {}, ` ${clean(wrong.hint)}`) : null));
    }
  };
  box.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); go(); } });
  const words = h("div");
  const about = /** @type {HTMLDetailsElement} */ (h("details", {}, h("summary", {}, t("sql.tables")), words));
  about.addEventListener("toggle", async () => { if (about.open && !words.childElementCount) words.replaceChildren(...documented(await once("tables"))); });
  if (param("sql")) go();
  return section(t("sql"), h("p", { class: "about" }, prose(t("sql.is"))), h("div", { class: "asked" }, box, button(t("sql.go"), go, { class: "act" })), about, found);
}

/** @param {{columns: {name: string, number: boolean}[], rows: unknown[][], more: boolean}} found */
function result({ columns, rows, more }) {
  if (!rows.length) return [h("p", { class: "none" }, t("no_rows"))];
  const exact = (/** @type {unknown} */ value) => (value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
  const take = button(t("copy_csv"), async () => {
    const cells = rows.map((row) => row.map((value, at) => ({ text: exact(value), number: columns[at].number })));
    say(t(await copy(csv(columns.map((one) => one.name), cells)) ? "copied" : "not_copied", { count: rows.length }));
  });
  return [
    h("p", { class: "about" }, t(more ? "sql.more" : "sql.rows", { count: number(rows.length) }), " ", take),
    h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, columns.map((one) => h("th", { scope: "col", class: one.number ? "n" : "" }, clean(one.name))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value, at) => h("td", { class: columns[at].number ? "n" : "" }, value === null ? "–" : clip(clean(typeof value === "number" ? number(value) ?? "" : exact(value)), 300))))))),
  ];
}

/** @param {Record<string, {row: string, columns: [string, string, string, string, string][]}>} all */
const documented = (all) => Object.entries(all).map(([name, { row, columns }]) => h("details", {}, h("summary", {}, h("code", {}, name), ` ${t("data.row_is", { row })}`),
  h("dl", { class: "facts" }, columns.flatMap(([column, kind, unit, doc]) => [h("dt", {}, h("code", {}, column), h("small", {}, ` ${kind}${unit ? `, ${unit}` : ""}`)), h("dd", {}, doc)]))));
