// Transfer: a sentence in, the words that carry its style marked, the rewritten sentences ranked.

import { call } from "./api.js";
import { quoted } from "./canvas.js";
import { $, copyText, element, percent, stateIn } from "./dom.js";
import { wait } from "./waiting.js";

export const task = "transfer";
export const title = "Transfer";
export const box = "transfer-text";

const EXAMPLES = [
  ["positive", "The meeting was a complete waste of time."],
  ["negative", "We had a wonderful holiday in Spain."],
  ["negative", "The employees were super nice and efficient!"],
  ["positive", "My brother hates his new job."],
];
const READINGS = 5;

let models = [];
let asking = new AbortController(); // of the request under way
let shown = null; // the answer that is on the page

export function start(able) {
  models = able;
  for (const [to, text] of EXAMPLES) {
    if (!models[0].styles.includes(to)) continue;
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => rewrite({ text, to }));
    $("transfer-examples").append(button);
  }
  $("transfer-model").replaceChildren(...models.map(({ name }) => element("option", { value: name }, name)));
  $("transfer-model").parentElement.hidden = models.length < 2;
  offerStyles();
  $("transfer-editor").addEventListener("submit", (event) => {
    event.preventDefault();
    rewrite({ text: $("transfer-text").value, to: $("transfer-to").value });
  });
  $("transfer-text").addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key !== "Enter") return;
    $("transfer-editor").requestSubmit();
    event.preventDefault();
  });
  $("transfer-to").addEventListener("change", () => $("transfer-editor").requestSubmit());
  $("transfer-model").addEventListener("change", () => {
    offerStyles();
    $("transfer-editor").requestSubmit();
  });
  $("marks-reset").addEventListener("click", () => rewrite({ text: shown.input, to: shown.to }));
  for (const button of $("transfer-share").querySelectorAll("[data-copies]")) {
    button.addEventListener("click", async () => say(await copyText($(button.dataset.copies))));
  }
}

/** Show what the address says, or else what was typed, or an example. */
export function open() {
  const state = stateIn(location.hash);
  const typed = $("transfer-text").value;
  if (models.some(({ name }) => name === state.get("model"))) $("transfer-model").value = state.get("model");
  offerStyles();
  const [to, example] = EXAMPLES[0];
  const mask = state.has("mask") ? state.get("mask").split(",").map(Number) : null;
  const wanted = state.get("to") ?? (typed ? $("transfer-to").value : to);
  rewrite({ text: state.get("text") ?? (typed || example), to: wanted, mask }, { remember: false });
}

function offerStyles() {
  const { styles } = models.find(({ name }) => name === $("transfer-model").value);
  $("transfer-to").replaceChildren(...styles.map((style) => element("option", { value: style }, style)));
}

function address({ text, to, mask }) {
  const state = new URLSearchParams({ view: task, text, to });
  if (mask) state.set("mask", mask.join(","));
  if ($("transfer-model").value !== models[0].name) state.set("model", $("transfer-model").value);
  return `#${state}`;
}

/** Ask for a text in a style; `mask` has the numbers of the words to replace where the user has chosen them. */
async function rewrite(wanted, { remember = true } = {}) {
  const { text, to, mask = null } = wanted;
  $("transfer-text").value = text;
  if ([...$("transfer-to").options].some((option) => option.value === to)) $("transfer-to").value = to;
  if (remember && address(wanted) !== location.hash) history.pushState(null, "", address(wanted));
  asking.abort();
  asking = new AbortController();
  const answered = wait($("view-transfer"), "Rewriting", say, asking);
  try {
    const body = { model: $("transfer-model").value, texts: [{ text, mask }], to, n: READINGS, abstain: mask === null };
    const { results: [result] } = await call("v1/transfer", body, asking.signal);
    shown = { ...result, mask };
    const { summary } = models.find(({ name }) => name === $("transfer-model").value);
    $("transfer-about").textContent = summary ? `${summary}; on other texts it is often wrong.` : "";
    say(noteOn(result));
    showMarks();
    showRewrites();
    $("transfer-link").href = address(wanted);
    $("transfer-link").textContent = $("transfer-link").href;
    $("transfer-command").textContent = commandLine();
    for (const id of ["marks", "rewrites", "transfer-share"]) $(id).hidden = false;
  } catch (error) {
    if (error.name === "AbortError") return;
    say(error.message, true);
    if (shown?.input !== text) for (const id of ["marks", "rewrites", "transfer-share"]) $(id).hidden = true;
  } finally {
    answered();
  }
}

function noteOn({ input, reads_as: { style, p }, to, unknown, rewrites }) {
  if (rewrites[0].text === input && rewrites[0].parts.length === 1) {
    return "Left unchanged: it has no clear style, or no rewrite is convincing. To replace words anyway, choose them below.";
  }
  let already = style === to ? `The text reads as ${style} already (${percent(p)}). ` : "";
  if (!already && rewrites[0].style < 0.5) already = `Nothing was found that reads as ${to}: mark other words. `;
  const words = unknown.map((word) => `“${word}”`).join(", ");
  return already + (unknown.length ? `The model does not know ${words}.` : "");
}

/** The sentence word by word; each is a button that says whether it is to be replaced. */
function showMarks() {
  const children = [];
  let position = 0;
  shown.words.forEach(({ text, weight, masked }, number) => {
    const start = shown.input.indexOf(text, position);
    const button = element("button", { type: "button", class: "mark", "aria-pressed": String(masked) }, text);
    button.title = `${percent(weight)} of the style`;
    button.addEventListener("click", () => toggle(number));
    children.push(shown.input.slice(position, start), button);
    position = start + text.length;
  });
  $("marked").replaceChildren(...children, shown.input.slice(position));
  $("marks-reset").hidden = shown.mask === null;
  const { style, p } = shown.reads_as;
  $("reads-as").textContent = `Reads as ${style} (${percent(p)}).`;
}

async function toggle(number) {
  const chosen = shown.words.flatMap(({ masked }, i) => (masked !== (i === number) ? [i] : []));
  if (!chosen.length) {
    say("Keep at least one word marked: otherwise nothing is replaced.", true);
    return;
  }
  await rewrite({ text: shown.input, to: shown.to, mask: chosen });
  $("marked").querySelectorAll("button")[number]?.focus();
}

function showRewrites() {
  const items = shown.rewrites.map(({ parts, style, content }) => {
    const text = element("span", { class: "rewrite" }, ...parts.map((part, i) => (i % 2 ? element("mark", {}, part) : part)));
    const bar = element("span", { class: "likely", "aria-hidden": "true" });
    bar.style.setProperty("--share", style);
    const numbers = element("span", { class: "p" }, `${shown.to} ${percent(style)}, kept ${percent(content)}`);
    return element("li", {}, text, bar, numbers);
  });
  $("rewrites").querySelector("ol").replaceChildren(...items);
}

function commandLine() {
  const marked = runs(shown).map((phrase) => `--mask ${quoted(phrase)} `).join("");
  const flags = `--to ${shown.to} ${shown.mask ? marked : ""}--model ${$("transfer-model").value} -n ${READINGS}`;
  return `blanklm transfer ${quoted(shown.input)} ${flags}`;
}

/** What is marked, as the phrases of the text. */
function runs({ input, words }) {
  const found = [];
  let position = 0, before = false;
  for (const { text, masked } of words) {
    const start = input.indexOf(text, position), end = start + text.length;
    if (masked && before) found.at(-1).end = end;
    else if (masked) found.push({ start, end });
    [position, before] = [end, masked];
  }
  return found.map(({ start, end }) => input.slice(start, end));
}

function say(message, wrong = false) {
  $("transfer-status").textContent = message;
  $("transfer-status").classList.toggle("wrong", wrong);
  $("transfer-text").setAttribute("aria-invalid", String(wrong));
}
