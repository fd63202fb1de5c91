// What the server knows, asked for once and kept; and the address of the page, which holds all of its state.

/**
 * @typedef {{what: string, where: string, lost: string, hint: string}} Wrong
 * @typedef {{name: string, kind: string, title?: string, exact?: string}} Column  with what it is called, and called in a copy, if the name does not say it
 * @typedef {{columns: Column[], total: number, matching: number, rows: unknown[][]}} Page
 * @typedef {Record<string, any>} Row
 * @typedef {{key: string, rows: number, columns: string[]}} Listed
 * @typedef {{ranks_seen: number[], ranks_expected: number | null, ranks_expected_source: import("./say.js").Text, steps: number[], missing: import("./say.js").Text[]}} Coverage
 * @typedef {Row & {findings: Row[], diagnostics: Row[], coverage: Coverage, critical_path?: Row[], critical_path_stretches?: Row[], clocks?: Row[], tree: Row[]}} Document
 */

export class Refused extends Error {
  /** @param {number} status @param {Wrong} wrong */
  constructor(status, wrong) {
    super(wrong.what);
    this.status = status;
    this.wrong = wrong;
  }
}

/** @type {Map<string, Promise<any>>} */
const kept = new Map();

/** @param {string} path @param {Record<string, unknown>} [values] @param {AbortSignal} [signal] */
export async function ask(path, values = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (Array.isArray(value)) value.forEach((one) => query.append(name, one));
    else if (value !== null && value !== undefined && value !== "" && value !== false) query.set(name, String(value));
  }
  let answer;
  try {
    answer = await fetch(`/api/${path}${query.size ? `?${query}` : ""}`, { signal });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(0, { what: "the server does not answer", where: location.origin, lost: "", hint: "is `hermes serve` still running?" });
  }
  return told(answer);
}

/** @param {Response} answer */
async function told(answer) {
  const body = await answer.json().catch((error) => { if (error.name === "AbortError") throw error; });
  if (!answer.ok || body === undefined) throw new Refused(answer.status, body?.error ?? { what: `the server answered ${answer.status}`, where: "", lost: "", hint: "" });
  return body;
}

/** Something that is to be done. @param {string} path @param {Record<string, unknown>} wish */
export async function act(path, wish) {
  const answer = await fetch(`/api/${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(wish) });
  return told(answer);
}

/** Asked once. @param {string} path @param {Record<string, unknown>} [values] @returns {Promise<any>} */
export function once(path, values = {}) {
  const key = `${path} ${JSON.stringify(values)}`;
  let found = kept.get(key);
  if (!found) {
    found = ask(path, values);
    kept.set(key, found);
    found.catch(() => kept.delete(key));
  }
  return found;
}

/** @type {{document: Document, tables: Listed[], pages: Record<string, Page>, words: Record<string, [string, string]>, parts: Record<string, string>}} */
let study;

/** Whether the study is there; if not, it is still being read. */
export async function open() {
  const found = await ask("report");
  if (!found.waiting) study = found;
  return !found.waiting;
}

export const doc = () => study.document;
/** Where a finding stands on the overview: by its code, but for one that is not the first of a code. @param {number} at */
export const placeOf = (at) => {
  const { findings } = doc();
  const code = findings[at]?.code;
  return findings.findIndex((one) => one.code === code) === at ? code : `${code}-${at}`;
};
export const tables = () => study.tables;
/** Titles of its tables and columns in both languages, by their keys. */
export const titles = () => study.words;
/** The part of the tree that a leaf belongs to. @param {string} leaf */
export const partOf = (leaf) => study.parts[leaf];
/** A short table, whole as the server would give it. @param {string} key @returns {Page | undefined} */
export const short = (key) => (Object.hasOwn(study?.pages ?? {}, key) ? study.pages[key] : undefined);
/** @param {string} key */
export const rowsOf = (key) => study.tables.find((table) => table.key === key)?.rows ?? 0;

/** @typedef {{rank: number, step: number | null, start: string | number, window: number, compute: number | null, comm: number | null, copy: number | null, free: number | null, preparing: number | null, kind: string, [measure: string]: any}} Split */

/** All steps of all ranks, times in ns. @returns {Promise<Split[]>} */
export async function splits() {
  const names = "rank,step,start_ns,window_ms,compute_ms,exposed_comm_ms,copy_exposed_ms,free_ms,preparing_ms,window_kind";
  const columns = await once("columns", { table: "steps", names });
  const ns = (/** @type {number | null} */ value) => (value === null ? null : Math.round(value * 1e6));
  return columns.rank.map((/** @type {number} */ rank, /** @type {number} */ at) => ({
    rank,
    step: columns.step[at],
    start: columns.start_ns[at],
    window: ns(columns.window_ms[at]),
    compute: ns(columns.compute_ms[at]),
    comm: ns(columns.exposed_comm_ms[at]),
    copy: ns(columns.copy_exposed_ms[at]),
    free: ns(columns.free_ms[at]),
    preparing: ns(columns.preparing_ms[at]),
    kind: columns.window_kind[at],
  }));
}

/** One step for each rank: the one of median window. @param {Split[]} all */
export function typical(all) {
  /** @type {Map<number, Split[]>} */
  const byRank = new Map();
  for (const row of all) byRank.set(row.rank, [...(byRank.get(row.rank) ?? []), row]);
  return [...byRank.entries()].sort(([a], [b]) => a - b).map(([, rows]) => {
    const ordered = rows.toSorted((a, b) => a.window - b.window);
    return ordered[(ordered.length - 1) >> 1];
  });
}

const HELD = "held the others up";

/** How long each rank held the others up in its typical step, in ns, as the analysis has it: with it those who cause a wait stand out, and not those who wait. */
export function heldUp() {
  /** @type {{metrics: {name: string, unit: string}[], rows: {cells: ({most: number, most_rank: number} | null)[]}[]} | undefined} */
  const matrix = doc().rank_matrix;
  const at = (matrix?.metrics ?? []).findIndex((metric) => metric.name === HELD && metric.unit === "ms");
  const cells = at < 0 ? [] : (matrix?.rows ?? []).map((row) => row.cells[at]);
  return new Map(cells.flatMap((cell) => (cell ? [/** @type {[number, number]} */ ([cell.most_rank, Math.round(cell.most * 1e6)])] : [])));
}

/** What the pages of ranks show of a rank: its typical step, and how long it held the others up. @param {Split[]} all */
export function withHeld(all) {
  const held = heldUp();
  return typical(all).map((row) => ({ ...row, held: held.size ? held.get(row.rank) ?? 0 : null }));
}

/** Ranks that a finding lays its time at. @param {Row} finding @returns {number[]} */
export const blamedBy = (finding) => finding.blames.filter((/** @type {Row} */ one) => one.kind === "rank").map((/** @type {Row} */ one) => one.rank);

/** Ranks that findings blame. */
export const blamedRanks = () => new Set(doc().findings.flatMap(blamedBy));

/** The rank whose tables are shown first. */
export function chiefRank() {
  const document = doc();
  return document.verdict.rank ?? document.coverage.ranks_seen[0] ?? 0;
}

/** A state in the address. @param {string} name @param {string} [otherwise] */
export const param = (name, otherwise = "") => new URLSearchParams(location.search).get(name) ?? otherwise;

/** Change the address in place. @param {Record<string, unknown>} values */
export function keep(values) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, String(value));
  }
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
}

/** An address. @param {string} path @param {Record<string, unknown>} [values] */
export function to(path, values = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  return `${path}${query.size ? `?${query}` : ""}`;
}

/** Where a table is to be had whole, as CSV; null where only a part of it can be asked for. @param {Record<string, unknown>} asked @returns {string | null} */
export function wholeTable(asked) {
  if ("first_ns" in asked || "last_ns" in asked) return null;
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    if (Array.isArray(value)) value.forEach((one) => query.append(name, one));
    else if (value !== null && value !== undefined && value !== "" && value !== false) query.set(name, String(value));
  }
  return `/api/download/table.csv?${query}`;
}

const MOST_RANKS = 8; // beside each other in the timeline

/** The timeline at a moment of a rank, with the tracks of others below its own. @param {{rank?: number, others?: number[], step?: number | null, at?: string | number | null, dur?: number | null, name?: string}} place */
export function timelineAt({ rank, others = [], step, at, dur, name }) {
  const ranks = rank === undefined ? "" : [...new Set([rank, ...others])].slice(0, MOST_RANKS).join(",");
  return to("/timeline", { ranks, steps: step, at, dur: dur ? Math.round(dur) : null, name: name ? name.slice(0, 300) : null });
}
