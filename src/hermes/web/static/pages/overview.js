// Overview: what bounds the step, where its time goes, what to do; only then the numbers behind it.

import { h } from "../dom.js";
import { clean, clip, duration, percent, runs } from "../format.js";
import { doc, placeOf, rowsOf, splits, timelineAt, to, typical } from "../data.js";
import { PARTS, legend, partsOf, stack } from "../charts.js";
import { finding, span } from "../findings.js";
import { said, spoken } from "../say.js";
import { key, table } from "../table.js";
import { current, t } from "../translate.js";
import { map, since, won } from "./glance.js";
import { copied, section, stepOf } from "./parts.js";
import { tree } from "./tree.js";

const BARS = 12;
const GAPS = 4;
const ACTIONS = 5;
const SINCE = 3; // findings that say since when
const RANKS = 16; // of a finding, before one asks for more
/** @type {Record<string, string>} */
const KINDS = { compute: "compute", communication: "comm", copy: "copy", host: "host" };

/** @typedef {import("../data.js").Document} Document @typedef {import("../data.js").Row} Row */

/** @param {HTMLElement} main */
export async function render(main) {
  const document = doc();
  main.append(warning(document), verdict(document));
  const times = h("section", { class: "block", "aria-label": said({ id: "tree.title", text: "" }) }, waiting());
  const split = h("div", { class: "splits" }, waiting());
  const look = h("div", { class: "glance" });
  main.append(
    times,
    plan(document),
    look,
    section(t("overview.findings"), findings(document)),
    section(t("overview.split"), legend(PARTS), split),
    coverage(document),
  );
  const drawn = splits().then(async (all) => {
    times.replaceChildren(...tree(all));
    split.replaceChildren(...bars(all));
    look.replaceChildren(await map(all) ?? "");
  }).catch((error) => { for (const one of [times, split]) one.replaceChildren(h("p", { class: "wrong" }, error.message)); });
  // What an address names is brought into sight once what stands above it has its height.
  if (location.hash) await drawn;
}

const waiting = () => h("p", { class: "wait" }, t("loading"));

/** @param {Document} document */
function warning(document) {
  const degraded = document.diagnostics.filter((note) => note.level === "degraded");
  const gaps = document.coverage.missing;
  if (!gaps.length && !degraded.length) return h("span");
  const items = gaps.map((gap) => h("li", { class: /^[a-z]+ /.test(said(gap)) && "sentence" }, spoken(gap))); // a file keeps its name
  return h(
    "aside", { class: "notice", "aria-label": t("overview.first") },
    h("p", { class: "noticehead" }, degraded.length ? t("overview.degraded") : t("overview.partial")),
    h("ul", {}, items.slice(0, GAPS)),
    items.length > GAPS ? h("details", {}, h("summary", {}, t("more_of", { count: items.length - GAPS })), h("ul", {}, items.slice(GAPS))) : null,
  );
}

/** @param {Document} document */
function verdict(document) {
  const { bound, message, rank, step } = document.verdict;
  const kind = KINDS[bound] ?? "free";
  const next = document.plan.actions[0];
  const place = [rank === null ? null : `rank ${rank}`, step === null ? null : `${t("step")} ${step}`].filter(Boolean).join(", ");
  return h(
    "section", { class: `verdict ${kind}` },
    place ? h("p", { class: "bound" }, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), h("span", { class: "where" }, place)) : null,
    h("h1", {}, spoken(message)),
    next ? h("p", { class: "next" }, h("strong", {}, t("overview.next")), " ", h("a", { href: `/#${placeOf(doc().findings.findIndex((one) => next.codes.includes(one.code) && one.fault === next.fault))}` }, spoken(next.title)), ` · ${next.gain.low ? span(next.gain) : gain(next)}`) : null,
  );
}

/** Ranked actions with replayed gains, what they give together, and what to record next. */
function plan(/** @type {Document} */ document) {
  const { actions, together, collect, noise, without_profiler: bare } = document.plan;
  if (!noise.step_ms) return h("span");
  return section(
    t("overview.plan"),
    h("p", { class: "about" }, t("overview.noise", { noise: duration(noise.ms * 1e6) })),
    actions.length && document.verdict.leaf && !document.verdict.fault ? h("p", { class: "about" }, t("overview.unexplained")) : null,
    actions.length
      ? h("ol", { class: "actions plan" }, actions.slice(0, ACTIONS).map((/** @type {Row} */ one) => h("li", {},
        h("strong", {}, spoken(one.title)), ` · ${one.gain.low ? span(one.gain) : gain(one)} · ${one.codes.join(", ")}${one.case ? ` · ${one.case}` : ""}${one.effort ? ` · ${clean(one.effort)}` : ""}`,
        one.after && one.example ? h("p", { class: "about" }, t("overview.example")) : null, one.after ? copied(one.after) : null)))
      : h("p", { class: "none" }, t("overview.no_findings")),
    together && together.actions > 1 ? h("p", {}, t("overview.together", { actions: together.actions, gain: [...new Set([together.low_ms, together.high_ms].map((ms) => duration(ms * 1e6)))].join(" – "), share: percent(together.share) })) : null,
    bare ? h("p", { class: "about" }, t("overview.bare", { step: duration(bare.step_ms * 1e6), steps: bare.steps, captured: duration(bare.captured_ms * 1e6) })) : null,
    collect.map((/** @type {Row} */ one) => h("div", {}, h("p", { class: "about" }, spoken(one.why)), copied(one.command))),
  );
}

/** @param {Row} finding */
const gain = (finding) => t("overview.gain", { high: duration(finding.gain.high * 1e6) });

/** @param {import("../data.js").Split[]} all */
function bars(all) {
  if (!all.length) return [h("p", { class: "none" }, t("not_measured"))];
  const ranks = typical(all);
  let chosen = all.map((row) => ({ row, name: label(row) }));
  let about = t("overview.every_step");
  if (all.length > BARS) {
    chosen = ranks.map((row) => ({ row, name: label(row) }));
    about = t("overview.median_step", { steps: all.length, ranks: ranks.length });
  }
  if (chosen.length > BARS) {
    const ordered = ranks.toSorted((a, b) => b.window - a.window);
    chosen = /** @type {[string, import("../data.js").Split][]} */ ([["slowest", ordered[0]], ["median", ordered[ordered.length >> 1]], ["fastest", ordered.at(-1)]]).map(([word, row]) => ({ row, name: `${t(`overview.${word}`)}: ${label(row)}` }));
    about = t("overview.extremes", { steps: all.length, ranks: ranks.length });
  }
  const longest = Math.max(...chosen.map(({ row }) => row.window));
  return [
    h("p", { class: "about" }, about),
    h("div", { class: "barlist" }, chosen.map(({ row, name }) => h(
      "div", { class: "barrow" },
      h("a", { class: "barname", href: to("/steps", { rank: row.rank, step: row.step }) }, name),
      h("span", { class: "bartotal" }, duration(row.window)),
      h("span", { class: "bar" }, stack(partsOf(row), row.window, longest)),
      h("span", { class: "barparts" }, partsOf(row).map((part) => h("span", { class: "part" }, key(part.kind === "comm" ? "comm" : part.kind), `${percent(part.ns / row.window)}`))),
      h("a", { class: "go", href: timelineAt({ rank: row.rank, step: row.step, at: row.start, dur: row.window }), "aria-label": `${t("open_timeline")}: ${name}`, title: t("open_timeline") }, "⇥"),
    ))),
  ];
}

/** @param {import("../data.js").Split} row */
const label = (row) => stepOf(row.rank, row.step);

/** @param {Document} document */
function findings(document) {
  if (!document.findings.length) return h("p", { class: "none" }, t("overview.no_findings"));
  return [document.findings.length > 1 ? h("p", { class: "about" }, t("overview.sorted")) : null, ...document.findings.map((one, at) => (one.state === "stable" ? lossOf(one, at) : null)), preview(document)];
}

/** What rules say that are not trusted yet, folded. @param {Document} document */
function preview(document) {
  const rows = document.findings.map((one, at) => (one.state === "preview" ? lossOf(one, at) : null)).filter(Boolean);
  return rows.length ? h("details", { class: "preview" }, h("summary", {}, t("overview.preview", { count: rows.length })), ...rows) : null;
}

/** @param {Row} one @param {number} at */
function lossOf(one, at) {
  const places = placesOf(one);
  const when = h("p", { class: "since" });
  if (at < SINCE) splits().then((all) => when.replaceChildren(since(one, all) ?? ""), () => {});
  return finding(one, {
    id: placeOf(at), gainIs: won(),
    below: [at < SINCE ? when : null, places.length ? h("p", {}, h("a", { class: "openit", href: timelineAt(places[0]) }, t("open_timeline"))) : null, places.length > 1 ? onRanks(places) : null],
    moment: (item) => (item.at ? toMoment(placeAt(item.at, one), said(item.what)) : null),
  });
}

/** Where it shows on each rank that it concerns, on the timeline's own tracks of findings, with the other ranks below. @param {Row} one */
const placesOf = (one) => one.moments.map((/** @type {Row} */ at) => placeAt(at, one));

/** @param {Row} at @param {Row} one */
const placeAt = (at, one) => ({ rank: at.rank, others: one.moments.map((/** @type {Row} */ other) => other.rank), at: at.start_ns, dur: at.ms * 1e6, name: `${one.code} ${said(one.message)}` });

/** @param {import("../data.js").Row[]} places */
function onRanks(places) {
  const link = (/** @type {Row} */ place) => h("a", { href: timelineAt(place), title: t("open_timeline"), "aria-label": `${t("open_timeline")}: rank ${place.rank}` }, `${place.rank}`);
  return h("p", { class: "onranks" }, t("overview.on_ranks"), " ", places.slice(0, RANKS).map(link), places.length > RANKS ? h("details", {}, h("summary", {}, t("more_of", { count: places.length - RANKS })), places.slice(RANKS).map(link)) : null);
}

/** @param {Row} place @param {string} what */
const toMoment = (place, what) => h("a", { href: timelineAt(place), title: t("open_timeline"), "aria-label": `${t("open_timeline")}: ${clip(clean(what), 100)}` }, "⇥");

/** @param {Document} document */
function coverage(document) {
  const seen = document.coverage;
  return section(
    t("overview.coverage"),
    h("dl", { class: "facts" },
      h("dt", {}, t("coverage.seen")), h("dd", {}, runs(seen.ranks_seen, t("to")) || t("none")),
      h("dt", {}, t("coverage.expected")), h("dd", {}, seen.ranks_expected === null ? t("not_known") : `${seen.ranks_expected} (${clean(said(seen.ranks_expected_source))})`),
      h("dt", {}, t("coverage.steps")), h("dd", {}, seen.steps.length ? runs(seen.steps, t("to")) : t("coverage.unmarked"))),
    h("p", { class: "links" }, t("download"), " ", ["html", "json", "xlsx"].flatMap((kind) => [h("a", { href: to(`/api/download/report.${kind}`, { lang: kind !== "json" ? current() : null }), download: "", target: "_blank" }, t(`download.${kind}`)), " "])),
    rowsOf("diagnostics") ? table({ table: "diagnostics", columns: ["level", "message", "lost", "hint", "where"], view: 6 }) : null,
    table({ table: "inputs", columns: ["rank", "format", "level", "chip", "vendor", "capture", "path", "degraded"], view: 6 }),
  );
}
