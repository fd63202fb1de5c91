// Host and input: what the host did, what held it up, where the data came from.

import { h } from "../dom.js";
import { clean } from "../format.js";
import { param, rowsOf, tables, to } from "../data.js";
import { table } from "../table.js";
import { t } from "../translate.js";
import { flame } from "./flame.js";
import { facts, generic, heading, rankPicker, rest } from "./parts.js";

/** @param {string} key */
const listed = (key) => /** @type {import("../data.js").Listed} */ (tables().find((one) => one.key === key));

/** @param {HTMLElement} main */
export function render(main) {
  main.append(...heading("host", t("host.lead")));
  const { rank, control } = rankPicker(false);
  const name = param("name");
  main.append(
    facts(["code", "host", "input"]) ?? "",
    h("div", { class: "controls" }, control),
    ...(rowsOf("code.lines") ? [generic(listed("code.lines"))] : []),
    flame(rank),
    ...(rowsOf("host.sync_calls") ? [generic(listed("host.sync_calls"))] : []),
    ...rest(["code", "host", "input", "overlap"], ["code.lines", "host.sync_calls"]),
    ...(rowsOf("top.host_calls") ? [table({ table: "top.host_calls", bar: "total_ms", href: (row) => to("/host", { name: row.name, rank }), columns: ["name", "detail", "total_ms", "share", "count", "median_ms", "max_ms", "ranks"] })] : []),
    table({ table: "host.names", rank, sort: "self_ns", descending: true, bar: "self_ns", timeline: true, href: (row) => to("/host", { name: row.name, rank }), columns: ["name", "kind", "self_ns", "total_ns", "calls", "median_ns", "max_ns"] }),
  );
  if (name) main.append(h("div", { id: "instances" }, table({ table: "host_op", rank, only: [`name=${name}`], sort: "dur_ns", descending: true, bar: "dur_ns", timeline: true, title: t("operators.runs", { name: clean(name).slice(0, 120) }), columns: ["name", "dur_ns", "self_ns", "start_ns", "kind", "step", "tid", "depth", "shapes"] })));
  main.append(
    table({ table: "gc", rank, sort: "dur_ns", descending: true, bar: "dur_ns", timeline: true }),
    table({ table: "input_queue", rank }),
    table({ table: "setting", rank, columns: ["name", "value", "source"] }),
    table({ table: "counters.series", rank, about: t("host.counters") }),
  );
}
