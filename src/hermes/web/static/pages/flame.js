// Flame view: what the host called in a step, merged by its way down. A width is time; callers stand above.

import { h, say } from "../dom.js";
import { clean, clip, duration, number, percent } from "../format.js";
import { ask, keep, param, timelineAt } from "../data.js";
import { t } from "../translate.js";
import { picker, section } from "./parts.js";

const ROW = 19; // px, as in the style
const THIN = 0.0015; // of the width: narrower ones cannot be seen
const NAMED = 0.03; // narrower ones hold no text

/**
 * @typedef {{name: string, kind: string, parent: number, calls: number, total: number, at: string | number | null, depth: number, from: number, children: number[]}} Frame
 * @typedef {{step: number | null, steps: number[], start_ns: string, ns: number, frames: [string, string, number, number, number, string | number | null][]}} Answer
 */

/** A section that fills itself. @param {number | null} rank */
export function flame(rank) {
  const holder = h("div", {}, h("p", { class: "wait" }, t("loading")));
  const step = param("step");
  const shown = ask("flame", { rank, step: step === "all" ? "" : step, whole: step === "all" ? 1 : "" });
  shown.then(
    (answer) => holder.replaceChildren(...drawn(answer, rank)),
    (error) => holder.replaceChildren(h("p", { class: "wrong", role: "alert" }, clean(error.message))),
  );
  return section(t("flame"), h("p", { class: "about" }, t("flame.is")), holder);
}

/** Where each frame begins, beside those of its caller. @param {Answer} answer @returns {Frame[]} */
function placed({ frames }) {
  /** @type {Frame[]} */
  const found = [];
  const end = [];
  let roots = 0;
  for (const [name, kind, parent, calls, total, at] of frames) {
    /** @type {number} */
    const from = parent < 0 ? roots : end[parent];
    if (parent < 0) roots += total; else { end[parent] += total; found[parent].children.push(found.length); }
    end.push(from);
    found.push({ name: clean(name), kind, parent, calls, total, at, depth: parent < 0 ? 0 : found[parent].depth + 1, from, children: [] });
  }
  return found;
}

/** @param {Answer} answer @param {number | null} rank */
function drawn(answer, rank) {
  const frames = placed(answer);
  const steps = picker("step", t("step"), [...answer.steps.map((step) => /** @type {[string, string]} */ ([String(step), `${t("step")} ${step}`])), ["all", t("flame.whole")]], answer.step === null ? "all" : String(answer.step), ["frame"]);
  const controls = h("div", { class: "controls" }, answer.steps.length ? steps : null);
  if (!frames.length) return [controls, h("p", { class: "none" }, t("flame.none"))];
  const whole = frames.filter((frame) => frame.parent < 0).reduce((sum, frame) => sum + frame.total, 0);
  const inside = Number(param("frame", "-1"));
  let root = inside in frames ? inside : -1;
  let own = Math.max(0, root);
  const read = h("p", { class: "readout", "aria-live": "polite" }, t("flame.hint"));
  const out = h("button", { type: "button", onclick: () => zoom(-1) }, t("flame.out"));
  const slice = h("a", { class: "openit" }, t("open_timeline"));
  const box = h("div", {
    class: "flame", tabindex: 0, role: "group", "aria-label": `${t("flame")}. ${t("arrows")}`,
    onpointermove: (event) => { const at = of(event); if (at !== null && at !== own) mark(at, false); },
    onclick: (event) => { const at = of(event); if (at !== null) zoom(at === root ? frames[at].parent : at); },
    onkeydown: (event) => {
      const moved = { ArrowUp: frames[own].parent, ArrowDown: frames[own].children[0], ArrowLeft: beside(-1), ArrowRight: beside(1) }[event.key];
      if (event.key.startsWith("Arrow")) { event.preventDefault(); if (moved !== undefined && moved >= 0) mark(moved, true); }
      if (event.key === "Enter") zoom(own === root ? frames[own].parent : own);
      if (event.key === "Escape" && root >= 0) zoom(-1);
    },
  });
  const of = (/** @type {Event} */ event) => {
    const cell = event.target instanceof HTMLElement ? event.target.dataset.at : undefined;
    return cell === undefined ? null : Number(cell);
  };
  const beside = (/** @type {number} */ by) => {
    const all = frames[own].parent < 0 ? [...frames.keys()].filter((at) => frames[at].parent < 0) : frames[frames[own].parent].children;
    return all[all.indexOf(own) + by];
  };
  /** @param {number} at @param {boolean} spoken */
  const mark = (at, spoken) => {
    own = at;
    for (const old of box.querySelectorAll(".on")) old.classList.remove("on");
    const cell = box.querySelector(`[data-at="${at}"]`);
    cell?.classList.add("on");
    if (spoken) cell?.scrollIntoView({ block: "nearest" });
    const { name, total, calls, children } = frames[at];
    const below = children.reduce((sum, child) => sum + frames[child].total, 0);
    read.textContent = t(calls ? "flame.tell" : "flame.tell_frame", { name: clip(name, 300), total: duration(total), share: percent(total / whole), self: duration(total - below), calls: number(calls) });
    if (spoken) say(read.textContent);
    slice.hidden = frames[at].at === null;
    if (frames[at].at !== null) slice.setAttribute("href", timelineAt({ rank: rank ?? undefined, at: frames[at].at, dur: calls ? total / calls : total, name }));
  };
  const zoom = (/** @type {number} */ at) => {
    root = at;
    keep({ frame: at < 0 ? null : at });
    draw();
    mark(Math.max(0, at), true);
  };
  const draw = () => {
    const span = root < 0 ? whole : frames[root].total;
    const first = root < 0 ? 0 : frames[root].from;
    const above = new Set();
    for (let at = root; at >= 0; at = frames[at].parent) above.add(at);
    let deep = 0;
    const cells = frames.flatMap((frame, at) => {
      const wide = above.has(at) ? 1 : frame.total / span;
      const left = above.has(at) ? 0 : (frame.from - first) / span;
      if (wide < THIN || left < -1e-9 || left >= 1) return [];
      deep = Math.max(deep, frame.depth);
      return [h("div", { class: `frame ${frame.kind}${above.has(at) && at !== root ? " above" : ""}`, "data-at": at, style: { left: `${100 * left}%`, width: `${100 * wide}%`, top: `${frame.depth * ROW}px` } }, wide > NAMED ? clip(frame.name, 160) : "")];
    });
    box.replaceChildren(h("div", { class: "frames", style: { height: `${(deep + 1) * ROW}px` } }, cells));
    out.hidden = root < 0;
  };
  draw();
  slice.hidden = true;
  if (root >= 0) mark(root, false);
  return [controls, box, h("div", { class: "flametold" }, read, h("span", { class: "links" }, out, slice))];
}
