// Pipeline: passes of micro-batches on each stage of one step, where a stage waits, and which one is slow.

import { h } from "../dom.js";
import { doc, rowsOf, timelineAt } from "../data.js";
import { number, percent } from "../format.js";
import { pipeline } from "../pipeline.js";
import { t } from "../translate.js";
import { empty, heading, rest, section } from "./parts.js";
import { tabs } from "./tabs.js";

/** @param {HTMLElement} main */
export function render(main) {
  main.append(...heading("pipeline", t("pipeline.lead")));
  const line = doc().pipeline;
  const chart = pipeline({ pick: open });
  if (!line && !chart) { main.append(empty(t("pipeline.none"))); return; }
  const step = doc().pipeline_boxes?.[0]?.step;
  if (chart) main.append(section(t("pipeline.of_step", { step }), h("p", { class: "about" }, t("pipeline.is")), chart));
  else main.append(empty(t("pipeline.no_boxes")));
  if (line) main.append(h("p", { class: "about" }, amounts(line).join("; ")));
  main.append(tabs(["pipeline_passes", "pipeline", "pipeline_boxes"].flatMap((key) => rest([key]))));
}

/** What the stages amount to, as far as it was measured. @param {import("../data.js").Row} line */
function amounts(line) {
  const known = (/** @type {string} */ name) => line[name] !== null && line[name] !== undefined;
  return [
    t("pipeline.stages", { count: number(rowsOf("pipeline.stages")) }),
    ...(known("micro_batches") ? [t("pipeline.batches", { count: number(line.micro_batches) })] : []),
    ...(known("bubble_share") ? [t("pipeline.bubble", { share: percent(line.bubble_share) })] : []),
    ...(known("structural_share") ? [t("pipeline.structural", { share: percent(line.structural_share) })] : []),
    ...(known("imbalance") ? [t("pipeline.imbalance", { share: percent(line.imbalance) })] : []),
  ];
}

/** @param {import("../pipeline.js").Box} box */
function open(box) {
  const others = [...new Set((doc().pipeline_boxes ?? []).map((/** @type {import("../pipeline.js").Box} */ one) => one.rank))];
  history.pushState(null, "", timelineAt({ rank: box.rank, others, step: box.step, at: box.start_ns, dur: box.dur_ms * 1e6 }));
  window.dispatchEvent(new Event("hermes:show"));
}
