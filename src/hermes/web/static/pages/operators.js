// Operators and kernels: device time by type, name, shape or unit; the single runs of one; the host's operators.

import { h } from "../dom.js";
import { clean } from "../format.js";
import { doc, param, rowsOf, to } from "../data.js";
import { table } from "../table.js";
import { t } from "../words.js";
import { facts, heading, picker, rankPicker, rest } from "./parts.js";
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
  const keyed = (row) => (by === "unit" ? null : to("/operators", { by, rank: rank ?? (control ? "all" : ""), [by === "type" ? "type" : "name"]: row[column] }));
  main.append(table({ table: `kernels.${by}`, rank, sort: "total_ns", descending: true, bar: "total_ns", timeline: true, href: keyed, columns: [column, ...(by === "type" || by === "unit" ? [] : ["type"]), ...(by === "shape" ? ["input_shapes", "input_dtypes"] : []), "component", ...(by === "unit" ? [] : ["unit"]), "total_ns", "share", "calls", "median_ns", "min_ns", "max_ns"] }));
  const type = param("type");
  if (name || type) main.append(instances(rank, name ? `name=${name}` : `type=${type}`, name || type));
  const chart = roofline();
  if (chart) main.append(chart);
  main.append(
    facts(["compute"]) ?? "",
    ...rest(["compute"]),
    ...(rowsOf("top.operators") ? [table({ table: "top.operators", bar: "total_ms", about: t("operators.host"), hidden: ["min_ms"], columns: ["name", "total_ms", "share", "count", "median_ms", "max_ms", "ranks"] })] : []),
    table({ table: "pmu.names", rank: rank ?? first(), about: t("operators.pmu") }),
  );
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
