// Restore: a damaged text in Leiden notation or EpiDoc in, its gaps restored in place, with the evidence.

import { follow } from "./api.js";
import { drawnAttribution } from "./attribution.js";
import { quoted } from "./canvas.js";
import { $, copyText, element, percent, stateIn } from "./dom.js";
import { wait } from "./waiting.js";

export const task = "restore";
export const title = "Restore";
export const box = "restore-text";

const EXAMPLES = [
  ["grc", "ἔδοξεν τῆι βουλῆι κα[. . . .] δήμωι"],
  ["grc", "ἀγαθῆι τύχηι | ἡ βουλὴ καὶ ὁ δῆ[...] | ἐτίμησε[. - - -] | ἀρετῆς ἕνε[c. 3] καὶ εὐνοί[ας]"],
  ["la", "D(is) M(anibus) | [...] vix(it) an[..] LX | h(ic) s(itus) e[..] s(it) t(ibi) t(erra) [- - -]"],
  ["la", '<ab><lb n="1"/>votum sol<gap reason="lost" quantity="3" unit="character"/>\n<lb n="2"/>libens '
    + '<gap reason="lost" extent="unknown" unit="character"/></ab>'],
];
const DEFAULTS = { language: "", notation: "", top: "20", abstain: "0.05", sure: "0", count: "letters", attribute: "yes" };
const SURE = [0.3, 0.5, 0.7, 0.9];
const LONG = 1000; // characters; a longer text is not written into a command
const SHOWN = 5; // restorations of a gap, before one asks for more
const SECTIONS = ["restored", "gaps", "restore-written", "restore-share"]; // shown with an answer

let models = [];
let asking = new AbortController(); // of the request under way
let shown = null; // the answer that is on the page
let choices = new Map(); // gap -> rank of its restoration, where the user has chosen one

const option = (name) => $(`restore-${name}`);

export function start(able) {
  models = able;
  for (const [language, text] of EXAMPLES) {
    if (!models.some((model) => [language, ""].includes(model.language))) continue;
    const button = element("button", { type: "button", lang: language }, text.replaceAll("\n", " "));
    button.addEventListener("click", () => restore({ text }));
    $("restore-examples").append(button);
  }
  $("restore-editor").addEventListener("submit", (event) => {
    event.preventDefault();
    restore({ text: $("restore-text").value });
  });
  $("restore-text").addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key !== "Enter") return;
    $("restore-editor").requestSubmit();
    event.preventDefault();
  });
  for (const name of Object.keys(DEFAULTS)) {
    option(name).addEventListener("change", () => $("restore-editor").requestSubmit());
  }
  for (const button of $("view-restore").querySelectorAll("[data-copies]")) {
    button.addEventListener("click", async () => say(await copyText($(button.dataset.copies))));
  }
  $("restore-download").addEventListener("click", download);
  const describe = ({ name, summary, licence }) => [name, summary, licence].filter(Boolean).join(" · ");
  $("restore-about").textContent = models.map(describe).join(" — ");
}

/** Show what the address says, or else what was typed, or an example. */
export function open() {
  const state = stateIn(location.hash);
  const first = EXAMPLES.find(([language]) => models.some((model) => [language, ""].includes(model.language)));
  for (const [name, value] of Object.entries(DEFAULTS)) option(name).value = state.get(name) ?? value;
  const chosen = (state.get("chosen") ?? "").split(",").filter(Boolean).map((pair) => pair.split(".").map(Number));
  const text = state.get("text") ?? ($("restore-text").value || (first ?? EXAMPLES[0])[1]);
  restore({ text, chosen: new Map(chosen) }, { remember: false });
}

function address() {
  const state = new URLSearchParams({ view: task, text: $("restore-text").value });
  for (const [name, value] of Object.entries(DEFAULTS)) if (option(name).value !== value) state.set(name, option(name).value);
  if (choices.size) state.set("chosen", [...choices].map(([gap, rank]) => `${gap}.${rank}`).join(","));
  return `#${state}`;
}

// --- Asking -----------------------------------------------------------------------------------------------------------

async function restore({ text, chosen = new Map() }, { remember = true } = {}) {
  $("restore-text").value = text;
  choices = chosen;
  if (remember && address() !== location.hash) history.pushState(null, "", address());
  asking.abort();
  asking = new AbortController();
  const answered = wait($("view-restore"), "Restoring", say, asking);
  try {
    const body = {
      texts: [text],
      language: option("language").value || null,
      notation: option("notation").value || null,
      top: Number(option("top").value),
      abstain_below: Number(option("abstain").value),
      sure: Number(option("sure").value),
      count: option("count").value,
      attribute: option("attribute").value === "yes",
    };
    const { signal } = asking;
    let begun = false; // the first gap clears what is old
    await follow("v1/restore", body, signal, (event, { gap, result }) => {
      if (signal.aborted) return;
      if (event === "gap") showGap(text, gap, begun);
      if (event === "restore") shown = result;
      begun = true;
    });
    for (const [gap, rank] of choices) if (!shown.gaps[gap - 1]?.restorations[rank]) choices.delete(gap);
    say(shown.gaps.length ? "" : "There is no gap to restore in this text.");
    for (const id of SECTIONS) $(id).hidden = id === "gaps" && !shown.gaps.length;
    $("restore-download").disabled = false;
    showAll();
  } catch (error) {
    if (error.name === "AbortError") return;
    say(error.message, true);
    for (const id of SECTIONS) $(id).hidden = true;
    shown = null;
  } finally {
    answered();
  }
}

/** Show a gap that is restored, while others are not yet. */
function showGap(text, gap, begun) {
  const list = $("gaps").querySelector("ol");
  if (!begun) {
    shown = { input: text, notation: "", passages: [], gaps: [] };
    list.replaceChildren();
    for (const id of SECTIONS) $(id).hidden = !["gaps", "restore-written"].includes(id);
    $("restore-together").hidden = true;
    $("restore-download").disabled = true; // until the text is whole
    $("view-restore").classList.remove("waiting");
  }
  if (!gap.restorations[choices.get(gap.gap)]) choices.delete(gap.gap);
  shown.gaps.push(gap);
  list.append(drawnGap(gap));
  $("restore-result").textContent = written();
}

function choose(gap, rank) {
  choices.set(gap, rank);
  history.pushState(null, "", address());
  showAll();
  $("gaps").querySelectorAll(".card")[gap - 1].querySelectorAll(".alternatives button")[rank]?.focus();
}

/** Which of its restorations a gap shows; null where the model abstained and the user has chosen none. */
function rankOf({ gap, abstained, restorations }) {
  if (choices.has(gap)) return choices.get(gap);
  return abstained || !restorations.length ? null : 0;
}

/** The document in its own notation, with what is chosen. Places are counted in characters, as the server counts. */
function written() {
  const characters = [...shown.input];
  let text = "", rest = 0;
  for (const gap of shown.gaps) {
    const rank = rankOf(gap);
    if (rank === null) continue;
    text += characters.slice(rest, gap.start).join("") + gap.restorations[rank].written;
    rest = gap.end;
  }
  return text + characters.slice(rest).join("");
}

// --- Showing ----------------------------------------------------------------------------------------------------------

function showAll() {
  $("restored-text").replaceChildren(...shown.passages.map(drawnPassage));
  const attributions = shown.passages.map(({ attribution }) => attribution).filter(Boolean);
  $("attribution").hidden = !attributions.length;
  $("attribution").querySelector("div").replaceChildren(...attributions.map(drawnAttribution));
  $("gaps").querySelector("ol").replaceChildren(...shown.gaps.map(drawnGap));
  showTogether();
  $("restore-result").textContent = written();
  $("restore-command").textContent = commandLine();
  $("restore-link").href = address();
  $("restore-link").textContent = $("restore-link").href;
}

function drawnPassage({ parts, language }) {
  const children = parts.map((part) => (typeof part === "string" ? part : inPlace(shown.gaps[part - 1])));
  return element("p", { lang: language === "greek" ? "grc" : "la" }, ...children);
}

/** The class of the colour of a probability. */
function shade(probability) {
  return `sure-${SURE.filter((bound) => probability >= bound).length}`;
}

/** A gap in the running text: a link to its card. */
function inPlace(gap) {
  const rank = rankOf(gap);
  const link = element("a", { href: `#gap-${gap.gap}`, class: "lacuna" });
  link.setAttribute("aria-label", `Gap ${gap.gap}: ${rank === null ? "not restored" : gap.restorations[rank].text}`);
  link.append(...(rank === null ? [element("span", { class: "blank" }, String(gap.gap))] : ["[", ...letters(gap, rank), "]"]));
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const card = $(`gap-${gap.gap}`);
    card.scrollIntoView({ block: "nearest" });
    card.focus();
  });
  return link;
}

/** A restoration letter by letter; how sure the model is of each is known for the best. */
function letters({ restorations, confidence, places }, rank) {
  if (rank !== 0) return [element("span", { class: `filled ${shade(restorations[rank].probability)}` }, restorations[rank].text)];
  return [...restorations[0].text].map((letter, i) => {
    const drawn = element("span", { class: `filled ${shade(confidence[i])}` }, letter);
    const others = Object.entries(places[i]).slice(0, 5).map(([other, p]) => `${visible(other)} ${percent(p)}`);
    drawn.title = others.join(", ");
    return drawn;
  });
}

function drawnGap(gap) {
  const { gap: number, line, column, before, behind, reason, restorations, lengths, parallels } = gap;
  const rank = rankOf(gap);
  const heading = element("h3", {}, element("span", { class: "blank" }, String(number)), " ",
    element("span", { class: "hint" }, `line ${line}, column ${column}: ${extent(gap)}`));
  const children = [heading];
  if (restorations.length) {
    const [left, right] = [before, behind].map((context) => context.replaceAll("-", "[…]"));
    children.push(element("p", { class: "context" }, `… ${left}[`, ...(rank === null ? ["…"] : letters(gap, rank)), `]${right} …`));
    children.push(restorationsOf(gap, rank));
  }
  if (reason) children.push(element("p", { class: "hint" }, `${rank === null ? "Left as it is" : "The model would leave it"}: ${reason}.`));
  if (rank === 0) children.push(lettersTable(gap));
  if (Object.keys(lengths).length > 1) children.push(lengthBars(gap));
  if (parallels.length) children.push(element("div", {}, element("h4", {}, "Parallels"), element("ul", { class: "parallels" }, ...parallels.map(drawnParallel))));
  return element("li", { class: "card", id: `gap-${number}`, tabindex: "-1" }, ...children);
}

function extent({ min, max, unit }) {
  if (min === null) return "extent unknown";
  if (min === max) return `${min} ${min > 1 ? unit : unit.slice(0, -1)}`;
  return max === null ? `at least ${min} ${unit}` : `${min} to ${max} ${unit}`;
}

function restorationsOf({ gap, restorations }, rank) {
  const best = restorations[0].probability || 1;
  const items = restorations.map(({ text, probability, formula }, i) => {
    const bar = element("span", { class: "likely", "aria-hidden": "true" });
    bar.style.setProperty("--share", probability / best);
    const button = element("button", { type: "button", "aria-pressed": String(i === rank) },
      element("span", {}, `[${text}]`), bar, element("span", { class: "p" }, percent(probability)));
    if (formula) button.append(element("span", { class: "hint" }, `formula: ${formula}`));
    button.addEventListener("click", () => choose(gap, i));
    return element("li", i < SHOWN || i === rank ? {} : { hidden: "" }, button);
  });
  const list = element("ul", { class: "alternatives", "aria-label": `Restorations of gap ${gap}` }, ...items);
  if (items.some((item) => item.hidden)) {
    const more = element("button", { type: "button" }, `${items.filter((item) => item.hidden).length} more`);
    more.addEventListener("click", () => {
      for (const item of items) item.hidden = false;
      more.parentElement.remove();
    });
    list.append(element("li", {}, more));
  }
  return list;
}

/** Each letter of the best restoration, and what else competes for its place. */
function lettersTable({ gap, restorations, confidence, places }) {
  const columns = [...restorations[0].text].map((letter, i) => {
    const others = Object.entries(places[i]).filter(([, p]) => p >= 0.01).slice(0, 4);
    const rows = others.map(([other, p]) => element("span", {}, `${visible(other)} `, element("span", { class: "p" }, percent(p))));
    const head = element("span", { class: `filled ${shade(confidence[i])}` }, visible(letter));
    return element("li", {}, head, ...rows);
  });
  return element("details", {}, element("summary", {}, "Letter by letter"),
    element("ol", { class: "letters", "aria-label": `The letters of gap ${gap}, with what else could stand there` }, ...columns));
}

function lengthBars({ gap: number, lengths, unit }) {
  const known = Object.entries(lengths).map(([length, p]) => [Number(length), p]).sort(([a], [b]) => a - b);
  const highest = Math.max(...known.map(([, p]) => p));
  const bars = known.filter(([, p]) => p >= highest / 100).map(([length, p]) => {
    const bar = element("span", { class: "bar-of", "aria-hidden": "true" });
    bar.style.setProperty("--share", p / highest);
    const item = element("li", { title: `${length} ${unit}: ${percent(p)}` }, bar, element("span", {}, String(length)));
    item.append(element("span", { class: "unseen" }, ` ${unit}: ${percent(p)}`));
    return item;
  });
  return element("div", {}, element("h4", {}, `Length, in ${unit}`),
    element("ol", { class: "lengths", "aria-label": `How long gap ${number} may be` }, ...bars));
}

function drawnParallel({ words, texts, examples, before, behind }) {
  const names = examples.join("; ") + (texts > examples.length ? " and others" : "");
  return element("li", {}, `${before} `, element("em", {}, words), ` ${behind} `,
    element("span", { class: "p" }, `${texts} text${texts > 1 ? "s" : ""}: ${names}`));
}

/** What restores all the gaps of a passage at once. */
function showTogether() {
  const several = shown.passages.filter(({ gaps, hypotheses }) => gaps.length > 1 && hypotheses.length);
  const items = several.flatMap(({ gaps, hypotheses }) => hypotheses.slice(0, SHOWN).map(({ restorations, probability }) => {
    const button = element("button", { type: "button" }, element("span", {}, restorations.map((text) => `[${text}]`).join(" … ")),
      element("span", { class: "p" }, percent(probability)));
    button.addEventListener("click", () => {
      gaps.forEach((gap, i) => {
        const rank = shown.gaps[gap - 1].restorations.findIndex(({ text }) => text === restorations[i]);
        if (rank >= 0) choices.set(gap, rank);
      });
      history.pushState(null, "", address());
      showAll();
    });
    return element("li", {}, button);
  }));
  $("restore-together").hidden = !items.length;
  $("restore-together").querySelector("ol").replaceChildren(...items);
}

function commandLine() {
  const flags = [];
  for (const [name, flag] of [["language", "--language"], ["notation", "--notation"], ["top", "--top"], ["abstain", "--abstain-below"], ["sure", "--sure"], ["count", "--count"]]) {
    if (option(name).value !== DEFAULTS[name]) flags.push(` ${flag} ${option(name).value}`);
  }
  if (option("attribute").value === "yes") flags.push(" --attribute");
  const source = shown.input.length > LONG ? `--file ${fileName("damaged")}` : quoted(shown.input);
  return `blanklm restore ${source}${flags.join("")} --details`;
}

// --- Small things -----------------------------------------------------------------------------------------------------

function fileName(what) {
  return `${what}.${shown.notation === "epidoc" ? "xml" : "txt"}`;
}

function download() {
  const link = element("a", { download: fileName("restored"), href: URL.createObjectURL(new Blob([written()])) });
  link.click();
  URL.revokeObjectURL(link.href);
}

function visible(text) {
  return text === " " ? "␣" : text;
}

function say(message, wrong = false) {
  $("restore-status").textContent = message;
  $("restore-status").classList.toggle("wrong", wrong);
  $("restore-text").setAttribute("aria-invalid", String(wrong));
}
