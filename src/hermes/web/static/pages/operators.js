// Operators and kernels: device time by type, name, shape or unit; the single runs of one; the host's operators.

import { h } from "../dom.js";
import { clean, number, percent } from "../format.js";
import { ask, doc, param, rowsOf, to } from "../data.js";
import { table } from "../table.js";
import { t } from "../translate.js";
import { facts, heading, picker, rankPicker, rest, section } from "./parts.js";
import { tabs } from "./tabs.js";
import { roofline } from "../roofline.js";

const BY = ["type", "name", "shape", "unit"];

/** @param {HTMLElement} main */
export function render(main) {
  main.append(...heading("operators", t("operators.lead")));
  const { rank, control } = rankPicker(true);
  const by = BY.includes(param("by")) ? param("by") : "type";
  const name = param("name");
  main.append(h("div", { class: "controls" }, picker("by", t("group_by"), BY.map((one) => [one, t(`by.${one}`)]), by), control));
  const column = by === "type" ? "type" : by === "unit" ? "unit" : "name";
  const keyed = (/** @type {import("../data.js").Row} */ row) => (by === "unit" ? null : to("/operators", { by, rank: rank ?? (control ? "all" : ""), [by === "type" ? "type" : "name"]: row[column] }));
  main.append(table({ table: `kernels.${by}`, rank, sort: "total_ns", descending: true, bar: "total_ns", timeline: true, href: keyed, columns: [column, ...(by === "type" || by === "unit" ? [] : ["type"]), ...(by === "shape" ? ["input_shapes", "input_dtypes"] : []), "component", ...(by === "unit" ? [] : ["unit"]), "total_ns", "share", "calls", "median_ns", "deviation_ns", "min_ns", "max_ns"] }));
  const type = param("type");
  if (name || type) main.append(instances(rank, name ? `name=${name}` : `type=${type}`, name || type));
  const pipes = h("div");
  main.append(roofline() ?? "", pipes);
  const of = rank ?? first();
  ask("rows", { table: "pmu.names", rank: of, limit: 200 }).then((page) => pipes.replaceChildren(...ratios(page, of)), () => {});
  main.append(
    facts(["compute"]) ?? "",
    tabs([
      ...rest(["compute"]),
      ...(rowsOf("top.operators") ? [{ table: "top.operators", bar: "total_ms", about: t("operators.host"), hidden: ["min_ms"], columns: ["name", "total_ms", "share", "count", "median_ms", "max_ms", "ranks"] }] : []),
      { table: "pmu.names", rank: of, about: t("operators.pmu") },
    ]),
  );
}

const PIPE = /^(aic|aiv|cube|vec|vector)_(.+)_ratio$/;

/** The mean ratio of each pipe as bars. @param {import("../data.js").Page} page @param {number} rank */
function ratios(page, rank) {
  const at = Object.fromEntries(page.columns.map((column, place) => [column.name, place]));
  const rows = page.rows.map((row) => ({ name: String(row[at.name]), mean: Number(row[at.mean]), kernels: Number(row[at.kernels]) })).filter((row) => PIPE.test(row.name) && row.mean <= 1.5);
  if (!rows.length) return [];
  const named = (/** @type {string} */ name) => name.replace(PIPE, (_, unit, pipe) => `${{ aic: "cube", aiv: "vector" }[/** @type {"aic"} */ (unit)] ?? unit} · ${pipe.replaceAll("_", " ")}`);
  return [section(t("operators.pipes"), h("p", { class: "about" }, t("operators.pipes_is", { rank })), h("div", { class: "barlist narrow" },
    rows.sort((a, b) => b.mean - a.mean).map((row) => h("div", { class: "barrow" },
      h("span", { class: "barname" }, clean(named(row.name)), " ", h("small", {}, t("operators.kernels", { count: number(row.kernels) }))), h("span", { class: "bartotal" }, percent(row.mean)),
      h("span", { class: "bar" }, h("span", { class: "stack", "aria-hidden": "true", style: { width: `${Math.min(100, Math.max(0.3, 100 * row.mean))}%` } }, h("span", { class: "seg compute", style: { "flex-grow": "1" } })))))))];
}

const first = () => doc().verdict.rank ?? doc().coverage.ranks_seen[0];

/** @param {number | null} rank @param {string} only @param {string} name */
function instances(rank, only, name) {
  return h("div", { id: "instances" }, table({
    table: "kernel", rank, only: [only], sort: "dur_ns", descending: true, bar: "dur_ns", timeline: true,
    title: t("operators.runs", { name: clean(name).slice(0, 120) }),
    columns: ["name", "dur_ns", "start_ns", "rank", "step", "stream", "unit", "input_shapes", "input_dtypes", "input_formats", "output_shapes", "blocks"],
  }));
}
