// Text with blanks, as src/blanklm/core/template.py reads it: ___, ___[3], ___[2-5], ___[2-]; a backslash makes one literal.

const LONGEST_TEXT = 1_000_000; // characters; no model reads nearly as many
const SHOWN = 40; // characters of a wrong length that an error shows
const RUN = /(?<!\\)(?<slashes>\\*)(?<run>_{3,})/g;
const BRACKET = /\[[^\]\n]*\]?/y;
const LENGTH = /^\[\s*(?<min>[0-9]{1,9})\s*(?<dash>-\s*(?:(?<max>[0-9]{1,9})\s*)?)?\]$/;
const ESCAPED_BRACKET = /(?<slashes>\\+)\[/y;
const OTHER_BLANKS = /\[MASK\]|<mask>|<blank>|<extra_id_\d+>|(?<!_)__?(?!_)(?=\s|[.,;:!?]|$)/i;

/** What a user can mend: the message is one line that names the problem and the remedy. */
export class BlankLMError extends Error {}

/** A text as { pieces, blanks }: pieces[0] blanks[0] pieces[1] ...; each blank has { min, max }, Infinity for no maximum. */
export function parseTemplate(text) {
  check(text);
  const pieces = [], blanks = [];
  let piece = "", position = 0;
  for (let match; (match = at(RUN, text, position)); ) {
    const { slashes, run } = match.groups;
    piece += text.slice(position, match.index) + half(slashes);
    position = match.index + match[0].length;
    if (slashes.length % 2) {
      piece += run;
      continue;
    }
    const bracket = at(BRACKET, text, position)?.[0];
    blanks.push(bracket === undefined ? { min: 1, max: Infinity } : parseLength(text, position - run.length, run, bracket));
    pieces.push(piece);
    piece = "";
    const literal = bracket === undefined && at(ESCAPED_BRACKET, text, position);
    if (literal) piece = `${half(literal.groups.slashes)}[`;
    position += (bracket ?? (literal ? literal[0] : "")).length;
  }
  pieces.push(piece + text.slice(position));
  if (!blanks.length) {
    const empty = !pieces.some((own) => own.trim());
    throw new BlankLMError(empty ? "the text is empty: write a text with ___ where words are missing" : noBlank(text));
  }
  return { pieces, blanks };
}

/** The match of a sticky or global expression from a position on. */
function at(expression, text, position) {
  expression.lastIndex = position;
  return expression.exec(text);
}

/** What the backslashes before a blank or a bracket stand for. */
function half(slashes) {
  return "\\".repeat(Math.floor(slashes.length / 2));
}

function check(text) {
  const wrong = /\p{Surrogate}/u.exec(text);
  if (wrong) {
    const code = wrong[0].charCodeAt(0).toString(16).toUpperCase();
    throw new BlankLMError(
      `character ${characters(text.slice(0, wrong.index)) + 1} of the text, U+${code}, is not valid Unicode: remove it`,
    );
  }
  const length = characters(text);
  if (length <= LONGEST_TEXT) return;
  const [found, most] = [length, LONGEST_TEXT].map((number) => number.toLocaleString("en"));
  throw new BlankLMError(`the text has ${found} characters, and at most ${most} are read: split it`);
}

/** How many characters a text has as Python counts them. */
function characters(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function noBlank(text) {
  const other = OTHER_BLANKS.exec(text);
  return `there is no blank in the text: write ___ ${other ? `in place of ${other[0]}` : "where words are missing"}`;
}

function parseLength(text, start, run, bracket) {
  const parts = LENGTH.exec(bracket)?.groups;
  if (!parts) {
    throw new BlankLMError(
      `${writtenAt(text, start, run + bracket)} is not a blank with a length: write ___[3] or ___[2-5], or ___\\[ for a ` +
      "bracket after a blank",
    );
  }
  const min = Number(parts.min);
  const max = parts.dash === undefined ? min : parts.max === undefined ? Infinity : Number(parts.max);
  const refuse = (reason) => {
    throw new BlankLMError(`${writtenAt(text, start, run + bracket)}: ${reason}`);
  };
  if (min < 1) refuse(`a blank takes at least one token, not ${min}; leave the blank out instead`);
  if (max < min) refuse(`a blank's minimum ${min} is greater than its maximum ${max}`);
  return { min, max };
}

/** Where a blank stands and how it is written, cut short if it is long. */
function writtenAt(text, start, written) {
  const lines = text.slice(0, start).split("\n"), column = `column ${characters(lines.at(-1)) + 1}`;
  const shown = characters(written) <= SHOWN ? written : `${[...written].slice(0, SHOWN).join("")}…`;
  const quote = shown.includes("'") && !shown.includes('"') ? '"' : "'"; // as Python quotes
  const escaped = shown.replaceAll("\\", "\\\\").replaceAll("\t", "\\t").replaceAll(quote, `\\${quote}`);
  return `${text.includes("\n") ? `line ${lines.length}, ` : ""}${column}: ${quote}${escaped}${quote}`;
}
