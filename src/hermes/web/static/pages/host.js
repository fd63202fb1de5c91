// Host and input: what the host did, what held it up, where the data came from.

import { h } from "../dom.js";
import { clean } from "../format.js";
import { param, rowsOf, tables, to } from "../data.js";
import { table } from "../table.js";
import { t } from "../translate.js";
import { flame } from "./flame.js";
import { described, facts, heading, rankPicker, rest } from "./parts.js";
import { tabs } from "./tabs.js";

/** @param {string} key */
const listed = (key) => /** @type {import("../data.js").Listed} */ (tables().find((one) => one.key === key));

/** @param {HTMLElement} main */
export function render(main) {
  main.append(...heading("host", t("host.lead")));
  const { rank, control } = rankPicker(false);
  const name = param("name");
  main.append(
    h("div", { class: "controls" }, control),
    flame(rank),
    facts(["code", "host", "input"]) ?? "",
  );
  const columns = { calls: ["name", "kind", "self_ns", "total_ns", "calls", "median_ns", "max_ns"], runs: ["name", "dur_ns", "self_ns", "start_ns", "kind", "step", "tid", "depth", "shapes"], top: ["name", "detail", "total_ms", "share", "count", "median_ms", "max_ms", "ranks"] };
  const leads = (/** @type {import("../data.js").Row} */ row) => to("/host", { name: row.name, rank });
  if (name) main.append(h("div", { id: "instances" }, table({ table: "host_op", rank, only: [`name=${name}`], sort: "dur_ns", descending: true, bar: "dur_ns", timeline: true, title: t("operators.runs", { name: clean(name).slice(0, 120) }), columns: columns.runs })));
  main.append(tabs([
    { table: "host.names", rank, sort: "self_ns", descending: true, bar: "self_ns", timeline: true, href: leads, columns: columns.calls },
    ...["code.lines", "host.sync_calls"].filter((key) => rowsOf(key)).map((key) => described(listed(key))),
    ...(rowsOf("top.host_calls") ? [{ table: "top.host_calls", bar: "total_ms", href: leads, columns: columns.top }] : []),
    ...rest(["code", "host", "input", "overlap"], ["code.lines", "host.sync_calls"]),
    { table: "gc", rank, sort: "dur_ns", descending: true, bar: "dur_ns", timeline: true },
    { table: "input_queue", rank },
    { table: "setting", rank, columns: ["name", "value", "source"] },
    { table: "counters.series", rank, about: t("host.counters") },
  ]));
}
