// Elements from text, never from markup: nothing that a trace holds can become a tag.

import { LITERAL, told } from "./sentences.js";

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {{[name: string]: unknown, onclick?: (event: MouseEvent) => void, onkeydown?: (event: KeyboardEvent) => void, onpointermove?: (event: PointerEvent) => void, onsubmit?: (event: SubmitEvent) => void}} Attributes
 */

/** Attributes that are read by people. */
const TOLD = new Set(["title", "aria-label", "placeholder"]);
const SVG = "http://www.w3.org/2000/svg";

/** @param {Element} element @param {Attributes} attributes */
function put(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "style") {
      // By property: the page's policy forbids style attributes.
      for (const [key, text] of Object.entries(/** @type {Record<string, string>} */ (value))) {
        /** @type {HTMLElement} */ (element).style.setProperty(key, text);
      }
    } else element.setAttribute(name, value === true ? "" : TOLD.has(name) ? told(String(value)) : String(value));
  }
}

/** @param {Child | Child[]} child @param {Element} within @returns {(Node | string)[]} */
function nodes(child, within) {
  if (Array.isArray(child)) return child.flatMap((one) => nodes(one, within));
  if (child === null || child === undefined || child === false) return [];
  if (child instanceof Node) return [child];
  const text = String(child);
  // A name of one word stays itself.
  return [LITERAL.has(within.tagName) || (within.tagName === "BDI" && !text.includes(" ")) ? text : told(text)];
}

/** An HTML element. @param {string} tag @param {Attributes} [attributes] @param {(Child | Child[])[]} children */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  put(element, attributes);
  element.append(...children.flatMap((one) => nodes(one, element)));
  return element;
}

/** An SVG element. @param {string} tag @param {Attributes} [attributes] @param {(Child | Child[])[]} children */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  put(element, attributes);
  element.append(...children.flatMap((one) => nodes(one, element)));
  return element;
}

/** A sentence whose parts in backticks are code. @param {string} text */
export const prose = (text) => text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));

/** Told to screen readers. @param {string} text */
export function say(text) {
  const status = document.getElementById("status");
  if (status) status.textContent = text;
}

/** @param {string} text @param {(event: Event) => void} action @param {Attributes} [attributes] */
export const button = (text, action, attributes = {}) => h("button", { type: "button", onclick: action, ...attributes }, text);
