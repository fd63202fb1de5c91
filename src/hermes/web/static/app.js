// The shell: header, pages by address, search, help, theme, language, and what is shown while nothing is there yet.

import { setOrigin } from "./cells.js";
import { ask, doc, open, placeOf, titles, to } from "./data.js";
import { button, h, say } from "./dom.js";
import { clean, clip, duration } from "./format.js";
import { learn, load, turn } from "./language.js";
import { said } from "./say.js";
import { current, t } from "./translate.js";

/** @type {[string, string, () => Promise<{render: (main: HTMLElement) => void | Promise<void>}>][]} */
const PAGES = [
  ["", "overview", () => import("./pages/overview.js")],
  ["steps", "steps", () => import("./pages/steps.js")],
  ["ranks", "ranks", () => import("./pages/ranks.js")],
  ["pipeline", "pipeline", () => import("./pages/pipeline.js")],
  ["path", "path", () => import("./pages/path.js")],
  ["operators", "operators", () => import("./pages/operators.js")],
  ["communication", "communication", () => import("./pages/communication.js")],
  ["host", "host", () => import("./pages/host.js")],
  ["memory", "memory", () => import("./pages/memory.js")],
  ["whatif", "whatif", () => import("./pages/whatif.js")],
  ["compare", "compare", () => import("./pages/compare.js")],
  ["migrate", "migrate", () => import("./pages/migrate.js")],
  ["precision", "precision", () => import("./pages/precision.js")],
  ["timeline", "timeline", () => import("./pages/timeline.js")],
  ["data", "data", () => import("./pages/data.js")],
  ["live", "live", () => import("./pages/live.js")],
];
/** Pages that show no input: they are there whatever becomes of it. */
const ALONE = new Set(["live", "migrate", "precision"]);
const root = document.documentElement;
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const system = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 640px)");
let ready = false;
let broken = /** @type {unknown} */ (null);
let turnNumber = 0;
const AFTER_MS = 400;

const dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
const own = () => location.pathname.slice(1);

function theme() {
  const saved = localStorage.getItem("hermes-theme");
  if (saved) root.dataset.theme = saved;
}

function shell() {
  const name = ready ? clean(doc().title) : "";
  const look = button(dark() ? "☀" : "☾", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem("hermes-theme", root.dataset.theme);
    shell();
  }, { "aria-label": t(dark() ? "to_light" : "to_dark"), title: t(dark() ? "to_light" : "to_dark") });
  const language = button(current() === "en" ? "中文" : "English", async () => { await turn(); show(); }, { lang: current() === "en" ? "zh-CN" : "en" });
  document.getElementById("top")?.replaceChildren(
    h("a", { class: "mark", href: "/" }, "Hermes"),
    h("span", { class: "subject", title: clip(name, 500) }, clip(name, 200)),
    button(t("search"), search, { class: "finder", "aria-keyshortcuts": "/" }),
    h("kbd", { class: "keyhint", "aria-hidden": "true" }, "/"),
    look, language, button("?", help, { "aria-label": t("help"), title: t("help") }),
  );
  document.getElementById("nav")?.replaceChildren(
    h("ul", {}, PAGES.map(([path, name]) => h("li", {}, h("a", { href: `/${path}`, "aria-current": own() === path ? "page" : null }, t(`page.${name}`))))),
  );
  // On a phone the pages are a row that is wider than the window.
  const here = /** @type {HTMLElement | null} */ (document.querySelector("#nav [aria-current]"));
  const row = document.getElementById("nav");
  if (here && row) row.scrollLeft = here.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
  const skip = document.getElementById("skip");
  if (skip) skip.textContent = t("skip");
}

/** The page of the address, drawn anew. */
async function show() {
  const number = ++turnNumber;
  shell();
  const found = PAGES.find(([path]) => path === own());
  document.title = `${found ? t(`page.${found[1]}`) : "?"} · Hermes`;
  main.className = `page-${found?.[1] ?? "none"}`;
  if (found && !ready && broken && !ALONE.has(found[0])) main.replaceChildren(failure(broken));
  if (!found) { main.replaceChildren(nowhere()); main.dataset.page = "none"; return; }
  if (!ready && !ALONE.has(found[0])) return;
  const drawn = h("div", { class: "page" });
  try {
    const page = await found[2]();
    await page.render(drawn);
  } catch (error) {
    drawn.replaceChildren(failure(error));
  }
  if (number !== turnNumber) return;
  main.replaceChildren(drawn);
  main.dataset.page = found[1];
  reveal(location.hash.slice(1));
}

/** Brings what the address names into sight, out of what is folded. @param {string} id */
function reveal(id) {
  const meant = id ? document.getElementById(decodeURIComponent(id)) : null;
  for (let fold = meant?.closest("details"); fold; fold = fold.parentElement?.closest("details")) fold.open = true;
  meant?.scrollIntoView();
  for (const old of main.querySelectorAll(".meant")) old.classList.remove("meant");
  meant?.classList.add("meant");
}

/** What is shown at an address that no page has. */
const nowhere = () => h("section", { class: "failure" }, h("h1", {}, t("nowhere")), h("p", { class: "what" }, clip(clean(location.pathname), 200)), h("p", {}, h("a", { href: "/" }, t("nowhere.back"))));

/** @param {unknown} error */
function failure(error) {
  const wrong = /** @type {any} */ (error)?.wrong ?? { what: /** @type {Error} */ (error).message, where: "", lost: "", hint: "" };
  return h(
    "section", { class: "failure", role: "alert" },
    h("h1", {}, t("failed")),
    h("p", { class: "what" }, clean(wrong.what)),
    h("dl", { class: "facts" }, ["where", "lost", "hint"].flatMap((name) => (wrong[name] ? [h("dt", {}, t(`error.${name}`)), h("dd", {}, clean(wrong[name]))] : []))),
    button(t("again"), () => location.reload()),
  );
}

/** @param {string} path */
function go(path) {
  if (path === location.pathname + location.search + location.hash) return;
  history.pushState(null, "", path);
  show().then(() => { if (!location.hash) window.scrollTo(0, 0); main.focus({ preventScroll: true }); });
}

/** @param {MouseEvent} event */
function links(event) {
  const anchor = event.target instanceof Element ? event.target.closest("a") : null;
  const href = anchor?.getAttribute("href");
  if (!href?.startsWith("/") || anchor?.hasAttribute("target") || event.defaultPrevented) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  anchor?.closest("dialog")?.close();
  go(href);
}

/** @typedef {{kind: string, name: string, more?: string, href: string}} Hit */

function search() {
  if (!ready || document.querySelector("dialog[open]")) return;
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "search", "aria-label": t("search"), placeholder: t("search_hint"), role: "combobox", "aria-expanded": "true", "aria-controls": "found" }));
  const list = h("ul", { id: "found", class: "found", role: "listbox", "aria-label": t("search") });
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: "palette", "aria-label": t("search") }, input, list));
  let chosen = 0;
  let round = 0;
  const mark = () => {
    [...list.children].forEach((item, at) => {
      item.setAttribute("aria-selected", String(at === chosen));
      if (at === chosen) { item.scrollIntoView({ block: "nearest" }); input.setAttribute("aria-activedescendant", item.id); }
    });
  };
  const draw = (/** @type {Hit[]} */ items) => {
    chosen = 0;
    list.replaceChildren(...items.map((item, at) => h("li", { role: "option", id: `found-${at}`, onclick: () => pick(item) }, h("span", { class: "kind" }, item.kind), h("bdi", { class: "name" }, clip(clean(item.name), 300)), h("span", { class: "more" }, item.more ?? ""))));
    found = items;
    if (!items.length) list.replaceChildren(h("li", { class: "none", role: "option", "aria-selected": "false" }, t("nothing_found")));
    mark();
  };
  let found = /** @type {Hit[]} */ ([]);
  const pick = (/** @type {Hit | undefined} */ item) => { dialog.close(); if (item) go(item.href); };
  const look = async () => {
    const number = ++round;
    const text = input.value.trim().toLowerCase();
    const local = near(text);
    draw(local);
    if (text.length < 2) return;
    try {
      const names = await ask("search", { q: text });
      if (number === round) draw([...local, ...names.map(operator)]);
    } catch (error) { say(/** @type {Error} */ (error).message); }
  };
  input.addEventListener("input", look);
  input.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) { chosen = Math.max(0, Math.min(found.length - 1, chosen + move)); mark(); event.preventDefault(); }
    if (event.key === "Enter") { event.preventDefault(); pick(found[chosen]); }
    // Else the browser only empties the box.
    if (event.key === "Escape") { event.preventDefault(); dialog.close(); }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  look();
}

/** Pages, ranks and findings by what was typed. @param {string} text */
function near(text) {
  const pages = PAGES.map(([path, name]) => ({ kind: t("kind.page"), name: t(`page.${name}`), href: `/${path}` }));
  const seen = doc().coverage.ranks_seen;
  const number = /^(?:rank\s*|r\s*|卡\s*)?(\d+)$/.exec(text)?.[1];
  const ranks = (number ? seen.filter((rank) => String(rank).startsWith(number)) : text.startsWith("rank") ? seen : []).slice(0, 8);
  const findings = doc().findings.map((one, at) => ({ kind: one.code, name: said(one.message), href: `/#${placeOf(at)}` }));
  const fits = (/** @type {Hit} */ one) => text.split(/\s+/).every((word) => `${one.kind} ${one.name}`.toLowerCase().includes(word));
  return [
    ...ranks.map((rank) => ({ kind: t("kind.rank"), name: `rank ${rank}`, href: to("/ranks", { rank }) })),
    ...[...pages, ...findings].filter(fits),
  ].slice(0, text ? 12 : 20);
}

/** @param {{name: string, kind: string, total_ns: string | number}} found */
function operator({ name, kind, total_ns: total }) {
  const more = duration(Number(total)) ?? "";
  const href = kind === "kernel" ? to("/operators", { by: "name", name }) : to("/host", { name });
  return { kind: t(`kind.${kind}`), name, more, href };
}

function help() {
  if (document.querySelector("dialog[open]")) return;
  const keys = [["/", t("help.search")], ["?", t("help.help")], ["g o, g s, g r, g t", t("help.go")], ["← ↑ ↓ →", t("help.arrows")], ["Enter", t("help.enter")], ["Esc", t("help.esc")], ["W A S D", t("help.wasd")]];
  const dialog = /** @type {HTMLDialogElement} */ (h(
    "dialog", { class: "help", "aria-label": t("help") },
    h("h2", {}, t("help")),
    h("dl", { class: "keys" }, keys.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])),
    h("h3", {}, t("help.words")),
    h("dl", { class: "terms" }, ["window", "exposed", "free", "gain", "confidence", "slack"].flatMap((word) => [h("dt", {}, t(`term.${word}`)), h("dd", {}, t(`term.${word}.is`))])),
    button(t("close"), () => dialog.close()),
  ));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
}

const GO = { o: "/", s: "/steps", r: "/ranks", i: "/pipeline", p: "/path", k: "/operators", c: "/communication", h: "/host", m: "/memory", w: "/whatif", b: "/compare", n: "/migrate", x: "/precision", t: "/timeline", d: "/data", l: "/live" };
let before = "";

/** @param {KeyboardEvent} event */
function keys(event) {
  const at = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || (at instanceof HTMLElement && at.closest("input, textarea, select, dialog"))) return;
  if (event.key === "/") { event.preventDefault(); search(); }
  else if (event.key === "?") { event.preventDefault(); help(); }
  else if (before === "g" && event.key in GO) go(GO[/** @type {keyof typeof GO} */ (event.key)]);
  before = event.key;
}

async function wait() {
  const line = h("p", { class: "wait" }, t("phase.reading"));
  const paths = h("p", { class: "about" });
  const boot = h("section", { class: "boot" }, line, h("div", { class: "skeleton", "aria-hidden": "true" }, h("span"), h("span"), h("span")), paths);
  for (;;) {
    if (!boot.isConnected && !ALONE.has(own())) main.replaceChildren(boot);
    const state = await ask("state");
    if (state.phase === "ready") return;
    if (state.phase === "failed") throw Object.assign(new Error(state.error.what), { wrong: state.error });
    line.textContent = `${t(`phase.${state.phase}`)} · ${Math.round(state.seconds)} s`;
    paths.textContent = state.paths.join(", ");
    await new Promise((done) => setTimeout(done, 150));
  }
}

async function begin() {
  theme();
  document.addEventListener("click", links);
  document.addEventListener("keydown", keys);
  window.addEventListener("popstate", () => show());
  window.addEventListener("hermes:show", () => show());
  system.addEventListener("change", () => shell());
  // Charts are drawn as wide as they are seen; the viewer of the timeline does so itself.
  narrow.addEventListener("change", () => { if (ready && own() !== "timeline" && !ALONE.has(own())) show(); });
  // All at once: words, document and page wait for no one of them.
  const opened = open();
  opened.catch(() => {});
  PAGES.find(([path]) => path === own())?.[2]().catch(() => {});
  try {
    await load();
    if (ALONE.has(own())) await show(); else shell();
    // Most often it is ready: then one answer less stands before the page.
    if (!(await opened)) {
      await wait();
      await open();
    }
    await learn(titles());
    const first = doc().steps[0]?.start_ns ?? doc().critical_path_stretches?.[0]?.start_ns ?? null;
    setOrigin(first);
    ready = true;
    if (ALONE.has(own())) shell(); else await show();
    // The other pages' scripts, so that a click has them.
    setTimeout(() => PAGES.forEach(([, , page]) => page().catch(() => {})), AFTER_MS);
  } catch (error) {
    broken = error;
    // A job that was not captured yet has no profile to show, but can be followed.
    if (own() === "" && (await ask("state").catch(() => ({}))).job) { history.replaceState(null, "", "/live"); await show(); }
    else if (!ALONE.has(own())) main.replaceChildren(failure(error));
  }
}

begin();
