// Fills without their last word, which is often idle: src/blanklm/decoding/shorten.py, whose names and numbers these are.

const WORSE = 0.25; // by so much its score may be below that of the longer one
const LEAST = 2, MOST = 8; // words that are left

/**
 * Of each writing, the one without the last word of the blank that was filled last, or null. `viewsOf` scores writings,
 * `actionsOf` gives the actions of each view on a token.
 */
export async function shorter(task, writings, { viewsOf, actionsOf, scoreOf }) {
  const plans = writings.flatMap((longer) => {
    const ids = withoutLastWord(task, longer);
    return ids ? [{ longer, ids, steps: stepsTo(task, begun(task, longer), ids) }] : [];
  });
  if (!plans.length) return [];
  const views = await viewsOf(plans.flatMap(({ steps }) => steps));
  const tokens = plans.flatMap(({ ids }) => [null, ...ids]);
  const actions = await actionsOf(views, tokens);
  let read = 0;
  return plans.map(({ longer, ids }) => {
    const [start, ...reached] = [...ids.keys(), ids.length].map(() => ({ view: views[read], actions: actions[read++] }));
    const writing = rewritten(task, start.view.ofWords(wordsIn(task, ids)), reached, ids);
    return writing && scoreOf(writing) > scoreOf(longer) - WORSE ? writing : null;
  });
}

/** What is left of the span; the marks at its end stay there. */
function withoutLastWord(task, { draft, number }) {
  const { tokenizer } = task, span = task.spans[number];
  const ids = draft.items.filter((_, i) => draft.origins[i] === number);
  const starts = ids.flatMap((token, i) => (tokenizer.startsWord(token) ? [i] : []));
  const fits = Math.max(LEAST, span.least) < starts.length && starts.length <= MOST + 1;
  if (!span.startsWord || span.least === span.most || !fits) return null;
  const [before, last] = starts.slice(-2), kept = ids.slice(before, last), dropped = ids.slice(last);
  const core = coreOf(kept, tokenizer);
  return core ? [...ids.slice(0, before), ...kept.slice(0, core), ...dropped.slice(coreOf(dropped, tokenizer))] : null;
}

const wordsIn = ({ tokenizer }, ids) => ids.filter((token) => tokenizer.startsWord(token)).length;

/** Where the marks at the end of a word begin. */
export function coreOf(word, tokenizer) {
  return word.findLastIndex((token) => !tokenizer.isMark(token)) + 1;
}

const begun = (task, { before }) => task.writing(before);

/** What must be scored: the blank before its length is chosen, and before each token. */
function stepsTo(task, start, ids) {
  const steps = [start, task.ofLength(start, wordsIn(task, ids), 0)];
  for (const token of ids.slice(0, -1)) steps.push(task.after(steps.at(-1), { token, more: true, logProb: 0 }));
  return steps;
}

function rewritten(task, start, reached, ids) {
  let writing = start;
  for (const [i, { actions }] of reached.entries()) {
    const action = actions.find(({ more }) => more === i < ids.length - 1);
    if (!action || action.logProb === -Infinity) return null;
    writing = task.after(writing, action);
  }
  return writing;
}
