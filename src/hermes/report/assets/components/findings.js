// A finding as every page draws it: of analysis, precision, migration and alarms.

import { h } from "./dom.js";
import { bytes, clean, clip, duration, percent, runs } from "./format.js";
import { spoken } from "./say.js";
import { key } from "./table.js";
import { t } from "./translate.js";

/**
 * @typedef {Record<string, any>} Finding  as `finding_document` of findings_json.py writes it
 * @typedef {{id?: string, gainIs?: string, below?: (Node | null)[], moment?: (item: Record<string, any>) => Node | null, answer?: import("./say.js").Text}} Around
 *   the element's id, what its gain is called, what stands below its place, the link to the moment of an evidence, and
 *   the answer above: a finding with its message is headed by what it is about, so that nothing is said twice
 */

const ACTIONS = 3;
const BLAMES = 6;
const LINES = 12;

/** @param {Finding} one @param {Around} [around] */
export function finding(one, { id, gainIs = "overview.won", below = [], moment, answer } = {}) {
  const again = answer && JSON.stringify(answer) === JSON.stringify(one.message);
  const about = h("span", { class: one.risk ? `risk ${one.risk}` : null }, subject(one));
  const meta = [one.code ? h("code", {}, one.code) : null, one.layer ? t(`layer.${one.layer}`) : null, again ? null : about, ...places(one)].filter(Boolean);
  return h("article", { class: "finding", id: id ?? null }, figures(one, gainIs), h("div", {},
    h("h3", {}, one.layer ? key(one.layer === "communication" ? "comm" : one.layer) : null, again ? about : spoken(one.message)),
    h("p", { class: "meta" }, meta.flatMap((part, at) => (at ? [" · ", part] : [part]))),
    lines(one), below, actions(one), evidence(one, id ?? one.code, moment),
    one.doubts.map((/** @type {import("./say.js").Text} */ doubt) => h("p", { class: "about" }, spoken(doubt)))));
}

/** @param {Finding} one @param {string} gainIs */
function figures(one, gainIs) {
  const cost = one.cost_ms === null ? null : `${duration(one.cost_ms * 1e6)}${one.share === undefined ? "" : ` · ${percent(one.share)}`}`;
  return h("div", { class: "figures" },
    one.gain ? h("div", {}, h("span", { class: "big" }, span(one.gain)), h("span", { class: "small" }, t(gainIs))) : null,
    cost ? h("div", {}, h("span", {}, cost), h("span", { class: "small" }, t("overview.cost"))) : null,
    h("div", {}, confidence(one.confidence), h("span", { class: "small" }, t("confidence"))));
}

/** What it is about: the fault that its rule names, else its leaf or risk. @param {Finding} one */
export const subject = (one) => spoken({ id: one.fault ? `fault.${one.fault}` : one.leaf ? `leaf.${one.leaf}` : `risk.${one.risk}`, text: "" });

/** @param {Finding} one */
function places(one) {
  const ranks = one.where.ranks.length ? `rank ${runs(one.where.ranks, t("to"))}` : "";
  const steps = one.where.steps.length ? `${t("step")} ${runs(one.where.steps, t("to"))}` : "";
  const blames = one.blames.slice(0, BLAMES).map((/** @type {{name: string}} */ blame) => clean(blame.name)).join(", ");
  return [ranks, steps, blames ? `${t("blames")} ${blames}` : ""];
}

/** @param {Finding} one */
function lines({ where: { lines: all } }) {
  if (!all.length) return null;
  const more = all.length > LINES ? `, ${t("more_of", { count: all.length - LINES })}` : "";
  return h("p", { class: "meta" }, `${t("at_line")} `, h("code", {}, clip(all.slice(0, LINES).map(clean).join(", "), 1000)), more);
}

/** @param {Finding} one */
function actions(one) {
  if (!one.actions.length) return null;
  return h("ol", { class: "actions" }, one.actions.slice(0, ACTIONS).map((/** @type {Record<string, any>} */ action) => h("li", {},
    h("strong", {}, spoken(action.title)), action.do.text ? h("p", {}, spoken(action.do)) : null,
    h("dl", { class: "facts" }, [["verify", spoken(action.verify)], ["risk", spoken(action.risk)], ["source", action.source ? [clean(action.source)] : []]].flatMap(([name, text]) => (text.length ? [h("dt", {}, t(`action.${name}`)), h("dd", {}, text)] : []))))));
}

/** @param {Finding} one @param {string} name @param {((item: Record<string, any>) => Node | null) | undefined} moment */
function evidence(one, name, moment) {
  if (!one.evidence.length) return null;
  const count = t("evidence", { count: one.evidence.length });
  return h("details", {}, h("summary", {}, count),
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": `${name}: ${count}` }, h("table", { class: "evidence" },
      h("thead", {}, h("tr", {}, ["what", "value", "limit", "where"].map((column) => h("th", { scope: "col", class: column === "value" || column === "limit" ? "n" : "" }, t(`evidence.${column}`))), moment ? h("th", { scope: "col" }, h("span", { class: "unseen" }, t("open_timeline"))) : null)),
      h("tbody", {}, one.evidence.map((/** @type {Record<string, any>} */ item) => h("tr", {}, h("th", { scope: "row" }, spoken(item.what)), h("td", { class: "n" }, value(item.value, item.unit)), h("td", { class: "n" }, item.threshold === null ? "–" : value(item.threshold, item.unit)), h("td", { class: "from" }, clip(clean(item.where), 600)), moment ? h("td", {}, moment(item)) : null))))),
    one.gain ? h("p", { class: "about" }, spoken(one.gain.method)) : null);
}

/** What it gives: from what the replay gives to the bound. @param {{low: number, high: number}} gain */
export function span({ low, high }) {
  const [least, most] = [duration(low * 1e6) ?? "", duration(high * 1e6) ?? ""];
  // One unit is enough for both.
  return least === most ? most : `${least.split(" ")[1] === most.split(" ")[1] ? least.split(" ")[0] : least} – ${most}`;
}

/** @param {number | null} amount */
function confidence(amount) {
  const word = amount === null ? "low" : amount >= 0.8 ? "high" : amount >= 0.5 ? "medium" : "low";
  return h("span", {}, `${t(`confidence.${word}`)} (${amount?.toFixed(2) ?? "–"})`);
}

/** @param {number | null} amount @param {string} unit */
export function value(amount, unit) {
  if (amount === null) return "–";
  const [scale, ...per] = unit.split(" ");
  if (scale === "ns" || scale === "bytes") return [scale === "ns" ? duration(amount) : bytes(amount), ...per].join(" ");
  if (unit.startsWith("of ")) return `${percent(amount)} ${unit}`;
  return `${Number.isInteger(amount) ? amount : amount.toPrecision(3)} ${unit}`;
}
