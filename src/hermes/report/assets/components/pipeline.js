// Pipeline: what each stage does in one step: passes of micro-batches, and the sends and receives between them.

import { drawnWide } from "./charts.js";
import { h, s, say } from "./dom.js";
import { duration } from "./format.js";
import { doc } from "./data.js";
import { t } from "./translate.js";

/**
 * @typedef {{rank: number, stage: number, step: number, kind: string, micro_batch: number | null, at_ms: number, dur_ms: number, gaps_ms: number | null, wait_ms: number | null, kernels: number | null, start_ns: string | number}} Box
 */

const LEFT = 112;
const PASS = 24; // height of a pass
const MOVE = 9; // of a send or receive, below it
const ROW = PASS + MOVE + 9;
const NAMED = 13; // pixels from which on a box has its number
/** @type {Record<string, [number, number]>} */
const AROUND = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const LEGEND = ["forward", "backward", "compute", "optimizer", "comm", "wait"];

/** @param {number} ms */
const ns = (ms) => Math.round(ms * 1e6);

/** Whether a box is a transfer. @param {Box} box */
const moves = (box) => box.kernels === null;

/** A box in words. @param {Box} box */
function told(box) {
  const number = box.micro_batch === null ? "" : ` ${box.micro_batch}`;
  const gaps = box.gaps_ms ? [t("pipeline.gaps", { time: duration(ns(box.gaps_ms)) })] : [];
  const waits = box.wait_ms ? [t("pipeline.waits", { time: duration(ns(box.wait_ms)) })] : [];
  return [`rank ${box.rank}: ${t(`pass.${box.kind}`)}${number}, ${duration(ns(box.dur_ms))}`, t("pipeline.at", { time: duration(ns(box.at_ms)) ?? "0" }), ...gaps, ...waits].join(", ");
}

/** The kinds that the legend names: those that are there. @param {Box[]} boxes */
function legend(boxes) {
  const there = new Set(boxes.flatMap((box) => (moves(box) ? ["comm", ...(box.wait_ms ? ["wait"] : [])] : [box.kind])));
  return h("ul", { class: "legend" }, LEGEND.filter((kind) => there.has(kind)).map((kind) => h("li", {}, h("span", { class: `key pass-${kind}`, "aria-hidden": "true" }), t(`pass.${kind}`))));
}

/**
 * A chart, or null where no pipeline was found; a click or Enter picks a box.
 * @param {{pick?: (box: Box) => void}} [options]
 */
export function pipeline({ pick } = {}) {
  const boxes = /** @type {Box[]} */ (doc().pipeline_boxes ?? []);
  if (!boxes.length) return null;
  /** @type {Map<number, Box[]>} */
  const byRank = new Map();
  for (const box of boxes) byRank.set(box.rank, [...(byRank.get(box.rank) ?? []), box]);
  const rows = [...byRank.values()].map((own) => own.toSorted((a, b) => a.at_ms - b.at_ms || b.dur_ms - a.dur_ms));
  const WIDE = drawnWide();
  const end = Math.max(...boxes.map((box) => box.at_ms + box.dur_ms)) || 1;
  const px = (/** @type {number} */ ms) => LEFT + (ms / end) * (WIDE - LEFT - 8);
  const read = h("p", { class: "readout", "aria-live": "polite" }, t(pick ? "pipeline.hint_open" : "pipeline.hint"));
  /** @type {Map<Box, SVGElement>} */
  const drawn = new Map();
  let own = [0, -1];
  const tell = (/** @type {Box} */ box, /** @type {number} */ r) => {
    for (const old of drawn.values()) old.classList.remove("on");
    drawn.get(box)?.classList.add("on");
    own = [r, rows[r].indexOf(box)];
    read.textContent = told(box);
  };
  const draw = (/** @type {Box} */ box, /** @type {number} */ r) => {
    const [x, wide] = [px(box.at_ms), Math.max(0.6, px(box.at_ms + box.dur_ms) - px(box.at_ms))];
    const y = r * ROW + 4 + (moves(box) ? PASS + 2 : 0);
    const height = moves(box) ? MOVE : PASS;
    const waited = box.wait_ms ? Math.min(wide, (wide * box.wait_ms) / box.dur_ms) : 0;
    const made = s("g", { class: `box pass-${moves(box) ? "comm" : box.kind}`, onpointerenter: () => tell(box, r), onclick: () => pick?.(box) },
      s("title", {}, told(box)),
      s("rect", { x, y, width: wide, height }),
      waited ? s("rect", { class: "pass-wait", x, y, width: waited, height }) : null,
      !moves(box) && box.micro_batch !== null && wide >= NAMED + 5 * (String(box.micro_batch).length - 1) ? s("text", { x: x + wide / 2, y: y + height / 2 + 4, "text-anchor": "middle" }, box.micro_batch) : null);
    drawn.set(box, made);
    return made;
  };
  const tall = rows.length * ROW + 22;
  const ticks = [0, 0.25, 0.5, 0.75, 1].filter((_, at) => WIDE > 600 || at % 2 === 0);
  const chart = s("svg", {
    class: `chart passes${pick ? " pickable" : ""}`, viewBox: `0 0 ${WIDE} ${tall}`, role: "group", tabindex: 0, "aria-label": `${t("pipeline")}. ${t("arrows")}`,
    onkeydown: (event) => {
      const move = AROUND[event.key];
      if (move) {
        const r = Math.max(0, Math.min(rows.length - 1, own[0] + move[0]));
        // Above and below stands what runs at the same time.
        const now = rows[own[0]][Math.max(0, own[1])].at_ms;
        const near = () => rows[r].reduce((best, box, at) => (Math.abs(box.at_ms - now) < Math.abs(rows[r][best].at_ms - now) ? at : best), 0);
        const at = move[0] ? near() : Math.max(0, Math.min(rows[r].length - 1, own[1] + move[1]));
        tell(rows[r][at], r);
        say(read.textContent ?? "");
        event.preventDefault();
      }
      if (event.key === "Enter" && own[1] >= 0) pick?.(rows[own[0]][own[1]]);
    },
  },
  ticks.map((share) => s("g", { class: "tick" }, s("line", { x1: px(share * end), x2: px(share * end), y1: 0, y2: tall - 20 }), s("text", { x: px(share * end), y: tall - 4, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, share ? duration(ns(share * end)) ?? "" : "0"))),
  rows.map((row, r) => s("g", {}, s("text", { x: LEFT - 8, y: r * ROW + 4 + PASS / 2 + 4, "text-anchor": "end" }, t("pipeline.row", { stage: row[0].stage, rank: row[0].rank })), row.map((box) => draw(box, r)))));
  return h("figure", { class: "lines", id: "passes" }, legend(boxes), chart, read);
}
