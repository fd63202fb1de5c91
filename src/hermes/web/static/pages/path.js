// Critical path: the chain that the step could not end without, what comes close to it, and the longest idle stretches.

import { h } from "../dom.js";
import { clean, duration, percent, since } from "../format.js";
import { doc, param, rowsOf, splits, timelineAt } from "../data.js";
import { shortGroups } from "../cells.js";
import { stack, strips } from "../charts.js";
import { told } from "../sentences.js";
import { colour, key } from "../table.js";
import { t } from "../translate.js";
import { empty, heading, picker, rest, section, stepOf } from "./parts.js";
import { tabs } from "./tabs.js";

/** @param {HTMLElement} main */
export async function render(main) {
  main.append(...heading("path", t("path.lead")));
  const rows = doc().critical_path ?? [];
  if (!rows.length) { main.append(empty(t("path.none"))); return; }
  const id = (/** @type {import("../data.js").Row} */ row) => `${row.rank}.${row.step ?? ""}.${row.across ? "across" : "own"}`;
  const ids = [...new Set(rows.map(id))];
  const chosen = ids.includes(param("path")) ? param("path") : ids[0];
  const own = rows.filter((row) => id(row) === chosen);
  const name = (/** @type {string} */ key) => {
    const [rank, step, across] = key.split(".");
    return `${stepOf(Number(rank), step)}${across === "across" ? `, ${t("path.across")}` : ""}`;
  };
  main.append(h("div", { class: "controls" }, picker("path", t("page.path"), ids.map((key) => /** @type {[string, string]} */ ([key, name(key)])), chosen)));
  const total = own.reduce((sum, row) => sum + row.ms, 0);
  main.append(h("p", { class: "about" }, t("path.total", { total: duration(total * 1e6) })), stack(byComponent(own), total, total), parts(own));
  const stretches = doc().critical_path_stretches ?? [];
  if (stretches.length) main.append(section(t("path.stretches"), h("p", { class: "about" }, t("path.stretches_is")), strip(stretches, await splits())));
  main.append(tabs([
    ...(rowsOf("critical_path_stretches") ? [{ table: "critical_path_stretches", columns: ["component", "name", "ms", "of_rank", "where", "start_ns"], bar: "ms", timeline: (/** @type {import("../data.js").Row} */ row) => ({ rank: row.of_rank, step: rows[0].step, at: row.start_ns, dur: row.ms * 1e6, name: row.name }) }] : []),
    ...(rowsOf("critical_path_rivals") ? [{ table: "critical_path_rivals", about: t("path.rivals_is"), bar: "ms" }] : []),
    ...(rowsOf("idle_stretches") ? [{ table: "idle_stretches", about: t("path.idle_is"), bar: "ms", timeline: (/** @type {import("../data.js").Row} */ row) => ({ rank: row.rank, step: row.step, at: row.start_ns, dur: row.ms * 1e6, name: row.what }) }] : []),
    { table: "critical_path", bar: "ms" },
    ...rest(["critical_path", "overlap"], ["critical_path"]),
  ]));
  if (!rowsOf("critical_path_rivals")) main.append(h("p", { class: "none" }, t("path.no_rivals")));
}

/** @param {import("../data.js").Row[]} rows */
function byComponent(rows) {
  const sums = new Map();
  for (const row of rows) sums.set(row.component, (sums.get(row.component) ?? 0) + row.ms);
  return [...sums.entries()].sort((a, b) => b[1] - a[1]).map(([component, ms]) => ({ kind: colour(component), name: t(`component.${component}`), ns: ms * 1e6 }));
}

/** @param {import("../data.js").Row[]} rows */
function parts(rows) {
  return h("div", { class: "barlist narrow" }, rows.slice(0, 14).map((row) => h("div", { class: "barrow" },
    h("span", { class: "barname" }, key(row.component), row.component === "wait" ? t("waits_for", { who: clean(row.reason) }) : `${t(`component.${row.component}`)}${row.reason ? ` (${told(clean(row.reason))})` : ""}`, row.across ? h("small", {}, ` rank ${row.of_rank}`) : null),
    h("span", { class: "bartotal" }, duration(row.ms * 1e6)),
    h("span", { class: "bar" }, h("span", { class: "stack", "aria-hidden": "true", style: { width: `${Math.max(0.3, 100 * row.share)}%` } }, h("span", { class: `seg ${colour(row.component)}`, style: { "flex-grow": "1" } }))),
    h("span", { class: "barparts" }, percent(row.share)))));
}

/** The whole step, with what is on the path in its place. @param {import("../data.js").Row[]} stretches @param {import("../data.js").Split[]} all */
function strip(stretches, all) {
  const chief = doc().critical_path?.[0];
  const window = all.find((row) => row.rank === chief?.rank && row.step === chief?.step);
  const begin = window ? [String(BigInt(window.start))] : [];
  const first = [...begin, ...stretches.map((row) => String(row.start_ns))].reduce((least, one) => (BigInt(one) < BigInt(least) ? one : least));
  const ranks = [...new Set(stretches.map((row) => row.of_rank))].sort((a, b) => a - b);
  const span = Math.max(window ? since(window.start, first) + window.window : 0, ...stretches.map((row) => since(row.start_ns, first) + row.ms * 1e6));
  const step = doc().critical_path?.[0].step;
  return strips({
    label: t("path.stretches"), span,
    rows: ranks.map((rank) => ({
      name: `rank ${rank}`,
      pieces: stretches.filter((row) => row.of_rank === rank).map((row) => {
        const from = since(row.start_ns, first);
        return { kind: colour(row.component), from, to: from + row.ms * 1e6, text: `${t(`component.${row.component}`)} ${clean(row.name)} ${duration(row.ms * 1e6)} ${shortGroups(clean(row.where))}`.slice(0, 400), href: timelineAt({ rank, step, at: row.start_ns, dur: row.ms * 1e6, name: row.name }) };
      }),
    })),
  });
}
