// What is to be written into spans, and drafts on their way: src/blanklm/decoding/span_tasks.py, whose names and numbers
// these are.

import { BLANK } from "./tokenizer.js";

export const UNTOLD = -1; // words of a blank whose length is not chosen yet
const SPARE = 2; // words by which a span may become longer than the length chosen
const SENTENCE = 2; // words in a sentence, at least
const EASY = -0.25, TOKENS = 1.2; // log p of a token to come, and tokens in a word, where a search may not win any more
const EVEN = 0.8; // fills of different lengths are compared by log p / tokens^this
const LONGEST_SPAN = 64, LONGEST = LONGEST_SPAN / 2; // tokens, and words, in a blank of no given length

/** A canvas whose touching blanks are taken as one span each; lengths count the words that begin inside. */
export class Task {
  constructor(tokenizer, maxLength, { ids, spaces }, blanks) {
    Object.assign(this, { tokenizer, maxLength, ids: [], spans: [] });
    let number = 0;
    ids.forEach((id, i) => {
      if (id === BLANK && i > 0 && ids[i - 1] === BLANK) {
        this.spans.at(-1).blanks.push(blanks[number++]);
        return;
      }
      if (id === BLANK) this.spans.push({ startsWord: spaces[number], blanks: [blanks[number++]] });
      this.ids.push(id);
    });
    for (const span of this.spans) {
      const sum = (least) => span.blanks.reduce((total, blank) => total + least(blank), 0) - (span.startsWord ? 0 : 1);
      const isSentence = ({ sentence, max }) => sentence && max >= SENTENCE;
      const most = sum(({ max }) => max), least = sum((blank) => Math.max(blank.min, isSentence(blank) ? SENTENCE : 1));
      Object.assign(span, { least, most, sentence: isSentence(span.blanks.at(-1)) });
    }
    this.touching = this.spans.some((span) => span.blanks.length > 1);
  }

  begin() {
    let number = 0;
    const origins = this.ids.map((id) => (id === BLANK ? number++ : -1));
    return this.writing({ items: this.ids, origins, logProb: 0, steps: [] });
  }

  /** Go on with the leftmost blank of a draft; a length that is given needs no choice. */
  writing(draft) {
    const writing = { draft, words: UNTOLD, spare: 0, parts: 0, afterSpace: false, length: UNTOLD, before: draft };
    if (isFinished(draft)) return writing;
    writing.number = originOf(draft); // of the blank
    const { least, most } = this.span(draft);
    return least === most ? { ...writing, words: least, length: least } : writing;
  }

  /** The writing with a length chosen for its leftmost blank. */
  ofLength(writing, words, logP) {
    const draft = { ...writing.draft, logProb: writing.draft.logProb + logP };
    const spare = Math.max(0, Math.min(SPARE, this.longest(draft) - words));
    return { ...writing, draft, words, length: words, spare };
  }

  /** The writing with a token more; without `more`, it ends the span. */
  after(writing, { token, more, logProb }) {
    const draft = write(writing.draft, token, more, logProb);
    return { ...writing, ...this.countsAfter(writing, token), draft, afterSpace: more && token === this.tokenizer.space };
  }

  countsAfter(writing, token) {
    const starts = this.tokenizer.startsWord(token), spared = starts && writing.words === 0;
    return {
      words: writing.words - Number(starts && !spared),
      spare: writing.spare - Number(spared),
      parts: starts ? 1 : writing.parts + 1,
    };
  }

  span(draft) {
    return this.spans[originOf(draft)];
  }

  /** How many words the leftmost blank may hold at most. */
  longest(draft) {
    const room = this.maxLength - draft.items.length + 1, { least, most } = this.span(draft);
    const others = this.spans.slice(originOf(draft) + 1).reduce((sum, span) => sum + Math.max(1, span.least), 0);
    return Math.max(least, Math.min(most === Infinity ? LONGEST : most, room - others + blanksIn(draft) - 1));
  }

  /** Whether the leftmost blank may take another token and stay open. */
  hasRoom(draft) {
    const origin = originOf(draft);
    const limited = this.spans[origin].most === Infinity && count(draft.origins, origin) > LONGEST_SPAN;
    return draft.items.length < this.maxLength && !limited;
  }

  /** What a finished draft wrote into each of the user's blanks: lists of { token, logProb }. */
  written(draft) {
    const steps = draft.steps.values();
    return this.spans.flatMap((span, number) => {
      const tokens = draft.items.filter((_, i) => draft.origins[i] === number);
      return divide(tokens, span.blanks, (token) => this.tokenizer.startsWord(token)).map((part) =>
        part.map((token) => ({ token, logProb: steps.next().value })));
    });
  }
}

/** Divide what was written over blanks that touch: whole words, as evenly as their lengths allow. */
function divide(tokens, blanks, startsWord) {
  const starts = tokens.flatMap((token, i) => (i === 0 || startsWord(token) ? [i] : []));
  const counts = blanks.map(({ min }) => min);
  for (let left = starts.length - counts.reduce((a, b) => a + b); left > 0; left--) {
    const open = counts.flatMap((words, i) => (words < blanks[i].max ? [i] : []));
    if (!open.length) open.push(counts.length - 1);
    counts[open.reduce((a, b) => (counts[b] < counts[a] ? b : a))] += 1;
  }
  let words = 0;
  const cuts = [0, ...counts.slice(0, -1).map((more) => starts[(words += more)] ?? tokens.length), tokens.length];
  return counts.map((_, i) => tokens.slice(cuts[i], cuts[i + 1]));
}

export const isFinished = (draft) => !draft.items.includes(BLANK);
export const originOf = (draft) => draft.origins[draft.items.indexOf(BLANK)];
const count = (items, wanted) => items.reduce((sum, item) => sum + (item === wanted), 0);
export const blanksIn = (draft) => count(draft.items, BLANK);

/** How good the fill of the last blank is, beside others of other lengths. */
export function scoreOf({ draft, before }, tokens = 0) {
  const written = draft.logProb - before.logProb + EASY * tokens;
  return written / Math.max(1, draft.steps.length - before.steps.length + tokens) ** EVEN;
}

/** How good it can become, as far as is known: if all tokens to come are easy ones. */
export function hopeOf(writing) {
  return scoreOf(writing, TOKENS * Math.max(1, writing.words));
}

/** Write a token into the leftmost blank, and leave a blank after it or not. */
function write(draft, token, more, logProb) {
  const at = draft.items.indexOf(BLANK);
  const origin = draft.origins[at];
  return {
    items: [...draft.items.slice(0, at), token, ...(more ? [BLANK] : []), ...draft.items.slice(at + 1)],
    origins: [...draft.origins.slice(0, at), origin, ...(more ? [origin] : []), ...draft.origins.slice(at + 1)],
    logProb: draft.logProb + logProb,
    steps: [...draft.steps, logProb],
  };
}
