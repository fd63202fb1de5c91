// Memory: the allocator's curve, and the blocks that lived at the moment picked on it.

import { h } from "../dom.js";
import { bytes } from "../format.js";
import { ask, keep, param, splits, to } from "../data.js";
import { curves } from "../charts.js";
import { moment } from "../cells.js";
import { t } from "../translate.js";
import { empty, facts, heading, picker, rankPicker, rest, section } from "./parts.js";
import { tabs } from "./tabs.js";

/** @type {Record<string, string>} */
const KINDS = { reserved_bytes: "host", active_bytes: "comm", allocated_bytes: "copy" };

const MOST = 2; // curves at first; a device has dozens of components, most of them tiny
const FRAMEWORK = ["PTA", "cuda", "MindSpore", "GE", "WORKSPACE"];

/** The framework's allocators first, then what takes most. @param {string[]} names by what they reserve */
const usual = (names) => [...names.filter((name) => FRAMEWORK.includes(name)), ...names.filter((name) => !FRAMEWORK.includes(name))].slice(0, MOST);

/** A curve's buckets on an axis that begins earlier. @param {any} curve @param {bigint} from @param {string} name @returns {[number, number, number][]} */
function later(curve, from, name) {
  const behind = Number(BigInt(curve.first_ns) - from) / (curve.bucket_ns || 1);
  return behind ? curve.columns[name].map((/** @type {[number, number, number]} */ [place, low, high]) => [place + behind, low, high]) : curve.columns[name];
}

/** @param {HTMLElement} main */
export async function render(main) {
  main.append(...heading("memory", t("memory.lead")));
  const { rank, control } = rankPicker(false);
  const controls = h("div", { class: "controls" }, control);
  main.append(controls);
  const found = /** @type {import("../data.js").Page} */ (await ask("rows", { table: "memory.components", rank, sort: "reserved_bytes", desc: 1 }));
  if (!found.total) main.append(empty(t("memory.none"), t("memory.how")));
  const at = Object.fromEntries(found.columns.map((column, place) => [column.name, place]));
  const picked = param("at") ? BigInt(param("at")) : null;
  const used = found.rows.filter((row) => Number(row[at.reserved_bytes] ?? 0) || Number(row[at.allocated_bytes] ?? 0));
  const names = [...new Set(used.map((row) => String(row[at.component])))];
  const shown = param("component") ? [param("component")] : usual(names);
  if (names.length > MOST) controls.append(picker("component", t("memory.component"), [["", t("memory.usual")], ...names.map((name) => /** @type {[string, string]} */ ([name, name]))], param("component")));
  const made = await Promise.all(shown.map((component) => ask("curve", { table: "memory", rank, key: [component], buckets: 800 })));
  const known = made.filter((curve) => curve.first_ns !== null);
  const marks = (await splits()).filter((row) => row.rank === rank && row.step !== null).map((row) => ({ at: row.start, name: `${t("step")} ${row.step}` }));
  // A step begins before its first allocation: the axis begins with the step.
  const begins = [...known.map((curve) => BigInt(curve.first_ns)), ...(known.length ? marks.map((mark) => BigInt(mark.at)) : [])];
  const least = begins.reduce((a, b) => (b < a ? b : a), begins[0] ?? 0n);
  const latest = known.map((curve) => BigInt(curve.last_ns)).reduce((a, b) => (b > a ? b : a), BigInt(known[0]?.last_ns ?? 0));
  const upTo = Math.max(0, ...found.rows.filter((row) => shown.includes(String(row[at.component]))).map((row) => Number(row[at.reserved_bytes] ?? row[at.allocated_bytes] ?? 0)));
  for (const [place, component] of shown.entries()) {
    const curve = made[place];
    const row = found.rows.find((one) => String(one[at.component]) === component);
    if (curve.first_ns === null || !row) continue;
    const order = Object.keys(KINDS).filter((name) => curve.columns[name]);
    main.append(section(
      t("memory.curve", { component }),
      h("p", { class: "about" }, row[at.allocated_bytes] === null ? t("memory.unallocated", { reserved: bytes(Number(row[at.reserved_bytes])) }) : t("memory.peak", { peak: bytes(Number(row[at.allocated_bytes])), reserved: row[at.reserved_bytes] === null ? "–" : bytes(Number(row[at.reserved_bytes])) })),
      curves({
        label: t("memory.curve", { component }), first: String(least), last: String(latest), bucket: curve.bucket_ns, picked, upTo, marks,
        curves: order.map((name) => ({ name: t(`col.${name}`), kind: KINDS[name], points: later(curve, least, name) })),
        pick: (moment) => { keep({ at: moment }); window.dispatchEvent(new Event("hermes:show")); },
      }),
    ));
  }
  const components = { table: "memory.components", rank, sort: "reserved_bytes", descending: true, bar: "reserved_bytes", href: (/** @type {import("../data.js").Row} */ row) => to("/memory", { rank, component: row.component }) };
  const lived = picked === null ? {} : { first_ns: picked, last_ns: picked };
  main.append(
    !found.total ? "" : h("p", { class: "about" }, picked === null ? t("memory.pick") : t("memory.picked", { at: moment(String(picked)) }), picked === null ? null : h("a", { href: `/memory${rank === null ? "" : `?rank=${rank}`}` }, ` ${t("memory.all")}`)),
    facts(["memory"]) ?? "",
    tabs([{ table: "allocation", rank, sort: "bytes", descending: true, bar: "bytes", more: lived, timeline: (row) => ({ rank: row.rank ?? rank, at: row.alloc_ns, name: row.name }), columns: ["name", "bytes", "alloc_ns", "release_ns", "device_id"] }, components, ...rest(["memory"])]),
  );
}
