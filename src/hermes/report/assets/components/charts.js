// Charts by meaning: stacked bars, lines over steps, heat maps, curves. Each says in words what it shows.

import { h, s, say } from "./dom.js";
import { bytes, duration, share } from "./format.js";
import { t } from "./translate.js";

export const PARTS = /** @type {const} */ (["compute", "comm", "copy", "free"]);

/** Colours and their meaning. @param {readonly string[]} kinds */
export const legend = (kinds) =>
  h("ul", { class: "legend" }, kinds.map((kind) => h("li", {}, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), t(`part.${kind}`))));

/**
 * A stacked bar; parts in ns.
 * @param {{kind: string, name: string, ns: number}[]} parts @param {number} window @param {number} longest
 */
export function stack(parts, window, longest) {
  const said = parts.filter((part) => part.ns > 0).map((part) => `${part.name} ${duration(part.ns)} ${share(part.ns, window)}`).join(", ");
  return h(
    "span", { class: "stack", role: "img", "aria-label": said || t("not_measured"), style: { width: `${(100 * window) / (longest || 1)}%` } },
    parts.length
      ? parts.filter((part) => part.ns > 0).map((part) =>
          h("span", { class: `seg ${part.kind}`, title: `${part.name}: ${duration(part.ns)}, ${share(part.ns, window)}`, style: { "flex-grow": String(part.ns) } }))
      : h("span", { class: "seg unknown", title: t("not_measured"), style: { "flex-grow": "1" } }),
  );
}

/** @param {{compute: number | null, comm: number | null, copy: number | null, free: number | null}} row times in ns */
export function partsOf(row) {
  if (row.compute === null) return [];
  return PARTS.map((kind) => ({ kind, name: t(`part.${kind}`), ns: row[kind] ?? 0 }));
}

/** @type {Record<string, number>} */
const ASIDE = { ArrowLeft: -1, ArrowRight: 1 };
/** @type {Record<string, [number, number]>} */
const AROUND = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const DESK = 1000;
const TALL = 220;

/** How wide charts are drawn: on a phone as wide as it is, so that their text keeps its size. */
export const drawnWide = () => Math.max(300, Math.min(DESK, innerWidth - 30));

/** How strong a value is beside the others of its scale: what differs by less than a twentieth stays faint. @param {number} value @param {number} least @param {number} most */
export const contrast = (value, least, most) => (most > 0 ? (value - least) / Math.max(most - least, most / 20) : 0);

/** Ticks at round numbers. @param {number} most @param {number} [count] */
function ticks(most, count = 4) {
  if (!(most > 0)) return [0];
  const raw = most / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw) ?? raw;
  const found = [];
  for (let at = 0; at <= most * 1.0001; at += step) found.push(at);
  return found;
}

/** How high a chart is: as its most, but where a few of many values would flatten all others. @param {number[]} values */
function height(values) {
  const ordered = values.toSorted((a, b) => a - b);
  const most = ordered[ordered.length - 1];
  const usual = ordered[Math.floor(0.98 * (ordered.length - 1))];
  return ordered.length >= FEW && most > FLATTENS * usual && usual > 0 ? 1.5 * usual : most;
}
const FEW = 20; // values from which on a fiftieth of them is one at least
const FLATTENS = 4; // times the others, from which on they would lie in the lowest quarter

/**
 * Lines over steps, and a band; x are step numbers.
 * @param {{label: string, lines: {name: string, kind: string, points: [number, number][], strong?: boolean}[], band?: [number, number, number][], unit?: (value: number) => string | null, xName: string, marks?: number[], stretches?: [number, number][], changes?: number[], pick?: (x: number) => void}} options
 */
export function lines({ label, lines, band = [], unit = duration, xName, marks = [], stretches = [], changes = [], pick }) {
  const every = [...lines.flatMap((line) => line.points), ...band.flatMap(([x, low, high]) => [[x, low], [x, high]])];
  if (!every.length) return h("p", { class: "none" }, t("not_measured"));
  const WIDE = drawnWide();
  const xs = every.map(([x]) => x);
  const least = Math.min(...xs);
  const most = Math.max(...xs);
  const most_y = Math.max(...every.map(([, y]) => y));
  const top = height(every.map(([, y]) => y)) * 1.05 || 1;
  const beyond = top < most_y ? lines.flatMap((line) => line.points.filter(([, y]) => y > top)) : [];
  const px = (/** @type {number} */ x) => 62 + ((x - least) / (most - least || 1)) * (WIDE - 74);
  const py = (/** @type {number} */ y) => TALL - 24 - (Math.min(y, top) / top) * (TALL - 34);
  const path = (/** @type {number[][]} */ points) => points.map(([x, y], at) => `${at ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("");
  const axis = ticks(top / 1.05).map((value) => s("g", { class: "tick" }, s("line", { x1: 62, x2: WIDE - 12, y1: py(value), y2: py(value) }), s("text", { x: 56, y: py(value) + 4, "text-anchor": "end" }, unit(value) ?? "")));
  const foot = [...new Set([least, Math.round((least + most) / 2), most])].map((x) => s("text", { class: "foot", x: px(x), y: TALL - 6, "text-anchor": x === least ? "start" : x === most ? "end" : "middle" }, `${xName} ${x}`));
  const hover = s("line", { class: "hover", y1: 8, y2: TALL - 24, visibility: "hidden" });
  const read = h("p", { class: "readout" }, " ");
  const at = (/** @type {MouseEvent} */ event) => {
    const box = chart.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * WIDE;
    return xs.reduce((best, x) => (Math.abs(px(x) - place) < Math.abs(px(best) - place) ? x : best), xs[0]);
  };
  const tell = (/** @type {number} */ x) => {
    hover.setAttribute("x1", String(px(x)));
    hover.setAttribute("x2", String(px(x)));
    hover.setAttribute("visibility", "visible");
    const values = lines.map((line) => [line.name, line.points.find(([own]) => own === x)]).filter(([, point]) => point);
    read.textContent = `${xName} ${x}: ${values.slice(0, 9).map(([name, point]) => `${name} ${unit(/** @type {[number, number]} */ (point)[1])}`).join(", ")}`;
  };
  let own = least;
  const chart = s(
    "svg", {
      class: "chart", viewBox: `0 0 ${WIDE} ${TALL}`, role: "img", "aria-label": label, tabindex: 0,
      onpointermove: (event) => tell(at(event)), onclick: (event) => pick?.(at(event)),
      onkeydown: (event) => {
        const sorted = [...new Set(xs)].sort((a, b) => a - b);
        const move = ASIDE[event.key];
        if (move) { own = sorted[Math.min(sorted.length - 1, Math.max(0, sorted.indexOf(own) + move))]; tell(own); say(read.textContent ?? ""); event.preventDefault(); }
        if (event.key === "Enter") pick?.(own);
      },
    },
    axis,
    stretches.map(([from, until]) => s("rect", { class: "captured", x: px(Math.max(least, from)), y: 8, width: Math.max(3, px(Math.min(most, until)) - px(Math.max(least, from))), height: TALL - 32 }, s("title", {}, `${t("chart.captured")}: ${xName} ${from}–${until - 1}`))),
    band.length ? s("path", { class: "band", d: `${path(band.map(([x, , high]) => [x, high]))}${path(band.map(([x, low]) => [x, low]).reverse()).replace("M", "L")}Z` }) : null,
    changes.map((x) => s("path", { class: "change", d: `M${px(x)} 8V${TALL - 24}M${px(x) - 5} 2h10l-5 8z` }, s("title", {}, `${t("chart.change")}: ${xName} ${x}`))),
    marks.map((x) => s("line", { class: "mark", x1: px(x), x2: px(x), y1: 8, y2: TALL - 24 })),
    lines.map((line) => (line.points.length === 1 ? s("circle", { class: `dot ${line.kind}`, cx: px(line.points[0][0]), cy: py(line.points[0][1]), r: 4 }) : s("path", { class: `line ${line.kind}${line.strong ? " strong" : ""}`, d: path(line.points) }, s("title", {}, line.name)))),
    beyond.map(([x, y]) => s("path", { class: "beyond", d: `M${px(x)} 2l-5 8h10z` }, s("title", {}, `${xName} ${x}: ${unit(y)}`))),
    foot, hover,
  );
  const names = lines.length > 1 && new Set(lines.map((line) => line.kind)).size === lines.length ? lines : [];
  return h(
    "figure", { class: "lines" }, chart,
    names.length || band.length || stretches.length || changes.length || beyond.length ? h("ul", { class: "legend" },
      names.map((line) => h("li", {}, h("span", { class: `key ${line.kind}`, "aria-hidden": "true" }), line.name)),
      band.length ? h("li", {}, h("span", { class: "key band", "aria-hidden": "true" }), t("chart.band")) : null,
      stretches.length ? h("li", {}, h("span", { class: "key captured", "aria-hidden": "true" }), t("chart.captured")) : null,
      beyond.length ? h("li", {}, h("span", { class: "key beyond", "aria-hidden": "true" }, "▲"), t("chart.beyond", { count: beyond.length, most: unit(most_y) })) : null,
      changes.length ? h("li", {}, h("span", { class: "key change", "aria-hidden": "true" }), t("chart.change")) : null) : null,
    read,
  );
}

const MANY_ROWS = 40; // from which on they are drawn low, so that all are in sight at once

/**
 * A heat map; `value` null where nothing was measured. The cell under the pointer or the arrow keys is told in words.
 * @param {{label: string, rows: {name: string, outlined?: boolean, note?: string}[], columns: string[], kind: (column: number) => string, cells: (number | null)[][], tell: (row: number, column: number) => string, shade: (row: number, column: number) => number | null, show?: (row: number, column: number) => string, pick?: (row: number, column: number) => void, rowTitle?: string}} options
 */
export function heat({ label, rows, columns, kind, cells, tell, shade, show, pick, rowTitle = "" }) {
  const read = h("p", { class: "readout", "aria-live": "polite" }, " ");
  const wide = columns.length > 24;
  let own = [0, 0];
  const boxes = rows.map((row, r) => columns.map((_, c) => {
    const amount = shade(r, c);
    const strength = amount === null ? 0 : Math.min(1, Math.max(0, amount));
    // Under numbers a cell stays light enough for them to be read.
    const much = wide || !show ? 6 + 94 * strength : 3 + 42 * strength;
    return h("td", { class: amount === null ? "cell gap" : `cell ${kind(c)}`, "data-r": r, "data-c": c, style: amount === null ? {} : { "--much": `${Math.round(much)}%` } }, show && !wide ? show(r, c) : "");
  }));
  const mark = (/** @type {number} */ r, /** @type {number} */ c) => {
    for (const old of grid.querySelectorAll(".cell.on")) old.classList.remove("on");
    own = [r, c];
    boxes[r]?.[c]?.classList.add("on");
    read.textContent = tell(r, c);
  };
  const place = (/** @type {Event} */ event) => {
    const cell = event.target instanceof Element ? event.target.closest("[data-r]") : null;
    return cell instanceof HTMLElement ? [Number(cell.dataset.r), Number(cell.dataset.c)] : null;
  };
  const body = rows.map((row, r) => h("tr", { class: row.outlined ? "outlined" : "" }, row.name ? h("th", { scope: "row", title: row.note ?? null }, row.name) : h("td"), boxes[r]));
  const every = Math.max(1, Math.ceil(columns.length / 12));
  const grid = h(
    "table", {
      class: `heat${wide ? " wide" : ""}${rows.length > MANY_ROWS ? (wide ? " many" : " tall") : ""}`, "aria-label": label,
      onpointermove: (event) => { const at = place(event); if (at) mark(at[0], at[1]); },
      onclick: (event) => { const at = place(event); if (at) pick?.(at[0], at[1]); },
    },
    h("thead", {}, h("tr", {}, rowTitle ? h("th", { scope: "col" }, rowTitle) : h("td"), columns.map((name, c) => (wide && c % every ? h("td") : h("th", { scope: "col" }, h("span", {}, name)))))),
    h("tbody", {}, body),
  );
  const holder = h("div", {
    class: "heatbox", tabindex: 0, role: "group", "aria-label": pick ? `${label}. ${t("arrows")}` : label,
    onkeydown: (event) => {
      const move = AROUND[event.key];
      if (move) { mark(Math.min(rows.length - 1, Math.max(0, own[0] + move[0])), Math.min(columns.length - 1, Math.max(0, own[1] + move[1]))); event.preventDefault(); }
      if (event.key === "Enter") pick?.(own[0], own[1]);
    },
  }, grid);
  void cells;
  return h("figure", { class: "heatmap" }, holder, read);
}

const NAMED_MARKS = 8; // more names would lie on one another

/**
 * Curves over time from buckets of least and most; a click or Enter picks a moment.
 * @param {{label: string, first: string, last: string, bucket: number, curves: {name: string, kind: string, points: [number, number, number][]}[], unit?: (value: number) => string | null, pick?: (at: bigint) => void, picked?: bigint | null, upTo?: number, marks?: {at: string | number, name: string}[]}} options `upTo` is the least height, so that charts can share one; `marks` are moments
 */
export function curves({ label, first, last, bucket, curves, unit = bytes, pick, picked = null, upTo = 1e-9, marks = [] }) {
  const WIDE = drawnWide();
  const span = Number(BigInt(last) - BigInt(first)) || 1;
  const top = Math.max(upTo, ...curves.flatMap((curve) => curve.points.map(([, , most]) => most))) * 1.05;
  const inside = marks.filter(({ at }) => BigInt(at) >= BigInt(first) && BigInt(at) <= BigInt(last));
  const px = (/** @type {number} */ ns) => 70 + (Math.min(ns, span) / span) * (WIDE - 82);
  const py = (/** @type {number} */ y) => TALL - 24 - (y / top) * (TALL - 34);
  const area = (/** @type {[number, number, number][]} */ points) => {
    const up = points.map(([place, , most], at) => `${at ? "L" : "M"}${px(place * bucket).toFixed(1)} ${py(most).toFixed(1)}`).join("");
    const down = points.toReversed().map(([place, least]) => `L${px(place * bucket).toFixed(1)} ${py(least).toFixed(1)}`).join("");
    return `${up}${down}Z`;
  };
  const read = h("p", { class: "readout" }, " ");
  const moment = (/** @type {MouseEvent} */ event) => {
    const box = chart.getBoundingClientRect();
    const share = (((event.clientX - box.left) / box.width) * WIDE - 70) / (WIDE - 82);
    return Math.min(span, Math.max(0, share * span));
  };
  const cursor = s("line", { class: "hover", y1: 8, y2: TALL - 24, visibility: picked === null ? "hidden" : "visible" });
  const tell = (/** @type {number} */ ns) => {
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x1", String(px(ns)));
    cursor.setAttribute("x2", String(px(ns)));
    const place = ns / bucket;
    const values = curves.map((curve) => [curve.name, curve.points.findLast(([own]) => own <= place) ?? curve.points[0]]);
    read.textContent = `${duration(ns)}: ${values.map(([name, point]) => `${name} ${unit(/** @type {number[]} */ (point)[2])}`).join(", ")}`;
  };
  let own = 0;
  const chart = s(
    "svg", {
      class: "chart", viewBox: `0 0 ${WIDE} ${TALL}`, role: "img", "aria-label": label, tabindex: 0,
      onpointermove: (event) => tell(moment(event)),
      onclick: (event) => pick?.(BigInt(first) + BigInt(Math.round(moment(event)))),
      onkeydown: (event) => {
        const move = ASIDE[event.key];
        if (move) { own = Math.min(span, Math.max(0, own + (move * span) / 100)); tell(own); say(read.textContent ?? ""); event.preventDefault(); }
        if (event.key === "Enter") pick?.(BigInt(first) + BigInt(Math.round(own)));
      },
    },
    ticks(top / 1.05).map((value) => s("g", { class: "tick" }, s("line", { x1: 70, x2: WIDE - 12, y1: py(value), y2: py(value) }), s("text", { x: 64, y: py(value) + 4, "text-anchor": "end" }, unit(value) ?? ""))),
    inside.map(({ at, name }) => s("line", { class: "mark", x1: px(Number(BigInt(at) - BigInt(first))), x2: px(Number(BigInt(at) - BigInt(first))), y1: 8, y2: TALL - 24 }, s("title", {}, name))),
    inside.length <= NAMED_MARKS ? inside.map(({ at, name }) => s("text", { class: "foot", x: px(Number(BigInt(at) - BigInt(first))) + 3, y: 12 }, name)) : null,
    curves.map((curve) => s("path", { class: `area ${curve.kind}`, d: area(curve.points) }, s("title", {}, curve.name))),
    s("text", { class: "foot", x: 70, y: TALL - 6 }, "0"), s("text", { class: "foot", x: WIDE - 12, y: TALL - 6, "text-anchor": "end" }, duration(span) ?? ""),
    cursor,
  );
  if (picked !== null) tell(Number(picked - BigInt(first)));
  return h("figure", { class: "lines" }, chart, h("p", { class: "legend-line" }, curves.map((curve) => h("span", {}, h("span", { class: `key ${curve.kind}`, "aria-hidden": "true" }), curve.name))), read);
}

/**
 * Stretches of time in rows, on one axis.
 * @param {{label: string, rows: {name: string, pieces: {kind: string, from: number, to: number, text: string, href?: string}[]}[], span: number}} options
 */
export function strips({ label, rows, span }) {
  const WIDE = drawnWide();
  const height = 22;
  const px = (/** @type {number} */ ns) => 90 + (ns / (span || 1)) * (WIDE - 100);
  const read = h("p", { class: "readout", "aria-live": "polite" }, t("strip_hint"));
  const tall = rows.length * height + 22;
  const chart = s(
    "svg", { class: "chart strips", viewBox: `0 0 ${WIDE} ${tall}`, role: "group", "aria-label": label },
    rows.map((row, at) => s(
      "g", {},
      s("text", { x: 84, y: at * height + 15, "text-anchor": "end" }, row.name),
      row.pieces.map((piece) => {
        const rect = s("rect", { class: piece.kind, x: px(piece.from), y: at * height + 3, width: Math.max(0.8, px(piece.to) - px(piece.from)), height: height - 6, onpointerenter: () => { read.textContent = piece.text; } }, s("title", {}, piece.text));
        return piece.href ? s("a", { href: piece.href, "aria-label": piece.text, onfocus: () => { read.textContent = piece.text; } }, rect) : rect;
      }),
    )),
    s("text", { class: "foot", x: 90, y: tall - 4 }, "0"),
    s("text", { class: "foot", x: WIDE - 10, y: tall - 4, "text-anchor": "end" }, duration(span) ?? ""),
  );
  return h("figure", { class: "lines" }, chart, read);
}
