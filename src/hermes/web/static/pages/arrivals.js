// Arrivals: one small chart for each group, of how long each of its ranks waits for the last one.

import { button, h, s } from "../dom.js";
import { clip, duration, number } from "../format.js";
import { groupName } from "../cells.js";
import { doc, keep, param, to } from "../data.js";
import { t } from "../translate.js";
import { section } from "./parts.js";

const FIRST = 12;
const WIDE = 300;
const TALL = 84;
const NAMED = 16; // ranks up to which each has its number

/** @typedef {{group: string, first_rank: number, parallel: string | null, rank: number, operations: number, last: number, median_wait_ms: number, p90_wait_ms: number, most_wait_ms: number}} Arrival */

/** A section, or null where no two ranks of a group were read. */
export function arrivals() {
  const rows = /** @type {Arrival[]} */ (doc().communication?.arrivals ?? []);
  if (!rows.length) return null;
  /** @type {Map<string, Arrival[]>} */
  const groups = new Map();
  for (const row of rows) {
    const key = `${row.group} ${row.first_rank}`;
    const own = groups.get(key);
    if (own) own.push(row); else groups.set(key, [row]);
  }
  const every = [...groups.values()];
  const shown = param("groups") === "all" ? every : every.slice(0, FIRST);
  const most = Math.max(1e-9, ...rows.map((row) => row.p90_wait_ms));
  return section(
    t("arrivals"), h("p", { class: "about" }, t("arrivals.is", { most: duration(most * 1e6) })),
    h("div", { class: "multiples" }, shown.map((own) => panel(own, most))),
    shown.length < every.length ? h("p", {}, button(t("more_of", { count: every.length - shown.length }), () => { keep({ groups: "all" }); window.dispatchEvent(new Event("hermes:show")); })) : null,
  );
}

/** @param {Arrival[]} rows @param {number} most */
function panel(rows, most) {
  const latest = rows.reduce((best, row) => (row.last > best.last ? row : best), rows[0]);
  // Twice as often as by chance; of two or three ranks, three times out of four.
  const slow = latest.last > Math.min(0.75, 2 / rows.length) * latest.operations;
  const width = WIDE / rows.length;
  const bar = Math.max(0.6, Math.min(26, width - (width > 4 ? 2 : 0.4)));
  const py = (/** @type {number} */ ms) => TALL - 16 - (Math.min(ms, most) / most) * (TALL - 22);
  const tell = (/** @type {Arrival} */ row) => t("arrivals.tell", { rank: row.rank, median: duration(row.median_wait_ms * 1e6), p90: duration(row.p90_wait_ms * 1e6), last: number(row.last), operations: number(row.operations) });
  const name = named(rows);
  return h(
    "figure", { class: "multiple" },
    h("figcaption", {}, h("b", {}, name), ` · ${t("arrivals.ranks", { count: rows.length })}`),
    s("svg", { class: "chart", viewBox: `0 0 ${WIDE} ${TALL}`, role: "img", "aria-label": `${name}: ${rows.slice(0, 16).map(tell).join("; ")}` },
      s("line", { class: "base", x1: 0, x2: WIDE, y1: TALL - 16, y2: TALL - 16 }),
      rows.map((row, at) => s("g", { class: slow && row === latest ? "arrival slow" : "arrival" },
        s("title", {}, tell(row)),
        // All of the column answers the pointer.
        s("rect", { class: "reach", x: at * width, y: 0, width, height: TALL }),
        s("rect", { class: "tail", x: at * width + (width - bar) / 2, y: py(row.p90_wait_ms), width: bar, height: Math.max(0, py(row.median_wait_ms) - py(row.p90_wait_ms)) }),
        s("rect", { class: "wait", x: at * width + (width - bar) / 2, y: py(row.median_wait_ms), width: bar, height: Math.max(0, TALL - 16 - py(row.median_wait_ms)) }),
        slow && row === latest ? s("path", { class: "late", d: `M${at * width + width / 2} ${TALL - 18}l-5 -8h10z` }) : null,
        rows.length <= NAMED ? s("text", { x: at * width + width / 2, y: TALL - 3, "text-anchor": "middle" }, row.rank) : null)),
      rows.length > NAMED ? [s("text", { x: 0, y: TALL - 3 }, rows[0].rank), s("text", { x: WIDE, y: TALL - 3, "text-anchor": "end" }, rows[rows.length - 1].rank)] : null),
    slow ? h("p", { class: "small" }, t("arrivals.slow", { last: number(latest.last), operations: number(latest.operations) }), " ", h("a", { href: to("/ranks", { rank: latest.rank }) }, `rank ${latest.rank}`)) : null,
  );
}

/** @param {Arrival[]} rows */
const named = ([{ group, parallel }]) => (parallel && parallel !== group.toLowerCase() ? `${parallel} (${clip(groupName(group), 40)})` : clip(groupName(group), 60));
