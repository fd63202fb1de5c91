// The HTML report's script: theme, and tables that sort, filter and copy. The page is complete without it.

const FILTER_FROM = 6; // shorter tables are read faster than filtered

const say = (text) => { document.getElementById("status").textContent = text; };

function theme() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${dark() ? "light" : "dark"} theme`);
  };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); });
  system.addEventListener("change", label);
  button.hidden = false;
  label();
}

// What a cell sorts by: its exact number, else its text; nothing at all where nothing was measured.
function keyOf(cell, numeric) {
  if (cell.classList.contains("absent")) return null;
  return numeric ? Number(cell.dataset.v) : cell.textContent.trim().toLowerCase();
}

function sortBy(table, at, headings) {
  const heading = headings[at];
  const numeric = heading.classList.contains("n");
  const before = heading.getAttribute("aria-sort");
  const descending = before ? before === "ascending" : numeric;
  const sign = descending ? -1 : 1;
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [keyOf(row.cells[at], numeric), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (a < b ? -1 : a > b ? 1 : 0);
  });
  body.append(...rows.map(([, row]) => row));
  headings.forEach((other) => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  say(`Sorted by ${heading.dataset.title}, ${descending ? "descending" : "ascending"}`);
}

// Rows as they stand on the page now, with exact values: a copy must not lose what the page rounds.
function contents(table, headings) {
  const title = (heading) => heading.dataset.title + (heading.dataset.unit ? ` (${heading.dataset.unit})` : "");
  const value = (cell) => {
    if (cell.classList.contains("absent")) return { text: "", number: false };
    return "v" in cell.dataset ? { text: cell.dataset.v, number: true } : { text: cell.textContent.trim(), number: false };
  };
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => [...row.cells].map(value));
  return { head: headings.map(title), rows };
}

async function put(text, what) {
  say((await copy(text)) ? `Copied as ${what}` : "The browser did not allow copying");
}

function button(text, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", action);
  return made;
}

function filterBox(table, title) {
  const rows = [...table.tBodies[0].rows];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const label = document.createElement("label");
  const input = document.createElement("input");
  const shown = document.createElement("span");
  input.type = "search";
  input.setAttribute("aria-label", `Filter ${title}`);
  label.append("Filter", input);
  shown.className = "shown";
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const [row, text] of texts) {
      row.hidden = !words.every((word) => text.includes(word));
      count += row.hidden ? 0 : 1;
    }
    shown.textContent = words.length ? `${count} of ${rows.length} rows` : `${rows.length} ${rows.length === 1 ? "row" : "rows"}`;
    if (words.length) say(shown.textContent);
  };
  input.addEventListener("input", apply);
  apply();
  return { label, shown };
}

function enhance(section) {
  const table = section.querySelector("table");
  const title = section.querySelector("h3").textContent;
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, at) => {
    heading.dataset.title = heading.textContent.trim();
    const sorter = button("", () => sortBy(table, at, headings));
    sorter.append(...heading.childNodes);
    heading.append(sorter);
  });
  const tools = document.createElement("div");
  tools.className = "tools";
  const { label, shown } = filterBox(table, title);
  const asMarkdown = button("Copy Markdown", () => {
    const { head, rows } = contents(table, headings);
    put(markdown(head, rows, headings.map((heading) => heading.classList.contains("n"))), "Markdown");
  });
  const asCsv = button("Copy CSV", () => {
    const { head, rows } = contents(table, headings);
    put(csv(head, rows), "CSV");
  });
  asMarkdown.setAttribute("aria-label", `Copy ${title} as Markdown`);
  asCsv.setAttribute("aria-label", `Copy ${title} as CSV`);
  label.hidden = table.tBodies[0].rows.length < FILTER_FROM;
  tools.append(label, asMarkdown, asCsv, shown);
  section.querySelector(".head").append(tools);
}

theme();
document.querySelectorAll("[data-table]").forEach(enhance);
