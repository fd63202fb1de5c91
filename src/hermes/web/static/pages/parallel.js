// Parallel: coordinates of ranks where the profiles do not tell them, from sizes that one types in or a configuration says.

import { button, h, say } from "../dom.js";
import { doc, keep, param } from "../data.js";
import { number } from "../format.js";
import { t } from "../translate.js";

/** @typedef {Partial<Record<"tp" | "cp" | "ep" | "pp", number>>} Sizes */

const NAMES = /** @type {const} */ (["tp", "cp", "ep", "pp"]);
const KEPT = "hermes-parallel";
const MOST_READ = 1_000_000; // characters of a configuration
// As Megatron-LM, MindSpeed and DeepSpeed call them: on a command line, in YAML or in JSON.
/** @type {Record<typeof NAMES[number], RegExp>} */
const WORDS = {
  tp: /\b(?:tensor[-_]model[-_]parallel[-_]size|model[-_]parallel[-_]size|autotp_size|tp_size|mp_size)\b["']?\s*[:=\s]\s*["']?(\d+)/i,
  cp: /\b(?:context[-_]parallel[-_]size|(?:ulysses_)?sequence[-_]parallel[-_]size|ds_sequence_parallel_size)\b["']?\s*[:=\s]\s*["']?(\d+)/i,
  ep: /\b(?:expert[-_]model[-_]parallel[-_]size|expert[-_]parallel[-_]size|ep_size)\b["']?\s*[:=\s]\s*["']?(\d+)/i,
  pp: /\b(?:pipeline[-_]model[-_]parallel[-_]size|pipe[-_]parallel[-_]size|pipeline[-_]stages|num_stages|pp_size)\b["']?\s*[:=\s]\s*["']?(\d+)/i,
};

/** The sizes that a configuration states. @param {string} text @returns {Sizes} */
export const stated = (text) => Object.fromEntries(NAMES.flatMap((name) => { const found = WORDS[name].exec(text); return found ? [[name, Number(found[1])]] : []; }));

const world = () => doc().coverage.ranks_expected ?? Math.max(...doc().coverage.ranks_seen) + 1;

/** Why these sizes cannot be; empty if they can. @param {Sizes} sizes */
function wrong({ tp = 1, cp = 1, ep = 1, pp = 1 }) {
  const [all, each] = [world(), tp * cp * pp];
  if ([tp, cp, ep, pp].some((one) => !Number.isInteger(one) || one < 1) || all % each) return t("parallel.uneven", { count: number(all), each: number(each) });
  return (all / each) % ep ? t("parallel.experts", { dp: number(all / each), ep: number(ep) }) : "";
}

/** The sizes of the address, else those of last time for this input; null without any that can be. @returns {Sizes | null} */
export function sizes() {
  const asked = Object.fromEntries(NAMES.filter((name) => param(name)).map((name) => [name, Number(param(name))]));
  const found = Object.keys(asked).length ? asked : kept()[doc().title] ?? {};
  return NAMES.some((name) => (found[name] ?? 1) > 1) && !wrong(found) ? found : null;
}

/** @returns {Record<string, Sizes>} */
function kept() {
  try { return JSON.parse(localStorage.getItem(KEPT) ?? "{}"); } catch { return {}; }
}

/** Where a rank stands: neighbours by tensor, then context, data and pipeline, as Megatron-LM and DeepSpeed number them. @param {number} rank @param {Sizes} sizes */
export function place(rank, { tp = 1, cp = 1, ep = 1, pp = 1 }) {
  const dp = world() / (tp * cp * pp);
  const own = Math.floor(rank / (tp * cp)) % dp;
  return { tp: rank % tp, cp: Math.floor(rank / tp) % cp, dp: own, ep: own % ep, pp: Math.floor(rank / (tp * cp * dp)) };
}

/** @param {Sizes} sizes */
function take(sizes) {
  const told = wrong(sizes);
  if (told) return told;
  const all = kept();
  if (NAMES.some((name) => (sizes[name] ?? 1) > 1)) all[doc().title] = sizes; else delete all[doc().title];
  localStorage.setItem(KEPT, JSON.stringify(all));
  keep(Object.fromEntries(NAMES.map((name) => [name, (sizes[name] ?? 1) > 1 ? sizes[name] : null])));
  window.dispatchEvent(new Event("hermes:show"));
  return "";
}

/** What asks for the sizes. */
export function form() {
  const now = sizes() ?? {};
  const boxes = NAMES.map((name) => /** @type {HTMLInputElement} */ (h("input", { type: "number", min: 1, max: world(), value: now[name] ?? 1, name, "aria-label": name })));
  const told = h("p", { role: "alert" });
  const tell = (/** @type {string} */ text) => { told.textContent = text; told.className = text ? "wrong" : ""; if (text) say(text); };
  const file = /** @type {HTMLInputElement} */ (h("input", { type: "file", accept: ".json,.yaml,.yml,.sh,.py,.txt,.toml", "aria-label": t("parallel.file"), onchange: async () => {
    const found = stated((await file.files?.[0]?.text() ?? "").slice(0, MOST_READ));
    tell(Object.keys(found).length ? take(found) : t("parallel.none"));
  } }));
  return h("details", { class: "parallel", open: Object.keys(now).length > 0 }, h("summary", {}, t("parallel")), h("p", { class: "about" }, t("parallel.is", { count: number(world()) })),
    h("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); tell(take(Object.fromEntries(boxes.map((box) => [box.name, Number(box.value)])))); } },
      NAMES.map((name, at) => h("label", { class: "picker" }, name, boxes[at])), h("button", { type: "submit" }, t("parallel.take")), Object.keys(now).length ? button(t("parallel.drop"), () => take({})) : null),
    h("label", { class: "picker" }, t("parallel.file"), file), told);
}
