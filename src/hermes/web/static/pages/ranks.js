// Ranks: one matrix that holds thousands by aggregation; slow ranks stand out of it.

import { h } from "../dom.js";
import { duration, percent } from "../format.js";
import { blamedRanks, doc, keep, param, rowsOf, splits, timelineAt, to, withHeld } from "../data.js";
import { PARTS, contrast, heat, partsOf, stack } from "../charts.js";
import { matrix } from "../matrix.js";
import { t } from "../translate.js";
import { MEASURES, layout, measured } from "./layout.js";
import { empty, heading, picker, rest, section } from "./parts.js";
import { tabs } from "./tabs.js";

const MOST = 64; // rows of a matrix; more ranks share rows
const FEW = 32; // rows where they share: each is drawn anew whenever the page opens
const METRICS = ["held", "window", "preparing", ...PARTS];
const STEPS = ["window", "preparing", ...PARTS]; // what each step has

/** @param {HTMLElement} main */
export async function render(main) {
  const all = await splits();
  main.append(...heading("ranks", t("ranks.lead")));
  if (!all.length) { main.append(empty(t("steps.none"))); return; }
  const usual = withHeld(all);
  const blamed = blamedRanks();
  const rank = param("rank");
  if (rank) main.append(own(usual, all, Number(rank), blamed));
  const missing = absent();
  if (usual.length === 1) main.append(empty(t("ranks.one", { rank: usual[0].rank }), missing));
  else if (missing) main.append(h("p", { class: "about" }, missing));
  if (usual.length > 1) {
    const of = measured(usual, param("of"));
    main.append(
      h("div", { class: "controls" }, picker("of", t("measure"), MEASURES.map((name) => [name, t(`part.${name}`)]), of)),
      await layout(usual, blamed, of), section(t("ranks.by_metric"), byMetric(usual, blamed)), section(t("ranks.by_step"), byStep(all, blamed)));
  }
  if (doc().rank_matrix?.rows?.length) main.append(section(t("ranks.matrix"), matrix(doc().rank_matrix, into)));
  main.append(tabs([
    ...(rowsOf("rank_waits") ? [{ table: "rank_waits", bar: "total_ms", timeline: true }] : []),
    ...(rowsOf("clocks") ? [{ table: "clocks" }] : []),
    ...(doc().coverage.ranks_seen.length <= 64 ? [{ table: "groups.members", about: t("ranks.groups") }] : []),
    ...rest(["rank_waits", "clocks", "balance", "structure", "rank_matrix"], ["rank_waits", "clocks", "rank_matrix", "rank_matrix.metrics"]),
  ]));
}

function absent() {
  const { ranks_seen: seen, ranks_expected: expected } = doc().coverage;
  return expected !== null && expected > seen.length ? t("ranks.absent", { seen: seen.length, expected }) : "";
}

/** Ranks that share a row: neighbours, at most `MOST` rows of those between `from` and `to`. @param {number[]} ranks */
function shared(ranks) {
  const from = Number(param("from", String(ranks[0])));
  const until = Number(param("until", String(ranks.at(-1))));
  const inside = ranks.filter((rank) => rank >= from && rank <= until);
  const size = inside.length > MOST ? Math.ceil(inside.length / FEW) : 1;
  const groups = [];
  for (let at = 0; at < inside.length; at += size) groups.push(inside.slice(at, at + size));
  return { groups, size, whole: inside.length === ranks.length };
}

/** @param {number[]} group */
const named = (group) => (group.length === 1 ? `${group[0]}` : `${group[0]}–${group.at(-1)}`);

/** A click on a row of several ranks shows these alone; on one of them, the rank. @param {number[]} group */
function into(group) {
  if (group.length === 1) keep({ rank: group[0] });
  else keep({ from: group[0], until: group.at(-1) });
  window.dispatchEvent(new Event("hermes:show"));
}

/** @param {boolean} whole */
const back = (whole) => (whole ? null : h("p", {}, h("a", { href: to("/ranks", { of: param("of") }) }, t("ranks.all"))));

/** @param {import("../data.js").Split[]} usual @param {Set<number>} blamed */
function byMetric(usual, blamed) {
  const of = new Map(usual.map((row) => [row.rank, row]));
  const { groups, size, whole } = shared(usual.map((row) => row.rank));
  const value = (/** @type {number[]} */ group, /** @type {string} */ name) => group.map((rank) => of.get(rank)?.[name]).filter((one) => one !== null && one !== undefined).reduce((most, one) => Math.max(most, one), -1);
  // The worst first: who holds the others up, and no rank that is as the others.
  const telling = 0.01 * Math.max(0, ...usual.map((row) => row.held ?? 0));
  const worst = (/** @type {number[]} */ group) => { const held = value(group, "held"); return held > telling ? held : 0; };
  groups.sort((a, b) => worst(b) - worst(a) || a[0] - b[0]);
  const most = METRICS.map((name) => Math.max(...usual.map((row) => row[name] ?? 0)));
  const least = METRICS.map((name) => Math.min(...usual.map((row) => row[name] ?? Infinity)));
  const cells = groups.map((group) => METRICS.map((name) => value(group, name))).map((row) => row.map((one) => (one < 0 ? null : one)));
  return h("div", {}, h("p", { class: "about" }, size > 1 ? t("ranks.shared", { size }) : t("ranks.each")), back(whole), heat({
    label: t("ranks.by_metric"), rowTitle: t("rank"),
    rows: groups.map((group) => ({ name: named(group), outlined: group.some((rank) => blamed.has(rank)), note: group.some((rank) => blamed.has(rank)) ? t("ranks.blamed") : undefined })),
    columns: METRICS.map((name) => t(`part.${name}`)),
    kind: (c) => METRICS[c], cells,
    shade: (r, c) => { const one = cells[r][c]; return one === null ? null : contrast(one, least[c], most[c]); },
    show: (r, c) => (cells[r][c] === null ? "" : duration(cells[r][c]) ?? ""),
    tell: (r, c) => `rank ${named(groups[r])}, ${t(`part.${METRICS[c]}`)}: ${cells[r][c] === null ? t("not_measured") : duration(cells[r][c])}`,
    pick: (r) => into(groups[r]),
  }));
}

/** @param {import("../data.js").Split[]} all @param {Set<number>} blamed */
function byStep(all, blamed) {
  const measure = STEPS.includes(param("of")) ? param("of") : "window";
  const steps = [...new Set(all.map((row) => row.step))].sort((a, b) => (a ?? -1) - (b ?? -1));
  const wide = Math.ceil(steps.length / 96);
  /** @type {(number | null)[][]} */
  const columns = [];
  for (let at = 0; at < steps.length; at += wide) columns.push(steps.slice(at, at + wide));
  const place = new Map(steps.map((step, at) => [step, Math.floor(at / wide)]));
  const { groups, whole } = shared([...new Set(all.map((row) => row.rank))].sort((a, b) => a - b));
  const rowOf = new Map(groups.flatMap((group, at) => group.map((rank) => [rank, at])));
  const cells = groups.map(() => columns.map(() => /** @type {number | null} */ (null)));
  for (const row of all) {
    const r = rowOf.get(row.rank);
    const c = place.get(row.step);
    const value = row[measure];
    if (r !== undefined && c !== undefined && value !== null) cells[r][c] = Math.max(cells[r][c] ?? 0, value);
  }
  const flat = cells.flat().filter((one) => one !== null);
  const least = Math.min(...flat);
  const most = Math.max(...flat);
  const stepName = (/** @type {number} */ c) => (columns[c].length === 1 ? `${columns[c][0] ?? "–"}` : `${columns[c][0]}–${columns[c].at(-1)}`);
  return h("div", {},
    back(whole),
    h("p", { class: "about" }, `${t(`part.${measure}`)}. `, t("ranks.scale", { least: duration(least), most: duration(most), gap: duration(most - least) })),
    heat({
      label: t("ranks.by_step"), rowTitle: t("rank"),
      rows: groups.map((group) => ({ name: named(group), outlined: group.some((rank) => blamed.has(rank)) })),
      columns: columns.map((_, c) => stepName(c)), kind: () => measure, cells,
      shade: (r, c) => { const one = cells[r][c]; return one === null ? null : contrast(one, least, most); },
      show: (r, c) => (cells[r][c] === null ? "" : duration(cells[r][c]) ?? ""),
      tell: (r, c) => `rank ${named(groups[r])}, ${t("step")} ${stepName(c)}: ${cells[r][c] === null ? t("not_measured") : duration(cells[r][c])}`,
      pick: (r) => into(groups[r]),
    }));
}

/** @param {import("../data.js").Split[]} usual @param {import("../data.js").Split[]} all @param {number} rank @param {Set<number>} blamed */
function own(usual, all, rank, blamed) {
  const row = usual.find((one) => one.rank === rank);
  if (!row) return empty(t("ranks.not_collected", { rank }));
  const median = (/** @type {string} */ name) => usual.map((one) => one[name] ?? 0).sort((a, b) => a - b)[usual.length >> 1];
  return section(
    `rank ${rank}${blamed.has(rank) ? ` · ${t("ranks.blamed")}` : ""}`,
    h("p", { class: "about" }, t("ranks.typical", { step: row.step ?? "–", window: duration(row.window), steps: all.filter((one) => one.rank === rank).length })),
    stack(partsOf(row), row.window, Math.max(row.window, median("window"))),
    h("ul", { class: "pathparts" }, METRICS.map((name) => h("li", {}, h("span", { class: `key ${name}`, "aria-hidden": "true" }), `${t(`part.${name}`)} `, h("b", {}, duration(row[name]) ?? "–"), usual.length > 1 ? ` ${t("ranks.against", { gap: signed((row[name] ?? 0) / (median(name) || 1) - 1) })}` : ""))),
    h("p", { class: "links" },
      h("a", { class: "openit", href: timelineAt({ rank, step: row.step, at: row.start, dur: row.window }) }, t("open_timeline")), " ",
      h("a", { href: to("/operators", { rank }) }, t("page.operators")), " ", h("a", { href: to("/host", { rank }) }, t("page.host")), " ", h("a", { href: to("/memory", { rank }) }, t("page.memory"))),
  );
}

/** @param {number} share */
const signed = (share) => `${share >= 0 ? "+" : "−"}${percent(Math.abs(share))}`;
