// A table of any length: rows come a stretch at a time as one scrolls; it sorts, filters, and copies exact values.

import { Written, exact, exactTitle, numeric, spelt, text, title } from "./cells.js";
import { copy, csv, markdown } from "./copying.js";
import { ask, keep, param, short, timelineAt, wholeTable } from "./data.js";
import { button, h, say } from "./dom.js";
import { number } from "./format.js";
import { t } from "./translate.js";

const ROW = 27; // px, as in the style
const STRETCH = 100;
const VIEW = 15; // rows shown before one scrolls
const BEYOND = 10; // rows drawn above and below these
const FILTER_FROM = 6; // shorter tables are read faster than filtered
const MOST_COPIED = 10_000;
const SAMPLE = 20; // rows that the widths are taken from
const LONG = 24; // may be cut where it is shown
const COMPONENTS = new Set(["compute", "comm", "communication", "wait", "copy", "host", "launch", "device gap", "unexplained", "other", "free"]);

/**
 * @typedef {object} Options
 * @property {string} table
 * @property {string} [title]
 * @property {string} [about]
 * @property {number | null} [rank]
 * @property {string} [sort]
 * @property {boolean} [descending]
 * @property {string[]} [only]      conditions `column=text`
 * @property {string[]} [columns]   these alone, in this order
 * @property {string[]} [hidden]
 * @property {string} [bar]         a column of times or shares that gets bars
 * @property {(row: Record<string, any>) => string | null} [href]  where the first cell leads
 * @property {boolean | ((row: Record<string, any>) => Record<string, any> | null)} [timeline]  a link to the moment of a row
 * @property {Record<string, unknown>} [more]  further values of the request
 * @property {number} [view]        rows that are shown before one scrolls
 * @property {number} [whole]       up to so many rows are all in the page, for those who search and print it
 */

/** @typedef {import("./data.js").Page["columns"][number] & {at: number}} Shown  a column and its place in a row */

/** @param {Options} options @returns {HTMLElement} */
export function table(options) {
  return new Table(options).element;
}

class Table {
  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    this.key = options.table.replaceAll(".", "_");
    const [sort, direction] = param(`s_${this.key}`).split(".");
    this.sort = sort || options.sort || "";
    this.descending = sort ? direction === "d" : Boolean(options.descending);
    this.filter = param(`f_${this.key}`);
    /** @type {Map<number, unknown[][]>} */
    this.stretches = new Map();
    this.round = 0;
    this.columns = /** @type {Shown[]} */ ([]);
    /** Those that are not shown too: links need them. */
    this.every = this.columns;
    this.matching = 0;
    this.moved = false;
    this.drawn = [-1, -1]; // the first row that is there, and the one after the last
    this.title = options.title ?? t(`table.${options.table}`);
    this.status = h("span", { class: "shown" });
    this.body = h("tbody");
    this.above = h("td");
    this.below = h("td");
    this.scroller = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("rows_in", { title: this.title }), onscroll: () => { this.moved = true; this.draw(this.scroller.scrollTop); } });
    this.tools = h("div", { class: "tools" });
    this.element = h(
      "section", { class: "data", "aria-label": this.title },
      h("div", { class: "head" }, h("h3", { role: "heading", "aria-level": 2 }, this.title), this.tools),
      options.about && h("p", { class: "about" }, options.about),
      this.scroller,
    );
    this.scroller.append(h("p", { class: "wait" }, t("loading")));
    this.load();
  }

  /** @param {number} offset @param {number} limit @returns {Promise<import("./data.js").Page>} */
  request(offset, limit) {
    const { table, rank, only, more } = this.options;
    return ask("rows", { table, rank, only, sort: this.sort, desc: this.descending ? 1 : "", filter: this.filter, offset, limit, ...more });
  }

  async load() {
    const round = ++this.round;
    this.stretches.clear();
    const { table, rank = null, only, more } = this.options;
    const known = this.sort || this.filter || rank !== null || only || more ? undefined : short(table);
    let page;
    try {
      page = known ?? await this.request(0, Math.max(STRETCH, this.options.whole ?? 0));
    } catch (error) {
      if (round === this.round) this.scroller.replaceChildren(h("p", { class: "wrong", role: "alert" }, /** @type {Error} */ (error).message));
      return;
    }
    if (round !== this.round) return;
    this.matching = page.matching;
    for (let at = 0; at === 0 || at < page.rows.length; at += STRETCH) this.stretches.set(at / STRETCH, page.rows.slice(at, at + STRETCH));
    this.total = page.total;
    if (!this.columns.length) this.build(page);
    this.status.textContent = this.matching === page.total
      ? t(page.total === 1 ? "one_row" : "rows", { count: number(page.total) })
      : t("rows_of", { count: number(this.matching), total: number(page.total) });
    // To ask for the place, or to set it, is to have the page laid out there and then.
    if (this.moved) this.scroller.scrollTop = 0;
    this.moved = false;
    this.drawn = [-1, -1];
    this.draw(0);
    this.element.dataset.ready = String(round);
  }

  /** @param {import("./data.js").Page} page */
  build(page) {
    const { columns: wanted, hidden = [] } = this.options;
    const all = page.columns.map((column, at) => ({ ...column, at }));
    this.every = all;
    const used = (/** @type {Shown} */ column) => !hidden.includes(column.name) && page.rows.some((row) => row[column.at] !== null);
    this.columns = wanted ? wanted.flatMap((name) => all.filter((one) => one.name === name && (used(one) || !page.rows.length))) : all.filter(used);
    if (!page.total) {
      this.tools.replaceChildren();
      this.scroller.replaceChildren(h("p", { class: "none" }, t("no_rows")));
      return;
    }
    if (!this.columns.length) this.columns = all.slice(0, 4);
    const widths = this.columns.map((column, at) => this.width(column, page, at));
    const link = this.options.timeline ? [h("col", { style: { width: "44px" } })] : [];
    const cols = h("colgroup", {}, link, widths.map((width) => h("col", { style: { width: `${width}px` } })));
    const headings = this.columns.map((column) => this.heading(column));
    this.headings = headings;
    const total = widths.reduce((a, b) => a + b, link.length * 44);
    this.table = h(
      "table", { class: "rows", style: { width: `${total}px` }, "aria-rowcount": page.total + 1, "aria-label": this.title },
      cols,
      h("thead", {}, h("tr", {}, link.length ? h("th", { class: "go" }, h("span", { class: "unseen" }, t("timeline"))) : null, headings)),
      this.body,
    );
    this.scroller.replaceChildren(this.table);
    this.toolbar(page.total);
    this.marks();
  }

  /** @param {Shown} column @param {import("./data.js").Page} page @param {number} place */
  width(column, page, place) {
    const longest = Math.max(...page.rows.slice(0, SAMPLE).map((row) => (text(column.name, row[column.at]) ?? "–").length), 2);
    const bar = column.name === this.options.bar ? 70 : column.name === "component" ? 18 : 0;
    const words = called(column).length * 7 + 16;
    if (numeric(column.name, column.kind)) return Math.max(longest * 8.2 + 24, Math.min(words + 24, 250)) + bar;
    return Math.min(Math.max(longest * 8, words) + 24, place === 0 ? 400 : 280) + bar;
  }

  /** @param {Shown} column */
  heading(column) {
    const sorter = button(called(column), () => {
      this.descending = this.sort === column.name ? !this.descending : numeric(column.name, column.kind);
      this.sort = column.name;
      keep({ [`s_${this.key}`]: `${this.sort}.${this.descending ? "d" : "a"}` });
      this.marks();
      say(t("sorted", { column: called(column) }));
      this.load();
    });
    return h("th", { class: numeric(column.name, column.kind) ? "n" : "", "data-name": column.name, scope: "col", title: column.exact ?? column.name }, sorter);
  }

  marks() {
    for (const heading of this.headings ?? []) {
      const own = heading.dataset.name === this.sort;
      if (own) heading.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    }
  }

  /** @param {number} total */
  toolbar(total) {
    const input = /** @type {HTMLInputElement} */ (h("input", { type: "search", "aria-label": t("filter_of", { title: this.title }) }));
    input.value = this.filter;
    let timer = 0;
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => {
        this.filter = input.value;
        keep({ [`f_${this.key}`]: this.filter });
        this.load().then(() => say(this.status.textContent ?? ""));
      }, 40);
    });
    const copier = (/** @type {string} */ kind) => button(t(`copy_${kind}`), () => this.copied(kind), { "aria-label": t(`copy_${kind}_of`, { title: this.title }) });
    this.tools.replaceChildren(.../** @type {Node[]} */ ([
      ...(total >= FILTER_FROM || this.filter ? [h("label", {}, t("filter"), input)] : []),
      copier("markdown"), copier("csv"), this.whole(), this.status,
    ].filter(Boolean)));
  }

  /** All rows that match as a file, where there is a server to give it; its address is that of the moment it is followed. */
  whole() {
    const { table, rank, only, more } = this.options;
    const address = () => wholeTable({ table, rank, only, sort: this.sort, desc: this.descending ? 1 : "", filter: this.filter, ...more });
    const first = address();
    if (first === null) return null;
    const link = h("a", { class: "whole", href: first, download: "", target: "_blank", "aria-label": t("download_csv_of", { title: this.title }), onclick: () => link.setAttribute("href", address() ?? first) }, t("download_csv"));
    return link;
  }

  /** @param {number} place of the scroller, in px */
  draw(place) {
    if (!this.table) return;
    const view = this.options.view ?? VIEW;
    const top = Math.floor(place / ROW);
    // Drawn anew only where rows come into view that are not there yet.
    if (this.drawn[0] >= 0 && this.drawn[0] <= top && Math.min(this.matching, top + view + 2) <= this.drawn[1]) return;
    const whole = this.matching <= (this.options.whole ?? 0);
    const first = whole ? 0 : Math.max(0, top - BEYOND);
    const last = whole ? this.matching : Math.min(this.matching, top + view + BEYOND);
    this.drawn = [first, last];
    this.need(first, last);
    const span = this.columns.length + (this.options.timeline ? 1 : 0);
    const gap = (/** @type {number} */ height) => h("tr", { class: "gap", "aria-hidden": "true" }, h("td", { colspan: span, style: { height: `${height}px` } }));
    const shown = [];
    for (let at = first; at < last; at += 1) shown.push(this.row(at));
    if (!this.matching) shown.push(h("tr", {}, h("td", { colspan: span, class: "none" }, t("no_match"))));
    this.body.replaceChildren(gap(first * ROW), ...shown, gap(Math.max(0, this.matching - last) * ROW));
  }

  /** @param {number} first @param {number} last */
  need(first, last) {
    for (let at = Math.floor(first / STRETCH); at * STRETCH < last; at += 1) {
      if (this.stretches.has(at)) continue;
      this.stretches.set(at, []);
      const round = this.round;
      this.request(at * STRETCH, STRETCH).then((page) => {
        if (round !== this.round) return;
        this.stretches.set(at, page.rows);
        this.drawn = [-1, -1];
        this.draw(this.scroller.scrollTop);
      }, (error) => { this.stretches.delete(at); say(error.message); });
    }
  }

  /** @param {number} at */
  row(at) {
    const values = this.stretches.get(Math.floor(at / STRETCH))?.[at % STRETCH];
    const { timeline } = this.options;
    if (!values) return h("tr", { "aria-rowindex": at + 2 }, timeline ? h("td") : null, this.columns.map(() => h("td", { class: "pending" }, "·")));
    const named = Object.fromEntries(this.every.map((column) => [column.name, values[column.at]]));
    return h(
      "tr", { "aria-rowindex": at + 2 },
      timeline ? h("td", { class: "go" }, this.go(values, named)) : null,
      this.columns.map((column, place) => this.cell(column, values[column.at], named, place)),
    );
  }

  /** @param {unknown[]} values @param {Record<string, any>} named */
  go(values, named) {
    const place = typeof this.options.timeline === "function" ? this.options.timeline(named) : momentOf(named);
    if (!place) return null;
    return h("a", { href: timelineAt(place), title: t("open_timeline"), "aria-label": t("open_timeline") }, "⇥");
  }

  /** @param {Shown} column @param {unknown} value @param {Record<string, any>} named @param {number} place */
  cell(column, value, named, place) {
    const shown = text(column.name, value);
    const absent = numeric(column.name, column.kind) ? "absent n" : "absent";
    if (shown === null || (shown === "" && !(value instanceof Written))) return h("td", { class: absent }, "–");
    if (value instanceof Written && value.absent) return h("td", { class: absent }, shown);
    const lead = value instanceof Written && value.href ? value.href : place === 0 && this.options.href?.(named);
    if (column.name === "component" && COMPONENTS.has(String(value))) return h("td", {}, key(String(value)), shown);
    if (numeric(column.name, column.kind) || shown === null) {
      return h("td", { class: "n", title: exact(column.name, value) }, column.name === this.options.bar ? this.bar(column, value) : null, lead ? h("a", { href: lead }, shown) : value instanceof Written && value.note ? [`${value.text} `, h("small", {}, value.note)] : shown);
    }
    const long = shown.length > LONG;
    const words = typeof value === "string" ? spelt(shown) : h("bdi", { class: column.kind === "words" ? null : "name", title: long ? shown : null, tabindex: long && value instanceof Written ? 0 : null }, shown);
    return h(place === 0 ? "th" : "td", { class: "t", scope: place === 0 ? "row" : null }, lead ? h("a", { href: lead }, words) : words);
  }

  /** @param {{name: string, at: number}} column @param {unknown} value */
  bar(column, value) {
    if (this.most === undefined || this.mostRound !== this.round) {
      this.most = Math.max(0, ...(this.stretches.get(0) ?? []).map((row) => Number(row[column.at]) || 0));
      this.mostRound = this.round;
    }
    const width = this.most ? Math.min(60, (60 * Number(value)) / this.most) : 0;
    return h("span", { class: "inbar", "aria-hidden": "true", style: { width: `${width}px` } });
  }

  /** @param {string} kind */
  async copied(kind) {
    const rows = [];
    for (let at = 0; at < Math.min(this.matching, MOST_COPIED); at += 1000) {
      rows.push(...(await this.request(at, Math.min(1000, MOST_COPIED - at))).rows);
    }
    const head = this.columns.map((column) => column.exact ?? exactTitle(column.name));
    const body = rows.map((row) => this.columns.map((column) => ({ text: exact(column.name, row[column.at]), number: numeric(column.name, column.kind) })));
    const made = kind === "csv" ? csv(head, body) : markdown(head, body, this.columns.map((column) => numeric(column.name, column.kind)));
    const done = await copy(made);
    const said = t(rows.length === 1 ? "copied_one" : "copied", { count: rows.length });
    say(done ? said : t("not_copied"));
    if (done) this.status.textContent = said;
  }
}

/** @param {Shown} column */
const called = (column) => column.title ?? title(column.name);

/** @param {string} component */
export const key = (component) => h("span", { class: `key ${colour(component)}`, "aria-hidden": "true" });

/** The colour of a component, by its meaning. @param {string} component */
export function colour(component) {
  const word = component.toLowerCase();
  if (/wait|notify/.test(word)) return "wait";
  if (/comm|collective|parallelism/.test(word)) return "comm";
  if (/compute|kernel|cube|vector/.test(word)) return "compute";
  if (/copy|memory/.test(word)) return "copy";
  if (/host|launch|cpu|io|python|environment/.test(word)) return "host";
  return "free";
}

/** The moment of a row, by the columns that it has. @param {Record<string, any>} row */
function momentOf(row) {
  const at = row.start_ns ?? row.longest_at_ns ?? row.alloc_ns ?? row.ts_ns;
  if (at === null || at === undefined) return null;
  return { rank: row.rank ?? row.of_rank, step: row.step, at, dur: row.dur_ns ?? row.max_ns ?? (row.ms ? row.ms * 1e6 : row.longest_ms ? row.longest_ms * 1e6 : null), name: row.name ?? row.type };
}
