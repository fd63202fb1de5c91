// The report's script: the app's tables and charts in the place of those the page is written with. It is whole without.

import { stack } from "./charts.js";
import { doc, held } from "./data.js";
import { h } from "./dom.js";
import { matrix } from "./matrix.js";
import { pipeline } from "./pipeline.js";
import { roofline } from "./roofline.js";
import { table } from "./table.js";
import { speak, t } from "./translate.js";

const VIEW = 16; // rows of a table before one scrolls

function theme() {
  const root = document.documentElement;
  const button = /** @type {HTMLButtonElement} */ (document.getElementById("theme"));
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => {
    const now = dark();
    button.textContent = now ? "☀" : "☾";
    button.setAttribute("aria-label", t(now ? "to_light" : "to_dark"));
  };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); });
  system.addEventListener("change", label);
  button.hidden = false;
  label();
}

/** The bars of a chart. @param {string} key */
function bars(key) {
  const { longest, bars } = held.charts[key];
  const places = document.querySelectorAll(`#${key} td.bar`);
  bars.forEach(({ window, parts }, at) => places[at]?.replaceChildren(stack(parts.map(([kind, name, ns]) => ({ kind, name, ns })), window, longest)));
}

/** The app's table where the written one stands; that one is kept for print where it does not show all rows at once. @param {string} key @param {HTMLElement} drawn */
function replace(key, drawn) {
  const written = /** @type {HTMLElement} */ (document.getElementById(key));
  if (!drawn.dataset.ready) return;
  if (held.tables[key].rows.length > held.written) {
    for (const one of [written, ...written.querySelectorAll("[id]")]) one.removeAttribute("id");
    written.removeAttribute("aria-labelledby");
    written.classList.add("forprint");
    drawn.classList.add("forscreen");
    written.before(drawn);
  } else {
    written.replaceWith(drawn);
  }
  drawn.id = key;
}

async function tables() {
  const drawn = Object.entries(held.tables).map(([key, { about }]) => {
    const title = document.getElementById(`${key}-title`)?.textContent ?? key;
    return /** @type {[string, HTMLElement]} */ ([key, table({ table: key, title, about, view: VIEW, whole: held.written })]);
  });
  // Each has its rows once what was promised is there; until then the written ones stand.
  await new Promise((done) => setTimeout(done));
  for (const [key, element] of drawn) replace(key, element);
}

/** Charts that only a script draws; their numbers stand in the tables. */
function charts() {
  const roof = roofline();
  if (roof) {
    roof.id = "roofline";
    document.getElementById("tables")?.before(roof);
    document.querySelector('nav a[href="#tables"]')?.parentElement?.before(h("li", {}, h("a", { href: "#roofline" }, roof.querySelector("h2")?.textContent ?? "")));
  }
  const line = pipeline();
  if (line) document.querySelector("#structure h2")?.after(line);
  const ranks = doc().rank_matrix;
  if (ranks) document.querySelector("#rank_matrix .about")?.after(matrix(ranks));
}

speak(held.words, held.language);
theme();
bars("split");
bars("path-chart");
tables().then(() => {
  charts();
  // What stands above the place that the address names has another height now.
  document.documentElement.dataset.drawn = "";
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
});
