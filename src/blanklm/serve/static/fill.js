// Fill: a text with blanks in, the filled text in place, its trajectory to replay, alternatives for each blank.

import { call } from "./api.js";
import { $, copyText, element, percent, stateIn } from "./dom.js";
import { offerCancel, wait } from "./waiting.js";
import { blanksOf, bounds, confidence, escapeBlanks, lengthOf, partsAt, quoted, withLength, withSpans } from "./canvas.js";

export const task = "fill";
export const title = "Fill";
export const box = "text";

const EXAMPLES = [
  "She opened the ___ and ___.",
  "My ___ and I ___.",
  "I will ___ come back ___!",
  "It was ___[1-2], but we ___[2-5].",
];
const DEFAULTS = { order: "", beam: "1", n: "4" };
const ALTERNATIVES = { n: 5, beam: 2 };
const MANY_BLANKS = 10; // of more, alternatives are not asked for unbidden
const SURE = [0.05, 0.15, 0.3, 0.6];
const PAUSE = 160; // milliseconds between the steps of a replay

const still = matchMedia("(prefers-reduced-motion: reduce)");

let models = [];
let asking = new AbortController(); // of the fill under way
let wondering = new AbortController(); // of the alternatives under way
let shown = null; // { text, kind, pieces, fills, chosen }
let playing = null;

export function start(able) {
  models = able;
  $("model").replaceChildren(...models.map(({ name }) => element("option", { value: name }, name)));
  for (const example of EXAMPLES) {
    const button = element("button", { type: "button" }, example);
    button.addEventListener("click", () => fillText(example));
    document.querySelector(".examples").append(button);
  }
  $("editor").addEventListener("submit", (event) => {
    event.preventDefault();
    fillText($("text").value);
  });
  $("text").addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey)) return;
    if (event.key === "Enter") $("editor").requestSubmit();
    else if (event.key.toLowerCase() === "b") putBlank();
    else return;
    event.preventDefault();
  });
  $("blank").addEventListener("click", putBlank);
  for (const id of ["model", "order", "beam", "n"]) $(id).addEventListener("change", () => fillText($("text").value));
  $("step").addEventListener("input", () => {
    stopPlaying();
    showStep(Number($("step").value));
  });
  $("play").addEventListener("click", play);
  $("result").addEventListener("keydown", moveAmongWords);
  for (const button of $("share").querySelectorAll("[data-copies]")) button.addEventListener("click", copy);
  $("fill").disabled = false;
}

/** Show what the address says; what stands in the text box may have been typed before we came, or in another visit. */
export function open(first) {
  readAddress(first || stateIn(location.hash).has("view") ? $("text").value : "");
}

// --- The state in the address -----------------------------------------------------------------------------------------

function readAddress(typed) {
  const state = stateIn(location.hash);
  $("model").value = models.some(({ name }) => name === state.get("model")) ? state.get("model") : models[0].name;
  for (const [id, value] of Object.entries(DEFAULTS)) $(id).value = state.get(id) ?? value;
  fillText(state.get("text") ?? (typed || EXAMPLES[0]), { remember: false });
}

function address() {
  const state = new URLSearchParams({ text: $("text").value });
  if ($("model").value !== models[0].name) state.set("model", $("model").value);
  for (const [id, value] of Object.entries(DEFAULTS)) if ($(id).value !== value) state.set(id, $(id).value);
  return `#${state}`;
}

// --- Asking -----------------------------------------------------------------------------------------------------------

function putBlank() {
  const box = $("text");
  const [start, end] = [box.selectionStart, box.selectionEnd];
  const chosen = box.value.slice(start, end);
  // The spaces around the selected words stay; a blank put in the middle of nothing keeps clear of its neighbours.
  const [before, behind] = chosen.trim() ? [/^\s*/.exec(chosen)[0], /\s*$/.exec(chosen)[0]] : [
    /\S$/.test(box.value.slice(0, start)) ? " " : "", /^\S/.test(box.value.slice(end)) ? " " : "",
  ];
  box.setRangeText(`${before}___${behind}`, start, end, "end");
  box.selectionStart = box.selectionEnd = box.selectionEnd - behind.length;
  box.focus();
}

function options() {
  const order = $("order").value;
  const alone = order === "parallel"; // gives one fill
  const [beam, n] = alone ? [1, 1] : ["beam", "n"].map((id) => Number($(id).value));
  return { model: $("model").value, order: order || null, beam, n };
}

async function fillText(text, { remember = true } = {}) {
  $("text").value = text;
  if (remember && address() !== location.hash) history.pushState(null, "", address());
  describeModel();
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const answered = wait($("view-fill"), "Filling", say, asking);
  const asked = options();
  const ask = async (how) => {
    const { results: [result] } = await call("v1/fill", { ...how, texts: [text], trajectory: true }, signal);
    return { ...result, text, kind: models.find(({ name }) => name === asked.model).tokens, chosen: 0 };
  };
  let early = null; // the first reading, ahead of the others: it takes a fraction of their time
  try {
    if (asked.n > 1 && asked.beam === 1) {
      early = shown = await ask({ ...asked, n: 1 });
      showEarly();
    }
    shown = await ask(asked);
    answered();
    say(shown.unknown.length ? `The model does not know ${shown.unknown.map((word) => `“${word}”`).join(", ")}.` : "");
    showAnswer(early?.fills[0].text === shown.fills[0].text);
  } catch (error) {
    if (error.name === "AbortError") {
      if (early && asking.signal === signal) showAnswer(true); // cancelled, and nothing newer is asked for
      return;
    }
    say(error.message, true);
    if (error.field?.startsWith("texts")) for (const id of ["outcome", "blanks", "readings", "share"]) $(id).hidden = true;
  } finally {
    answered();
    $("outcome").classList.remove("early");
  }
}

/** Alternatives for all blanks, unless they are so many that it would take long. */
function offerAlternatives() {
  wondering.abort(); // those of what was shown before
  wondering = new AbortController();
  const numbers = shown.fills[shown.chosen].spans.map((_, k) => k);
  if (numbers.length <= MANY_BLANKS) askAlternatives(numbers);
}

/** For some blanks, what else could stand there while all the other words stay. */
async function askAlternatives(numbers) {
  const { text, kind, fills, chosen } = shown;
  const { spans } = fills[chosen];
  const texts = numbers.map((k) => withSpans(text, spans.map((span, other) => (other === k ? null : span)), kind));
  const { model, order } = options();
  const body = { model, order: order === "parallel" ? null : order, ...ALTERNATIVES, texts };
  const current = wondering;
  const withdraw = offerCancel($("blanks").querySelector(".hint"), () => current.abort());
  try {
    const { results } = await call("v1/fill", body, current.signal);
    results.forEach(({ fills: found }, i) => showAlternatives(numbers[i], found));
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, true);
  } finally {
    withdraw();
  }
}

// --- Showing ----------------------------------------------------------------------------------------------------------

/** Show the first reading alone, while the others are on their way. */
function showEarly() {
  wondering.abort();
  $("outcome").classList.add("early");
  showOutcome();
  play();
}

/** Show an answer whole; if its first reading is there `already`, leave that as it is, in the middle of a replay too. */
function showAnswer(already) {
  if (!already) {
    showOutcome();
    play();
  }
  showRest();
  offerAlternatives();
}

function showOutcome() {
  $("outcome").hidden = false;
  const steps = actions().length;
  $("step").max = steps;
  showFigure();
  showStep(steps);
}

function showRest() {
  $("share").hidden = $("blanks").hidden = false;
  showBlanks();
  showReadings();
  $("link").href = address();
  $("link").textContent = $("link").href;
  $("command").textContent = commandLine();
}

function actions() {
  return shown.fills[shown.chosen].trajectory.slice(0, -1);
}

/** The canvas after some steps, in the place of the text. */
function showStep(step) {
  const taken = actions(), finished = step === taken.length;
  $("result").replaceChildren(...partsAt(shown, taken, step).map((part) => drawn(part, finished)));
  $("result").querySelector("button")?.setAttribute("tabindex", "0");
  $("step").value = step;
  const caption = captionOf(taken, step);
  $("caption").textContent = caption;
  $("step").setAttribute("aria-valuetext", caption);
}

/** A part of a canvas; a word of a finished text is a button, which blanks it. */
function drawn(part, finished) {
  const { text, given, open, log_probs } = part;
  if (open) return element("span", { class: "blank" }, String(open));
  if (!given && !log_probs) return text;
  const p = given ? null : confidence(part);
  const classes = given ? "word given" : `word filled sure-${SURE.filter((bound) => p >= bound).length}`;
  const made = element(finished ? "button" : "span", { class: classes }, text);
  if (!given) made.title = `p = ${percent(p)}`;
  if (finished) {
    made.type = "button";
    made.tabIndex = -1;
    made.addEventListener("click", () => fillText(textWithout(made)));
  }
  return made;
}

function captionOf(taken, step) {
  const where = `Step ${step} of ${taken.length}`;
  if (step === taken.length) return `${where}: every blank is filled`;
  const { blank, token, left, right, log_prob } = taken[step];
  const stay = left && right ? "; blanks stay on both sides" : left ? "; a blank stays to the left" : right ? "; a blank stays to the right" : "";
  return `${where}: next “${token.trim()}” in blank ${blank + 1}${stay} (${percent(Math.exp(log_prob))})`;
}

/** The text as it is shown, with one word blanked. */
function textWithout(button) {
  let before = "", behind = "", passed = false;
  for (const node of $("result").childNodes) {
    if (node === button) passed = true;
    else if (passed) behind += node.textContent;
    else before += node.textContent;
  }
  return `${escapeBlanks(before)}___${/^[[_]/.test(behind) ? "[1-]" : ""}${escapeBlanks(behind)}`;
}

function moveAmongWords(event) {
  const words = [...$("result").querySelectorAll("button")];
  const at = words.indexOf(document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: words.length - 1 }[event.key];
  if (to === undefined || !words[to]) return;
  words[at]?.setAttribute("tabindex", "-1");
  words[to].setAttribute("tabindex", "0");
  words[to].focus();
  event.preventDefault();
}

function showFigure() {
  const taken = actions();
  const rows = [...taken, null].map((action, t) => {
    const canvas = element("td", {}, ...partsAt(shown, taken, t).map((part) => drawn(part, false)));
    const cells = action === null ? ["end", "", "", "", ""] : [
      action.blank + 1, action.token.trim() || action.token, action.left ? "yes" : "no", action.right ? "yes" : "no",
      percent(Math.exp(action.log_prob)),
    ];
    return element("tr", {}, element("td", {}, String(t)), canvas, ...cells.map((cell) => element("td", {}, String(cell))));
  });
  $("figure").querySelector("tbody").replaceChildren(...rows);
}

function showBlanks() {
  const written = blanksOf(shown.text);
  const cards = shown.fills[shown.chosen].spans.map((span, k) => {
    const limits = bounds(written[k].length);
    const title = element("h3", {}, element("span", { class: "blank" }, String(k + 1)), " ", element("span", {}, span));
    const unit = shown.kind === "character" ? "characters" : "words";
    const fields = [["min", "at least"], ["max", "at most"]].map(([bound, say]) => {
      const input = element("input", { type: "number", min: "1", max: "99", placeholder: "any", inputmode: "numeric" });
      input.value = limits[bound] ?? "";
      input.dataset.bound = bound;
      input.setAttribute("aria-label", `Blank ${k + 1}: ${say} how many ${unit}`);
      input.addEventListener("change", () => changeLength(k, bound, input.valueAsNumber || null));
      return element("label", {}, `${say} `, input);
    });
    const length = element("div", { class: "length" }, ...fields, ` ${unit}`);
    const list = element("ul", { class: "alternatives", "aria-label": `Alternatives for blank ${k + 1}` });
    if (shown.pieces.length - 1 > MANY_BLANKS) {
      const more = element("button", { type: "button" }, "Alternatives");
      more.addEventListener("click", () => askAlternatives([k]));
      list.append(element("li", {}, more));
    }
    return element("li", { class: "card" }, title, length, list);
  });
  document.querySelector(".cards").replaceChildren(...cards);
}

function changeLength(k, bound, value) {
  const text = $("text").value; // which may be ahead of what is shown
  const blank = blanksOf(text)[k];
  if (!blank) return;
  const limits = { ...bounds(blank.length), [bound]: value };
  if (limits.max !== null && limits.min > limits.max) limits[bound === "min" ? "max" : "min"] = value;
  fillText(withLength(text, k, lengthOf(limits)));
}

function showAlternatives(k, fills) {
  const ranked = [...fills].sort((a, b) => b.log_prob - a.log_prob); // by what is shown, not by how well words fit
  const best = ranked[0].log_prob;
  const items = ranked.map(({ spans: [span], log_prob }) => {
    const p = Math.exp(log_prob);
    const bar = element("span", { class: "likely", "aria-hidden": "true" });
    bar.style.setProperty("--share", Math.exp(log_prob - best)); // of the longest bar
    const button = element("button", { type: "button" }, element("span", {}, span), bar, element("span", { class: "p" }, percent(p)));
    button.addEventListener("click", () => {
      const { text, kind, fills: [{ spans }] } = shown;
      fillText(withSpans(text, spans.map((_, other) => (other === k ? span : null)), kind));
    });
    return element("li", {}, button);
  });
  const list = document.querySelectorAll(".alternatives")[k];
  list?.replaceChildren(...items);
  const written = shown.fills[shown.chosen].spans[k].trim();
  const [first, better] = [fills[0], ranked[0]].map(({ spans: [span] }) => span.trim());
  if (list && better !== written) list.append(element("li", { class: "hint why" }, whyNot(better, written, first)));
}

/** Why words were written that are less probable than others: fills are ranked by how well each word fits its place. */
function whyNot(better, written, first) {
  if (first === written) return `“${better}” is more probable as a whole, but the words of “${written}” fit their places better.`;
  return `“${better}” is more probable with the other words as they are; “${written}” was chosen while the text was filled.`;
}

function showReadings() {
  const items = shown.fills.map(({ text, log_prob }, i) => {
    const button = element("button", { type: "button", "aria-pressed": String(i === shown.chosen) },
      element("span", {}, text), element("span", { class: "p" }, `log p ${log_prob.toFixed(1).replace("-", "−")}`));
    button.addEventListener("click", () => choose(i));
    return element("li", {}, button);
  });
  $("readings").hidden = shown.fills.length < 2;
  const most = Math.max(...shown.fills.map(({ log_prob }) => log_prob));
  $("readings-why").hidden = shown.fills[0].log_prob === most;
  $("readings").querySelector("ol").replaceChildren(...items);
}

/** Show another of the readings, with alternatives around it. */
function choose(i) {
  stopPlaying();
  shown.chosen = i;
  showOutcome();
  showRest();
  $("readings").querySelectorAll("button")[i].focus();
  offerAlternatives();
}

function describeModel() {
  const { summary, language, licence, parameters } = models.find(({ name }) => name === $("model").value);
  $("about").textContent = [summary, language, `${(parameters / 1e6).toFixed(1)} M parameters`, licence].filter(Boolean).join(" · ");
}

function commandLine() {
  const { model, order, beam, n } = options();
  const flags = [`--model ${model}`];
  if (order) flags.push(`--order ${order}`);
  if (beam > 1) flags.push(`--beam ${beam}`);
  if (n > 1) flags.push(`-n ${n}`);
  return `blanklm fill ${quoted(shown.text)} ${flags.join(" ")}`;
}

// --- Replay -----------------------------------------------------------------------------------------------------------

function play() {
  stopPlaying();
  const last = actions().length;
  if (still.matches) {
    showStep(last);
    return;
  }
  let step = 0;
  showStep(step);
  playing = setInterval(() => {
    step += 1;
    showStep(step);
    if (step >= last) stopPlaying();
  }, Math.min(PAUSE, 2400 / last));
}

function stopPlaying() {
  clearInterval(playing);
  playing = null;
}

// --- Small things -----------------------------------------------------------------------------------------------------

function say(message, wrong = false) {
  $("status").textContent = message;
  $("status").classList.toggle("wrong", wrong);
  $("text").setAttribute("aria-invalid", String(wrong));
}

async function copy({ currentTarget: button }) {
  say(await copyText($(button.dataset.copies)));
}
