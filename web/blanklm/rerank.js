// Rerank fills by how well every word fits in its place: src/blanklm/decoding/rerank.py, whose names and numbers these are.

import { coreOf } from "./shorten.js";
import { BLANK } from "./tokenizer.js";

const NEAR = 16; // tokens on either side of a span that are looked at
const APART = 6; // words that are left out together are so far from each other
const WORTH = 0.25, ECHO = 2.0; // of a word that was written; off for a long word that stands in the text already
const LONG = /^\p{L}{4,}$/u;
const CANVASES_AT_ONCE = 32;

/** Canvases on which the words in and near the span of the blank with this number are left out: { items, asked, places }. */
export function canvasesNear({ items, origins }, origin, tokenizer) {
  const together = [];
  for (const place of placesOf(items, origins, origin, tokenizer)) {
    const group = together.find((own) => place.number - own.at(-1).number >= APART);
    if (group) group.push(place);
    else together.push([place]);
  }
  return together.map((group) => without(items, group));
}

function placesOf(items, origins, origin, tokenizer) {
  const first = origins.indexOf(origin), last = origins.lastIndexOf(origin);
  const begins = items.map((item, i) => i === 0 || tokenizer.startsWord(item));
  const starts = [...items.keys()].filter((i) => begins[i] || items[i] === BLANK || items[i - 1] === BLANK);
  const cores = starts.map((start, number) => { // the words, without the marks at their ends
    const word = items.slice(start, starts[number + 1]);
    return word.slice(0, coreOf(word, tokenizer));
  });
  return starts.flatMap((start, number) => {
    const end = starts[number + 1] ?? items.length;
    if (items[start] === BLANK || end <= first - NEAR || start > last + NEAR) return [];
    const core = start + cores[number].length;
    const again = cores.filter((core) => `${core}` === `${cores[number]}`).length > 1;
    const echo = again && LONG.test(tokenizer.decode(cores[number]).trim()) ? ECHO : 0;
    return items.slice(start, end).map((token, i) => {
      const at = start + i, until = at < core ? core : end, worth = i === 0 && origins[at] === origin ? WORTH - echo : 0;
      return { number, start: at, end: until, words: Number(begins[at]), token, more: at + 1 < until, worth };
    });
  });
}

function without(items, places) {
  const left = [], asked = [];
  let shown = 0;
  for (const { start, end, words } of places) {
    left.push(...items.slice(shown, start));
    asked.push([left.length, words]);
    left.push(BLANK);
    shown = end;
  }
  return { items: [...left, ...items.slice(shown)], asked, places };
}

/** The sum of the log-probabilities of all that was left out of each fill, a list of canvases each. */
export async function fitInPlace(model, fills) {
  const every = fills.flatMap((canvases, number) => canvases.map((canvas) => ({ ...canvas, number })));
  every.sort((a, b) => a.items.length - b.items.length);
  const sums = fills.map(() => 0);
  for (let start = 0; start < every.length; start += CANVASES_AT_ONCE) {
    const group = every.slice(start, start + CANVASES_AT_ONCE);
    const asked = group.flatMap(({ places, number }) => places.map((place) => ({ ...place, number })));
    const scores = await model.score(group);
    const more = await model.more(scores.map(({ fromBlank }) => fromBlank), asked.map(({ token }) => [token]));
    asked.forEach((place, k) => {
      sums[place.number] += scores[k].logPWord[place.token] + more[k][0][Number(place.more)] + place.worth;
    });
  }
  return sums;
}
