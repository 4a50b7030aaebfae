// The exported graphs: scores of canvases, and of words with what stays beside them. Runs wherever `ort` runs.

import { BLANK } from "./tokenizer.js";

const SPAN = 1, SPAN_OF = 2, LENGTHS = 32; // kinds of blank, as models/span_blm.py numbers them
// Without it the runtime would dequantise all weights in every pass, which takes eight times as long.
const SETTINGS = { extra: { session: { disable_quant_qdq: "1" } } };

export class Model {
  constructor(ort, scores, sides) {
    Object.assign(this, { ort, scores, sides });
  }

  /** From the bytes of model.onnx, sides.onnx and weights.bin. */
  static async create(ort, { model, sides, weights }) {
    const settings = { ...SETTINGS, executionProviders: ["wasm"], externalData: [{ path: "weights.bin", data: weights }] };
    const create = (graph) => ort.InferenceSession.create(graph, settings);
    return new Model(ort, await create(model), await create(sides));
  }

  /**
   * Score blanks of canvases { items, asked }: lists of ids, and [place, words] of the blanks that are asked for. `words`
   * are those that the blank is to hold, below 0 where unknown; lengths of the other blanks are unknown.
   */
  async score(canvases) {
    const longest = Math.max(...canvases.map(({ items }) => items.length));
    const size = canvases.length * longest;
    const canvas = new BigInt64Array(size), kinds = new BigInt64Array(size); // PAD and WORDS are 0
    const blanks = canvases.flatMap(({ items, asked }, row) => {
      const told = new Map(asked);
      items.forEach((item, i) => {
        const words = told.get(i) ?? -1, kind = words >= 0 ? SPAN_OF + Math.min(words, LENGTHS - 1) : SPAN;
        canvas[row * longest + i] = BigInt(item);
        kinds[row * longest + i] = BigInt(item === BLANK ? kind : 0);
      });
      return asked.map(([at]) => BigInt(row * longest + at));
    });
    const lengths = canvases.map(({ items }) => BigInt(items.length));
    const shape = [canvases.length, longest];
    const found = await this.scores.run({
      canvas: this.#whole(canvas, shape),
      kinds: this.#whole(kinds, shape),
      lengths: this.#whole(BigInt64Array.from(lengths), [canvases.length]),
      blanks: this.#whole(BigInt64Array.from(blanks), [blanks.length]),
    });
    const row = ({ data, dims: [, width] }, r) => data.subarray(r * width, (r + 1) * width);
    return blanks.map((_, r) => ({
      logPWord: row(found.log_p_word, r),
      logPLength: row(found.log_p_length, r),
      fromBlank: row(found.from_blank, r),
    }));
  }

  /** For lists of words, one for each blank: log p [no, yes] that a blank stays to the right of each, none to the left. */
  async more(fromBlanks, words) {
    const pairs = words.flatMap((own, k) => own.map((word) => [fromBlanks[k], word]));
    const width = fromBlanks[0].length;
    const states = new Float32Array(pairs.length * width);
    pairs.forEach(([state], m) => states.set(state, m * width));
    const { sides: { data } } = await this.sides.run({
      from_blank: new this.ort.Tensor("float32", states, [pairs.length, width]),
      words: this.#whole(BigInt64Array.from(pairs, ([, word]) => BigInt(word)), [pairs.length]),
    });
    let m = 0;
    return words.map((own) => own.map(() => logSoftmax([data[4 * m], data[4 * m++ + 1]])));
  }

  #whole(values, shape) {
    return new this.ort.Tensor("int64", values, shape);
  }
}

export function logSumExp(values) {
  const highest = values.reduce((a, b) => Math.max(a, b));
  return highest + Math.log(values.reduce((sum, value) => sum + Math.exp(value - highest), 0));
}

function logSoftmax(values) {
  const total = logSumExp(values);
  return values.map((value) => value - total);
}
