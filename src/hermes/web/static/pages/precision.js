// Precision: where two recordings part, how the difference goes on, the module tree by difference, and the table.

import { ask, keep, param } from "../data.js";
import { button, h, prose } from "../dom.js";
import { finding } from "../findings.js";
import { clean, clip } from "../format.js";
import { said, spoken } from "../say.js";
import { t } from "../translate.js";
import { empty, heading, picker, section } from "./parts.js";

/**
 * @typedef {import("../say.js").Text} Text
 * @typedef {import("../findings.js").Finding} Finding
 * @typedef {{operator: string, module: string | null, line: string | null, apart: number, amplification: number | null}} Link
 * @typedef {{name: string, value: string, level: string, below: Module[]}} Module
 * @typedef {{answer: Text, findings: Finding[], code?: string, chain?: Link[], counts: Record<string, number>, modules?: Module[], table: {total: number, marked: number | null}, coverage: {diagnostics: {message: Text, where: string, lost: Text}[]}}} Found
 * @typedef {{state: string, rank: number, step: number, phase: string, operator: string, module: string | null, line: string | null, inputs_apart: number | string | null, outputs_apart: number | string | null, of_tolerance: number | string | null}} Row
 */

const AGAIN_MS = 300;
const PART = 50;
const BEFORE = 5;
const LINKS = 12;
const OPEN_DEPTH = 1;
const NAMES = ["state", "rank", "step", "phase", "operator", "module", "line", "inputs_apart", "outputs_apart", "of_tolerance"];
const NUMBERS = new Set(["rank", "step", "inputs_apart", "outputs_apart", "of_tolerance"]);

/** @param {HTMLElement} main */
export async function render(main) {
  main.append(...heading("precision", t("precision.lead")));
  const first = await ask("precision", {});
  if (!first.golden) { main.append(empty(t("precision.absent"), t("precision.how"))); return; }
  const holder = h("div", { class: "page" });
  main.append(holder);
  follow(holder, first);
}

/** Shows how far the comparison is until it is there. @param {HTMLElement} holder @param {{golden: string, target: string, seconds: number, found?: Found}} answer */
async function follow(holder, answer) {
  let seen = false; // it is put into the page after this began
  while (!answer.found) {
    holder.replaceChildren(h("p", { class: "wait" }, `${t("precision.comparing")} · ${Math.round(answer.seconds)} s`));
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    seen ||= holder.isConnected;
    if (seen && !holder.isConnected) return;
    try { answer = await ask("precision", {}); } catch (error) {
      holder.replaceChildren(h("p", { class: "wrong", role: "alert" }, clean(/** @type {Error} */ (error).message)));
      return;
    }
  }
  const { found, golden, target } = answer;
  const { chain: links = [], modules = [] } = found;
  const notes = found.coverage.diagnostics;
  holder.replaceChildren(...[
    verdict(found, golden, target),
    found.findings.length ? section(t("precision.findings"), found.findings.map((one) => finding(one, { answer: found.answer }))) : null,
    links.length ? section(t("precision.chain"), chain(links)) : null,
    modules.length ? section(t("precision.modules"), h("p", { class: "about" }, prose(t("precision.modules.about"))), tree(modules, placeOf(found.findings[0]))) : null,
    table(found),
    notes.length ? section(t("precision.not_read"), h("ul", {}, notes.map((one) => h("li", {}, one.where ? [h("bdi", {}, clip(clean(one.where), 300)), ": "] : "", spoken(one.message), one.lost.text ? ["; ", ...spoken(one.lost)] : "")))) : null,
  ].filter((one) => one !== null));
}

/** The module where the runs part; empty where they do not. @param {Finding | undefined} first @returns {string} */
const placeOf = (first) => first?.message.arguments?.module?.name ?? "";

/** @param {Found} found @param {string} golden @param {string} target */
function verdict({ answer, code, counts }, golden, target) {
  return h("section", { class: "verdict" },
    h("p", { class: "bound" }, h("bdi", {}, clip(clean(golden), 300)), ` ${t("precision.against")} `, h("bdi", {}, clip(clean(target), 300))),
    h("h2", { class: "outcome" }, spoken(answer)),
    code ? h("pre", { class: "code", tabindex: "0" }, clip(clean(code), 400)) : null,
    h("p", { class: "about" }, Object.entries(counts).map(([state, count]) => `${count.toLocaleString()} ${word("operatorstate", state)}`).join(" · ")));
}

/** A word of the recording in the language of the page; what is not known stays. @param {string} family @param {string} name */
function word(family, name) {
  const id = `${family}.${name}`;
  const found = said({ id, text: name });
  return found === id ? name : found;
}

/** @param {Link[]} links */
function chain(links) {
  const shown = links.length <= LINKS ? links : [...links.slice(0, LINKS - 4), ...links.slice(-4)];
  return [
    h("div", { class: "wide" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["operator", "module", "apart", "times"].map((name) => h("th", { scope: "col" }, t(`precision.${name}`))))),
      h("tbody", {}, shown.map((link) => h("tr", {},
        h("th", { scope: "row" }, h("code", {}, clip(clean(link.operator), 200))), h("td", {}, clip(clean(link.module ?? ""), 200)),
        h("td", { class: "n" }, small(link.apart)), h("td", { class: "n" }, link.amplification === null ? "" : `${Number(link.amplification.toPrecision(3))}`)))))),
    links.length > LINKS ? h("p", { class: "about" }, t("precision.between", { count: links.length - LINKS })) : null,
  ];
}

/** The modules as a tree, each with the largest difference in it. @param {Module[]} modules @param {string} blamed */
function tree(modules, blamed) {
  /** @param {Module[]} nodes @param {string} above @param {number} depth @returns {HTMLElement} */
  const branch = (nodes, above, depth) => /** @type {HTMLElement} */ (h("ul", { class: "moduletree" }, nodes.map((one) => {
    const path = above ? `${above}.${one.name}` : one.name;
    const label = [
      h("span", { class: `apart ${one.level}`, "aria-hidden": "true" }), h("code", {}, clip(clean(one.name), 120)),
      h("span", { class: "about" }, ` ${one.value === "0" ? t("precision.equal") : one.value}`), path === blamed ? h("strong", {}, ` ← ${t("precision.here")}`) : null,
      button(t("precision.rows_of"), () => { keep({ module: path, first: null }); window.dispatchEvent(new Event("hermes:show")); }, { class: "quiet", "aria-label": `${t("precision.rows_of")}: ${clean(path)}` }),
    ];
    if (!one.below.length || depth > 60) return h("li", {}, label);
    const open = depth < OPEN_DEPTH || path === blamed || blamed.startsWith(`${path}.`);
    return h("li", {}, h("details", { open }, h("summary", {}, label), branch(one.below, path, depth + 1)));
  })));
  return branch(modules, "", 0);
}

/** The table, a part at a time. @param {Found} found */
function table(found) {
  const state = param("state", "");
  const module = param("module", "");
  // Without a choice the table begins shortly before the first operator to blame.
  const start = state || module ? 0 : Math.max(0, (found.table.marked ?? 0) - BEFORE);
  const first = Math.max(0, Number(param("first", String(start))) || 0);
  const holder = h("div", { class: "wide" }, h("p", { class: "wait" }, "…"));
  const pages = h("div", { class: "controls" });
  const states = [/** @type {[string, string]} */ (["", t("precision.all")]), ...Object.keys(found.counts).map((one) => /** @type {[string, string]} */ ([one, word("operatorstate", one)]))];
  const step = (/** @type {number} */ to) => { keep({ first: String(to) }); window.dispatchEvent(new Event("hermes:show")); };
  const load = async () => {
    try {
      const part = await ask("precision/rows", { first, count: PART, state, module });
      const rows = /** @type {Row[]} */ (part.rows);
      holder.replaceChildren(rows.length ? lines(rows) : h("p", { class: "none" }, t("precision.no_rows")));
      pages.replaceChildren(
        h("span", { class: "about" }, t("precision.range", { first: rows.length ? first + 1 : 0, last: first + rows.length, count: part.matching })),
        first > 0 ? button(t("precision.before"), () => step(Math.max(0, first - PART))) : "", first + PART < part.matching ? button(t("precision.next"), () => step(first + PART)) : "");
    } catch (error) { holder.replaceChildren(h("p", { class: "wrong", role: "alert" }, clean(/** @type {Error} */ (error).message))); }
  };
  load();
  return section(t("precision.table"),
    h("div", { class: "controls" }, picker("state", t("precision.state"), states, state, ["first"]),
      module ? button(`${t("precision.module")}: ${clip(clean(module), 80)} ✕`, () => { keep({ module: null, first: null }); window.dispatchEvent(new Event("hermes:show")); }) : null),
    holder, pages);
}

/** @param {Row[]} rows */
const lines = (rows) => h("table", { class: "plain" },
  h("thead", {}, h("tr", {}, NAMES.map((name) => h("th", { scope: "col", class: NUMBERS.has(name) ? "n" : null }, t(name === "rank" || name === "step" ? name : `precision.${name}`))))),
  h("tbody", {}, rows.map((row) => h("tr", { class: row.state.split(" ")[0] }, NAMES.map((name) => {
    const value = /** @type {Record<string, unknown>} */ (row)[name];
    if (name === "state" || name === "phase") return h("td", { class: "short" }, word(name === "state" ? "operatorstate" : name, String(value)));
    if (NUMBERS.has(name)) return h("td", { class: "n" }, name === "rank" || name === "step" ? String(value) : typeof value === "number" ? small(value) : clean(String(value ?? "")));
    return h("td", {}, name === "operator" ? h("code", {}, clip(clean(String(value ?? "")), 160)) : clip(clean(String(value ?? "")), 160));
  })))));

/** @param {number} value */
const small = (value) => (value === 0 ? "0" : value.toExponential(2));
