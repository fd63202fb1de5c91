// Roofline: operators by the work of a byte and the rate they reach, where the analysis has both.

import { drawnWide } from "./charts.js";
import { h, s } from "./dom.js";
import { clean, duration, number } from "./format.js";
import { doc } from "./data.js";
import { t } from "./translate.js";

const TELLING = 0.001; // of the time: what takes less would stretch the axes by decades
const TALL = 320;

/**
 * @typedef {{operator: string, shapes: string, flops: number, bytes: number, tflops: number, total_ms: number, bound: string | null}} Operator
 * @typedef {{chip: string, gb_per_s: number | null, rates: {precision: string, tflops: number}[]}} Chip
 */

/** A chart, or null where no operator has its work, its bytes and its time. */
export function roofline() {
  const compute = doc().compute;
  const known = (/** @type {Operator[]} */ (compute?.operators ?? [])).filter((row) => row.flops > 0 && row.bytes > 0 && row.tflops > 0);
  const total = known.reduce((sum, row) => sum + row.total_ms, 0);
  const rows = known.filter((row) => row.total_ms >= TELLING * total);
  if (!rows.length) return null;
  const WIDE = drawnWide();
  const points = rows.map((row) => ({ x: row.flops / row.bytes, y: row.tflops, row }));
  const chips = (/** @type {Chip[]} */ (compute.chips ?? [])).filter((chip) => chip.gb_per_s && chip.rates?.length);
  const roofs = chips.slice(0, 1).flatMap((chip) => chip.rates.map((rate) => ({ name: rate.precision, top: rate.tflops, slope: (chip.gb_per_s ?? 0) / 1000 })));
  const xs = points.map((point) => point.x);
  const ys = [...points.map((point) => point.y), ...roofs.map((roof) => roof.top)];
  const [left, right] = [Math.floor(Math.log10(Math.min(...xs))), Math.ceil(Math.log10(Math.max(...xs, 1)) + 0.3)];
  const [low, high] = [Math.floor(Math.log10(Math.min(...ys))), Math.ceil(Math.log10(Math.max(...ys)))];
  const px = (/** @type {number} */ x) => 60 + ((Math.log10(x) - left) / (right - left || 1)) * (WIDE - 76);
  const py = (/** @type {number} */ y) => TALL - 30 - ((Math.log10(y) - low) / (high - low || 1)) * (TALL - 44);
  const read = h("p", { class: "readout", "aria-live": "polite" }, t("roofline.hint"));
  const most = Math.max(...rows.map((row) => row.total_ms));
  const decades = (/** @type {number} */ from, /** @type {number} */ to) => Array.from({ length: to - from + 1 }, (_, at) => 10 ** (from + at));
  const tell = (/** @type {Operator} */ row) => `${clean(row.operator)} ${clean(row.shapes)}: ${row.tflops.toPrecision(3)} TFLOP/s, ${(row.flops / row.bytes).toPrecision(3)} FLOP/B, ${duration(row.total_ms * 1e6)}${row.bound ? `, ${row.bound}` : ""}`.slice(0, 300);
  const chart = s("svg", { class: "chart roof", viewBox: `0 0 ${WIDE} ${TALL}`, role: "group", tabindex: 0, "aria-label": t("roofline") },
    decades(low, high).map((y) => s("g", { class: "tick" }, s("line", { x1: 60, x2: WIDE - 16, y1: py(y), y2: py(y) }), s("text", { x: 54, y: py(y) + 4, "text-anchor": "end" }, y))),
    decades(left, right).filter((_, at) => (right - left - at) % Math.ceil((60 * (right - left)) / WIDE) === 0).map((x) => s("text", { class: "foot", x: px(x), y: TALL - 10, "text-anchor": x === 10 ** right ? "end" : "middle" }, x === 10 ** right ? `${x} FLOP/B` : x)),
    roofs.map((roof) => {
      const knee = roof.top / roof.slope;
      const start = Math.max(10 ** left, 10 ** low / roof.slope);
      return s("g", {}, s("path", { class: "roofline", d: `M${px(start)} ${py(start * roof.slope)}L${px(Math.min(knee, 10 ** right))} ${py(Math.min(roof.top, 10 ** right * roof.slope))}L${px(10 ** right)} ${py(Math.min(roof.top, 10 ** right * roof.slope))}` }));
    }),
    s("text", { class: "foot", x: 64, y: py(10 ** high) + 12 }, "TFLOP/s"),
    points.map(({ x, y, row }) => s("circle", { class: "compute", cx: px(x), cy: py(y), r: 3 + 11 * Math.sqrt(row.total_ms / most), onpointerenter: () => { read.textContent = tell(row); } }, s("title", {}, tell(row)))));
  return h("section", { class: "block" }, h("h2", {}, t("roofline")), h("p", { class: "about" }, `${t("roofline.is")}${roofs.length ? ` ${t("roofline.of", { chip: clean(chips[0].chip), rates: named(roofs) })}` : ""}`), h("figure", { class: "lines" }, chart, read));
}

/** The heights of the lines in words. @param {{name: string, top: number}[]} roofs */
function named(roofs) {
  const heights = [...new Set(roofs.map((roof) => roof.top))].sort((a, b) => b - a);
  return heights.map((top) => `${roofs.filter((roof) => roof.top === top).map((roof) => clean(roof.name)).join(", ")} ${number(top)}`).join("; ");
}
