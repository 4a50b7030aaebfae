// A model, its tokenizer and its decoder as one object that takes text and gives text: BlankLM.fill of the Python package.

import { asOneLine, forSentences, quotes } from "./around.js";
import { inCapitals, inSmallLetters } from "./capitals.js";
import { Model } from "./model.js";
import { writeSpans } from "./spans.js";
import { Task } from "./tasks.js";
import { BlankLMError, parseTemplate } from "./template.js";
import { BLANK, Tokenizer } from "./tokenizer.js";

const FORMAT = 1;

export class Filler {
  constructor(model, tokenizer, config) {
    Object.assign(this, { model, tokenizer, config });
  }

  /** From the files of an export, by their names: graphs and weights as bytes, the rest as text. */
  static async create(ort, files) {
    const config = JSON.parse(files["config.json"]);
    if (config.format !== FORMAT) throw new BlankLMError(`this page reads exports of format ${FORMAT}: export the model again`);
    if (config.blanks !== "spans") throw new BlankLMError("this model has learnt no spans: export one with blanks of spans");
    const tokenizer = new Tokenizer(JSON.parse(files["tokenizer.json"]), config);
    const bytes = { model: files["model.onnx"], sides: files["sides.onnx"], weights: files["weights.bin"] };
    return new Filler(await Model.create(ort, bytes), tokenizer, config);
  }

  /**
   * The best fills of a text with blanks: { text, pieces, spans, tokens, logProb }. `tokens` of each blank have a text
   * and a log-probability. `watch` is called and awaited before each pass with the text so far, ___
   * for what is open; what it throws ends the search.
   */
  async fill(text, { n = 1, watch = () => {} } = {}) {
    const template = parseTemplate(text), capitals = inCapitals(template);
    const asWritten = (part) => (capitals ? part.toUpperCase() : part);
    const canvas = this.#canvasOf(asOneLine(capitals ? inSmallLetters(template) : template));
    const sentences = forSentences(template), marks = quotes(template);
    const blanks = template.blanks.map((blank, k) => ({ ...blank, sentence: sentences[k], quotes: marks[k] }));
    const task = new Task(this.tokenizer, this.config.max_length, canvas, blanks);
    const drafts = await writeSpans(this.model, task, n, (draft) => watch(asWritten(this.#soFar(draft))));
    return drafts.map((draft) => this.#fillOf(template, canvas.spaces, task.written(draft), draft.logProb, asWritten));
  }

  #canvasOf(template) {
    const { blanks } = template, longest = this.config.max_length;
    const canvas = this.tokenizer.encodeTemplate(template), taken = canvas.ids.length;
    if (taken > longest) {
      throw new BlankLMError(
        `the text takes ${taken.toLocaleString("en")} tokens with its ${blanks.length.toLocaleString("en")} blanks, and this ` +
        `model takes at most ${longest.toLocaleString("en")}: shorten it or split it`,
      );
    }
    const needed = taken + blanks.reduce((sum, { min }) => sum + min - 1, 0);
    if (needed > longest) {
      throw new BlankLMError(
        `the text and what its blanks must hold take ${needed} tokens, and the model takes ${longest}: shorten the text ` +
        "or lower the minimum lengths",
      );
    }
    return canvas;
  }

  #fillOf({ pieces }, spaces, written, logProb, asWritten) {
    const spans = written.map((tokens, k) => asWritten(this.tokenizer.spanText(tokens.map(({ token }) => token), spaces[k])));
    const text = pieces.map((piece, k) => piece + (spans[k] ?? "")).join("");
    const tokens = written.map((own) => own.map((step) => ({ text: asWritten(this.tokenizer.decode([step.token])), logProb: step.logProb })));
    return { text, pieces, spans, tokens, logProb };
  }

  #soFar({ items }) {
    const parts = [[]];
    for (const item of items) {
      if (item === BLANK) parts.push([]);
      else parts.at(-1).push(item);
    }
    return parts.map((part) => this.tokenizer.decode(part)).join(" ___");
  }
}
