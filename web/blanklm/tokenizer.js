// Byte-level BPE, as the `tokenizers` library does it, and what decoding asks of each token (config.json of the export).

import { BlankLMError } from "./template.js";

export const BLANK = 1;
export const KINDS = 4, SPACE = 3; // of token: never written, begins a word, continues one, a mere space
const [STARTS_WORD, LETTERS, LONG_WORDS, OPENING, SPACE_AFTER] = [4, 8, 16, 32, 64]; // bits of a token's flags

const UNITS = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

const EACH_DIGIT = /\p{N}|\P{N}+/gu;

/** The first cut of a text: into digits and the rest, or none. What this page cannot read is refused. */
function firstCut({ normalizer, pre_tokenizer: before }) {
  const steps = before?.pretokenizers ?? [before], bytes = steps.at(-1);
  const byBytes = bytes?.type === "ByteLevel" && bytes.use_regex && !bytes.add_prefix_space;
  const digits = steps.length === 2 && steps[0].type === "Digits" && steps[0].individual_digits;
  if (normalizer || !byBytes || !(steps.length === 1 || digits)) {
    throw new BlankLMError("this page reads byte-level BPE as GPT-2 or SmolLM cut texts: export another model");
  }
  return digits ? EACH_DIGIT : /[^]+/g;
}

/** The character that stands for each byte: itself if it can be seen, else one from U+0100 on. */
function byteAlphabet() {
  let unseen = 0x100;
  const isSeen = (byte) => (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isSeen(byte) ? byte : unseen++));
}

const CHARACTERS = byteAlphabet();
const BYTES = new Map(CHARACTERS.map((character, byte) => [character, byte]));
const utf8 = new TextEncoder();
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

export class Tokenizer {
  /** From tokenizer.json and config.json of the export, parsed. */
  constructor(file, { flags, space }) {
    const { model } = file;
    this.firstCut = firstCut(file);
    this.ids = new Map(Object.entries(model.vocab));
    this.tokens = [];
    for (const [token, id] of this.ids) this.tokens[id] = token;
    this.ranks = new Map(model.merges.map(([left, right], rank) => [`${left} ${right}`, rank]));
    this.flags = Uint8Array.from(atob(flags), (character) => character.charCodeAt(0));
    this.space = space; // the token of a mere space, or null
    this.known = new Map(); // units of text and their ids
    this.looks = new Map(); // what a token's text says of it
  }

  get size() {
    return this.tokens.length;
  }

  encode(text) {
    const parts = text.match(this.firstCut) ?? [];
    return parts.flatMap((part) => part.match(UNITS)).flatMap((unit) => this.#encodeUnit(unit));
  }

  #encodeUnit(unit) {
    if (!this.known.has(unit)) {
      const parts = Array.from(utf8.encode(unit), (byte) => CHARACTERS[byte]);
      while (this.#merge(parts)); // nothing more is done once no pair is known
      this.known.set(unit, parts.map((part) => this.ids.get(part)));
    }
    return this.known.get(unit);
  }

  /** Merge the pair that was learnt first; false if there is none. */
  #merge(parts) {
    let best = Infinity, place = -1;
    for (let i = 0; i + 1 < parts.length; i++) {
      const rank = this.ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
      if (rank < best) [best, place] = [rank, i];
    }
    if (place < 0) return false;
    parts.splice(place, 2, parts[place] + parts[place + 1]);
    return true;
  }

  decode(ids) {
    const characters = ids.flatMap((id) => [...this.tokens[id]]);
    return lenient.decode(Uint8Array.from(characters, (character) => BYTES.get(character)));
  }

  /** The canvas of ids, and for each blank whether its fill carries the space that the user wrote before it. */
  encodeTemplate({ pieces }) {
    const last = pieces.length - 1;
    const spaces = pieces.slice(0, last).map((piece) => piece.endsWith(" "));
    const ids = pieces.flatMap((piece, k) => {
      const own = this.encode(spaces[k] ? piece.slice(0, -1) : piece);
      return k === 0 ? own : [BLANK, ...own];
    });
    return { ids, spaces };
  }

  /** What is put in a blank; without the space that stands before the blank already. */
  spanText(ids, carriesSpace) {
    const text = this.decode(ids);
    return carriesSpace && text.startsWith(" ") ? text.slice(1) : text;
  }

  // --- What may be written into a blank ----------------------------------------------------------------------------

  kind(token) {
    return this.flags[token] & 3;
  }

  /** Whether a token begins a new word. */
  startsWord(token) {
    return (this.flags[token] & STARTS_WORD) !== 0;
  }

  /** Whether a token begins with a letter. */
  beginsWithLetter(token) {
    return (this.flags[token] & LETTERS) !== 0;
  }

  /** Whether a token is a word of four letters or more. */
  isLongWord(token) {
    return (this.flags[token] & LONG_WORDS) !== 0;
  }

  /** Whether a span does not end with this token. */
  opens(token) {
    return (this.flags[token] & OPENING) !== 0;
  }

  /** Whether a token is of marks alone. */
  isMark(token) {
    return this.#about(token).mark;
  }

  /** Whether a sentence may end with a token; of quotation marks and brackets that close, whether it is of them alone. */
  endsSentence(token) {
    return this.#about(token).ends;
  }

  isClosing(token) {
    return this.#about(token).closing;
  }

  /** How many straight quotation marks a token has. */
  quotes(token) {
    return this.#about(token).quotes;
  }

  #about(token) {
    if (!this.looks.has(token)) {
      const text = this.decode([token]), opened = text.replace(/["'”’)\]»]+$/, "");
      this.looks.set(token, {
        mark: text.trim() !== "" && !/[\p{L}\p{N}\uFFFD]/u.test(text),
        ends: /[.!?…]$/.test(opened),
        closing: text !== "" && opened === "",
        quotes: text.split('"').length - 1,
      });
    }
    return this.looks.get(token);
  }

  /** Whether a token ends with a mark which a space follows. */
  wantsSpace(token) {
    return (this.flags[token] & SPACE_AFTER) !== 0;
  }
}
