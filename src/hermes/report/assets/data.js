// What the report holds: the app's own requests, answered from the JSON in the page. Nothing is asked for or kept.

import { Written } from "./cells.js";

/**
 * @typedef {string | [string, (string | null)?, string?, string?]} Told  words; or a number, its exact text, its note, what the text leads to; null: nothing was measured
 * @typedef {{columns: [string, string, string][], rows: Told[][], about: string}} Held
 * @typedef {{name: string, kind: string, title?: string, exact?: string}} Column
 * @typedef {{columns: Column[], total: number, matching: number, rows: unknown[][]}} Page
 * @typedef {{longest: number, bars: {window: number, parts: [string, string, number][]}[]}} Bars
 * @typedef {{language: string, words: Record<string, string>, written: number, tables: Record<string, Held>, charts: Record<string, Bars>, document: Record<string, any>}} Data
 */

/** @type {Data} */
export const held = JSON.parse(document.getElementById("data")?.textContent ?? "");

/** @type {Map<string, Written[][]>} */
const cells = new Map();

/** @param {Told} told */
function cell(told) {
  if (typeof told === "string") return new Written(told, told, "", false);
  const [text, exact = "", note = "", href = ""] = told;
  return exact === null ? new Written(text, "", "", true) : new Written(text, exact || text, note, false, href);
}

/** @param {string} key */
function rowsOf(key) {
  let rows = cells.get(key);
  if (!rows) {
    rows = held.tables[key].rows.map((row) => row.map(cell));
    cells.set(key, rows);
  }
  return rows;
}

/** By number, else by text; what was not measured is last whichever way. @param {Written} a @param {Written} b @param {boolean} numeric */
function before(a, b, numeric) {
  if (!numeric) return a.text.toLowerCase() < b.text.toLowerCase() ? -1 : a.text.toLowerCase() > b.text.toLowerCase() ? 1 : 0;
  const gap = Number(a.exact) - Number(b.exact);
  // A moment in nanoseconds is more than a double holds.
  if (gap === 0 && /^-?\d{16,}$/.test(a.exact) && /^-?\d{16,}$/.test(b.exact)) return BigInt(a.exact) < BigInt(b.exact) ? -1 : BigInt(a.exact) > BigInt(b.exact) ? 1 : 0;
  return gap;
}

/** @param {Written} one @param {boolean} numeric */
const known = (one, numeric) => !one.absent && !(numeric && Number.isNaN(Number(one.exact)));

/**
 * A stretch of a table, sorted and filtered as the server does it; a row must hold every word.
 * @param {string} _ "rows": there is nothing else to ask for
 * @param {{table: string, sort?: string, desc?: number | string, filter?: string, offset?: number, limit?: number} & Record<string, unknown>} wish
 * @returns {Promise<Page>}
 */
export async function ask(_, { table, sort = "", desc = "", filter = "", offset = 0, limit = 200 }) {
  const { columns } = held.tables[table];
  const all = rowsOf(table);
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  let rows = all;
  if (words.length) rows = all.filter((row) => {
    const text = row.map((one) => `${one.text} ${one.note}`).join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  if (sort) {
    const at = Number(sort);
    const numeric = columns[at][2] === "real";
    const sign = desc ? -1 : 1;
    const measured = rows.filter((row) => known(row[at], numeric));
    const absent = rows.filter((row) => !known(row[at], numeric));
    rows = [...measured.toSorted((a, b) => sign * before(a[at], b[at], numeric)), ...absent];
  }
  return {
    columns: columns.map(([title, unit, kind], at) => ({ name: String(at), kind, title, exact: unit ? `${title} (${unit})` : title })),
    total: all.length,
    matching: rows.length,
    rows: rows.slice(offset, offset + limit),
  };
}

/** The blocks of the document that charts are drawn from. @returns {Record<string, any>} */
export const doc = () => held.document;

/** No table comes with the document: all of them are here. @param {string} _ @returns {Page | undefined} */
export const short = (_) => undefined;

/** The page's address holds no state: browsers let a file's page change nothing in it. @param {string} _ @param {string} [otherwise] */
export const param = (_, otherwise = "") => otherwise;

/** @param {Record<string, unknown>} _ */
export const keep = (_) => {};

/** A file has no timeline: no table of it asks for this. @param {Record<string, unknown>} _ @returns {never} */
export const timelineAt = (_) => { throw new Error("a report has no timeline"); };

/** The page has no server that gives tables as files. @param {Record<string, unknown>} _asked @returns {string | null} */
export const wholeTable = (_asked) => null;
