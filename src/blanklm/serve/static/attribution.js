// Where and when a passage was written: the most probable places, and how probable each bin of years is.

import { element, percent } from "./dom.js";

const SHOWN = 5; // places
const WORTH_A_BAR = 0.05; // of the highest

/** What is known of a passage that was asked where and when. */
export function drawnAttribution({ letters, places, first, last, share, median, dates, note }) {
  const children = [
    element("p", { class: "hint" }, `By the ${letters} letters that are preserved; what you restored is not read.`),
    element("ul", { class: "shares", "aria-label": "Places" }, ...places.slice(0, SHOWN).map(drawnPlace)),
    element("p", {}, `${rangeNamed(first, last)} (${percent(share)}), as likely before as after ${yearNamed(median)}`),
    dateBars(dates),
  ];
  if (note) children.push(element("p", { class: "hint" }, `${note[0].toUpperCase()}${note.slice(1)}.`));
  return element("div", {}, ...children);
}

function drawnPlace({ name, probability }) {
  const bar = element("span", { class: "likely", "aria-hidden": "true" });
  bar.style.setProperty("--share", probability);
  return element("li", {}, element("span", {}, name), bar, element("span", { class: "p" }, percent(probability)));
}

function dateBars(dates) {
  const known = Object.entries(dates).map(([year, p]) => [Number(year), p]).sort(([a], [b]) => a - b);
  const width = known[1][0] - known[0][0];
  const highest = Math.max(...known.map(([, p]) => p));
  const worth = known.map(([, p], i) => (p >= WORTH_A_BAR * highest ? i : -1)).filter((i) => i >= 0);
  const bars = known.slice(worth[0], worth.at(-1) + 1).map(([year, p]) => {
    const bar = element("span", { class: "bar-of", "aria-hidden": "true" });
    bar.style.setProperty("--share", p / highest);
    const years = rangeNamed(year, year + width - 1);
    const item = element("li", { title: `${years}: ${percent(p)}` }, bar);
    item.append(...(year % 100 ? [] : [element("span", { "aria-hidden": "true" }, String(year))]));
    item.append(element("span", { class: "unseen" }, `${years}: ${percent(p)}`));
    return item;
  });
  return element("ol", { class: "lengths", "aria-label": `Dates, ${width} years each` }, ...bars);
}

export function yearNamed(year) {
  return year < 0 ? `${-year} BC` : `AD ${Math.max(year, 1)}`;
}

export function rangeNamed(first, last) {
  if (last < 0) return `${-first} to ${-last} BC`;
  return first < 0 ? `${-first} BC to AD ${Math.max(last, 1)}` : `AD ${Math.max(first, 1)} to ${last}`;
}
