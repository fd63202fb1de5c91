// Overview at a glance: the map of ranks, and since when a finding costs what it costs.

import { h, s } from "../dom.js";
import { duration } from "../format.js";
import { blamedRanks, doc, param, withHeld } from "../data.js";
import { t } from "../translate.js";
import { MEASURES, layout, measured } from "./layout.js";
import { picker } from "./parts.js";

const EVEN = 1.3; // times the least step: within it a cause is the same in all steps
const FEW = 3; // steps from which on one can say since when

/** @typedef {import("../data.js").Row} Row @typedef {import("../data.js").Split} Split */

/** @type {Record<string, keyof Split & string>} */
const MEASURE = { compute: "compute", communication: "comm", copy: "copy", cpu: "free", host: "free", input: "free" };

/** What it costs, step by step, and since when. @param {Row} one @param {Split[]} all */
export function since(one, all) {
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
  return h("span", {},
    steps.length < 2 ? null : s("svg", { class: "sparkbars", width: Math.min(150, wide * steps.length), height: 22, viewBox: `0 0 ${wide * steps.length} 22`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      steps.map(({ step, ns }, at) => s("rect", { class: measure, x: at * wide, y: 22 - (21 * ns) / top, width: wide - 1, height: (21 * ns) / top }, s("title", {}, `${t("step")} ${step}: ${duration(ns)}`)))),
    ` ${label}`);
}

/** @param {{step: number, ns: number}[]} steps */
function from(steps) {
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
export async function map(all) {
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
