// Texts in capitals are filled in small letters and written in capitals again, as src/blanklm/decoding/capitals.py does.

const LEAST_WORDS = 2, LEAST_LETTERS = 10;
const OPENING = "[\"'“‘(\\[]*";
const FIRST = new RegExp(`^(\\s*${OPENING})([\\p{L}\\p{N}_])`, "u");
const AFTER_END = new RegExp(`([.!?…]["'”’)\\]]*\\s+${OPENING})([\\p{L}\\p{N}_])`, "gu");
const I = /(?<![\p{L}\p{N}_'’.])i(?![\p{L}\p{N}_.])/gu;

export function inCapitals({ pieces }) {
  const text = pieces.join(" ");
  const letters = text.split(/\s+/).map((word) => [...word].filter((c) => c.toLowerCase() !== c.toUpperCase()).length);
  const all = letters.reduce((sum, n) => sum + n, 0), words = letters.filter((n) => n > 1).length;
  return text === text.toUpperCase() && all >= LEAST_LETTERS && words >= LEAST_WORDS;
}

/** The same text with capitals only where sentences begin, and for "I". */
export function inSmallLetters({ pieces, blanks }) {
  const capital = (_, before, letter) => before + letter.toUpperCase();
  const small = pieces.map((piece) => piece.toLowerCase().replace(AFTER_END, capital).replace(I, "I"));
  small[0] = small[0].replace(FIRST, capital);
  return { pieces: small, blanks };
}
