// Sentences of the analysis in another language: whole ones, and those with gaps for names and numbers.

/** @type {Map<string, string>} */
let whole = new Map();
/** By their first word; those that begin with a gap under "". @type {Map<string, {of: RegExp, said: string, words: number}[]>} */
let shapes = new Map();
/** @type {Map<string, string>} */
let kept = new Map();
const MOST_KEPT = 20_000;
const LONGEST = 1_000; // what is longer is no sentence
const PARTS = /** @type {[string | RegExp, string][]} */ ([[/(?<=\.) (?=[A-Z])/, ""], [" · ", " · "], ["; ", "；"], [", ", "，"]]);
const TO_DO = [" To do: ", "。怎么做："];
/** The code of a finding, and a line of the user's, stay before what is said of it. */
const PLACE = /^((?:[A-Z]{2,4}\d{3} )?(?:\S+:\d+ `[^`]*`: )?)(.+)$/s;
/** What is code, a name or a path as it is: elements whose text is never a sentence. */
export const LITERAL = new Set(["CODE", "PRE", "KBD", "TEXTAREA", "OPTION"]);

const escaped = (/** @type {string} */ text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** From here on `told` knows these; in them `{}` is a gap, in what they mean `{1}` is what stood in the first. @param {Record<string, string>} known */
export function teach(known) {
  whole = new Map();
  shapes = new Map();
  kept = new Map();
  for (const [sentence, said] of Object.entries(known)) {
    if (!sentence.includes("{}")) { whole.set(sentence, said); continue; }
    // A gap that begins a sentence is a number or a code: any words would be too many.
    const parts = sentence.split("{}");
    const source = parts.map((part, at) => (at === 0 ? escaped(part) : `${at === 1 && parts[0] === "" ? "(\\S+(?: (?:[num]?s|[kMGT]?B))?)" : "(.+?)"}${escaped(part)}`)).join("");
    const first = parts[0].includes(" ") ? parts[0].split(" ")[0] : "";
    shapes.set(first, [...(shapes.get(first) ?? []), { of: new RegExp(`^${source}$`, "s"), said, words: sentence.length }]);
  }
  // What says more comes first.
  for (const all of shapes.values()) all.sort((a, b) => b.words - a.words);
}

/** The sentence in the language of the page, where it is known; else as it is. @param {string} text */
export function told(text) {
  if (!whole.size || text.length > LONGEST || !/[a-z]{2}/.test(text)) return text;
  const bare = text.trim();
  let found = kept.get(bare);
  if (found === undefined) {
    found = said(bare);
    if (kept.size < MOST_KEPT) kept.set(bare, found);
  }
  return found === bare ? text : text.replace(bare, () => found ?? "");
}

/** @param {string} text @returns {string} */
function said(text) {
  const known = whole.get(text);
  if (known !== undefined) return known;
  if (text.includes(TO_DO[0])) return text.split(TO_DO[0]).map(told).join(TO_DO[1]);
  const [, placed, rest] = PLACE.exec(text) ?? [];
  if (placed) return placed + told(rest);
  for (const { of, said } of [...(shapes.get(text.split(" ")[0]) ?? []), ...(shapes.get("") ?? [])]) {
    const match = of.exec(text);
    if (match) return said.replace(/\{(\d)\}/g, (_, at) => told(match[Number(at)] ?? ""));
  }
  for (const [between, joined] of PARTS) {
    const parts = text.split(between);
    const all = parts.length > 1 ? parts.map(told) : parts;
    if (all.some((one, at) => one !== parts[at])) return all.join(joined);
  }
  return text;
}
