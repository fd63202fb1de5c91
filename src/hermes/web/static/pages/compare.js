// Compare: this run beside one before it: the step and its parts, findings that came and went, names, settings.

import { ask, once, param, to } from "../data.js";
import { PARTS, legend, stack } from "../charts.js";
import { h } from "../dom.js";
import { clean, clip, duration, ns, percent } from "../format.js";
import { spoken } from "../say.js";
import { table } from "../table.js";
import { t } from "../translate.js";
import { copied, empty, heading, picker, section } from "./parts.js";

/**
 * @typedef {{name: string, before_ms: number | null, after_ms: number | null, change_ms: number | null, change_share: number | null, margin_ms: number | null, verdict: string}} Change
 * @typedef {{state: string, code: string, message: import("../say.js").Text, before_ms: number | null, after_ms: number | null, change_ms: number | null}} Finding
 * @typedef {{answer: import("../say.js").Text, outcome: string, inputs: {path: string, steps: number, ranks: number}[], step: Change, parts: Change[], finding_changes: Finding[]}} Found
 */

const BY = ["operators", "kernels", "host"];
const KINDS = /** @type {Record<string, string>} */ ({ window: "window", compute: "compute", exposed_comm: "comm", copy_exposed: "copy", free: "free" });
const AGAIN_MS = 300;

/** A path as a shell takes it. @param {string} path */
const quoted = (path) => (/^[\w./:@%+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

/** @param {HTMLElement} main */
export async function render(main) {
  main.append(...heading("compare", t("compare.lead")));
  const before = param("before", "0");
  const first = await ask("compare", { before });
  if (!first.runs.length) { main.append(empty(t("compare.absent"), t("compare.how")), copied(`hermes serve ${(await once("state")).paths.map(quoted).join(" ")} --against BEFORE`)); return; }
  const holder = h("div", { class: "compare" });
  const runs = first.runs.map((/** @type {string} */ name, /** @type {number} */ at) => /** @type {[string, string]} */ ([String(at), clip(clean(name), 120)]));
  main.append(h("div", { class: "controls" }, picker("before", t("compare.before"), runs, before)), holder);
  follow(holder, before, first);
}

/** Shows how far the comparison is until it is there. @param {HTMLElement} holder @param {string} before @param {Answer} answer */
async function follow(holder, before, answer) {
  let seen = false; // it is put into the page after this began
  while (answer.phase !== "ready") {
    holder.replaceChildren(h("p", { class: "wait" }, `${t(`phase.${answer.phase}`)} · ${Math.round(answer.seconds)} s`));
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    seen ||= holder.isConnected;
    if (seen && !holder.isConnected) return;
    try { answer = await ask("compare", { before }); } catch (error) {
      const wrong = /** @type {any} */ (error).wrong;
      holder.replaceChildren(h("p", { class: "wrong", role: "alert" }, clean(/** @type {Error} */ (error).message), wrong?.where ? h("small", {}, ` ${clean(wrong.where)} ${clean(wrong.hint)}`) : null));
      return;
    }
  }
  holder.replaceChildren(...shown(answer, before));
}

/** @typedef {{phase: string, seconds: number, found: Found, rows: Record<string, number>, own: string, runs: string[]}} Answer */

/** @param {Answer} answer @param {string} before */
function shown({ found, rows, own, runs }, before) {
  const { step } = found;
  return [
    verdict(found),
    h("p", { class: "about" }, t(step.margin_ms === null ? "compare.few" : "compare.noise", { noise: duration(ns(step.margin_ms)) })),
    section(t("compare.step"), legend(PARTS), bars(found), parts(found)),
    section(t("compare.findings"), findings(found.finding_changes)),
    section(t("compare.names"), names(before)),
    rows.settings ? table({ table: "compare.settings", title: t("compare.settings"), more: { before } }) : section(t("compare.settings"), h("p", { class: "none" }, t("compare.same_settings"))),
    section(t("compare.runs"), h("dl", { class: "facts" }, [runs[Number(before)], own].flatMap((path, at) => [
      h("dt", {}, t(at ? "compare.after" : "compare.before")),
      h("dd", {}, h("bdi", {}, clip(clean(path), 400)), ` · ${t("compare.size", { steps: found.inputs[at].steps, ranks: found.inputs[at].ranks })}`),
    ]))),
  ];
}

/** @param {Found} found */
function verdict({ answer, outcome, step, parts }) {
  const most = parts.filter((part) => part.verdict === "less" || part.verdict === "more").sort((a, b) => Math.abs(b.change_ms ?? 0) - Math.abs(a.change_ms ?? 0))[0];
  const unmet = outcome === "not all compared";
  const kind = most ? KINDS[most.name] : "free";
  const values = { before: duration(ns(step.before_ms)) ?? t("not_measured"), after: duration(ns(step.after_ms)) ?? t("not_measured"), change: duration(Math.abs(ns(step.change_ms) ?? 0)), share: percent(Math.abs(step.change_share ?? 0)) };
  return h("section", { class: `verdict ${kind}` },
    h("p", { class: "bound" }, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), t(`compare.${unmet ? "unmet" : word(step)}`)),
    h("h2", { class: "outcome" }, unmet ? spoken(answer) : t(`compare.${word(step)}_is`, values)),
    most ? h("p", { class: "next" }, t("compare.most", { part: t(`part.${KINDS[most.name]}`), change: signed(most.change_ms) })) : null);
}

/** @param {Change} step */
const word = (step) => ({ less: "faster", more: "slower", "no change seen": "same" }[step.verdict] ?? "unknown");

/** @param {Found} found */
function bars({ step, parts }) {
  const longest = Math.max(ns(step.before_ms) ?? 0, ns(step.after_ms) ?? 0);
  const row = (/** @type {string} */ name, /** @type {"before_ms" | "after_ms"} */ side) => h("div", { class: "barrow" },
    h("span", { class: "barname" }, name), h("span", { class: "bartotal" }, duration(ns(step[side]))),
    h("span", { class: "bar" }, stack(parts.filter((part) => part[side] !== null).map((part) => ({ kind: KINDS[part.name], name: t(`part.${KINDS[part.name]}`), ns: ns(part[side]) ?? 0 })), ns(step[side]) ?? 0, longest)));
  return h("div", { class: "barlist narrow" }, row(t("compare.before"), "before_ms"), row(t("compare.after"), "after_ms"));
}

/** @param {Found} found */
function parts({ step, parts }) {
  return h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("whatif.part")), ["before", "after", "change", "margin"].map((name) => h("th", { scope: "col", class: "n" }, t(`compare.${name}`))), h("th", { scope: "col" }, t("compare.verdict")))),
    h("tbody", {}, [step, ...parts].map((part) => h("tr", {},
      h("th", { scope: "row" }, h("span", { class: `key ${KINDS[part.name]}`, "aria-hidden": "true" }), t(`part.${KINDS[part.name]}`)),
      [part.before_ms, part.after_ms].map((value) => h("td", { class: "n" }, duration(ns(value)) ?? "–")),
      h("td", { class: "n" }, signed(part.change_ms)), h("td", { class: "n" }, part.margin_ms === null ? "–" : `±${duration(ns(part.margin_ms))}`),
      h("td", {}, t(`verdict.${part.verdict}`))))));
}

/** @param {Finding[]} rows */
function findings(rows) {
  if (!rows.length) return h("p", { class: "none" }, t("compare.no_findings"));
  return h("table", { class: "plain findingchanges" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("compare.state")), h("th", { scope: "col" }, t("compare.finding")), ["before", "after", "change"].map((name) => h("th", { scope: "col", class: "n" }, t(`compare.${name}`))))),
    h("tbody", {}, rows.map((row) => h("tr", {},
      h("td", {}, h("span", { class: `state ${row.state}` }, t(`state.${row.state}`))),
      h("th", { scope: "row" }, row.state === "went" ? h("code", {}, row.code) : h("a", { href: `/#${row.code}` }, h("code", {}, row.code)), " ", spoken(row.message)),
      [row.before_ms, row.after_ms].map((value) => h("td", { class: "n" }, duration(ns(value)) ?? "–")), h("td", { class: "n" }, signed(row.change_ms))))));
}

/** @param {string} before */
function names(before) {
  const by = BY.includes(param("by")) ? param("by") : "operators";
  /** @type {Record<string, (row: Record<string, any>) => string>} */
  const leads = {
    operators: (row) => (row.kind === "comm" ? "/communication" : to("/operators", { by: "type", type: row.name })),
    kernels: (row) => to("/operators", { by: "name", name: row.name }),
    host: (row) => to("/host", { name: row.name }),
  };
  return [
    h("div", { class: "controls" }, picker("by", t("group_by"), BY.map((one) => /** @type {[string, string]} */ ([one, t(`compare.by.${one}`)])), by)),
    table({ table: `compare.${by}`, title: t(`compare.by.${by}`), about: t("compare.names_is"), more: { before }, href: leads[by],
      columns: ["name", "kind", "change_ms", "before_ms", "after_ms", "margin_ms", "verdict", "change_share", "before_calls", "after_calls"] }),
  ];
}

/** @param {number | null} ms */
const signed = (ms) => (ms === null ? "–" : ms === 0 ? "0" : `${ms > 0 ? "+" : "−"}${duration(Math.abs(ns(ms) ?? 0))}`);
