// Where the time of the job goes, as the terminal and the report draw it too: parts, their leaves, and the rows of each.

import { h, s } from "../dom.js";
import { doc, partOf } from "../data.js";
import { clean, clip, duration, share } from "../format.js";
import { said, spoken } from "../say.js";

const LEAST = 0.01; // of the time: smaller leaves are shown as one
const ROWS = 10;
const NAME = 400;
/** The parts with their titles, with a device and without, and their colours. @type {Record<string, [string, string, string]>} */
const PARTS = {
  idle: ["idle", "between", "host"], compute: ["compute", "compute", "compute"], communication: ["communication", "communication", "comm"],
  copy: ["copies", "copies", "copy"], outside: ["outside", "outside", "free"],
};

/**
 * @typedef {{id: string, text: string}} Named
 * @typedef {{how: Named | null, what: string, place: string, rank: number | null, ns: number, curable: number | null}} Leaflet  a row of a leaf
 * @typedef {{leaf: string, title: Named, ns: number, rows: Leaflet[]}} Leaf  without a name: the small ones together
 */

/** @param {string} id @returns {Named} */
const named = (id) => ({ id, text: "" });

/** @param {{ns: number}[]} rows */
const sum = (rows) => rows.reduce((all, row) => all + row.ns, 0);

/** @param {import("../data.js").Split[]} splits @returns {Node[]} */
export function tree(splits) {
  const rows = doc().tree.map((/** @type {import("../data.js").Row} */ row) => ({ ...row, ns: Math.round(row.total_ms * 1e6), curable: row.curable_ms === null ? null : Math.round(row.curable_ms * 1e6) }));
  const whole = sum(rows);
  if (!whole) return [];
  const device = splits.some((row) => row.compute !== null);
  /** @type {Record<number, number>} */
  const marked = {};
  for (const row of splits) if (row.kind !== "capture") marked[row.rank] = (marked[row.rank] ?? 0) + 1;
  const steps = Math.max(0, ...Object.values(marked));
  const parts = Object.entries(PARTS).map(([part, [title, ofHost, kind]]) => {
    const own = rows.filter((/** @type {import("../data.js").Row} */ row) => partOf(row.leaf) === part);
    return { title: named(`tree.${device ? title : ofHost}`), kind, ns: sum(own), leaves: leaves(own, whole) };
  }).filter((part) => part.ns).sort((a, b) => b.ns - a.ns);
  /** Bar, time of each step and share. @param {number} ns @param {string} kind */
  const figures = (ns, kind) => [
    s("svg", { class: "share", viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { class: kind, width: Math.round((1000 * ns) / whole), height: 10 })),
    h("span", { class: "n" }, duration(Math.floor(ns / Math.max(steps, 1)))), h("span", { class: "n" }, share(ns, whole)),
  ];
  return [
    h("h2", { id: "tree-title" }, said(named("tree.title"))),
    h("p", { class: "about timeof" }, said(named(steps ? "tree.each_step" : "tree.whole"))),
    h("ul", { class: "timetree" }, parts.map(({ title, kind, ns, leaves }) => h("li", { class: "limb" }, h("p", {}, figures(ns, kind), h("b", {}, said(title))),
      h("ul", {}, leaves.map((one) => {
        const chosen = one.leaf !== "" && one.leaf === doc().verdict.leaf;
        return h("li", {}, h("details", { class: chosen ? "leaf chosen" : "leaf", open: chosen },
          h("summary", {}, figures(one.ns, one.leaf === "wait" ? "wait" : kind), h("span", {}, said(one.title), chosen ? h("small", { class: "bythis" }, said(named("tree.chosen"))) : null, h("code", {}, clip(clean(largest(one)), NAME)))),
          h("ul", { class: "leafrows" }, shown(one.rows).map((row) => h("li", {}, figures(row.ns, one.leaf === "wait" ? "wait" : kind).slice(1), h("span", {}, described(row, steps, one.leaf === "wait")))))));
      }))))),
    h("p", { class: "about" }, said(named("tree.exclusive"))),
  ];
}

/** The operator, the call or the place that most of a leaf is; empty where none has a third of it, or it is the leaf. @param {Leaf} one */
function largest({ leaf, rows, ns }) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const row of rows) sums.set(row.what || row.place, (sums.get(row.what || row.place) ?? 0) + row.ns);
  const [name, most] = [...sums].reduce((best, one) => (one[1] > best[1] ? one : best));
  return 3 * most >= ns && name.replaceAll(" ", "_") !== leaf ? name : "";
}

/** What a row is, where, which rank has more of it or is awaited, and what can be won of it. @param {Leaflet} row @param {number} steps @param {boolean} wait */
function described({ how, what, place, rank, curable }, steps, wait) {
  const facts = [
    place && place !== what ? spoken({ id: "tree.at", text: "", arguments: { place: { name: clip(place, NAME) } } }) : null,
    rank === null ? null : said({ id: wait ? "tree.awaited" : "tree.on", text: "", arguments: { rank: { rank } } }),
    said(curable === null ? named("tree.not_known") : { id: "tree.curable", text: "", arguments: { ns: { ns: Math.floor(curable / Math.max(steps, 1)) } } }),
  ];
  return [how ? h("span", {}, said(how)) : null, how && what ? " " : null, what ? h("code", {}, clip(clean(what), NAME)) : null, h("small", {}, facts.filter(Boolean).map((fact) => h("span", {}, fact)))];
}

/** The largest first, the small ones as one; that of the verdict is told apart however small it is. @param {any[]} rows @param {number} whole @returns {Leaf[]} */
function leaves(rows, whole) {
  const every = [...new Set(rows.map((row) => row.leaf))].map((leaf) => {
    const own = rows.filter((row) => row.leaf === leaf).map((row) => ({ ...row, how: row.how === "call" && (row.what || row.rank !== null) ? null : named(`how.${row.how}`) }))
      // What was not told apart is last.
      .sort((a, b) => Number(a.how?.id === "how.others") - Number(b.how?.id === "how.others") || b.ns - a.ns);
    return { leaf, title: named(`leaf.${leaf}`), ns: sum(own), rows: own };
  }).sort((a, b) => b.ns - a.ns);
  const rest = every.filter((one) => one.ns < LEAST * whole && one.leaf !== doc().verdict.leaf);
  if (rest.length < 2) return every;
  const others = rest.map((one) => together(one.rows, one.title)).sort((a, b) => b.ns - a.ns);
  return [...every.filter((one) => !rest.includes(one)), { leaf: "", title: named("tree.others"), ns: sum(others), rows: others }];
}

/** The largest rows, and the others as one. @param {Leaflet[]} rows */
const shown = (rows) => (rows.length <= ROWS + 1 ? rows : [...rows.slice(0, ROWS), together(rows.slice(ROWS), named("tree.others"))]);

/** Rows as one; what can be won of it is known where it is known of each. @param {Leaflet[]} rows @param {Named} how @returns {Leaflet} */
function together(rows, how) {
  const curable = rows.some((row) => row.curable === null) ? null : rows.reduce((all, row) => all + (row.curable ?? 0), 0);
  return { how, what: "", place: "", rank: null, ns: sum(rows), curable };
}
