// The page: a worker loads the model and fills; here is what a visitor sees of it.

import { $, element, stateIn } from "./dom.js";

const EXAMPLES = ["She opened the ___ and ___.", "My ___ and I ___.", "I will ___ come back.", "It was ___[1-2], but we ___[2-5]."];
const SURE = [0.05, 0.15, 0.3, 0.6];

let worker; // says { loaded, total }, { starting }, { ready }, { failed }; of a fill { soFar }, then { text, fills } or { text, wrong }
let ready = false, wanted = null; // the text to fill once the model is there

function start() {
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
  addEventListener("popstate", () => stateIn(location.hash).has("text") && fillText(stateIn(location.hash).get("text"), false));
  worker = new Worker("worker.js", { type: "module" });
  worker.addEventListener("message", ({ data }) => hear(data));
  worker.addEventListener("error", (event) => fail(event.message || "the model could not be started: load the page again"));
  fillText(stateIn(location.hash).get("text") ?? ($("text").value || EXAMPLES[0]), false);
}

function hear(said) {
  if (said.total) showLoaded(said);
  else if (said.starting) starting();
  else if (said.ready) getReady(said.ready);
  else if (said.failed) fail(said.failed);
  else if (said.soFar !== undefined) $("so-far").textContent = said.soFar;
  else if (said.text === wanted) finish(said);
}

// --- Loading ----------------------------------------------------------------------------------------------------------

function showLoaded({ loaded, total }) {
  $("loading").hidden = false;
  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
  $("progress").value = loaded / total;
  $("loaded").textContent = `${megabytes(loaded)} of ${megabytes(total)} MB`;
}

function starting() {
  $("progress").removeAttribute("value");
  $("loaded").textContent = "";
  say("Starting the model …");
}

function getReady({ name, summary, licence }) {
  ready = true;
  $("loading").hidden = true;
  $("about").textContent = [name, summary, licence].filter(Boolean).join(" · ");
  fillText(wanted, false);
}

function fail(message) {
  worker.terminate();
  $("loading").hidden = true;
  say(`The model could not be loaded: ${message}`, true);
}

// --- Filling ----------------------------------------------------------------------------------------------------------

function putBlank() {
  const box = $("text"), [start, end] = [box.selectionStart, box.selectionEnd];
  const before = start === end && /\S$/.test(box.value.slice(0, start)) ? " " : "";
  const after = start === end && /^\S/.test(box.value.slice(end)) ? " " : "";
  box.setRangeText(`${before}___${after}`, start, end, "end");
  box.focus();
}

/** Fill a text; before the model is there, remember to. A later text replaces one that is on its way. */
function fillText(text, remember = true) {
  $("text").value = wanted = text;
  const address = `#${new URLSearchParams({ text })}`;
  if (remember && address !== location.hash) history.pushState(null, "", address);
  if (!ready) return;
  say("Filling …");
  worker.postMessage({ text, n: Math.min(8, Math.max(1, Math.round($("n").valueAsNumber || 1))) });
}

function finish({ fills, wrong, bad }) {
  $("so-far").textContent = "";
  $("outcome").hidden = !fills;
  if (!fills) {
    say(bad ? wrong : `This should not have happened: ${wrong}`, true);
    return;
  }
  say("");
  const choose = (i) => {
    show(fills[i]);
    buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(k === i)));
  };
  const buttons = fills.map(({ text }, i) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => choose(i));
    return button;
  });
  $("readings").hidden = fills.length < 2;
  $("readings").querySelector("ol").replaceChildren(...buttons.map((button) => element("li", {}, button)));
  choose(0);
}

/** The text with what was filled in coloured by how sure the model was of each word. */
function show({ pieces, spans, tokens }) {
  const parts = pieces.flatMap((piece, k) => (k < spans.length ? [piece, ...words(spans[k], tokens[k])] : [piece]));
  $("result").replaceChildren(...parts.filter((part) => part !== ""));
}

/** The words of a span; tokens that stand between two spaces are one word. */
function words(span, tokens) {
  let position = 0;
  const found = [];
  for (const { text, logProb } of tokens) {
    const token = position === 0 && !span.startsWith(text) ? text.trimStart() : text;
    if (!found.length || /^\s/.test(token)) found.push({ text: "", logProbs: [] });
    found.at(-1).text += token;
    found.at(-1).logProbs.push(logProb);
    position += token.length;
  }
  if (position !== span.length) return [element("span", { class: "word filled sure-2" }, span)]; // parts of characters
  return found.flatMap(({ text, logProbs }) => {
    const p = Math.exp(logProbs.reduce((a, b) => a + b) / logProbs.length);
    const word = element("span", { class: `word filled sure-${SURE.filter((least) => p >= least).length}` }, text.trimStart());
    word.title = `p = ${p.toFixed(2)}`;
    return [text.slice(0, text.length - text.trimStart().length), word];
  });
}

function say(message, wrong = false) {
  $("status").textContent = message;
  $("status").classList.toggle("wrong", wrong);
  $("text").setAttribute("aria-invalid", String(wrong));
}

if (!$("status").classList.contains("wrong")) start();
