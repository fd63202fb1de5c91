// Steps: how long each took on each rank, what of it was what, and whether it drifts.

import { h } from "../dom.js";
import { clean, clip, duration, number, percent } from "../format.js";
import { doc, keep, once, param, rowsOf, splits, timelineAt, to } from "../data.js";
import { PARTS, legend, lines, partsOf, stack } from "../charts.js";
import { said } from "../say.js";
import { key } from "../table.js";
import { t } from "../translate.js";
import { empty, heading, own, picker, rest, section, stepOf } from "./parts.js";
import { tabs } from "./tabs.js";

const FEW = 8;
const MOST_ALONE = 16;

/** @param {HTMLElement} main */
export async function render(main) {
  const all = await splits();
  main.append(...heading("steps", t("steps.lead")));
  if (!all.length) { main.append(empty(t("steps.none"))); return; }
  const measure = param("of", "window");
  const several = new Set(all.map((row) => row.step)).size > 1;
  if (several) main.append(h("div", { class: "controls" }, picker("of", t("measure"), ["window", ...PARTS, "preparing"].map((name) => [name, t(`part.${name}`)]), measure)));
  const numbered = all.filter((row) => row.step !== null && row[measure] !== null);
  const chart = h("div", {}, several ? over(/** @type {Numbered[]} */ (numbered), measure, []) : alone(all));
  const before = h("div");
  main.append(chart, before);
  // What the job logged is read when it is asked for: the page is there before.
  once("history").then((/** @type {History} */ { changes, log }) => {
    if (changes.length && several) chart.replaceChildren(over(/** @type {Numbered[]} */ (numbered), measure, changes), changed(changes));
    if (log?.points.length) before.replaceChildren(job(log));
  }, () => {});
  const chosen = all.filter((row) => String(row.rank) === param("rank") && String(row.step) === param("step", "null"));
  const own = chosen.length ? chosen[0] : null;
  if (own) main.append(one(own));
  if (several) main.append(section(t("steps.percentiles"), percentiles(all)));
  main.append(tabs([
    { table: "steps", bar: "window_ms", hidden: ["window_kind"], sort: "", href: (row) => `/steps?rank=${row.rank}&step=${row.step}`,
      timeline: (row) => ({ rank: row.rank, step: row.step, at: row.start_ns, dur: (row.window_ms ?? 0) * 1e6 }), columns: ["step", "rank", "window_ms", "compute_ms", "exposed_comm_ms", "copy_exposed_ms", "free_ms", "overlapped_comm_ms", "comm_ms", "preparing_ms", "host_ms", "start_ns"] },
    ...(rowsOf("totals") ? [{ table: "totals", bar: "span_ms" }] : []),
    ...(doc().step_trace_time.rows.length ? [{ table: "step_trace_time", about: doc().step_trace_time.notes.map(said).join(" ") }] : []),
    ...rest(["steps", "totals", "capture"], ["steps", "totals"]),
  ]));
}

/** @typedef {Record<string, any> & {rank: number, step: number}} Numbered */

/**
 * @typedef {{rank: number, kind: string, since: number, step: number, before_ns: number, after_ns: number, cause: Record<string, string> | null, do: Record<string, string> | null}} Change
 * @typedef {{folder: string, ranks: number, steps: number, points: [number, number, number, number][], captured: [number, number][], changes: Change[]}} Log
 * @typedef {{changes: Change[], log: Log | null}} History
 */

const MOST_CHANGES = 6;

/** The steps of the job from its log, with the captures that were taken and where it became slower. @param {Log} log */
function job(log) {
  return section(
    t("steps.job"), h("p", { class: "about" }, t("steps.job_is", { steps: number(log.steps), ranks: number(log.ranks) }), " ", h("code", {}, clip(clean(log.folder), 200))),
    lines({
      label: t("steps.job"), xName: t("step"),
      band: log.points.map(([step, least, , most]) => [step, least, most]),
      lines: [{ name: t("median"), kind: "window", strong: true, points: log.points.map(([step, , median]) => /** @type {[number, number]} */ ([step, median])) }],
      stretches: log.captured, changes: log.changes.map((one) => one.since),
    }),
    changed(log.changes),
  );
}

/** @param {Change[]} rows */
function changed(rows) {
  if (!rows.length) return h("p", { class: "none" }, t("steps.steady"));
  return h("ul", { class: "changelist" }, rows.slice(0, MOST_CHANGES).map((one) => h("li", {},
    h("b", {}, t("steps.change", { rank: one.rank, since: number(one.since), before: duration(one.before_ns), after: duration(one.after_ns) })),
    ` ${t(`live.change.${one.kind}`)}`, one.cause ? ` · ${own(one.cause)}` : "", one.do ? ` · ${own(one.do)}` : "")),
  rows.length > MOST_CHANGES ? h("li", { class: "none" }, t("more_of", { count: rows.length - MOST_CHANGES })) : null);
}

/** Of one step there is no course: how it is made up on each rank, the longest first. @param {import("../data.js").Split[]} all */
function alone(all) {
  const ordered = all.toSorted((a, b) => b.window - a.window).slice(0, MOST_ALONE);
  return h("div", { class: "barlist" }, h("p", { class: "none" }, t(all.every((row) => row.step === null) ? "steps.whole" : "steps.one")), legend(PARTS), ordered.map((row) => h("div", { class: "barrow" },
    h("a", { class: "barname", href: to("/steps", { rank: row.rank, step: row.step }) }, stepOf(row.rank, row.step)), h("span", { class: "bartotal" }, duration(row.window)),
    h("span", { class: "bar" }, stack(partsOf(row), row.window, ordered[0].window)),
    h("span", { class: "barparts" }, partsOf(row).map((part) => h("span", { class: "part" }, key(part.kind), percent(part.ns / row.window)))))));
}

/** @param {Numbered[]} rows @param {string} measure @param {Change[]} changes */
function over(rows, measure, changes) {
  const marked = measure === "window" ? changes.map((one) => one.since) : [];
  const ranks = [...new Set(rows.map((row) => row.rank))];
  const steps = [...new Set(rows.map((row) => row.step))].sort((a, b) => a - b);
  const kind = PARTS.some((part) => part === measure) ? measure : "window";
  /** @type {Map<number, number[]>} */
  const byStep = new Map(steps.map((step) => [step, []]));
  for (const row of rows) byStep.get(row.step)?.push(row[measure]);
  const pick = (/** @type {number} */ step) => { keep({ step, rank: param("rank") || rows.find((row) => row.step === step)?.rank }); window.dispatchEvent(new Event("hermes:show")); };
  const own = param("rank");
  const pointsOf = (/** @type {number} */ rank) => rows.filter((row) => row.rank === rank).map((row) => /** @type {[number, number]} */ ([row.step, row[measure]])).sort((a, b) => a[0] - b[0]);
  const values = (/** @type {number} */ step) => byStep.get(step) ?? [];
  if (ranks.length <= FEW) {
    return lines({
      label: t("steps.chart", { measure: t(`part.${measure}`) }), xName: t("step"), pick,
      lines: ranks.map((rank) => ({ name: `rank ${rank}`, kind, strong: own === String(rank), points: pointsOf(rank) })),
      marks: param("step") ? [Number(param("step"))] : [], changes: marked,
    });
  }
  const at = (/** @type {number[]} */ values, /** @type {number} */ share) => values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))];
  const slow = slowest(rows, measure);
  return lines({
    label: t("steps.chart", { measure: t(`part.${measure}`) }), xName: t("step"), pick,
    band: steps.map((step) => [step, Math.min(...values(step)), Math.max(...values(step))]),
    lines: [
      { name: t("median"), kind, strong: true, points: steps.map((step) => [step, at(values(step), 0.5)]) },
      { name: `rank ${slow}`, kind: "wait", points: pointsOf(slow) },
    ],
    changes: marked,
  });
}

/** @param {Numbered[]} rows @param {string} measure @returns {number} */
function slowest(rows, measure) {
  const sums = new Map();
  for (const row of rows) sums.set(row.rank, (sums.get(row.rank) ?? 0) + row[measure]);
  return [...sums.entries()].sort((a, b) => b[1] - a[1])[0][0];
}

/** @param {import("../data.js").Split} row */
function one(row) {
  return section(
    `${stepOf(row.rank, row.step)} · ${duration(row.window)}`,
    legend(PARTS), stack(partsOf(row), row.window, row.window),
    h("ul", { class: "pathparts" }, partsOf(row).map((part) => h("li", {}, h("span", { class: `key ${part.kind}`, "aria-hidden": "true" }), `${part.name} `, h("b", {}, duration(part.ns))))),
    h("p", {}, h("a", { class: "openit", href: timelineAt({ rank: row.rank, step: row.step, at: row.start, dur: row.window }) }, t("open_timeline"))),
  );
}

/** @param {import("../data.js").Split[]} all */
function percentiles(all) {
  const at = (/** @type {number[]} */ values, /** @type {number} */ share) => values[Math.min(values.length - 1, Math.floor(share * values.length))];
  const rows = ["window", ...PARTS].map((name) => ({ name, values: all.map((row) => row[name]).filter((value) => value !== null).sort((a, b) => a - b) })).filter((row) => row.values.length);
  const shares = /** @type {[string, number][]} */ ([["least", 0], ["p50", 0.5], ["p90", 0.9], ["p99", 0.99], ["most", 1]]);
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t("steps.percentiles") }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("measure")), shares.map(([name]) => h("th", { class: "n", scope: "col" }, t(`stat.${name}`))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, h("span", { class: `key ${row.name}`, "aria-hidden": "true" }), t(`part.${row.name}`)), shares.map(([, share]) => h("td", { class: "n" }, duration(at(row.values, share)))))))));
}
