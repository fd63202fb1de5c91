// What the pages of one file share: their theme, and the app's tables in the place of the written ones.

import { held } from "./data.js";
import { table } from "./table.js";
import { t } from "./translate.js";

const VIEW = 16; // rows of a table before one scrolls

/** The button for light and dark. */
export function theme() {
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

/** Each table, once it has its rows. */
export async function tables() {
  const drawn = Object.entries(held.tables).map(([key, { about }]) => {
    const title = document.getElementById(`${key}-title`)?.textContent ?? key;
    return /** @type {[string, HTMLElement]} */ ([key, table({ table: key, title, about, view: VIEW, whole: held.written })]);
  });
  // Each has its rows once what was promised is there; until then the written ones stand.
  await new Promise((done) => setTimeout(done));
  for (const [key, element] of drawn) replace(key, element);
}
