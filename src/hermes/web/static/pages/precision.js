// Precision: where two recordings part, how the difference goes on, the module tree by difference, and the table.

import { ask, keep, param } from "../data.js";
import { button, h, prose } from "../dom.js";
import { clean, clip } from "../format.js";
import { t } from "../translate.js";
import { empty, heading, picker, section } from "./parts.js";

/**
 * @typedef {{operator: string, module: string | null, line: string | null, rank: number, step: number, phase: string, kind: string, confidence: string, why: string, code: string | null}} First
 * @typedef {{operator: string, module: string | null, line: string | null, apart: number, amplification: number | null}} Link
 * @typedef {{path: string, apart: number, level: string}} Module
 * @typedef {{verdict: string, sentence: string, first: First | null, chain: Link[], counts: Record<string, number>, modules: Module[], table: number, blamed: number, diagnostics: {message: string, where: string, lost: string}[]}} Found
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
  holder.replaceChildren(...[
    verdict(found, golden, target),
    found.chain.length ? section(t("precision.chain"), chain(found.chain)) : null,
    found.modules.length ? section(t("precision.modules"), h("p", { class: "about" }, prose(t("precision.modules.about"))), tree(found)) : null,
    table(found),
    found.diagnostics.length ? section(t("precision.not_read"), h("ul", {}, found.diagnostics.map((one) => h("li", {}, clip(clean(`${one.where}: ${one.message}${one.lost ? `; ${t("precision.lost")}: ${one.lost}` : ""}`), 500))))) : null,
  ].filter((one) => one !== null));
}

/** @param {Found} found @param {string} golden @param {string} target */
function verdict({ verdict: outcome, sentence, first, counts }, golden, target) {
  return h("section", { class: "verdict" },
    h("p", { class: "bound" }, h("bdi", {}, clip(clean(golden), 300)), ` ${t("precision.against")} `, h("bdi", {}, clip(clean(target), 300))),
    h("h2", { class: "outcome" }, t(`precision.verdict.${outcome}`)),
    h("p", {}, clip(clean(sentence), 800)),
    first ? facts(first) : null,
    first?.code ? h("pre", { class: "code", tabindex: "0" }, clip(clean(first.code), 400)) : null,
    h("p", { class: "about" }, Object.entries(counts).map(([state, count]) => `${count.toLocaleString()} ${word("state", state)}`).join(" · ")));
}

/** @param {First} first */
const facts = (first) => h("dl", { class: "facts" }, /** @type {[string, string | null][]} */ ([
  ["kind", word("kind", first.kind)], ["confidence", word("sure", first.confidence)], ["operator", first.operator], ["module", first.module], ["line", first.line],
  ["place", `${t("rank")} ${first.rank}, ${t("precision.step")} ${first.step}, ${word("phase", first.phase)}`],
]).filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, t(`precision.${name}`)), h("dd", {}, clip(clean(value ?? ""), 400))]));

/** A word of the recording in the language of the page; what is not known stays. @param {string} group @param {string} name */
function word(group, name) {
  const key = `precision.${group}.${name.split(" ").join("_")}`;
  const found = t(key);
  return found === key ? name : found;
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

/** The modules as a tree, each with the largest difference in it. @param {Found} found */
function tree(found) {
  const blamed = found.first?.module ?? "";
  /** @type {Map<string, Module[]>} */
  const inside = new Map();
  const known = new Set(found.modules.map((one) => one.path));
  for (const one of found.modules) {
    const above = one.path.slice(0, Math.max(one.path.lastIndexOf("."), 0));
    const place = known.has(above) ? above : "";
    inside.set(place, [...(inside.get(place) ?? []), one]);
  }
  /** @param {string} path @param {number} depth @returns {HTMLElement} */
  const branch = (path, depth) => /** @type {HTMLElement} */ (h("ul", { class: "moduletree" }, (inside.get(path) ?? []).map((one) => {
    const here = one.path === blamed;
    const label = [
      h("span", { class: `apart ${one.level}`, "aria-hidden": "true" }), h("code", {}, clip(clean(one.path.slice(path ? path.length + 1 : 0)), 120)),
      h("span", { class: "about" }, ` ${one.apart ? small(one.apart) : t("precision.equal")}`), here ? h("strong", {}, ` ← ${t("precision.here")}`) : null,
      button(t("precision.rows_of"), () => { keep({ module: one.path, first: null }); window.dispatchEvent(new Event("hermes:show")); }, { class: "quiet", "aria-label": `${t("precision.rows_of")}: ${clean(one.path)}` }),
    ];
    if (!inside.has(one.path) || depth > 60) return h("li", {}, label);
    const open = depth < OPEN_DEPTH || here || blamed.startsWith(`${one.path}.`);
    return h("li", {}, h("details", { open }, h("summary", {}, label), branch(one.path, depth + 1)));
  })));
  return branch("", 0);
}

/** The table, a part at a time. @param {Found} found */
function table(found) {
  const state = param("state", "");
  const module = param("module", "");
  // Without a choice the table begins shortly before the first operator to blame.
  const start = state || module ? 0 : Math.max(0, found.blamed - BEFORE);
  const first = Math.max(0, Number(param("first", String(start))) || 0);
  const holder = h("div", { class: "wide" }, h("p", { class: "wait" }, "…"));
  const pages = h("div", { class: "controls" });
  const states = [/** @type {[string, string]} */ (["", t("precision.all")]), ...Object.keys(found.counts).map((one) => /** @type {[string, string]} */ ([one, word("state", one)]))];
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
  h("thead", {}, h("tr", {}, NAMES.map((name) => h("th", { scope: "col", class: NUMBERS.has(name) ? "n" : null }, t(name === "rank" ? "rank" : `precision.${name}`))))),
  h("tbody", {}, rows.map((row) => h("tr", { class: row.state.split(" ")[0] }, NAMES.map((name) => {
    const value = /** @type {Record<string, unknown>} */ (row)[name];
    if (name === "state" || name === "phase") return h("td", { class: "short" }, word(name, String(value)));
    if (NUMBERS.has(name)) return h("td", { class: "n" }, name === "rank" || name === "step" ? String(value) : typeof value === "number" ? small(value) : clean(String(value ?? "")));
    return h("td", {}, name === "operator" ? h("code", {}, clip(clean(String(value ?? "")), 160)) : clip(clean(String(value ?? "")), 160));
  })))));

/** @param {number} value */
const small = (value) => (value === 0 ? "0" : value.toExponential(2));
