// Layout: the ranks of a job by their coordinates, and the groups that each belongs to.

import { h } from "../dom.js";
import { duration, runs } from "../format.js";
import { keep, once } from "../data.js";
import { PARTS, heat } from "../charts.js";
import { t } from "../translate.js";
import { section } from "./parts.js";

const DIMENSIONS = ["pp", "dp", "ep", "cp", "tp"]; // from what lies furthest apart to neighbours
const MEASURES = ["window", ...PARTS];
const WIDE = 24; // cells in a row: each has room for its number

/** @typedef {{rank: number, [name: string]: number | null}} Place */

/**
 * A section, or null where coordinates are not recorded or tell nothing.
 * @param {import("../data.js").Split[]} usual @param {Set<number>} blamed @param {string} measure
 */
export async function layout(usual, blamed, measure) {
  const columns = await once("columns", { table: "inputs", names: ["rank", ...DIMENSIONS].join(",") });
  const places = /** @type {Map<number, Place>} */ (new Map());
  columns.rank.forEach((/** @type {number} */ rank, /** @type {number} */ at) => places.set(rank, { rank, ...Object.fromEntries(DIMENSIONS.map((name) => [name, columns[name]?.[at] ?? null])) }));
  if (!columns.rank.length || DIMENSIONS.every((name) => columns[name].every((/** @type {number | null} */ one) => one === null))) await grouped(places);
  const all = [...places.values()];
  const used = DIMENSIONS.filter((name) => new Set(all.map((place) => place[name])).size > 1 && all.every((place) => place[name] !== null));
  // Coordinates that leave ranks in one place are not those of a layout: experts lie within the data-parallel ranks.
  const key = (/** @type {string[]} */ names) => (/** @type {Place} */ place) => names.map((name) => place[name]).join(".");
  const names = used.includes("ep") && new Set(all.map(key(used.filter((name) => name !== "ep")))).size === all.length ? used.filter((name) => name !== "ep") : used;
  if (!names.length || new Set(all.map(key(names))).size !== all.length) return null;
  const size = (/** @type {string[]} */ some) => new Set(all.map(key(some))).size;
  // As many dimensions side by side as fit in a row, but for the outermost, which goes down where there are several.
  let inner = Math.max(1, names.length - 1);
  while (inner > 1 && size(names.slice(-inner)) > WIDE) inner -= 1;
  const across = names.slice(-inner);
  const down = names.slice(0, -inner);
  const order = (/** @type {string[]} */ some) => [...new Map(all.map((place) => [key(some)(place), place])).values()].sort((a, b) => some.map((name) => Number(a[name]) - Number(b[name])).find(Boolean) ?? 0);
  const rows = down.length ? order(down) : [all[0]];
  const cols = order(across);
  const at = new Map(all.map((place) => [`${key(down)(place)} ${key(across)(place)}`, place.rank]));
  const rankAt = (/** @type {number} */ r, /** @type {number} */ c) => at.get(`${key(down)(rows[r])} ${key(across)(cols[c])}`);
  const of = new Map(usual.map((row) => [row.rank, row]));
  const own = MEASURES.includes(measure) ? measure : "window";
  const value = (/** @type {number | undefined} */ rank) => (rank === undefined ? null : /** @type {any} */ (of.get(rank))?.[own] ?? null);
  const values = all.map((place) => value(place.rank)).filter((one) => one !== null);
  const least = Math.min(...values);
  const most = Math.max(...values);
  const said = (/** @type {string[]} */ some, /** @type {Place} */ place) => some.map((name) => `${name} ${place[name]}`).join(" ");
  return section(
    t("layout"),
    h("p", { class: "about" }, t("layout.is", { down: down.join(", ") || "–", across: across.join(", "), measure: t(`part.${own}`), least: duration(least), most: duration(most) })),
    heat({
      label: t("layout"), rowTitle: down.join(" "),
      rows: rows.map((place) => ({ name: down.length ? said(down, place) : "" })),
      columns: cols.map((place) => said(across, place)), kind: () => own, cells: [],
      // What differs by less than a twentieth stays faint.
      shade: (r, c) => { const one = value(rankAt(r, c)); return one === null ? null : most > 0 ? (one - least) / Math.max(most - least, most / 20) : 0; },
      show: (r, c) => { const rank = rankAt(r, c); return rank === undefined ? "" : `${blamed.has(rank) ? "▸ " : ""}${rank}`; },
      tell: (r, c) => { const rank = rankAt(r, c); return rank === undefined ? "–" : told(/** @type {Place} */ (places.get(rank)), all, names, value(rank), own); },
      pick: (r, c) => { const rank = rankAt(r, c); if (rank !== undefined) { keep({ rank }); window.dispatchEvent(new Event("hermes:show")); } },
    }));
}

/** Where coordinates are not recorded: a rank's place in its group of a dimension is one. @param {Map<number, Place>} places */
async function grouped(places) {
  const { parallel, members } = await once("columns", { table: "communication.groups", names: "parallel,members" });
  members.forEach((/** @type {number[] | null} */ own, /** @type {number} */ at) => {
    if (DIMENSIONS.includes(parallel[at])) own?.forEach((rank, place) => { const found = places.get(rank); if (found) found[parallel[at]] = place; });
  });
}

/** A rank in words, with the ranks that differ from it in one coordinate alone. @param {Place} place @param {Place[]} all @param {string[]} names @param {number | null} ns @param {string} measure */
function told(place, all, names, ns, measure) {
  const groups = names.map((name) => {
    const own = all.filter((other) => names.every((one) => one === name || other[one] === place[one])).map((other) => other.rank);
    return `${name} ${place[name]} (${runs(own, t("to"))})`;
  });
  return `rank ${place.rank}: ${t(`part.${measure}`)} ${duration(ns) ?? t("not_measured")}; ${groups.join(", ")}`;
}
