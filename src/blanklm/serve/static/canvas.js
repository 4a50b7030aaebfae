// Canvases as the page needs them: where the blanks of a text stand, and how a trajectory fills them. No DOM here.

const CARRY_NO_SPACE = ["word", "wordpiece"]; // kinds of token
const BLANK = /(?<!\\)(\\*)(_{3,})(\[[^\]\n]*\]?)?/g;

/** The blanks of a text: where each begins and ends, and its length as it is written ("", "[3]", "[2-5]"). */
export function blanksOf(text) {
  return [...text.matchAll(BLANK)]
    .filter((match) => match[1].length % 2 === 0)
    .map((match) => {
      const start = match.index + match[1].length;
      return { start, end: match.index + match[0].length, length: match[3] ?? "" };
    });
}

/** Least and most words of a blank, as numbers or null, from its length as it is written. */
export function bounds(length) {
  const match = /^\[\s*(\d+)\s*(-\s*(\d+)?\s*)?\]$/.exec(length);
  if (!match) return { min: null, max: null };
  const min = Number(match[1]);
  return { min, max: match[2] === undefined ? min : match[3] === undefined ? null : Number(match[3]) };
}

export function lengthOf({ min, max }) {
  if (min === null && max === null) return "";
  if (min === max) return `[${min}]`;
  return `[${min ?? 1}-${max ?? ""}]`;
}

/** A text in which blank number k is written otherwise. */
export function withLength(text, k, length) {
  const blank = blanksOf(text)[k];
  return `${text.slice(0, blank.start)}___${length}${text.slice(blank.end)}`;
}

/** A text in which some blanks are replaced by words: spans[k] is null where blank k stays. */
export function withSpans(text, spans, kind) {
  let filled = "", position = 0, before = null;
  for (const [k, blank] of blanksOf(text).entries()) {
    filled += text.slice(position, blank.start);
    if (CARRY_NO_SPACE.includes(kind) && before === blank.start) filled += " "; // two blanks that touch take two words
    position = before = blank.end;
    if (spans[k] === null) {
      filled += text.slice(blank.start, blank.end);
      continue;
    }
    filled += escapeBlanks(spans[k]);
    const bracket = blank.length === "" && /^(\\+)\[/.exec(text.slice(position)); // it needs no backslash any more
    if (bracket) {
      filled += `${"\\".repeat(Math.floor(bracket[1].length / 2))}[`;
      position += bracket[0].length;
    }
  }
  return filled + text.slice(position);
}

/** Literal text, written so that its underscores are not read as blanks. */
export function escapeBlanks(text) {
  return text.replace(/(?<!\\)(\\*)(_{3,})/g, (_, slashes, run) => `${slashes}${slashes}\\${run}`);
}

/** What stands in each blank after the first `steps` actions: lists of tokens (by the step that wrote them) and blanks. */
function after(actions, blanks, steps) {
  const spans = Array.from({ length: blanks }, () => [null]);
  for (const [step, { blank, left, right }] of actions.slice(0, steps).entries()) {
    let number = blank;
    for (const span of spans) {
      const open = span.flatMap((item, i) => (item === null ? [i] : []));
      if (number < open.length) {
        span.splice(open[number], 1, ...(left ? [null] : []), step, ...(right ? [null] : []));
        break;
      }
      number -= open.length;
    }
  }
  return spans;
}

/** Where each token stands in the finished text, by its step. Tokens are looked for, not counted: they may or may not
 * carry the spaces around them, as the model's tokenizer has it. */
function places({ pieces }, { text, spans }, actions) {
  const found = [], starts = [];
  let position = 0;
  after(actions, spans.length, actions.length).forEach((written, k) => {
    position = starts[k] = text.indexOf(spans[k], position + pieces[k].length);
    let from = position;
    for (const step of written) {
      const token = actions[step].token.trim() || actions[step].token;
      const start = text.indexOf(token, from);
      from = start + token.length;
      found[step] = { start, end: from };
    }
    position += spans[k].length;
  });
  return { found, starts };
}

/** The canvas after some steps, as parts in reading order: white space, given words, written words and open blanks. */
export function partsAt({ pieces, kind, fills, chosen }, actions, steps) {
  const fill = fills[chosen], { found, starts } = places({ pieces }, fill, actions);
  const parts = [];
  let open = 0, position = 0;
  after(actions, fill.spans.length, steps).forEach((items, k) => {
    parts.push(...wordsOf(pieces[k]), ...white(fill.text.slice(position + pieces[k].length, starts[k])));
    items.forEach((step, i) => {
      const before = items[i - 1];
      const apart = kind === "character" ? "" : " ";
      if (step === null) {
        if (i > 0) parts.push(...white(apart));
        parts.push({ open: (open += 1) });
        return;
      }
      const { start, end } = found[step], { log_prob } = actions[step];
      const text = fill.text.slice(start, end), last = parts.at(-1);
      const gap = i === 0 ? "" : before === null ? apart : fill.text.slice(found[before].end, start);
      if (i > 0 && before !== null && gap === "" && last.log_probs && text.trim()) {
        last.text += text; // a further token of the same word
        last.log_probs.push(log_prob);
      } else {
        parts.push(...white(gap), text.trim() ? { text, log_probs: [log_prob] } : { text });
      }
    });
    position = starts[k] + fill.spans[k].length;
  });
  parts.push(...wordsOf(pieces.at(-1)));
  return parts;
}

function wordsOf(piece) {
  return piece.split(/(\s+)/).filter(Boolean).map((text) => (text.trim() ? { given: true, text } : { text }));
}

function white(text) {
  return text ? [{ text }] : [];
}

/** How sure the model was of a word: the geometric mean over its tokens. */
export function confidence({ log_probs }) {
  return Math.exp(log_probs.reduce((sum, log_prob) => sum + log_prob, 0) / log_probs.length);
}

/** A word for a shell, in single quotes. */
export function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
