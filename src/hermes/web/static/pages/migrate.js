// Migration: can a program move to Ascend, what stands in the way, and each file's places beside its diff.

import { ask, param } from "../data.js";
import { h, prose } from "../dom.js";
import { finding } from "../findings.js";
import { clean, clip } from "../format.js";
import { said, spoken } from "../say.js";
import { t } from "../translate.js";
import { empty, heading, picker, section } from "./parts.js";

/**
 * @typedef {import("../say.js").Text} Text
 * @typedef {import("../findings.js").Finding} Finding
 * @typedef {{effort: Text, what: Text, todo: Text, places: number, first: string}} Obstacle
 * @typedef {{path: string, stops: number, differs: number, slow: number, note: number, edits: number}} File
 * @typedef {{target: {torch: string, chip: string}, answer: Text, places: {by_convert: number, by_hand: number}, effects: Record<string, number>, torch_apis: {used: number, listed: number, on_chip: number}, obstacles?: Obstacle[], files: File[], coverage: {diagnostics: {level: string, message: Text, where: string}[]}}} Found
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
function shown(found, source, style) {
  const { files, obstacles: rows = [] } = found;
  const skipped = found.coverage.diagnostics.filter((one) => one.level === "degraded");
  return [
    verdict(found, source),
    rows.length ? section(t("migrate.obstacles"), obstacles(rows)) : null,
    section(t("migrate.files"), files.length ? files.slice(0, OPEN).map((file) => fold(file, style)) : h("p", { class: "none" }, t("migrate.no_files")),
      files.length > OPEN ? h("p", { class: "about" }, prose(t("migrate.more", { count: files.length - OPEN }))) : null),
    skipped.length ? section(t("migrate.not_read"), h("ul", {}, skipped.map((one) => h("li", {}, h("code", {}, clip(clean(one.where), 300)), " ", spoken(one.message))))) : null,
  ].filter((one) => one !== null);
}

/** @param {Found} found @param {string} source */
function verdict({ answer, effects, places: { by_convert: places }, torch_apis: { used, listed, on_chip: chip } }, source) {
  return h("section", { class: "verdict" },
    h("p", { class: "bound" }, h("bdi", {}, clip(clean(source), 300))),
    h("h2", { class: "outcome" }, spoken(answer)),
    h("p", {}, prose(t("migrate.converts", { places }))),
    h("p", { class: "about" }, t("migrate.apis", { used, listed, chip })),
    h("p", { class: "next" }, EFFECTS.filter((name) => effects[name]).map((name) => h("span", { class: `effect ${name}` }, `${effects[name]} ${t(`migrate.effect.${name}`)}`))));
}

/** @param {Obstacle[]} rows */
const obstacles = (rows) => h("div", { class: "wide" }, h("table", { class: "plain" },
  h("thead", {}, h("tr", {}, ["what", "todo", "effort", "where"].map((name) => h("th", { scope: "col" }, t(`migrate.${name}`))))),
  h("tbody", {}, rows.map((row) => h("tr", {},
    h("th", { scope: "row" }, clip(said(row.what), 200)), h("td", {}, clip(said(row.todo), 300)), h("td", {}, spoken(row.effort)),
    h("td", {}, h("code", {}, clip(clean(row.first), 200)), row.places > 1 ? ` ${t("migrate.and", { count: row.places - 1 })}` : null))))));

/** One file, whose places and diff are fetched when it is opened. @param {File} file @param {string} style */
function fold(file, style) {
  const holder = h("div", { class: "beside" });
  const counts = EFFECTS.filter((name) => count(file, name)).map((name) => h("span", { class: `effect ${name}` }, `${count(file, name)} ${t(`migrate.effect.${name}`)}`));
  const one = h("details", { class: "sourcefile" }, h("summary", {}, h("code", {}, clip(clean(file.path), 300)), " ", counts, file.edits ? h("span", { class: "about" }, t("migrate.edits", { count: file.edits })) : null), holder);
  one.addEventListener("toggle", async () => {
    if (holder.childElementCount) return;
    try {
      const seen = await ask("migrate/file", { path: file.path, style });
      holder.replaceChildren(h("div", {}, seen.findings.map((/** @type {Finding} */ one) => finding(one))), diff(seen.diff));
    } catch (error) { holder.replaceChildren(h("p", { class: "wrong", role: "alert" }, clean(/** @type {Error} */ (error).message))); }
  });
  return one;
}

/** How many places of a file there are. @param {File} file @param {string} name @returns {number} */
const count = (file, name) => /** @type {any} */ (file)[name];

/** @param {string[]} lines */
const diff = (lines) => (lines.length
  ? h("pre", { class: "diff", tabindex: "0" }, lines.map((line) => h("span", { class: /^(\+\+\+|---) /.test(line) ? "at" : SIGNS[line[0]] ?? null }, clip(clean(line), 2000))))
  : h("p", { class: "none" }, t("migrate.unchanged")));
