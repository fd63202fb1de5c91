// Migration: can a program move to Ascend, what stands in the way, and each file's places beside its diff.

import { ask, param } from "../data.js";
import { h, prose } from "../dom.js";
import { clean, clip } from "../format.js";
import { t } from "../translate.js";
import { empty, heading, picker, section } from "./parts.js";

/**
 * @typedef {{rule: string, line: number, what: string, why: string, todo: string, effect: string, sure: string, effort: string, converts: boolean, later: string | null}} Place
 * @typedef {{rule: string, what: string, effort: string, todo: string, places: {path: string, line: number}[]}} Obstacle
 * @typedef {{verdict: string, places_for_convert: number, places_by_hand: number, hours_by_hand: {low: number, high: number}, effects: Record<string, number>, torch_apis: {used: number, listed: number, on_chip: number}, obstacles: Obstacle[]}} Answer
 * @typedef {{path: string, effects: Record<string, number>, edits: number}} File
 * @typedef {{target: {torch: string, chip: string}, answer: Answer, files: File[], not_read: {path: string, why: string}[]}} Found
 */

const EFFECTS = ["stops", "differs", "slow", "note"];
const SIGNS = /** @type {Record<string, string>} */ ({ "+": "added", "-": "removed", "@": "at" });
const AGAIN_MS = 300;
const OPEN = 300;

/** @param {HTMLElement} main */
export async function render(main) {
  main.append(...heading("migrate", t("migrate.lead")));
  const style = param("style", "native");
  const first = await ask("migrate", { style });
  if (!first.source) { main.append(empty(t("migrate.absent"), t("migrate.how"))); return; }
  const holder = h("div", { class: "page" });
  const styles = ["native", "shim"].map((one) => /** @type {[string, string]} */ ([one, t(`migrate.${one}`)]));
  main.append(h("div", { class: "controls" }, picker("style", t("migrate.style"), styles, style)), holder);
  follow(holder, style, first);
}

/** Shows how far the scan is until it is there. @param {HTMLElement} holder @param {string} style @param {{source: string, seconds: number, found?: Found}} answer */
async function follow(holder, style, answer) {
  let seen = false; // it is put into the page after this began
  while (!answer.found) {
    holder.replaceChildren(h("p", { class: "wait" }, `${t("migrate.scanning")} · ${Math.round(answer.seconds)} s`));
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    seen ||= holder.isConnected;
    if (seen && !holder.isConnected) return;
    try { answer = await ask("migrate", { style }); } catch (error) {
      holder.replaceChildren(h("p", { class: "wrong", role: "alert" }, clean(/** @type {Error} */ (error).message)));
      return;
    }
  }
  holder.replaceChildren(...shown(answer.found, answer.source, style));
}

/** @param {Found} found @param {string} source @param {string} style */
function shown({ target, answer, files, not_read: skipped }, source, style) {
  return [
    verdict(answer, target, source),
    answer.obstacles.length ? section(t("migrate.obstacles"), obstacles(answer.obstacles)) : null,
    section(t("migrate.files"), files.length ? files.slice(0, OPEN).map((file) => fold(file, style)) : h("p", { class: "none" }, t("migrate.no_files")),
      files.length > OPEN ? h("p", { class: "about" }, prose(t("migrate.more", { count: files.length - OPEN }))) : null),
    skipped.length ? section(t("migrate.not_read"), h("ul", {}, skipped.map((one) => h("li", {}, h("code", {}, clip(clean(one.path), 300)), ` ${clip(clean(one.why), 300)}`)))) : null,
  ].filter((one) => one !== null);
}

/** @param {Answer} answer @param {{torch: string, chip: string}} target @param {string} source */
function verdict(answer, target, source) {
  const { used, listed, on_chip: chip } = answer.torch_apis;
  const { low, high } = answer.hours_by_hand;
  return h("section", { class: "verdict" },
    h("p", { class: "bound" }, h("bdi", {}, clip(clean(source), 300))),
    h("h2", { class: "outcome" }, `${t("migrate.question", { chip: target.chip, torch: target.torch })} `, t(`migrate.verdict.${answer.verdict.split(" ").join("_").replace(",", "")}`)),
    h("p", {}, answer.places_by_hand ? t("migrate.work", { low: Math.max(1, Math.round(low)), high: Math.max(1, Math.round(high)), places: answer.places_by_hand, kinds: answer.obstacles.length }) : t("migrate.no_work"), " ", prose(t("migrate.converts", { places: answer.places_for_convert }))),
    h("p", { class: "about" }, t("migrate.apis", { used, listed, chip })),
    h("p", { class: "next" }, EFFECTS.filter((name) => answer.effects[name]).map((name) => h("span", { class: `effect ${name}` }, `${answer.effects[name]} ${t(`migrate.effect.${name}`)}`))));
}

/** @param {Obstacle[]} rows */
const obstacles = (rows) => h("div", { class: "wide" }, h("table", { class: "plain" },
  h("thead", {}, h("tr", {}, ["what", "todo", "effort", "where"].map((name) => h("th", { scope: "col" }, t(`migrate.${name}`))))),
  h("tbody", {}, rows.map((row) => h("tr", {},
    h("th", { scope: "row" }, prose(clip(clean(row.what), 200))), h("td", {}, prose(clip(clean(row.todo), 300))), h("td", {}, t(`migrate.effort.${row.effort}`)),
    h("td", {}, h("code", {}, clip(`${clean(row.places[0].path)}:${row.places[0].line}`, 200)), row.places.length > 1 ? ` ${t("migrate.and", { count: row.places.length - 1 })}` : null))))));

/** One file, whose places and diff are fetched when it is opened. @param {File} file @param {string} style */
function fold(file, style) {
  const holder = h("div", { class: "beside" });
  const counts = EFFECTS.filter((name) => file.effects[name]).map((name) => h("span", { class: `effect ${name}` }, `${file.effects[name]} ${t(`migrate.effect.${name}`)}`));
  const one = h("details", { class: "sourcefile" }, h("summary", {}, h("code", {}, clip(clean(file.path), 300)), " ", counts, file.edits ? h("span", { class: "about" }, t("migrate.edits", { count: file.edits })) : null), holder);
  one.addEventListener("toggle", async () => {
    if (holder.childElementCount) return;
    try {
      const seen = await ask("migrate/file", { path: file.path, style });
      holder.replaceChildren(places(seen.places), diff(seen.diff));
    } catch (error) { holder.replaceChildren(h("p", { class: "wrong", role: "alert" }, clean(/** @type {Error} */ (error).message))); }
  });
  return one;
}

/** @param {Place[]} rows */
const places = (rows) => h("ul", { class: "places" }, rows.map((row) => h("li", {},
  h("span", { class: "about" }, `${t("migrate.line")} ${row.line} `), h("span", { class: `effect ${row.effect}` }, t(`migrate.effect.${row.effect}`)), " ", prose(clip(clean(row.what), 300)),
  h("p", {}, prose(`${clip(clean(row.why), 500)}; ${clip(clean(row.todo), 500)}`)),
  h("p", { class: "about" }, t(`migrate.sure.${row.sure}`), " · ", row.converts ? t("migrate.by_convert") : t(`migrate.effort.${row.effort}`), row.later ? ` · ${row.later}` : null))));

/** @param {string[]} lines */
const diff = (lines) => (lines.length
  ? h("pre", { class: "diff", tabindex: "0" }, lines.map((line) => h("span", { class: /^(\+\+\+|---) /.test(line) ? "at" : SIGNS[line[0]] ?? null }, clip(clean(line), 2000))))
  : h("p", { class: "none" }, t("migrate.unchanged")));
