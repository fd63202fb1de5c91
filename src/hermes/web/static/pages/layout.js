// Layout: a map of the ranks of a job by their coordinates where they are known, and the groups that each belongs to.

import { h } from "../dom.js";
import { duration, runs } from "../format.js";
import { keep, once } from "../data.js";
import { PARTS, contrast, heat } from "../charts.js";
import { t } from "../translate.js";
import { form, place, sizes } from "./parallel.js";
import { section } from "./parts.js";

const DIMENSIONS = ["pp", "dp", "ep", "cp", "tp"]; // from what lies furthest apart to neighbours
export const MEASURES = ["held", "window", "preparing", ...PARTS];
const WIDE = 24; // cells in a row: each has room for its number
const WRAPPED = 16; // ranks in a row where nothing tells their coordinates
const ON_A_PHONE = 5;
const TELLING = 0.01; // of the window: who holds the others up for less does not

/** @typedef {{rank: number, [name: string]: number | null}} Place */

/** The measure that was asked for; else who holds the others up, where somebody does. @param {import("../data.js").Split[]} usual @param {string} asked */
export function measured(usual, asked) {
  if (MEASURES.includes(asked)) return asked;
  return usual.some((row) => (row.held ?? 0) > TELLING * row.window) ? "held" : "window";
}

/**
 * A section: by coordinates where they are recorded or groups tell them, else one rank after the other.
 * @param {import("../data.js").Split[]} usual @param {Set<number>} blamed @param {string} own the measure
 * @param {HTMLElement | null} [below] what stands below it, in the place of what asks for coordinates @param {(rank: number) => void} [open]
 */
export async function layout(usual, blamed, own, below = null, open = into) {
  const columns = await once("columns", { table: "inputs", names: ["rank", ...DIMENSIONS].join(",") });
  const places = /** @type {Map<number, Place>} */ (new Map());
  columns.rank.forEach((/** @type {number} */ rank, /** @type {number} */ at) => places.set(rank, { rank, ...Object.fromEntries(DIMENSIONS.map((name) => [name, columns[name]?.[at] ?? null])) }));
  const seen = usual.map((row) => row.rank);
  const recorded = columns.rank.length && DIMENSIONS.some((name) => columns[name].some((/** @type {number | null} */ one) => one !== null));
  const typed = recorded ? null : sizes();
  if (typed) seen.forEach((rank) => places.set(rank, { rank, ...place(rank, typed) }));
  else if (!recorded) await grouped(places);
  const all = seen.every((rank) => places.has(rank)) ? [...places.values()] : [];
  const used = DIMENSIONS.filter((name) => new Set(all.map((place) => place[name])).size > 1 && all.every((place) => place[name] !== null));
  // Coordinates that leave ranks in one place are not those of a layout: experts lie within the data-parallel ranks.
  const key = (/** @type {string[]} */ names) => (/** @type {Place} */ place) => names.map((name) => place[name]).join(".");
  const names = used.includes("ep") && new Set(all.map(key(used.filter((name) => name !== "ep")))).size === all.length ? used.filter((name) => name !== "ep") : used;
  const phone = innerWidth <= 640;
  const LINE = phone ? ON_A_PHONE : WRAPPED;
  const more = below ?? (recorded || (names.length && !typed) ? null : form());
  const line = names.length === 1 && all.length > (phone ? ON_A_PHONE : WIDE);
  if (!names.length || line || new Set(all.map(key(names))).size !== all.length) return drawn({ usual, blamed, own, open, more, rows: Array.from({ length: Math.ceil(seen.length / LINE) }, (_, at) => (seen.length > LINE ? `${seen[at * LINE]}` : "")), columns: seen.slice(0, LINE).map((_, at) => (seen.length > LINE ? `+${at}` : `${seen[at]}`)), rankAt: (r, c) => seen[r * LINE + c], about: line ? t("layout.line", { name: names[0], count: all.length }) : "", tell: (rank) => told(usual, rank, own) });
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
  const said = (/** @type {string[]} */ some, /** @type {Place} */ place) => some.map((name) => `${name} ${place[name]}`).join(" ");
  return drawn({
    usual, blamed, own, open, more, rankAt, rows: rows.map((place) => (down.length ? said(down, place) : "")), columns: cols.map((place) => said(across, place)), rowTitle: down.join(" "),
    about: t("layout.by", { down: down.join(", ") || "–", across: across.join(", ") }),
    tell: (rank) => `${told(usual, rank, own)}; ${neighbours(/** @type {Place} */ (places.get(rank)), all, names)}`,
  });
}

/** Opens a rank on this page. @param {number} rank */
const into = (rank) => { keep({ rank }); window.dispatchEvent(new Event("hermes:show")); };

/** @param {import("../data.js").Split[]} usual @param {number} rank @param {string} own */
const told = (usual, rank, own) => `${t("rank.numbered", { rank })}: ${t(`part.${own}`)} ${duration(usual.find((row) => row.rank === rank)?.[own] ?? null) ?? t("not_measured")}`;

/**
 * @param {{usual: import("../data.js").Split[], blamed: Set<number>, own: string, open: (rank: number) => void, more: Node | null, rows: string[], columns: string[], rowTitle?: string, rankAt: (r: number, c: number) => number | undefined, about: string, tell: (rank: number) => string}} map
 */
function drawn({ usual, blamed, own, open, more, rows, columns, rowTitle = "", rankAt, about, tell }) {
  const of = new Map(usual.map((row) => [row.rank, row[own] ?? null]));
  const values = [...of.values()].filter((one) => one !== null);
  const [least, most] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
  const worst = usual.filter((row) => contrast(row[own] ?? least, least, most) >= 0.5).sort((a, b) => b[own] - a[own]).slice(0, 3);
  const value = (/** @type {number} */ r, /** @type {number} */ c) => { const rank = rankAt(r, c); return rank === undefined ? null : of.get(rank) ?? null; };
  return section(
    t("layout"),
    h("p", { class: "about" }, about ? `${about} ` : "", t("layout.is", { measure: t(`part.${own}`), least: duration(least), most: duration(most) }),
      worst.length && worst.length <= usual.length / 2 ? h("b", {}, ` ${t("layout.worst")} ${worst.map((row) => `${t("rank.numbered", { rank: row.rank })} (${duration(row[own])})`).join(", ")}`) : null),
    heat({
      label: t("layout"), rowTitle, rows: rows.map((name) => ({ name })), columns, kind: () => (own === "held" ? "wait" : own), cells: [],
      shade: (r, c) => { const one = value(r, c); return one === null ? null : contrast(one, least, most); },
      show: (r, c) => { const rank = rankAt(r, c); return rank === undefined ? "" : `${blamed.has(rank) ? "▸ " : ""}${rank}`; },
      tell: (r, c) => { const rank = rankAt(r, c); return rank === undefined ? "–" : tell(rank); },
      pick: (r, c) => { const rank = rankAt(r, c); if (rank !== undefined) open(rank); },
    }), more);
}

/** Where coordinates are not recorded: a rank's place in its group of a dimension is one. @param {Map<number, Place>} places */
async function grouped(places) {
  const { parallel, members } = await once("columns", { table: "communication.groups", names: "parallel,members" });
  members.forEach((/** @type {number[] | null} */ own, /** @type {number} */ at) => {
    if (DIMENSIONS.includes(parallel[at])) own?.forEach((rank, place) => { const found = places.get(rank); if (found) found[parallel[at]] = place; });
  });
}

/** The ranks that differ from one in one coordinate alone, for each coordinate. @param {Place} place @param {Place[]} all @param {string[]} names */
function neighbours(place, all, names) {
  return names.map((name) => {
    const own = all.filter((other) => names.every((one) => one === name || other[one] === place[one])).map((other) => other.rank);
    return `${name} ${place[name]} (${runs(own, t("to"))})`;
  }).join(", ");
}
