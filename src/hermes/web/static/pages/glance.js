// Overview at a glance: the step, the critical path beneath it, the first causes with who and since when, the map of ranks.

import { h, s } from "../dom.js";
import { clean, clip, duration, percent, runs } from "../format.js";
import { blamedBy, blamedRanks, doc, param, timelineAt, withHeld } from "../data.js";
import { partsOf, stack } from "../charts.js";
import { span } from "../findings.js";
import { spoken } from "../say.js";
import { told } from "../sentences.js";
import { colour, key } from "../table.js";
import { t } from "../translate.js";
import { MEASURES, layout, measured } from "./layout.js";
import { picker, stepOf } from "./parts.js";

const CAUSES = 3;
const PARTS_NAMED = 6;
const EVEN = 1.3; // times the least step: within it a cause is the same in all steps
const FEW = 3; // steps from which on one can say since when

/** @typedef {import("../data.js").Row} Row @typedef {import("../data.js").Split} Split */

/** @param {Split[]} all */
export async function glance(all) {
  return [bars(all), causes(all), await map(all)].filter((one) => one !== null);
}

/** The step and its critical path on one scale. @param {Split[]} all */
function bars(all) {
  const rows = doc().critical_path ?? [];
  const first = rows.filter((row) => row.rank === rows[0].rank && row.step === rows[0].step && row.stretch === "window" && row.across === rows[0].across);
  const { rank, step } = rows[0] ?? doc().verdict;
  const own = all.find((row) => row.rank === rank && row.step === step) ?? all[0];
  if (!own) return null;
  const total = first.reduce((sum, row) => sum + row.ms * 1e6, 0);
  const longest = Math.max(own.window, total);
  const place = stepOf(own.rank, own.step);
  return h("section", { class: "block look", "aria-label": t("glance") },
    line(h("a", { href: timelineAt({ rank: own.rank, step: own.step, at: own.start, dur: own.window }) }, place), own.window, stack(partsOf(own), own.window, longest),
      partsOf(own).map((part) => named(part.kind, part.name, part.ns / own.window))),
    total ? line(h("a", { href: "/path" }, t("glance.path")), total, stack(first.map((row) => ({ kind: colour(row.component), name: partName(row), ns: row.ms * 1e6 })), total, longest),
      first.slice(0, PARTS_NAMED).map((row) => named(colour(row.component), partName(row), row.share))) : null);
}

/** @param {Node} name @param {number} ns @param {Node} bar @param {Node[]} parts */
const line = (name, ns, bar, parts) => h("div", { class: "lookrow" }, h("span", { class: "lookname" }, name, " ", h("b", {}, duration(ns))), h("span", { class: "bar" }, bar), h("span", { class: "barparts" }, parts));

/** @param {string} kind @param {string} name @param {number} share */
const named = (kind, name, share) => h("span", { class: "part" }, key(kind), `${name} ${percent(share)}`);

/** @param {Row} row */
const partName = (row) => (row.component === "wait" ? t("waits_for", { who: row.reason }) : `${t(`component.${row.component}`)}${row.reason ? ` (${told(clean(row.reason))})` : ""}${row.across && row.of_rank !== row.rank ? `, rank ${row.of_rank}` : ""}`);

/** @param {Split[]} all */
function causes(all) {
  const top = doc().findings.filter((one) => one.state === "stable").slice(0, CAUSES);
  if (!top.length) return null;
  return h("ol", { class: "causes", "aria-label": t("glance.causes") }, top.map((one) => h("li", {},
    h("h2", { class: "cause" }, key(one.layer === "communication" ? "comm" : one.layer), h("a", { href: `/#${one.code}` }, spoken(one.message))),
    h("p", { class: "meta" }, who(one)),
    since(one, all),
    h("p", {}, h("b", {}, span(one.gain)), ` ${t(won())}`))));
}

/** Who is behind it, and where it shows. @param {Row} one */
function who(one) {
  const blamed = blamedBy(one);
  if (blamed.length) return t("glance.blamed", { rank: blamed.slice(0, 4).join(", ") });
  return doc().coverage.ranks_seen.length > 1 && one.where.ranks.length === doc().coverage.ranks_seen.length ? t("glance.all", { count: one.where.ranks.length }) : t("glance.ranks", { ranks: runs(one.where.ranks, t("to")) });
}

/** @type {Record<string, keyof Split & string>} */
const MEASURE = { compute: "compute", communication: "comm", copy: "copy", cpu: "free", host: "free", input: "free" };

/** What it costs, step by step, and since when. @param {Row} one @param {Split[]} all */
function since(one, all) {
  const measure = MEASURE[one.layer] ?? "window";
  const ranks = new Set(one.where.ranks);
  /** @type {Map<number, number[]>} */
  const byStep = new Map();
  for (const row of all) if (row.step !== null && ranks.has(row.rank) && row[measure] !== null) byStep.set(row.step, [...(byStep.get(row.step) ?? []), row[measure]]);
  const steps = [...byStep.entries()].sort(([a], [b]) => a - b).map(([step, values]) => ({ step, ns: values.reduce((sum, value) => sum + value, 0) / values.length }));
  if (!steps.length) return null;
  const said = from(steps);
  const top = Math.max(...steps.map(({ ns }) => ns)) || 1;
  const wide = Math.max(3, Math.min(10, 150 / steps.length));
  const label = `${t(`part.${measure}`)}: ${said}`;
  return h("p", { class: "since" },
    steps.length < 2 ? null : s("svg", { class: "sparkbars", width: Math.min(150, wide * steps.length), height: 22, viewBox: `0 0 ${wide * steps.length} 22`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      steps.map(({ step, ns }, at) => s("rect", { class: measure, x: at * wide, y: 22 - (21 * ns) / top, width: wide - 1, height: (21 * ns) / top }, s("title", {}, `${t("step")} ${step}: ${duration(ns)}`)))),
    ` ${label}`);
}

/** @param {{step: number, ns: number}[]} steps */
export function from(steps) {
  const values = steps.map(({ ns }) => ns);
  if (steps.length === 1) return t("glance.one", { step: steps[0].step });
  if (Math.max(...values) <= EVEN * Math.min(...values)) return t("glance.every", { steps: steps.length });
  for (let at = 1; steps.length >= FEW && at < steps.length; at += 1) {
    if (Math.min(...values.slice(at)) > EVEN * Math.max(...values.slice(0, at))) return t("glance.since", { step: steps[at].step });
  }
  const worst = steps.reduce((most, one) => (one.ns > most.ns ? one : most));
  return t("glance.worst", { step: worst.step, worst: duration(worst.ns) });
}

/** The job as a map of its ranks, shaded by who holds the others up. @param {Split[]} all */
async function map(all) {
  const usual = withHeld(all);
  if (usual.length < 2) return null;
  const of = measured(usual, param("of"));
  const measure = picker("of", t("measure"), MEASURES.map((name) => [name, t(`part.${name}`)]), of);
  return layout(usual, blamedRanks(), of, measure, (rank) => {
    const link = h("a", { href: `/ranks?rank=${rank}` });
    document.getElementById("main")?.append(link);
    link.click();
  });
}

/** What stands behind a gain: a capture without steps has none to win it in. */
export const won = () => (doc().verdict.rank !== null && doc().verdict.step === null ? "overview.won_whole" : "overview.won");
