// Text with blanks, as src/blanklm/core/template.py reads it: ___, ___[3], ___[2-5], ___[2-]; a backslash makes one literal.

const BLANK = /(?<!\\)(?<slashes>\\*)(?<run>_{3,})(?<length>\[[^\]\n]*\]?)?/g;
const LENGTH = /^\[\s*(?<min>[0-9]{1,9})\s*(?<dash>-\s*(?<max>[0-9]{1,9})?\s*)?\]$/;
const ESCAPED_BRACKET = /(?<slashes>\\+)\[/y;

/** What a user can mend: the message is one line that names the problem and the remedy. */
export class BlankLMError extends Error {}

/** A text as { pieces, blanks }: pieces[0] blanks[0] pieces[1] ...; each blank has { min, max }, Infinity for no maximum. */
export function parseTemplate(text) {
  const pieces = [], blanks = [];
  let piece = "", position = 0, match;
  for (;;) {
    BLANK.lastIndex = position;
    match = BLANK.exec(text);
    if (!match) break;
    const { slashes, run, length } = match.groups, end = match.index + match[0].length;
    piece += text.slice(position, match.index) + "\\".repeat(Math.floor(slashes.length / 2));
    if (slashes.length % 2) {
      piece += run;
      position = match.index + slashes.length + run.length;
      continue;
    }
    blanks.push(length === undefined ? { min: 1, max: Infinity } : parseLength(text, match));
    pieces.push(piece);
    piece = "";
    position = end;
    ESCAPED_BRACKET.lastIndex = position;
    const bracket = length === undefined && ESCAPED_BRACKET.exec(text);
    if (bracket) {
      piece = `${"\\".repeat(Math.floor(bracket.groups.slashes.length / 2))}[`;
      position = ESCAPED_BRACKET.lastIndex;
    }
  }
  pieces.push(piece + text.slice(position));
  return { pieces, blanks };
}

function parseLength(text, match) {
  const { slashes, run, length } = match.groups;
  const before = text.slice(0, match.index + slashes.length), line = before.split("\n");
  const column = `column ${[...line.at(-1)].length + 1}`;
  const where = text.includes("\n") ? `line ${line.length}, ${column}` : column;
  const parts = LENGTH.exec(length)?.groups;
  if (!parts) {
    throw new BlankLMError(
      `${where}: '${run}${length}' is not a blank with a length: write ___[3] or ___[2-5], or ___\\[ for a bracket after a blank`,
    );
  }
  const min = Number(parts.min);
  const max = parts.dash === undefined ? min : parts.max === undefined ? Infinity : Number(parts.max);
  if (min < 1) {
    throw new BlankLMError(
      `${where}: '${run}${length}': a blank takes at least one token, not ${min}; leave the blank out instead`,
    );
  }
  if (max < min) {
    throw new BlankLMError(`${where}: '${run}${length}': a blank's minimum ${min} is greater than its maximum ${max}`);
  }
  return { min, max };
}
