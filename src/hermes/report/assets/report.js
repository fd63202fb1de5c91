// The report's script: the app's tables and charts in the place of those the page is written with. It is whole without.

import { stack } from "./charts.js";
import { doc, held } from "./data.js";
import { h } from "./dom.js";
import { matrix } from "./matrix.js";
import { pipeline } from "./pipeline.js";
import { roofline } from "./roofline.js";
import { tables, theme } from "./shell.js";
import { speak } from "./translate.js";

/** The bars of a chart. @param {string} key */
function bars(key) {
  const { longest, bars } = held.charts[key];
  const places = document.querySelectorAll(`#${key} td.bar`);
  bars.forEach(({ window, parts }, at) => places[at]?.replaceChildren(stack(parts.map(([kind, name, ns]) => ({ kind, name, ns })), window, longest)));
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
