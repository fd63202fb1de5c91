// Timeline: the Perfetto UI from this server, fed with the part that is asked for, opened at the moment that was meant.

import { h, prose, say } from "../dom.js";
import { clean, duration } from "../format.js";
import { chiefRank, doc, keep, once, param, splits, to } from "../data.js";
import { moment } from "../cells.js";
import { current, t } from "../translate.js";
import { empty, heading } from "./parts.js";

const AROUND = 50e6; // ns before and after a moment of a capture without steps
const MOST_RANKS = 8;
const FINDING = /^[A-Z]{2,4}\d{3} /; // its code, then its title
const MOST_TRACKS = 64; // ranks that one can still look through
const TOP = 3; // findings that are in sight when nothing else was asked for

/** @param {HTMLElement} main */
export async function render(main) {
  const state = await once("state");
  main.append(...heading("timeline", t("timeline.lead")));
  if (!state.timeline) { main.append(empty(t("timeline.absent"), t("timeline.how"))); return; }
  const part = await chosen();
  const ranks = /** @type {HTMLInputElement} */ (h("input", { type: "text", value: part.ranks, inputmode: "numeric", size: 12, "aria-label": t("ranks") }));
  const steps = /** @type {HTMLInputElement} */ (h("input", { type: "text", value: part.steps, inputmode: "numeric", size: 10, "aria-label": t("steps") }));
  const form = h("form", {
    class: "controls", onsubmit: (event) => {
      event.preventDefault();
      keep({ ranks: ranks.value.replace(/\s/g, ""), steps: steps.value.replace(/\s/g, "") || "all", at: "", dur: "", name: "" });
      window.dispatchEvent(new Event("hermes:show"));
    },
  }, h("label", { class: "picker" }, t("ranks"), ranks), h("label", { class: "picker" }, t("steps"), steps), h("button", { type: "submit" }, t("timeline.show")));
  const trace = `${location.origin}${to("/api/timeline.pftrace", { ranks: part.ranks, steps: part.steps, first_ns: part.first, last_ns: part.last, lang: current() })}`;
  const landed = h("p", { class: "about", "aria-live": "polite" }, part.at ? t("timeline.opening", { at: moment(part.at), name: clean(part.name) }) : " ");
  const frame = /** @type {HTMLIFrameElement} */ (h("iframe", { class: "perfetto", title: t("page.timeline"), src: `/perfetto/index.html#!/?mode=embedded&url=${encodeURIComponent(trace)}` }));
  main.append(form, landed, frame, h("p", { class: "about" }, t("timeline.keys"), " ", h("a", { href: trace, download: "hermes.pftrace", target: "_blank" }, t("timeline.save"))));
  land(frame, part, landed);
  leave(frame);
}

/** The viewer adds steps of its own to the history: going back through them ends before this page, and not at its start. @param {HTMLIFrameElement} frame */
function leave(frame) {
  frame.addEventListener("load", () => {
    let left = false;
    frame.contentWindow?.addEventListener("hashchange", (event) => {
      if (left || !frame.dataset.landed || !new URL(event.newURL).hash.includes("mode=embedded")) return;
      left = true;
      history.back();
    });
  }, { once: true });
}

/** Which part: as the address says; else the steps of the verdict and of the first findings, on their ranks and those of the critical path. */
async function chosen() {
  const all = await splits();
  const at = param("at");
  const dur = Number(param("dur", "0"));
  const path = [...new Set((doc().critical_path_stretches ?? []).map((row) => row.of_rank))].filter((rank) => doc().coverage.ranks_seen.includes(rank));
  const top = doc().findings.filter((one) => one.state === "stable" && one.at).slice(0, TOP);
  const told = top.map((one) => one.at.rank).filter((rank) => doc().coverage.ranks_seen.includes(rank));
  const usual = [...new Set([chiefRank(), ...told, ...path])].slice(0, MOST_RANKS).sort((a, b) => a - b).join(",");
  const asked = param("ranks", usual);
  const ranks = asked === "all" ? doc().coverage.ranks_seen.slice(0, MOST_TRACKS).join(",") : asked;
  const marked = all.some((row) => row.step !== null);
  let steps = param("steps");
  if (steps === "all") steps = "";
  else if (!steps && !at && marked) steps = [...new Set([String(doc().verdict.step ?? all.find((row) => row.step !== null)?.step ?? ""), ...top.map((one) => stepOf(all, one.at.rank, String(one.at.start_ns)))])].filter(Boolean).join(",");
  else if (!steps && at && marked) steps = stepOf(all, Number(ranks.split(",")[0]), at);
  const narrow = at && !steps;
  const first = narrow ? String(BigInt(at) - BigInt(AROUND)) : "";
  const last = narrow ? String(BigInt(at) + BigInt(AROUND + Math.round(dur))) : "";
  return { ranks, steps, first, last, at, dur, name: param("name") };
}

/** @param {import("../data.js").Split[]} all @param {number} rank @param {string} at */
function stepOf(all, rank, at) {
  const moment = BigInt(at);
  const own = all.filter((row) => row.rank === rank && row.step !== null);
  const inside = own.findLast((row) => BigInt(row.start) <= moment && moment <= BigInt(row.start) + BigInt(row.window));
  return inside ? String(inside.step) : "";
}

/**
 * @typedef {Awaited<ReturnType<typeof chosen>>} Part
 * @typedef {any} Foreign  an object of the Perfetto UI, which has no types here
 */

/** Moves the UI to the moment, opens the rank's tracks, and selects the slice meant. @param {HTMLIFrameElement} frame @param {Part} part @param {HTMLElement} landed */
async function land(frame, part, landed) {
  let seen = false; // it is put into the page after this began
  for (let tries = 0; tries < 600 && (frame.isConnected || !seen); tries += 1) {
    seen ||= frame.isConnected;
    const trace = /** @type {Foreign} */ (frame.contentWindow)?.app?.trace;
    const workspace = trace?.workspaces?.currentWorkspace ?? trace?.currentWorkspace;
    if (workspace?.children?.length && trace.engine) {
      try { await place(trace, workspace, part, landed); } catch (error) { landed.textContent = `${t("timeline.not_landed")} (${/** @type {Error} */ (error).message})`; }
      frame.dataset.landed = "yes";
      return;
    }
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** @param {Foreign} trace @param {Foreign} workspace @param {Part} part @param {HTMLElement} landed */
async function place(trace, workspace, part, landed) {
  const ranks = part.ranks.split(",");
  const many = ranks.length > 2;
  for (const node of workspace.flatTracks) {
    const parent = node.parent;
    if (!node.hasChildren || !node.expand) continue;
    if (parent === workspace.tracks || !parent?.parent || (!many && /analysis|device|communication$/.test(node.name))) node.expand();
    if (many && /analysis/.test(node.name)) node.expand();
  }
  const found = await count(trace);
  if (!part.at) { landed.replaceChildren(h("span", {}, prose(t("timeline.shown", found)))); return; }
  const offset = (doc().clocks ?? []).find((clock) => String(clock.rank) === ranks[0])?.offset_ns ?? 0;
  const at = BigInt(part.at) + BigInt(offset);
  const dur = BigInt(Math.max(1000, Math.round(part.dur || 0)));
  const slice = await nearest(trace, at, part);
  if (slice) await trace.selection.selectSqlEvent("slice", slice.id, { scrollToSelection: true, switchToCurrentSelectionTab: true });
  const pad = dur / 3n + 1000n;
  trace.timeline.setViewportTime(at - pad, at + dur + pad);
  landed.textContent = t("timeline.landed", { at: moment(part.at), name: slice ? clean(slice.name) : clean(part.name), dur: duration(Number(slice?.dur ?? part.dur)) ?? "" });
  say(landed.textContent ?? "");
}

/** @param {Foreign} trace */
async function count(trace) {
  const answer = await trace.engine.query("select count(*) as n from slice");
  return { count: Number(answer.firstRow({ n: 0n }).n) };
}

/**
 * The slice meant: of that name and that moment, else the one whose stretch is most like the one meant. A finding lies on
 * the tracks of the analysis; what was recorded lies on the others, though the analysis may show it again. @param {Foreign} trace @param {bigint} at @param {Part} part */
async function nearest(trace, at, part) {
  const dur = BigInt(Math.max(0, Math.round(part.dur || 0)));
  const far = dur > 1000n ? dur : 1000n;
  const answer = await trace.engine.query(
    `select s.id as id, s.dur as dur, s.name as name, abs(s.ts - ${at}) + abs(s.ts + s.dur - ${at + dur}) as off,
       coalesce(t.name, '') || ' ' || coalesce(p.name, '') as tracks
     from slice s left join track t on t.id = s.track_id left join track p on p.id = t.parent_id
     where s.ts < ${at + far} and s.ts + s.dur > ${at - far} and s.dur >= 0 order by off, s.dur limit 300`,
  );
  const all = [];
  for (const it = answer.iter({ id: 0, dur: 0n, name: "str", tracks: "str" }); it.valid(); it.next()) all.push({ id: it.id, dur: it.dur, name: it.name, analysis: /analysis/.test(it.tracks) });
  const meant = all.filter((row) => row.analysis === FINDING.test(part.name));
  const rows = meant.length ? meant : all;
  const code = FINDING.exec(part.name)?.[0]; // its title may be in another language
  return rows.find((row) => part.name && row.name === part.name) ?? rows.find((row) => code && row.name.startsWith(code)) ?? rows.find((row) => part.name && row.name.includes(part.name)) ?? rows[0] ?? null;
}
