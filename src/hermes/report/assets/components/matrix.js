// The matrix that the analysis made: metrics of ranks, with least, median and most where ranks share a row.

import { measureText, title } from "./cells.js";
import { contrast, heat } from "./charts.js";
import { duration } from "./format.js";
import { t } from "./translate.js";

/**
 * @typedef {{least: number, median: number, most: number, most_rank: number}} Spread
 * @typedef {{metrics: (Spread & {name: string, unit: string})[], rows: {first_rank: number, last_rank: number, cells: (Spread | null)[]}[]}} RankMatrix
 */

/** Each row shows its most; `into` is told the ranks of the row that is opened. @param {RankMatrix} made @param {(ranks: number[]) => void} [into] */
export function matrix(made, into) {
  /** @param {number} r @param {number} c */
  const cell = (r, c) => made.rows[r].cells[c];
  /** @param {number} r */
  const ranks = (r) => (made.rows[r].first_rank === made.rows[r].last_rank ? [made.rows[r].first_rank] : [made.rows[r].first_rank, made.rows[r].last_rank]);
  /** @param {number} c @param {number} amount */
  const unit = (c, amount) => (made.metrics[c].unit === "ms" ? duration(Math.round(amount * 1e6)) : measureText(made.metrics[c].name, amount, made.metrics[c].unit)) ?? "";
  return heat({
    label: t("ranks.matrix"), rowTitle: t("rank"),
    rows: made.rows.map((_, r) => ({ name: ranks(r).join("–") })),
    columns: made.metrics.map((metric) => title(metric.name)),
    kind: () => "window", cells: made.rows.map((row) => row.cells.map((one) => one?.most ?? null)),
    shade: (r, c) => {
      const own = cell(r, c);
      const { least, most } = made.metrics[c];
      return own === null ? null : contrast(own.most, least, most);
    },
    show: (r, c) => {
      const own = cell(r, c);
      return own === null ? "" : unit(c, own.most);
    },
    tell: (r, c) => {
      const own = cell(r, c);
      const name = `rank ${ranks(r).join("–")}, ${title(made.metrics[c].name)}`;
      if (own === null) return `${name}: ${t("not_measured")}`;
      return ranks(r).length === 1 ? `${name}: ${unit(c, own.most)}` : `${name}: ${unit(c, own.least)} … ${unit(c, own.most)} (rank ${own.most_rank})`;
    },
    pick: into && ((r) => into(ranks(r))),
  });
}
