// What-if: changes worth a look, switched on together, and the replayed step beside the step as it was.

import { ask, doc, keep, param, splits } from "../data.js";
import { PARTS, legend, partsOf, stack, strips } from "../charts.js";
import { button, h, prose, say } from "../dom.js";
import { clean, clip, duration, percent } from "../format.js";
import { t } from "../translate.js";
import { empty, heading, picker, section } from "./parts.js";

/**
 * @typedef {{set: string[], title: string, low_ns: number, high_ns: number, share: number, step_ns: number}} Gain
 * @typedef {{mean: Record<string, number>, split: Record<string, number>, step_ns: number, pieces: [string, number, number][]}} Shown
 * @typedef {{gain: Gain, rank: number, today: Shown, then: Shown}} Replayed
 */

const FIRST = 12;
const AGAIN_MS = 200;
const SOON_MS = 120; // what comes sooner needs no word

/** @param {HTMLElement} main */
export async function render(main) {
  main.append(...heading("whatif", t("whatif.lead")));
  const holder = h("div", { class: "whatif" }, h("p", { class: "wait" }, t("whatif.reading")));
  main.append(holder);
  follow(holder).catch((error) => holder.replaceChildren(h("p", { class: "wrong", role: "alert" }, clean(error.message))));
}

/** The step is read once, which takes its time: until then the page shows it as measured, and how far it is. */
async function follow(/** @type {HTMLElement} */ holder) {
  let bench = /** @type {Bench | null} */ (null);
  const line = h("p", { class: "wait", role: "status" }, t("whatif.reading"));
  const asked = ask("whatif");
  let today = /** @type {HTMLElement | null} */ (null);
  // The step as measured needs no replay, and so waits for nothing.
  measured().then((one) => { today = one; if (one && holder.firstElementChild?.matches("p.wait")) holder.replaceChildren(line, one); }, () => null);
  let found = await asked;
  let seen = false; // it is put into the page after this began
  while (!found.none) {
    if (found.phase === "reading") {
      line.textContent = `${t("whatif.reading")} · ${Math.round(found.seconds)} s`;
      if (!line.isConnected) holder.replaceChildren(line, ...(today ? [today] : []));
    } else if (bench) bench.extend(found);
    else { bench = new Bench(holder, found); bench.begin(); }
    if (found.phase === "ready") return;
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    seen ||= holder.isConnected;
    if (seen && !holder.isConnected) return;
    found = await ask("whatif");
  }
  holder.replaceChildren(empty(clean(found.none.what), clean(found.none.hint)));
}

/** The typical step of the rank that the verdict speaks of. */
async function measured() {
  const { rank, step } = doc().verdict;
  const own = (await splits()).find((row) => row.rank === rank && row.step === step && row.compute !== null);
  if (!own) return null;
  return h("section", {}, h("h2", {}, `rank ${rank}, ${t("whatif.today")}`), legend(PARTS), h("div", { class: "barlist narrow" },
    h("div", { class: "barrow" }, h("span", { class: "barname" }, `rank ${rank}${step === null ? "" : `, ${t("step")} ${step}`}`), h("span", { class: "bartotal" }, duration(own.window)), h("span", { class: "bar" }, stack(partsOf(own), own.window, own.window)))));
}

class Bench {
  /** @param {HTMLElement} holder @param {{phase: string, done: number, of: number, step: number | null, step_ns: number, ranks: number[], kinds: string[], changes: Gain[]}} found */
  constructor(holder, found) {
    this.holder = holder;
    this.found = found;
    this.known = found.changes.map((one) => one.set[0]);
    const chosen = new URLSearchParams(location.search).getAll("set");
    this.chosen = new Set(chosen);
    this.round = 0;
    this.going = new AbortController();
    this.result = h("div", { class: "bench" }, h("p", { class: "wait" }, t("loading")));
    this.busy = h("p", { class: "busy", role: "status" });
    this.list = h("ul", { class: "changes" });
    this.more = param("all") === "1" || this.known.slice(FIRST).some((spec) => this.chosen.has(spec));
  }

  /** Further changes were replayed. @param {{changes: Gain[], phase: string, done: number, of: number}} found */
  extend(found) {
    this.found = { ...this.found, ...found };
    this.known = found.changes.map((one) => one.set[0]);
    this.more ||= this.known.slice(FIRST).some((spec) => this.chosen.has(spec));
    this.draw();
  }

  begin() {
    const { ranks } = this.found;
    const input = /** @type {HTMLInputElement} */ (h("input", { type: "text", maxlength: 400, placeholder: "op:MatMul*=0.5", "aria-label": t("whatif.own"), spellcheck: "false" }));
    const add = () => { if (input.value.trim()) { this.set(input.value.trim(), true); input.value = ""; } };
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); add(); } });
    const ordered = ranks.length > 1 ? picker("rank", t("rank"), [["", t("whatif.busiest")], ...ranks.map((rank) => /** @type {[string, string]} */ ([String(rank), `rank ${rank}`]))], param("rank")) : null;
    this.holder.replaceChildren(
      h("div", { class: "controls" }, ordered, this.busy),
      this.result,
      section(
        t("whatif.changes"), h("p", { class: "about" }, t("whatif.changes_is")), this.list,
        h("div", { class: "controls" }, h("label", { class: "picker" }, t("whatif.own"), input), button(t("whatif.add"), add), button(t("whatif.none"), () => { this.chosen.clear(); this.changed(); })),
        h("p", { class: "about" }, prose(t("whatif.own_is"))),
      ),
    );
    this.draw();
    this.ask();
  }

  /** @param {string} spec @param {boolean} on */
  set(spec, on) {
    if (on) this.chosen.add(spec); else this.chosen.delete(spec);
    this.changed();
  }

  changed() {
    const query = new URLSearchParams(location.search);
    query.delete("set");
    for (const spec of this.chosen) query.append("set", spec);
    history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
    this.draw();
    this.ask();
  }

  draw() {
    const focus = document.activeElement instanceof HTMLInputElement ? document.activeElement.dataset.spec : undefined;
    const own = [...this.chosen].filter((spec) => !this.known.includes(spec));
    const shown = this.more ? this.found.changes : this.found.changes.slice(0, FIRST);
    const most = Math.max(1, ...this.found.changes.map((one) => one.high_ns));
    this.list.replaceChildren(
      ...own.map((spec) => this.item(spec, spec, null, most)),
      ...shown.map((one) => this.item(one.set[0], one.title, one, most)),
      ...(this.more || this.found.changes.length <= FIRST ? [] : [h("li", {}, button(t("more_of", { count: this.found.changes.length - FIRST }), () => { this.more = true; keep({ all: 1 }); this.draw(); }))]),
      ...(this.found.phase === "replaying" ? [h("li", { class: "wait" }, t("whatif.replaying", { done: this.found.done, of: this.found.of }))]
        : this.found.changes.length ? [] : [h("li", { class: "none" }, t("whatif.nothing"))]),
    );
    if (focus !== undefined) [...this.list.querySelectorAll("input")].find((box) => box.dataset.spec === focus)?.focus();
  }

  /** @param {string} spec @param {string} name @param {Gain | null} gain @param {number} most */
  item(spec, name, gain, most) {
    const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", "data-spec": spec, onchange: () => this.set(spec, box.checked) }));
    box.checked = this.chosen.has(spec);
    return h("li", {},
      h("label", {}, box, h("span", { class: "what" }, h("span", {}, clip(clean(name), 300)), gain ? h("code", {}, clip(clean(spec), 200)) : null)),
      gain ? h("span", { class: "gain" }, range(gain), h("small", {}, ` ${percent(gain.share)}`)) : h("span", { class: "gain" }, t("whatif.typed")),
      h("span", { class: "bar", "aria-hidden": "true" }, gain ? [
        h("span", { class: "low", style: { width: `${(100 * gain.low_ns) / most}%` } }),
        h("span", { class: "high", style: { width: `${(100 * (gain.high_ns - gain.low_ns)) / most}%` } }),
      ] : null));
  }

  async ask() {
    const round = ++this.round;
    // Of several wishes the last one counts: the others hold no connection.
    this.going.abort();
    this.going = new AbortController();
    this.result.setAttribute("aria-busy", "true");
    const later = setTimeout(() => { if (round === this.round) this.busy.textContent = t(this.chosen.size > 1 ? "whatif.busy" : "whatif.busy_one", { count: this.chosen.size }); }, SOON_MS);
    try {
      const answer = /** @type {Replayed} */ (await ask("whatif/replay", { set: [...this.chosen], rank: param("rank") }, this.going.signal));
      if (round !== this.round) return;
      this.result.replaceChildren(...this.shown(answer));
      say(this.chosen.size ? `${duration(answer.gain.step_ns)}, ${range(answer.gain)}` : "");
    } catch (error) {
      if (round !== this.round) return;
      const wrong = /** @type {any} */ (error).wrong;
      this.result.replaceChildren(h("p", { class: "wrong", role: "alert" }, clean(/** @type {Error} */ (error).message), wrong?.hint ? h("small", {}, ` ${clean(wrong.hint)}`) : null));
    } finally { clearTimeout(later); }
    this.busy.textContent = "";
    this.result.removeAttribute("aria-busy");
    this.result.dataset.round = String(round);
  }

  /** @param {Replayed} answer */
  shown({ gain, rank, today, then }) {
    const step = this.found.step === null ? "" : `, ${t("step")} ${this.found.step}`;
    const kinds = this.found.kinds;
    const parts = (/** @type {Record<string, number>} */ split) => kinds.map((kind) => ({ kind, name: t(`part.${kind}`), ns: split[kind] }));
    const longest = Math.max(today.step_ns, then.step_ns);
    const row = (/** @type {string} */ name, /** @type {Record<string, number>} */ split, /** @type {number} */ total) => h("div", { class: "barrow" },
      h("span", { class: "barname" }, name), h("span", { class: "bartotal" }, duration(total)), h("span", { class: "bar" }, stack(parts(split), total, longest)));
    const line = (/** @type {string} */ name, /** @type {Shown} */ one) => ({ name, pieces: one.pieces.filter(([kind]) => kind !== "free").map(([kind, from, to]) => ({ kind, from, to, text: `${name}: ${t(`part.${kind}`)} ${duration(to - from)}` })) });
    return [
      h("section", { class: "verdict free" },
        h("p", { class: "bound" }, `${t("whatif.of")}${step}`),
        h("h2", { class: "outcome" }, this.chosen.size
          ? t("whatif.outcome", { before: duration(today.step_ns), after: duration(then.step_ns), gain: range(gain), share: percent(gain.share) })
          : t("whatif.unchanged", { before: duration(today.step_ns) })),
        this.chosen.size > 1 ? h("p", { class: "about" }, t("whatif.together")) : null),
      legend(kinds),
      h("div", { class: "barlist narrow" },
        this.found.ranks.length > 1 ? [row(`${t("whatif.mean")}, ${t("whatif.today")}`, today.mean, today.step_ns), row(`${t("whatif.mean")}, ${t("whatif.then")}`, then.mean, then.step_ns)] : null,
        row(`rank ${rank}, ${t("whatif.today")}`, today.split, today.step_ns), row(`rank ${rank}, ${t("whatif.then")}`, then.split, then.step_ns)),
      strips({ label: t("whatif.strips", { rank }), rows: [line(t("whatif.today"), today), line(t("whatif.then"), then)], span: longest }),
      changes(kinds, today.split, then.split),
    ];
  }
}

/** @param {{low_ns: number, high_ns: number}} gain */
const range = ({ low_ns: low, high_ns: high }) => (duration(high) === duration(low) ? duration(low) : `${duration(low)} ${t("to")} ${duration(high)}`);

/** @param {string[]} kinds @param {Record<string, number>} before @param {Record<string, number>} after */
function changes(kinds, before, after) {
  return h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("whatif.part")), ["today", "then", "change"].map((name) => h("th", { scope: "col", class: "n" }, t(`whatif.${name}`))))),
    h("tbody", {}, kinds.map((kind) => h("tr", {}, h("th", { scope: "row" }, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), t(`part.${kind}`)),
      h("td", { class: "n" }, duration(before[kind])), h("td", { class: "n" }, duration(after[kind])),
      h("td", { class: "n" }, change(after[kind] - before[kind]))))));
}

/** @param {number} ns */
const change = (ns) => (ns === 0 ? "0" : `${ns > 0 ? "+" : "−"}${duration(Math.abs(ns))}`);
