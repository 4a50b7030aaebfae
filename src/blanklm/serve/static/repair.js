// Repair: a text in, the suggested changes, to accept or refuse one by one, and how probable each word is.

import { call } from "./api.js";
import { quoted } from "./canvas.js";
import { $, copyText, element, percent, stateIn } from "./dom.js";
import { offerCancel, wait } from "./waiting.js";

export const task = "repair";
export const title = "Repair";
export const box = "repair-text";

const EXAMPLES = [
  "He go to school yesterday and and buyed a book.",
  "I recieved you're letter and was happy to hear form you.",
  "The children was playing in the gardn when it start to rain.",
];
const SURE = [0.6, 0.3, 0.15, 0.05]; // from these probabilities on, as the colours of fills
const RULES = {
  spelling: "spelling", form: "another form", doubled: "written twice", spare: "one word too many",
  missing: "a word is missing", swapped: "swapped", space: "spacing",
};

let models = [];
let asking = new AbortController(); // of the request under way
let shown = null; // the answer that is on the page
let refused = new Set(); // the numbers of its edits that the user does not want

export function start(able) {
  models = able;
  for (const text of EXAMPLES) {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => repair(text));
    $("repair-examples").append(button);
  }
  $("repair-model").replaceChildren(...models.map(({ name }) => element("option", { value: name }, name)));
  $("repair-model").parentElement.hidden = models.length < 2;
  $("repair-editor").addEventListener("submit", (event) => {
    event.preventDefault();
    repair($("repair-text").value);
  });
  $("repair-text").addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key !== "Enter") return;
    $("repair-editor").requestSubmit();
    event.preventDefault();
  });
  for (const [id, all] of [["repair-accept", true], ["repair-refuse", false]]) {
    $(id).addEventListener("click", () => {
      refused = new Set(all ? [] : shown.edits.keys());
      show();
    });
  }
  for (const button of document.querySelectorAll("#view-repair [data-copies]")) {
    button.addEventListener("click", async () => say(await copyText($(button.dataset.copies))));
  }
}

/** Show what the address says; an example waits in the box until it is asked for. */
export function open() {
  const state = stateIn(location.hash);
  if (models.some(({ name }) => name === state.get("model"))) $("repair-model").value = state.get("model");
  if (state.has("text")) repair(state.get("text"), { remember: false });
  else if (!$("repair-text").value) [$("repair-text").value] = EXAMPLES;
}

function address(text) {
  const state = new URLSearchParams({ view: task, text });
  if ($("repair-model").value !== models[0].name) state.set("model", $("repair-model").value);
  return `#${state}`;
}

async function repair(text, { remember = true } = {}) {
  $("repair-text").value = text;
  if (remember && address(text) !== location.hash) history.pushState(null, "", address(text));
  asking.abort();
  asking = new AbortController();
  const current = asking, body = { model: $("repair-model").value, texts: [text] };
  const answered = wait($("view-repair"), "Reading", say, current);
  try {
    [shown] = (await call("v1/repair", body, current.signal)).results;
    answered();
    refused = new Set();
    show();
    const changes = shown.edits.length === 1 ? "One change." : `${shown.edits.length} changes.`;
    say(shown.edits.length ? `${changes} Choose a change to refuse it.` : "Nothing to correct was found.");
    $("repair-command").textContent = `blanklm repair ${quoted(text)} --model ${body.model}`;
    $("repair-link").href = address(text);
    $("repair-link").textContent = $("repair-link").href;
    $("repair-outcome").hidden = $("repair-share").hidden = false;
    $("repair-words").hidden = true;
    await askWords(text, body, current);
  } catch (error) {
    if (error.name === "AbortError") return;
    say(error.message, true);
    if (shown?.input !== text) for (const id of ["repair-outcome", "repair-words", "repair-share"]) $(id).hidden = true;
  } finally {
    answered();
  }
}

/** How probable each word is in its place. */
async function askWords(text, body, current) {
  const withdraw = offerCancel($("repair-outcome"), () => current.abort());
  try {
    const { results: [{ words }] } = await call("v1/words", body, current.signal);
    showWords(text, words);
  } finally {
    withdraw();
  }
}

/** The text with its changes; each is a button that says whether it is accepted. */
function show() {
  const diff = [];
  let at = 0, result = "";
  shown.edits.forEach(({ start, end, old, new: written, rule }, number) => {
    const [from, to] = [offset(start), offset(end)];
    const accepted = !refused.has(number);
    const button = element("button", { type: "button", class: "edit", "aria-pressed": String(accepted) });
    button.append(...(old ? [element("del", {}, old)] : []), ...(written ? [element("ins", {}, written)] : []));
    button.title = RULES[rule] ?? rule;
    button.setAttribute("aria-label", `${old.trim() || "nothing"} becomes ${written.trim() || "nothing"}: ${button.title}`);
    button.addEventListener("click", () => {
      if (!refused.delete(number)) refused.add(number);
      show();
      $("repair-diff").querySelectorAll("button")[number].focus();
    });
    diff.push(shown.input.slice(at, from), button);
    result += shown.input.slice(at, from) + (accepted ? written : old);
    at = to;
  });
  $("repair-diff").replaceChildren(...diff, shown.input.slice(at));
  $("repaired").textContent = result + shown.input.slice(at);
  $("repair-all").hidden = shown.edits.length < 2;
}

/** The server counts characters, JavaScript units of UTF-16: they differ beyond the first 65,536. */
function offset(characters, text = shown.input) {
  return [...text].slice(0, characters).join("").length;
}

function showWords(text, words) {
  const children = [];
  let at = 0;
  for (const { start, end, log_prob: logProb, expected } of words) {
    const p = Math.exp(logProb);
    const sure = SURE.length - SURE.filter((least) => p < least).length;
    const word = element("span", { class: `word filled sure-${sure}` }, text.slice(offset(start, text), offset(end, text)));
    const instead = expected.map((other) => `${other.text} ${percent(Math.exp(other.log_prob))}`).join(", ");
    word.title = `${percent(p)} here; most probable: ${instead}`;
    children.push(text.slice(at, offset(start, text)), word);
    at = offset(end, text);
  }
  $("repair-map").replaceChildren(...children, text.slice(at));
  $("repair-words").hidden = false;
}

function say(message, wrong = false) {
  $("repair-status").textContent = message;
  $("repair-status").classList.toggle("wrong", wrong);
  $("repair-text").setAttribute("aria-invalid", String(wrong));
}
