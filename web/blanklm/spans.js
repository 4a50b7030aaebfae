// Fill spans: choose how many words each holds, then write them from left to right. The search of
// src/blanklm/decoding/spans.py, span_scores.py and span_view.py, whose names and numbers these are.

import { EVEN as EVEN_QUOTES, NONE } from "./around.js";
import { logSumExp } from "./model.js";
import { canvasesNear, fitInPlace } from "./rerank.js";
import { shorter } from "./shorten.js";
import { blanksIn, hopeOf, isFinished, originOf, scoreOf, UNTOLD } from "./tasks.js";
import { BlankLMError } from "./template.js";
import { BLANK, KINDS, SPACE } from "./tokenizer.js";

const HYPOTHESES = 2; // of each length
const RERANK = 4; // fills of a blank among which the one is taken that fits its place best
const SHORTENED = 2; // so many of the best fills of a blank are tried without their last word, too
const ONE_WORD = 0.2, QUANTILES = [0.3, 0.5, 0.7]; // a single word where that is probable; else these of longer lengths
const IMPROBABLE = 0.2; // to end a span, or not, at less than this is not considered
const IN_A_ROW = 3; // so many tokens are not written twice in a row
const PARTS = 12; // tokens in a word, at most
const LOOKED_AT = 16; // of the most probable words of a blank; more where rules refuse them
const NO_REPEAT_WITHIN = 6; // symbols on either side

// --- What may follow --------------------------------------------------------------------------------------------------

/** What may follow a writing, with its probability. */
class View {
  constructor(task, writing, { logPWord, logPLength, fromBlank }) {
    Object.assign(this, { task, writing, logPLength, fromBlank });
    this.logP = logPWord.slice();
    this.#forbid();
  }

  /** Set what may not be written to -Infinity. */
  #forbid() {
    const { task: { tokenizer }, writing: { draft } } = this, at = draft.items.indexOf(BLANK);
    const allowed = this.#kindsAllowed(at);
    const noLetters = at > 0 && tokenizer.wantsSpace(draft.items[at - 1]); // "door," is not "door,and"
    const noQuotes = this.task.span(draft).blanks[0].quotes === NONE;
    for (let token = 0; token < this.logP.length; token++) {
      const refused = !allowed[tokenizer.kind(token)] || (noLetters && tokenizer.beginsWithLetter(token));
      if (refused || (noQuotes && tokenizer.quotes(token))) this.logP[token] = -Infinity;
    }
    for (const token of repeats(draft.items, at, tokenizer)) this.logP[token] = -Infinity;
  }

  #kindsAllowed(at) {
    const { task, writing } = this, { draft } = writing, span = task.span(draft);
    const leads = at === 0 || draft.origins[at - 1] !== draft.origins[at];
    const starts = Boolean(writing.words || writing.spare) && !writing.afterSpace && (!leads || span.startsWord);
    const continues = writing.parts < PARTS && (!leads || !span.startsWord);
    const allowed = new Array(KINDS).fill(starts);
    [allowed[0], allowed[2], allowed[SPACE]] = [false, continues || !starts, starts];
    return allowed;
  }

  // Lengths

  get lengths() {
    const { least, startsWord } = this.task.span(this.writing.draft), first = Math.max(least, Number(startsWord));
    return Array.from({ length: this.task.longest(this.writing.draft) + 1 - first }, (_, i) => first + i);
  }

  /** Log p of these lengths among themselves; the last that the model tells apart stands for all longer. */
  #logPLengths(words) {
    const last = this.logPLength.length - 1, longer = words.at(-1) > last;
    const logP = words.map((n) => this.logPLength[Math.min(n, last)] - (longer ? Math.LN2 * Math.max(0, n - last + 1) : 0));
    const total = logSumExp(logP);
    return logP.map((value) => value - total);
  }

  withChosenLengths() {
    const words = this.lengths, logP = this.#logPLengths(words);
    return chooseLengths(logP.map(Math.exp), words).map((i) => this.#ofLength(words[i], logP[i]));
  }

  withLengths(need) {
    const words = this.lengths, logP = this.#logPLengths(words);
    const best = words.map((_, i) => i).sort((a, b) => logP[b] - logP[a]).slice(0, need);
    return best.map((i) => this.#ofLength(words[i], logP[i]));
  }

  ofWords(wanted) {
    const words = this.lengths;
    return this.#ofLength(wanted, this.#logPLengths(words)[words.indexOf(wanted)]);
  }

  #ofLength(words, logP) {
    return this.task.ofLength(this.writing, words, logP);
  }

  // Words

  /** The actions on some tokens that are open, given log p [no, yes] that a blank stays after each. */
  actions(tokens, more) {
    return tokens.flatMap((token, i) => this.#sides(token, more[i])
      .map((side) => ({ token, more: side === 1, logProb: this.logP[token] + more[i][side] })));
  }

  #sides(token, logPMore) {
    const { task, writing } = this, { tokenizer } = task, { words, parts } = task.countsAfter(writing, token);
    const room = task.hasRoom(writing.draft), isSpace = token === tokenizer.space;
    let sides = words === 0 || !room ? [0] : [];
    if (room && (words > 0 || parts < PARTS)) sides.push(1);
    if (room && (isSpace || !this.#mayEnd(token))) sides = [1];
    if (sides.length === 2) sides = sides.filter((side) => logPMore[side] > Math.log(IMPROBABLE));
    return isSpace && !task.touching ? sides.filter((side) => side === 1) : sides;
  }

  /** Whether the span may end with a token, by its marks; and not if it stands in another blank of the text. */
  #mayEnd(token) {
    const { task: { tokenizer }, task, writing: { draft } } = this, number = originOf(draft), { blanks, sentence } = task.span(draft);
    const written = (origin) => draft.items.filter((item, i) => draft.origins[i] === origin && item !== BLANK);
    const span = [...written(number), token];
    const others = Array.from({ length: number }, (_, origin) => `${written(origin)}`);
    if (tokenizer.opens(token) || others.includes(`${span}`)) return false;
    const marks = span.reduce((sum, part) => sum + tokenizer.quotes(part), 0);
    if (blanks.at(-1).quotes === EVEN_QUOTES && marks % 2) return false;
    while (span.length > 1 && tokenizer.isClosing(span.at(-1))) span.pop();
    return !sentence || tokenizer.endsSentence(span.at(-1));
  }

  after(action) {
    return this.task.after(this.writing, action);
  }
}

/** What is not written again: long words nearby, the word before, three tokens in a row. */
function repeats(items, at, tokenizer) {
  const left = items.slice(0, at), right = items.slice(at + 1, at + 1 + NO_REPEAT_WITHIN);
  const found = [...left.slice(-NO_REPEAT_WITHIN), ...right].filter((token) => tokenizer.isLongWord(token));
  if (left.length && tokenizer.startsWord(left.at(-1))) found.push(left.at(-1));
  const ending = left.slice(1 - IN_A_ROW);
  for (let i = 0; i + IN_A_ROW <= left.length; i++) {
    if (ending.every((token, k) => left[i + k] === token)) found.push(left[i + IN_A_ROW - 1]);
  }
  return found;
}

/** The places among `words` of the lengths worth a try: a single word, or lengths about the median of the longer ones. */
function chooseLengths(p, words) {
  if (words.length === 1 || (words[0] <= 1 && p[0] >= ONE_WORD)) return [0];
  const longer = p.map((share, i) => (i === 0 && words[0] <= 1 ? 0 : share));
  const total = longer.reduce((a, b) => a + b);
  let sum = 0;
  const sums = longer.map((share) => (sum += share));
  return [...new Set(QUANTILES.map((quantile) => sums.findIndex((value) => value >= quantile * total)))];
}

/** The `need` greatest values' places, greatest first. */
function top(values, need) {
  const best = [];
  values.forEach((value, place) => {
    if (best.length === need && value <= values[best[need - 1]]) return;
    let at = best.length;
    while (at > 0 && values[best[at - 1]] < value) at--;
    best.splice(at, 0, place);
    best.length = Math.min(best.length, need);
  });
  return best;
}

/** The writings that follow each view: of some lengths where none is chosen yet, else by the `need` best actions. */
async function following(model, views, needs) {
  const found = views.map(({ writing }, v) => (writing.words === UNTOLD ? views[v].withChosenLengths() : null));
  let waiting = views.map((_, v) => v).filter((v) => !found[v]), factor = 1;
  while (waiting.length) {
    const looked = waiting.map((v) => Math.min(views[v].logP.length, factor * Math.max(LOOKED_AT, 2 * needs[v])));
    const tokens = waiting.map((v, i) => top(views[v].logP, looked[i]));
    const open = waiting.map((v, i) => tokens[i].filter((token) => views[v].logP[token] > -Infinity));
    const more = open.some((own) => own.length) ? await model.more(waiting.map((v) => views[v].fromBlank), open) : open;
    const again = [];
    waiting.forEach((v, i) => {
      const view = views[v], actions = view.actions(open[i], more[i]);
      if (actions.length < needs[v] && looked[i] < view.logP.length && open[i].length === looked[i]) {
        again.push(v);
        return;
      }
      actions.sort((a, b) => b.logProb - a.logProb);
      found[v] = actions.slice(0, needs[v]).map((action) => view.after(action));
    });
    [waiting, factor] = [again, 8 * factor];
  }
  return found;
}

/** The actions of each view on a token; none where there is no token. */
async function actionsOn(model, views, tokens) {
  const asked = [...views.keys()].filter((v) => tokens[v] !== null), found = views.map(() => []);
  const more = await model.more(asked.map((v) => views[v].fromBlank), asked.map((v) => [tokens[v]]));
  asked.forEach((v, i) => { found[v] = views[v].actions([tokens[v]], more[i]); });
  return found;
}

// --- The search -------------------------------------------------------------------------------------------------------

/** The search of one request, blank by blank: fills of a few lengths, of which the best goes on to the next. */
class Track {
  constructor(task, start, beam, leads = false) { // its best fill is the answer: what can no longer win is given up
    Object.assign(this, { task, beam, leads, active: [start], closed: [], candidates: [], finished: [] });
  }

  /** How many writings like this are kept: of single words more, since they cost nothing more. */
  width({ length }) {
    return length === 1 ? Math.max(this.beam, RERANK) : this.beam;
  }

  /**
   * What each candidate is looked at on: words in and near the blank that was filled. Nothing where their order does not
   * matter: of one candidate, and of finished alternatives, which are ranked otherwise.
   */
  leftOut() {
    const [{ draft: first }] = this.candidates;
    if (this.candidates.length === 1 || (isFinished(first) && !this.leads)) return this.candidates.map(() => []);
    const filled = this.task.spans.length - blanksIn(first) - 1;
    return this.candidates.map(({ draft }) => canvasesNear(draft, filled, this.task.tokenizer));
  }

  /** Keep the most probable of each length. */
  advance(reached) {
    const blanks = blanksIn(this.active[0].draft), byLength = new Map();
    for (const writing of reached.sort((a, b) => b.draft.logProb - a.draft.logProb)) {
      const alike = byLength.get(writing.length) ?? [];
      if (alike.length < this.width(writing)) byLength.set(writing.length, [...alike, writing]);
    }
    const kept = [...byLength.values()].flat();
    this.active = kept.filter(({ draft }) => blanksIn(draft) === blanks);
    this.closed.push(...kept.filter(({ draft }) => blanksIn(draft) < blanks));
    this.closed.sort((a, b) => scoreOf(b) - scoreOf(a));
    if (this.leads && this.closed.length) {
      const best = scoreOf(this.closed[0]);
      this.active = this.active.filter((writing) => hopeOf(writing) > best);
    }
    if (!this.active.length) this.candidates = this.closed.slice(0, RERANK);
  }

  /** Let fills that another length would have found compete with the candidates. */
  add(found) {
    const known = new Set(this.closed.map(({ draft }) => `${draft.items}`));
    for (const writing of found) {
      if (!writing || known.has(`${writing.draft.items}`)) continue;
      known.add(`${writing.draft.items}`);
      this.closed.push(writing);
    }
    this.closed.sort((a, b) => scoreOf(b) - scoreOf(a));
    this.candidates = this.closed.slice(0, RERANK);
  }

  /** Take the best of the candidates by how well each fits, and go on with the next blank. */
  decide(fits) {
    const order = [...fits.keys()].sort((a, b) => fits[b] - fits[a]);
    const [best, ...others] = order.map((i) => this.candidates[i]);
    if (isFinished(best.draft)) this.finished = [best, ...others, ...this.closed.slice(RERANK)];
    else [this.active, this.closed] = [[this.task.writing(best.draft)], []];
    this.candidates = [];
  }
}

async function viewsOf(model, task, writings) {
  // To words that are spared, a span of none is one of one.
  const words = writings.map((writing) => (writing.words === 0 && writing.spare > 0 ? 1 : writing.words));
  const scores = await model.score(writings.map(({ draft: { items } }, r) => ({ items, asked: [[items.indexOf(BLANK), words[r]]] })));
  return writings.map((writing, r) => new View(task, writing, scores[r]));
}

/**
 * The best finished draft and `n - 1` alternatives, which come of other lengths of the first blank. `watch` is called
 * and awaited before each pass, with the draft that leads; what it throws ends the search.
 */
export async function writeSpans(model, task, n, watch) {
  const start = task.begin(), tracks = [new Track(task, start, HYPOTHESES, true)];
  if (n > 1 && start.words === UNTOLD) {
    const [view] = await viewsOf(model, task, [start]);
    tracks.push(...view.withLengths(n).map((writing) => new Track(task, writing, HYPOTHESES)));
  } else if (n > 1) {
    tracks.push(new Track(task, start, Math.max(n, HYPOTHESES)));
  }
  for (;;) {
    const waiting = tracks.filter(({ active }) => active.length);
    if (!waiting.length) break;
    await watch((waiting.includes(tracks[0]) ? tracks[0] : waiting[0]).active[0].draft);
    const writings = waiting.flatMap(({ active }) => active);
    const beams = waiting.flatMap((track) => track.active.map((writing) => track.width(writing)));
    const reached = await following(model, await viewsOf(model, task, writings), beams);
    for (const track of waiting) track.advance(reached.splice(0, track.active.length).flat());
    const deciding = waiting.filter(({ candidates }) => candidates.length);
    for (const track of deciding.filter(({ leads }) => leads)) {
      track.add(await shorter(task, track.candidates.slice(0, SHORTENED), {
        scoreOf,
        viewsOf: (own) => viewsOf(model, task, own),
        actionsOf: (views, tokens) => actionsOn(model, views, tokens),
      }));
    }
    const fits = await fitInPlace(model, deciding.flatMap((track) => track.leftOut()));
    for (const track of deciding) track.decide(fits.splice(0, track.candidates.length));
  }
  return ranked(tracks).slice(0, n);
}

/** The best of the first track; then the best of all by probability per token. */
function ranked(tracks) {
  if (!tracks[0].finished.length) throw new BlankLMError("no fill was found: give the blanks other lengths");
  const [best, ...rest] = tracks[0].finished.map(({ draft }) => draft);
  rest.push(...tracks.slice(1).flatMap(({ finished }) => finished.map(({ draft }) => draft)));
  const perToken = ({ logProb, steps }) => logProb / Math.max(1, steps.length);
  rest.sort((a, b) => perToken(b) - perToken(a));
  const distinct = new Map();
  for (const draft of [best, ...rest]) if (!distinct.has(`${draft.items}`)) distinct.set(`${draft.items}`, draft);
  return [...distinct.values()];
}
