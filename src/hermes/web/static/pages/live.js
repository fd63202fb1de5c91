// Live: running jobs as they step, kept up to date by server-sent events; a capture is asked for here and followed.

import { act, keep, param } from "../data.js";
import { button, h, s, say } from "../dom.js";
import { bytes, clean, clip, duration, number, percent, runs } from "../format.js";
import { finding } from "../findings.js";
import { spoken } from "../say.js";
import { current, t } from "../translate.js";
import { empty, heading, own } from "./parts.js";

/**
 * @typedef {{rank: number, step: number, now_ns: number | null, baseline_ns: number | null, walls_ns: number[], samples_per_s: number | null, tokens_per_s: number | null, split: [string, number][], memory_bytes: number | null}} Rank
 * @typedef {{rank: number, state: string, text: string}} Said
 * @typedef {{level: string, first: number, steps: number, reason: string, folder: string, done: boolean, ranks: Said[]}} Capture
 * @typedef {Record<string, string>} Both a text by language
 * @typedef {Record<string, string> & {said?: Both | null}} Noted
 * @typedef {{rank: number, kind: string, since: number, step: number, before_ns: number, after_ns: number, cause: Both | null, share: number | null, do: Both | null, finding: import("../findings.js").Finding}} Alarm
 * @typedef {{job: string, running: boolean, command: string, folder: string, created_ns: string, state?: string, stalled?: Both | null, bandwidth?: Both[], ranks: Rank[], alarms: Alarm[], capture: Capture | null, events: Noted[]}} Job
 */

const MANY = 32;
const RANKS = new Set(["straggler", "recovered", "caught up"]);
const EVENTS = new Set(["finding", "capture", "no progress", "progress", ...RANKS]);
const KINDS = { "data wait": "wait", checkpoint: "copy", blocked: "free" };

/** @param {HTMLElement} main */
export function render(main) {
  const status = h("p", { class: "about", role: "status" }, t("live.connecting"));
  const holder = h("div", { class: "jobs" });
  main.append(...heading("live", t("live.lead")), status, holder);
  /** @type {Map<string, JobView>} */
  const views = new Map();
  const source = new EventSource("/api/live");
  // The page may be gone: what is not shown needs no connection.
  const gone = new MutationObserver(() => { if (shown && !main.isConnected) { source.close(); gone.disconnect(); } });
  let shown = false;
  const page = document.getElementById("main");
  if (page) gone.observe(page, { childList: true });
  source.addEventListener("open", () => { shown = main.isConnected; status.textContent = t("live.connected"); });
  source.addEventListener("error", () => { status.textContent = t("live.lost"); });
  source.addEventListener("message", (event) => {
    shown = main.isConnected;
    const { jobs, levels, wrong } = /** @type {{jobs: Job[], levels: string[], wrong?: Both}} */ (JSON.parse(event.data));
    status.textContent = wrong ? own(wrong) : t("live.connected");
    for (const name of [...views.keys()]) if (!jobs.some((job) => job.job === name)) { views.get(name)?.element.remove(); views.delete(name); }
    if (!jobs.length) { if (!holder.querySelector(".empty")) holder.replaceChildren(empty(t("live.none"), t("live.none_hint"))); return; }
    holder.querySelector(".empty")?.remove();
    jobs.forEach((job) => {
      let view = views.get(job.job);
      if (!view) { view = new JobView(job, levels); views.set(job.job, view); holder.append(view.element); }
      view.draw(job);
    });
  });
  window.addEventListener("pagehide", () => source.close(), { once: true });
}

class JobView {
  /** @param {Job} job @param {string[]} levels */
  constructor(job, levels) {
    this.name = job.job;
    this.asked = -1; // the first step of the capture that was asked for here
    this.first = h("div");
    this.body = h("div", { class: "jobbody" });
    this.state = h("span", { class: "jobstate" });
    this.answer = h("p", { class: "about", role: "status" });
    this.level = /** @type {HTMLSelectElement} */ (h("select", {}, levels.map((level) => h("option", { value: level }, t(`live.level.${level}`)))));
    this.steps = /** @type {HTMLInputElement} */ (h("input", { type: "number", min: 1, max: 100, class: "few", required: true }));
    this.ranks = /** @type {HTMLInputElement} */ (h("input", { type: "text", class: "few", placeholder: t("all_ranks"), pattern: "[0-9, -]*", maxlength: 400 }));
    this.level.value = levels.includes(param("level")) ? param("level") : "standard";
    this.steps.value = param("steps", "2");
    this.ranks.value = param("ranks");
    for (const [name, field] of /** @type {[string, HTMLInputElement | HTMLSelectElement][]} */ ([["level", this.level], ["steps", this.steps], ["ranks", this.ranks]])) field.addEventListener("change", () => keep({ [name]: field.value }));
    this.go = button(t("live.capture"), () => this.capture(), { class: "act" });
    this.stop = button(t("live.cancel"), () => this.cancel());
    this.form = h("div", { class: "controls asking" },
      h("label", { class: "picker" }, t("live.level"), this.level), h("label", { class: "picker" }, t("steps"), this.steps),
      h("label", { class: "picker" }, t("ranks"), this.ranks), this.go, this.stop);
    this.element = h("section", { class: "block job", "aria-label": clean(job.job) },
      h("h2", {}, clean(job.job), " ", this.state), h("p", { class: "about" }, h("code", {}, clip(clean(job.command), 300))),
      // What comes and goes stands below the form: no button moves away under a hand.
      this.form, this.answer, this.first, this.body);
  }

  /** @param {Job} job */
  draw(job) {
    this.state.textContent = job.running ? t("live.running") : t("live.ended");
    this.state.classList.toggle("over", !job.running);
    const busy = Boolean(job.capture && !job.capture.done);
    this.form.hidden = !job.running;
    this.go.toggleAttribute("disabled", busy);
    this.stop.hidden = !busy;
    if (job.capture?.done && job.capture.first === this.asked) { this.answer.replaceChildren(); this.asked = -1; }
    this.first.replaceChildren(...(job.running && job.stalled ? [h("p", { class: "wrong" }, h("b", {}, t("live.stalled")), " ", clip(own(job.stalled), 600))] : []), ...first(job));
    this.body.replaceChildren(
      ...(job.ranks.length ? [ranks(job.ranks)] : [h("p", { class: "none" }, t("live.no_step"))]),
      ...(job.bandwidth?.length ? [h("section", {}, h("h3", {}, t("live.bandwidth")), h("ul", { class: "states" }, job.bandwidth.map((line) => h("li", {}, clip(own(line), 200)))))] : []),
      ...(job.capture ? [capture(job.capture, job)] : []),
      ...alarms(job.alarms), ...events(job),
      h("p", { class: "about" }, `${t("live.folder")} `, h("code", {}, clean(job.folder))),
    );
  }

  async capture() {
    const chosen = numbers(this.ranks.value);
    const steps = Number(this.steps.value);
    if (!chosen || !Number.isInteger(steps)) { this.tell(t("live.no_numbers"), true); return; }
    this.go.setAttribute("disabled", "");
    try {
      const asked = await act("live/capture", { job: this.name, level: this.level.value, steps, ranks: chosen });
      this.asked = asked.first;
      this.tell(t("live.asked", { first: asked.first, last: asked.first + asked.steps - 1 }), false);
    } catch (error) { this.failed(error); }
  }

  async cancel() {
    try {
      await act("live/cancel", { job: this.name });
      this.tell(t("live.cancelled"), false);
    } catch (error) { this.failed(error); }
  }

  /** @param {unknown} error */
  failed(error) {
    const wrong = /** @type {any} */ (error).wrong;
    this.tell(clean(`${/** @type {Error} */ (error).message}${wrong?.hint ? `; ${wrong.hint}` : ""}`), true);
    this.go.removeAttribute("disabled");
  }

  /** @param {string} text @param {boolean} wrong */
  tell(text, wrong) {
    this.answer.textContent = text;
    this.answer.classList.toggle("wrong", wrong);
    say(text);
  }
}

/** Ranks as typed, such as 0,3-5; null when that is no list. @param {string} text */
function numbers(text) {
  /** @type {number[]} */
  const found = [];
  for (const part of text.split(",").map((one) => one.trim()).filter(Boolean)) {
    const ends = /^(\d{1,6})(?:\s*-\s*(\d{1,6}))?$/.exec(part);
    if (!ends || Number(ends[2] ?? ends[1]) - Number(ends[1]) > 255) return null;
    for (let rank = Number(ends[1]); rank <= Number(ends[2] ?? ends[1]); rank += 1) found.push(rank);
  }
  return found;
}

/** @param {Rank[]} all */
function ranks(all) {
  const slowest = all.length > MANY ? all.toSorted((a, b) => (b.now_ns ?? 0) - (a.now_ns ?? 0)).slice(0, MANY) : all;
  const rates = /** @type {const} */ (["samples_per_s", "tokens_per_s"]).filter((name) => all.some((rank) => rank[name] !== null));
  const names = ["rank", "col.step", "live.time", "live.baseline", "live.latest"];
  return h("div", {},
    slowest.length < all.length ? h("p", { class: "about" }, t("live.slowest", { shown: slowest.length, count: all.length })) : null,
    h("div", { class: "wide" }, h("table", { class: "plain livetable" },
      h("thead", {}, h("tr", {}, [...names.map((name) => t(name)), ...rates.map((name) => t(`live.${name}`)), t("live.memory"), t("live.split")].map((name, at) => h("th", { scope: "col", class: at === 4 || name === t("live.split") ? "" : "n" }, name)))),
      h("tbody", {}, slowest.map((rank) => {
        const slower = rank.now_ns !== null && rank.baseline_ns !== null && rank.now_ns > 1.1 * rank.baseline_ns;
        return h("tr", { class: slower ? "slower" : "" },
          h("th", { scope: "row", class: "n" }, rank.rank), h("td", { class: "n" }, number(rank.step)),
          h("td", { class: "n" }, h("b", {}, duration(rank.now_ns) ?? "–"), slower ? h("small", {}, ` +${percent(/** @type {number} */ (rank.now_ns) / /** @type {number} */ (rank.baseline_ns) - 1)}`) : null),
          h("td", { class: "n" }, duration(rank.baseline_ns) ?? "–"), h("td", {}, spark(rank)),
          rates.map((name) => h("td", { class: "n" }, rank[name] === null ? "–" : number(Math.round(/** @type {number} */ (rank[name]))))),
          h("td", { class: "n" }, bytes(rank.memory_bytes) ?? "–"), h("td", {}, split(rank)));
      })))));
}

/** Latest step times, and a line where the typical one was. @param {Rank} rank */
function spark({ walls_ns: walls, baseline_ns: baseline, rank }) {
  const top = Math.max(1, ...walls, baseline ?? 0) * 1.05;
  const y = (/** @type {number} */ ns) => 26 - (ns / top) * 24;
  const wide = 180 / Math.max(walls.length, 20);
  return s("svg", { class: "spark", viewBox: "0 0 180 28", role: "img", "aria-label": t("live.spark", { rank, least: duration(Math.min(...walls)), most: duration(Math.max(...walls)) }) },
    walls.map((ns, at) => s("rect", { x: (at * wide).toFixed(2), y: y(ns).toFixed(1), width: Math.max(0.8, wide - 0.6).toFixed(2), height: (26 - y(ns)).toFixed(1) }, s("title", {}, duration(ns) ?? ""))),
    baseline === null ? null : s("line", { x1: 0, x2: 180, y1: y(baseline), y2: y(baseline) }));
}

/** @param {Rank} rank */
function split({ split, walls_ns: walls }) {
  const total = walls.reduce((sum, ns) => sum + ns, 0) / (walls.length || 1);
  const parts = split.filter(([, ns]) => total && ns / total >= 0.01).sort((a, b) => b[1] - a[1]).slice(0, 4);
  if (!parts.length) return h("span", { class: "none" }, t("not_measured"));
  return h("span", { class: "goes" }, parts.map(([name, ns]) => h("span", { class: "part" }, h("span", { class: `key ${KINDS[/** @type {keyof typeof KINDS} */ (name)] ?? "host"}`, "aria-hidden": "true" }), `${t(`live.part.${name}`)} ${percent(ns / total)}`)));
}

/** @param {Capture} one @param {Job} job */
function capture(one, job) {
  const seen = foundIn(one.folder, job.events);
  /** @type {Map<string, number[]>} */
  const states = new Map();
  const bad = new Set();
  for (const { rank, state, text } of one.ranks) {
    const said = `${t(`live.state.${state}`)}${text ? ` (${clip(clean(text), 200)})` : ""}`;
    states.set(said, [...(states.get(said) ?? []), rank]);
    if (["failed", "refused", "late", "gone"].includes(state)) bad.add(said);
  }
  const good = one.done && one.ranks.length > 0 && one.ranks.every((rank) => rank.state === "finished");
  return h("section", { class: `capture${one.done ? "" : " busy"}` },
    h("h3", {}, t("live.last_capture")),
    h("p", {}, t("live.capture_is", { level: t(`live.level.${one.level}`), first: one.first, last: one.first + one.steps - 1 }), ` · ${clip(clean(one.reason), 300)}`),
    h("ul", { class: "states" }, [...states].slice(0, 16).map(([said, those]) => h("li", { class: bad.has(said) ? "bad" : "" }, `${said}: rank ${runs(those, t("to"))}`))),
    h("p", { class: "about" }, good ? [`${t("live.next")} `, h("code", {}, `hermes analyze ${clean(one.folder)}`)] : h("code", {}, clean(one.folder)), seen ? report(job.job, seen) : null));
}

/** What is wrong and what to do: what was noticed last, and the finding that came after it. @param {Job} job */
function first({ job, alarms: [alarm], events, capture: last }) {
  const told = events.find((one) => one.kind === "alarm" && alarm && one.rank === String(alarm.rank) && one.since === String(alarm.since));
  // Of an alarm that nobody wrote down, the capture that was made of its steps tells.
  const its = (/** @type {Noted} */ one) => Boolean(alarm && last && last.first >= alarm.since && named(one) === baseName(last.folder));
  const after = (/** @type {Noted} */ one) => (told ? Number(one.time_ns) >= Number(told.time_ns) : !alarm || its(one));
  const found = events.find((one) => one.kind === "finding" && after(one));
  const spent = told && !found && !events.some((one) => one.kind === "capture" && after(one)) && events.some((one) => one.kind === "capture");
  if (!alarm && !found) return [];
  return [h("aside", { class: "notice", "aria-label": t("overview.first") },
    alarm ? h("p", { class: "noticehead" }, spoken(alarm.finding.message)) : null,
    alarm?.do ? h("p", {}, own(alarm.do)) : null,
    spent ? h("p", {}, t("live.spent")) : null,
    found ? h("p", {}, h("b", {}, `${t("live.event.finding")} `), clip(own(found.said), 400), report(job, found)) : null)];
}

/** The capture that a finding is of. @param {Noted} event */
const named = (event) => /\/reports\/([\w.-]+)\/report\.html$/.exec(event.report ?? "")?.[1];

/** @param {string} folder */
const baseName = (folder) => folder.split("/").filter(Boolean).at(-1) ?? "";

/** The finding of a capture, once it was analysed. @param {string} folder @param {Noted[]} events */
const foundIn = (folder, events) => events.find((event) => event.kind === "finding" && named(event) === baseName(folder));

/** The way to the report of a finding. @param {string} job @param {Noted} event */
function report(job, event) {
  const name = named(event);
  return name ? h("span", {}, " · ", h("a", { href: `/live/reports/${encodeURIComponent(job)}/${name}`, target: "_blank", rel: "noopener" }, t("live.report"))) : null;
}

/** @param {Alarm[]} all */
const alarms = (all) => (all.length ? [h("section", {}, h("h3", {}, t("live.alarms")), all.map((one) => finding(one.finding)))] : []);

/** @param {Job} job */
function events({ job, events: all }) {
  const shown = all.filter((one) => EVENTS.has(one.kind));
  if (!shown.length) return [];
  return [h("section", {}, h("h3", {}, t("live.events")), h("ul", { class: "noticed" }, shown.slice(0, 10).map((one) => h("li", {},
    h("time", {}, one.time_ns ? new Date(Number(BigInt(one.time_ns) / 1_000_000n)).toLocaleTimeString(current() === "zh" ? "zh-CN" : "en-GB") : ""), " ",
    h("b", {}, `${t(`live.event.${one.kind}`)} `), RANKS.has(one.kind) ? `rank ${clean(one.rank ?? "")}` : clip(one.kind === "capture" ? clean(one.folder ?? "") : own(one.said), 500),
    report(job, one.kind === "capture" ? foundIn(one.folder ?? "", all) ?? one : one)))))];
}
