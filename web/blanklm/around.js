// What the text around a blank says of it: src/blanklm/decoding/around.py, whose names these are.

const CLOSING = /["'”’)\]»]+$/, ENDS = /[.!?…]$/;
const ABBREVIATIONS = new Set(["mr", "mrs", "ms", "dr", "st", "prof", "gen", "rev", "sr", "jr", "vs", "e.g", "i.e", "fig"]);
const LINE_ENDS = /\s*\n\s*/g;
const LAST_WORD = /(?:^|[\s"'“‘(\[])([^\s"'“‘(\[]+)$/;
const NEXT_WORD = /^\s+["'“‘(\[]*([\p{L}\p{N}_]+)/u;
export const [ANY, NONE, EVEN] = ["any", "none", "even"]; // which straight quotation marks may be written

const isLower = (letter) => letter === letter.toLowerCase() && letter !== letter.toUpperCase();
const isUpper = (letter) => letter === letter.toUpperCase() && letter !== letter.toLowerCase();
const firstOf = (text) => String.fromCodePoint(text.codePointAt(0));

/** The template as models read it: a line end beside a blank as a comma where no mark says otherwise, others as spaces. */
export function asOneLine(template) {
  const { pieces, blanks } = template;
  if (!pieces.some((piece) => piece.includes("\n"))) return template;
  const last = blanks.length, sentences = forSentences(template);
  const read = pieces.map((piece, k) => {
    const text = piece.trim();
    let before = piece.slice(0, piece.length - piece.trimStart().length), after = piece.slice(piece.trimEnd().length);
    if (before.includes("\n")) { // between blanks, it is all there is
      const outside = k === 0 || (k === last && !text);
      before = outside ? "" : sentences[k - 1] ? " " : ", ";
    }
    if (after.includes("\n")) after = k === last ? "" : /[\p{L}\p{N}]$/u.test(text) ? ", " : " ";
    return text ? before + text.replace(LINE_ENDS, " ") + after : before;
  });
  return { pieces: read, blanks };
}

/** Of each blank, whether it stands for one or more whole sentences. */
export function forSentences({ pieces, blanks }) {
  return blanks.map((_, k) => mayBegin(pieces[k], pieces[k + 1]) && mustEnd(pieces[k + 1], k === blanks.length - 1));
}

function mayBegin(before, after) {
  const given = before.trimEnd();
  if (before.slice(given.length).includes("\n\n") && after.startsWith("\n\n")) return true; // a paragraph of its own
  const ended = given.replace(CLOSING, "");
  if (given === before || !ENDS.test(ended)) return false;
  const last = ended.endsWith(".") && LAST_WORD.exec(ended), word = last ? last[1].slice(0, -1).toLowerCase() : "";
  return !ABBREVIATIONS.has(word) && !(/^\p{L}$/u.test(word) && word !== "i");
}

function mustEnd(after, isLast) {
  if (!after.trim()) return isLast;
  if (after.startsWith("\n")) return !isLower(firstOf(after.trimStart()));
  const following = NEXT_WORD.exec(after);
  return following !== null && isUpper(firstOf(following[1])) && following[1] !== "I"; // "I" says nothing
}

/** Of each blank, which quotation marks may be written into it. */
export function quotes({ pieces, blanks }) {
  const counts = pieces.map((piece) => piece.split('"').length - 1);
  const sum = (own) => own.reduce((total, count) => total + count, 0);
  if (sum(counts) % 2) return blanks.map(() => ANY);
  return blanks.map((_, k) => (sum(counts.slice(0, k + 1)) % 2 ? NONE : EVEN));
}
