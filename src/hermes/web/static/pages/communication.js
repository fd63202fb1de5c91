// Communication: who waits for whom, which link carries how much how fast, which collective costs what.

import { h } from "../dom.js";
import { bandwidth, bytes, clean, duration, percent } from "../format.js";
import { doc, param, rowsOf, tables, ask } from "../data.js";
import { heat } from "../charts.js";
import { groupName } from "../cells.js";
import { told } from "../sentences.js";
import { t } from "../translate.js";
import { arrivals } from "./arrivals.js";
import { empty, facts, heading, picker, rankPicker, rest, section } from "./parts.js";
import { tableTitle, tabs } from "./tabs.js";

const MOST = 64;
const MOST_BARS = 8;

/** @param {HTMLElement} main */
export async function render(main) {
  main.append(...heading("communication", t("communication.lead")));
  const { rank, control } = rankPicker(true);
  const any = ["waits", "rank_waits", "links", "top.communication"].some((key) => rowsOf(key)) || tables().some((one) => one.key.startsWith("communication."));
  if (!any) { main.append(empty(t("communication.none"))); return; }
  const waits = doc().rank_waits?.length ? doc().rank_waits : doc().waits ?? [];
  if (waits.length) main.append(section(t("communication.waits"), h("p", { class: "about" }, t("communication.waits_is")), waitMatrix(waits)));
  else main.append(collectives(await ask("rows", { table: "top.communication", sort: "total_ms", desc: 1, limit: MOST_BARS })));
  const pairs = h("div");
  main.append(arrivals() ?? "", pairs);
  main.append(
    h("div", { class: "controls" }, control),
    tabs([
      ...(rowsOf("top.communication") ? [{ table: "top.communication", bar: "total_ms", columns: ["name", "detail", "total_ms", "share", "count", "median_ms", "min_ms", "max_ms", "ranks"] }] : []),
      { table: "comm_op", rank: rank ?? doc().verdict.rank ?? doc().coverage.ranks_seen[0], sort: "dur_ns", descending: true, bar: "dur_ns", timeline: true, columns: ["name", "op", "dur_ns", "start_ns", "rank", "step", "group", "sequence", "bytes", "dtype", "algorithm", "peer"] },
      ...(rowsOf("waits") ? [{ table: "waits", bar: "total_ms", timeline: true }] : []),
      ...rest(["communication"]),
      ...(rowsOf("links") ? [{ table: "links" }] : []),
      { table: "traffic.transports", rank, sort: "bytes", descending: true, about: t("communication.traffic") },
    ]),
    facts(["communication"]) ?? "",
  );
  try {
    const page = await ask("rows", { table: "links.pairs", rank, limit: 1000 });
    if (page.total) pairs.replaceChildren(section(t("communication.links"), linkMatrix(page)));
  } catch {
    // With too many ranks it is shown for one rank at a time.
  }
}

/** Where nobody is known to wait for anybody: which collectives take the time. @param {import("../data.js").Page} page */
function collectives(page) {
  const at = Object.fromEntries(page.columns.map((column, place) => [column.name, place]));
  if (!page.rows.length) return "";
  return section(tableTitle("top.communication"), h("div", { class: "barlist narrow" }, page.rows.map((row) => h("div", { class: "barrow" },
    h("span", { class: "barname" }, `${clean(String(row[at.name]))} `, h("small", {}, told(clean(String(row[at.detail] ?? ""))))), h("span", { class: "bartotal" }, duration(Number(row[at.total_ms]) * 1e6)),
    h("span", { class: "bar" }, h("span", { class: "stack", "aria-hidden": "true", style: { width: `${Math.max(0.3, 100 * Number(row[at.share]))}%` } }, h("span", { class: "seg comm", style: { "flex-grow": "1" } }))),
    h("span", { class: "barparts" }, percent(Number(row[at.share])))))));
}

/** @param {import("../data.js").Row[]} rows */
function waitMatrix(rows) {
  const from = [...new Set(rows.map((row) => row.rank))].sort((a, b) => a - b).slice(0, MOST);
  const peers = [...new Set(rows.map((row) => row.peer))].sort((a, b) => a - b);
  const sums = new Map(rows.map((row) => [`${row.rank} ${row.peer}`, row]));
  const most = Math.max(...rows.map((row) => row.total_ms));
  const own = (/** @type {number} */ r, /** @type {number} */ c) => sums.get(`${from[r]} ${peers[c]}`);
  return heat({
    label: t("communication.waits"), rowTitle: t("communication.waiting"),
    rows: from.map((rank) => ({ name: `rank ${rank}` })), columns: peers.map((rank) => `${rank}`), kind: () => "wait", cells: [],
    shade: (r, c) => { const row = own(r, c); return row ? row.total_ms / most : null; },
    show: (r, c) => { const row = own(r, c); return row ? duration(row.total_ms * 1e6) ?? "" : ""; },
    tell: (r, c) => { const row = own(r, c); return row ? t("communication.wait_of", { rank: from[r], peer: peers[c], total: duration(row.total_ms * 1e6), longest: duration(row.longest_ms * 1e6) }) : `rank ${from[r]} → rank ${peers[c]}: –`; },
  });
}

/** @param {import("../data.js").Page} page */
function linkMatrix(page) {
  const at = Object.fromEntries(page.columns.map((column, place) => [column.name, place]));
  const rows = page.rows.map((row) => /** @type {import("../data.js").Row} */ (Object.fromEntries(Object.entries(at).map(([name, place]) => [name, row[place]]))));
  const transports = [...new Set(rows.map((row) => row.transport ?? "–"))];
  const groups = [...new Set(rows.map((row) => row.group ?? "–"))];
  const of = param("link", "gb_per_s");
  const group = groups.includes(param("group")) ? param("group") : groups[0];
  const shown = rows.filter((row) => (row.group ?? "–") === group);
  const sources = [...new Set(shown.map((row) => row.src_rank))].sort((a, b) => a - b).slice(0, MOST);
  const targets = [...new Set(shown.map((row) => row.dst_rank))].sort((a, b) => a - b).slice(0, MOST);
  const text = (/** @type {number} */ value) => (of === "bytes" ? bytes(value) : of === "time_ns" ? duration(value) : bandwidth(value));
  const all = new Map(shown.filter((row) => row.transport !== "LOCAL").map((row) => [`${row.src_rank} ${row.dst_rank}`, row]));
  const most = Math.max(1e-12, ...[...all.values()].map((row) => Number(row[of] ?? 0)));
  const fastest = new Map();
  for (const row of all.values()) fastest.set(row.transport, Math.max(fastest.get(row.transport) ?? 0, Number(row.gb_per_s ?? 0)));
  // Of bandwidths what is to be seen is the slow link.
  const much = (/** @type {import("../data.js").Row} */ row) => (of === "gb_per_s" ? 1 - Number(row.gb_per_s) / (fastest.get(row.transport) || 1) : Number(row[of]) / most);
  const cell = (/** @type {number} */ r, /** @type {number} */ c) => all.get(`${sources[r]} ${targets[c]}`);
  return h("div", {},
    h("div", { class: "controls" }, picker("link", t("measure"), ["gb_per_s", "bytes", "time_ns"].map((name) => /** @type {[string, string]} */ ([name, t(`link.${name}`)])), of), groups.length > 1 ? picker("group", t("group"), groups.map((name) => /** @type {[string, string]} */ ([name, groupName(name)])), group) : null),
    h("p", { class: "about" }, t("communication.links_is", { transports: transports.join(", ") })),
    heat({
      label: t("communication.links"), rowTitle: t("communication.from"),
      rows: sources.map((rank) => ({ name: `${rank}` })), columns: targets.map((rank) => `${rank}`), kind: () => "comm", cells: [],
      shade: (r, c) => { const row = cell(r, c); return row && row[of] !== null ? much(row) : null; },
      show: (r, c) => { const row = cell(r, c); return row && row[of] !== null ? (targets.length > 12 ? "" : text(Number(row[of])) ?? "") : ""; },
      tell: (r, c) => { const row = cell(r, c); return `${sources[r]} → ${targets[c]}: ${row ? `${bandwidth(row.gb_per_s)}, ${bytes(Number(row.bytes))}, ${duration(Number(row.time_ns))}, ${row.transport}` : "–"}`; },
    }));
}
