// Tables as text for other programs, and the clipboard: the same in the one-file report and in the web app.

/** @typedef {{text: string, number: boolean}} Cell */

// A spreadsheet runs text that begins like a formula; an apostrophe keeps it text.
const csvCell = (/** @type {Cell} */ { text, number }) => {
  const safe = !number && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** @param {string[]} head @param {Cell[][]} rows */
export const csv = (head, rows) =>
  [head.map((text) => ({ text, number: false })), ...rows].map((row) => row.map(csvCell).join(",")).join("\n") + "\n";

const escaped = (/** @type {string} */ text) => text.replace(/[\\`*_{}\[\]<>|#~]/g, "\\$&").replace(/\s+/g, " ");

/** `numeric` tells the columns of numbers. @param {string[]} head @param {Cell[][]} rows @param {boolean[]} numeric */
export function markdown(head, rows, numeric) {
  const line = (/** @type {string[]} */ cells) => `| ${cells.join(" | ")} |`;
  const rule = numeric.map((one) => (one ? "---:" : "---"));
  const body = rows.map((row) => line(row.map(({ text, number }) => (number ? text : escaped(text)))));
  return [line(head.map(escaped)), line(rule), ...body].join("\n") + "\n";
}

/** Puts text on the clipboard; whether that was possible. @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers without the clipboard on file pages: select the text and let the user's own copy command take it.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
