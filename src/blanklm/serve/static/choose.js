// Choose: a text with blanks and what may stand in each; all combinations ranked by their probability in place.

import { call } from "./api.js";
import { blanksOf, quoted } from "./canvas.js";
import { $, copyText, element, percent, stateIn } from "./dom.js";
import { wait } from "./waiting.js";

export const task = "choose";
export const title = "Choose";
export const box = "choose-text";

const EXAMPLES = [
  ["Paris is the ___ of France.", "capital|largest city|river"],
  ["I am looking forward ___ you ___.", "to seeing|to see|seeing", "next week|last week"],
  ["She is a ___, and he is a ___.", "doctor|nurse|fire fighter", "doctor|nurse|fire fighter"],
];
const SHOWN = 10; // combinations

let models = [];
let asking = new AbortController(); // of the request under way

export function start(able) {
  models = able;
  for (const example of EXAMPLES) {
    const [text, ...options] = example;
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => choose({ text, options }));
    $("choose-examples").append(button);
  }
  $("choose-model").replaceChildren(...models.map(({ name }) => element("option", { value: name }, name)));
  $("choose-model").parentElement.hidden = models.length < 2;
  $("choose-text").addEventListener("input", () => offerBoxes(written()));
  $("choose-editor").addEventListener("submit", (event) => {
    event.preventDefault();
    choose({ text: $("choose-text").value, options: written() });
  });
  $("choose-editor").addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key !== "Enter") return;
    $("choose-editor").requestSubmit();
    event.preventDefault();
  });
  $("choose-model").addEventListener("change", () => $("choose-editor").requestSubmit());
  for (const button of $("choose-share").querySelectorAll("[data-copies]")) {
    button.addEventListener("click", async () => say(await copyText($(button.dataset.copies))));
  }
}

/** Show what the address says, or else what was typed, or an example. */
export function open() {
  const state = stateIn(location.hash);
  if (models.some(({ name }) => name === state.get("model"))) $("choose-model").value = state.get("model");
  const [[example, ...given]] = EXAMPLES;
  const typed = $("choose-text").value;
  const text = state.get("text") ?? (typed || example);
  const options = state.has("text") ? state.getAll("options") : typed ? written() : given;
  choose({ text, options }, { remember: false });
}

/** What is written in the boxes, one for each blank. */
function written() {
  return [...$("choose-options").querySelectorAll("input")].map((input) => input.value);
}

/** A box for each blank of the text, with what is to be written in them. */
function offerBoxes(options) {
  const boxes = blanksOf($("choose-text").value).map((_, k) => {
    const input = element("input", { type: "text", spellcheck: "false", placeholder: "one | another | a third" });
    input.value = options[k] ?? "";
    return element("label", {}, `Options for blank ${k + 1} `, input);
  });
  $("choose-options").replaceChildren(...boxes);
}

/** Cut "cat|dog|old man" into options; a stroke within one is written \|. */
function split(line) {
  return line.split(/(?<!\\)\|/).map((part) => part.replaceAll("\\|", "|").trim()).filter(Boolean);
}

function address({ text, options }) {
  const state = new URLSearchParams({ view: task, text });
  for (const line of options) state.append("options", line);
  if ($("choose-model").value !== models[0].name) state.set("model", $("choose-model").value);
  return `#${state}`;
}

async function choose({ text, options: given }, { remember = true } = {}) {
  $("choose-text").value = text;
  offerBoxes(given);
  const options = written(), wanted = { text, options };
  if (remember && address(wanted) !== location.hash) history.pushState(null, "", address(wanted));
  asking.abort();
  asking = new AbortController();
  const lists = options.map(split);
  const bare = lists.findIndex((list) => !list.length);
  if (bare >= 0) {
    say(`Blank ${bare + 1} has no options: write some, with | between them.`, true);
    $("choose-options").querySelectorAll("input")[bare].focus();
    return;
  }
  const answered = wait($("view-choose"), "Comparing", say, asking);
  try {
    const body = { model: $("choose-model").value, texts: [{ text, options: lists }], top: SHOWN };
    const { results: [result] } = await call("v1/choose", body, asking.signal);
    answered();
    say(noteOn(result));
    showChoices(result);
    $("choose-link").href = address(wanted);
    $("choose-link").textContent = $("choose-link").href;
    $("choose-command").textContent = commandLine(wanted);
    for (const id of ["choices", "choose-share"]) $(id).hidden = false;
  } catch (error) {
    if (error.name === "AbortError") return;
    say(error.message, true);
    if (error.field?.startsWith("texts")) for (const id of ["choices", "choose-share"]) $(id).hidden = true;
  } finally {
    answered();
  }
}

function noteOn({ combinations, compared, unknown }) {
  const words = unknown.map((word) => `“${word}”`).join(", ");
  return [
    unknown.length ? `The model does not know ${words}.` : "",
    compared < combinations ? `The best ${compared} of ${combinations} combinations were compared.` : "",
  ].filter(Boolean).join(" ");
}

/** The combinations, the most probable first; what was put into the blanks is marked. */
function showChoices({ pieces, combinations, choices }) {
  const items = choices.map(({ text, spans, probability, standard_error: error }) => {
    const bar = element("span", { class: "likely", "aria-hidden": "true" });
    bar.style.setProperty("--share", probability);
    const margin = error >= 0.0005 ? ` ± ${percent(error)}` : "";
    const sentence = element("span", { class: "rewrite" }, ...marked(text, pieces, spans));
    return element("li", {}, sentence, bar, element("span", { class: "p" }, `${percent(probability)}${margin}`));
  });
  $("choices").querySelector("ol").replaceChildren(...items);
  const more = combinations - choices.length;
  $("choices-more").textContent = more > 0 ? `And ${more} more, less probable.` : "";
}

function marked(text, pieces, spans) {
  const parts = [];
  let position = 0;
  spans.forEach((span, k) => {
    const begin = text.indexOf(span, position + pieces[k].length); // blanks that touch may have a space between them
    parts.push(text.slice(position, begin), element("mark", {}, span));
    position = begin + span.length;
  });
  return [...parts, text.slice(position)];
}

function commandLine({ text, options }) {
  const flags = options.map((line, k) => `--options ${quoted(options.length > 1 ? `${k + 1}=${line}` : line)}`);
  return `blanklm choose ${quoted(text)} ${flags.join(" ")} --model ${$("choose-model").value} -n ${SHOWN}`;
}

function say(message, wrong = false) {
  $("choose-status").textContent = message;
  $("choose-status").classList.toggle("wrong", wrong);
  $("choose-text").setAttribute("aria-invalid", String(wrong));
}
