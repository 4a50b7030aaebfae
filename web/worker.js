// Fetches the model and fills, apart from the page, which stays responsive. Messages: see app.js.

import { Filler } from "./blanklm/filler.js";
import { BlankLMError } from "./blanklm/template.js";
import * as ort from "./ort.wasm.bundle.min.mjs";

const TEXTS = ["config.json", "tokenizer.json"];
const RUNTIME = "ort-wasm-simd-threaded.wasm";
const STOPPED = Symbol("a later text came");
let filler, latest = 0;

/** Fetch a compressed file; some servers send it so that the browser has unpacked it already. */
async function fetched(name, received) {
  const response = await fetch(`model/${name}.gz`).catch(() => {
    throw new BlankLMError(`${name} could not be fetched: look after the connection and load the page again`);
  });
  if (!response.ok) throw new BlankLMError(`${name} is not here (${response.status}): build the page with web/build.py`);
  const parts = [];
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    received(value.length);
  }
  const blob = new Blob(parts), [first, second] = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  const packed = first === 0x1f && second === 0x8b;
  const stream = packed ? blob.stream().pipeThrough(new DecompressionStream("gzip")) : blob.stream();
  const bytes = await new Response(stream).arrayBuffer();
  return TEXTS.includes(name) ? new TextDecoder().decode(bytes) : new Uint8Array(bytes);
}

async function load() {
  const sizes = await (await fetch("model/sizes.json")).json();
  const total = Object.values(sizes).reduce((a, b) => a + b);
  let loaded = 0;
  const received = (bytes) => postMessage({ loaded: Math.min(total, (loaded += bytes)), total });
  const names = Object.keys(sizes);
  const contents = await Promise.all(names.map((name) => fetched(name, received)));
  const files = Object.fromEntries(names.map((name, i) => [name, contents[i]]));
  postMessage({ starting: true });
  ort.env.wasm.wasmBinary = files[RUNTIME].buffer;
  ort.env.wasm.numThreads = 1; // more need headers that a plain server does not send
  ort.env.logLevel = "error";
  filler = await Filler.create(ort, files);
  postMessage({ ready: filler.config.about });
}

/** Let messages in, such as a later text. */
function breathe() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(port1.close());
    port2.postMessage(null);
  });
}

async function fill({ text, n }) {
  const number = (latest += 1);
  const watch = async (soFar) => {
    postMessage({ soFar });
    await breathe();
    if (number !== latest) throw STOPPED;
  };
  try {
    postMessage({ text, fills: await filler.fill(text, { n, watch }) });
  } catch (error) {
    if (error !== STOPPED) postMessage({ text, wrong: error.message, bad: error instanceof BlankLMError });
  }
}

onmessage = ({ data }) => fill(data);
load().catch((error) => postMessage({ failed: error.message }));
