"""The tokenizer and the decoder in JavaScript do what Python's do."""

import random

import pytest
from playwright.sync_api import Error as PlaywrightError

from blanklm import BlankLM
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.options import FillOptions
from blanklm.decoding.spans import write_spans
from blanklm.errors import BlankLMError
from blanklm.export.to_onnx import export
from blanklm.pretrained import locate
from tests.support.models import at_four_bits, make_span_blm
from tests.web.canvases import canvases

# Runs the page's own worker on one text after the other.
FILL = """([texts, n]) => new Promise((resolve, reject) => {
  const worker = new Worker("worker.js", { type: "module" }), answers = [];
  const next = () => worker.postMessage({ text: texts[answers.length], n });
  worker.onerror = (event) => reject(event.message);
  worker.onmessage = ({ data }) => {
    if (data.failed) reject(data.failed);
    if (data.ready) next();
    if (data.text === undefined) return;
    answers.push(data);
    if (answers.length < texts.length) next();
    else worker.terminate(), resolve(answers);
  };
})"""
TOKENIZE = """async ([file, texts]) => {
  const { Tokenizer } = await import("./blanklm/tokenizer.js");
  const tokenizer = new Tokenizer(JSON.parse(file), { flags: "", space: null });
  return texts.map((text) => { const ids = tokenizer.encode(text); return [ids, tokenizer.decode(ids)]; });
}"""
RUN = """async ([folder, texts]) => {
  const ort = await import("./ort.wasm.bundle.min.mjs"), { Filler } = await import("./blanklm/filler.js");
  const { body } = await fetch("model/ort-wasm-simd-threaded.wasm.gz");
  ort.env.wasm.wasmBinary = await new Response(body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  ort.env.wasm.numThreads = 1;
  const files = {};
  for (const name of ["model.onnx", "sides.onnx", "weights.bin", "config.json", "tokenizer.json"]) {
    const response = await fetch(`${folder}/${name}`);
    files[name] = name.endsWith("json") ? await response.text() : new Uint8Array(await response.arrayBuffer());
  }
  const filler = await Filler.create(ort, files), answers = [];
  for (const text of texts) answers.push(await filler.fill(text).then(([best]) => best.text, (error) => error.message));
  return answers;
}"""
WRONG = [
    "",
    " \n ",
    "no blank",
    "a \\___ that is none",
    "___[0]",
    "It was ___[5-2].",
    "One ___.\nTwo 😀 ___[x].",
    "___[2",
    "[MASK] was late",
    "Only _ or __.",
    "<extra_id_0> and <MASK>",
    "snake_case_ is_no blank_here",
    f"___[{'x' * 100}]",
    "___['a'] ___",
    """___['"\\]""",
    "one\ttab ___[\t]",
    "a" * 1_000_001,
    "___ " * 600,
    "___[510] and ___[9]",
]


@pytest.fixture(scope="module")
def page(browser, site):
    context = browser.new_context(bypass_csp=True)  # Playwright evaluates strings
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{site.url}/page.css")  # nothing runs here but what a test runs
    yield page
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("half", range(2))  # in two processes
def test_two_hundred_canvases_are_filled_as_python_fills_them(page, english, half):
    texts = canvases()
    assert len(set(texts)) == 200
    texts = texts[half::2]
    for text, fill, answer in zip(texts, english.fill(texts), page.evaluate(FILL, [texts, 1]), strict=True):
        (best,) = answer["fills"]
        assert (best["text"], best["spans"]) == (fill.text, list(fill.spans)), text
        assert best["logProb"] == pytest.approx(fill.log_prob, abs=1e-3), text


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [("english-small", 0), ("english", 1)])
def test_random_models_fill_as_in_python(page, site, name, seed):
    """They come to words of many tokens, brackets, mere spaces and dead ends, which trained models avoid."""
    tokenizer = Tokenizer.load(locate(name) / "tokenizer.json")
    model = at_four_bits(make_span_blm(seed=seed, vocabulary=len(tokenizer), max_length=96))
    model.set_vocabulary(tokenizer)
    random = BlankLM(model, tokenizer)
    export(random, site.folder / f"random-{name}")
    texts = [text for text in canvases() if len(tokenizer.encode(text)) < 48][seed::8]
    found = page.evaluate(RUN, [f"random-{name}", texts])
    fills = [drafts and request.to_fill(drafts[0]).text for request, drafts in written(random, texts)]
    assert sum(fill is not None for fill in fills) > len(texts) / 2 > 9
    for text, fill, answer in zip(texts, fills, found, strict=True):
        assert answer == (fill or "no fill was found: give the blanks other lengths"), text


def written(model, texts):
    """What the search of spans finds by itself; where it finds nothing, ``fill`` goes on in another order."""
    requests = [model.prepare(text) for text in texts]
    return zip(requests, write_spans(model.model.for_blanks("spans"), requests, FillOptions()), strict=True)


@pytest.mark.slow
def test_alternatives_are_those_of_python(page, english):
    texts = ["My ___ was late.", "She said ___[2] to me.", "___[1]___ it is!"]
    found = page.evaluate(FILL, [texts, 4])
    for fill, answer in zip(english.fill(texts, n=4), found, strict=True):
        assert [own["text"] for own in answer["fills"]] == [own.text for own in fill.ranked]


@pytest.mark.parametrize("name", ["english-small", "english"])
def test_texts_become_the_same_tokens_as_in_python(page, name):
    path = locate(name) / "tokenizer.json"
    tokenizer = Tokenizer.load(path)
    draw = random.Random(0)
    alphabets = [range(0x20, 0x7F), range(0x250), range(0x3000), range(0x2000, 0x2100), range(0x1F300, 0x1F700)]
    spaced = [*"  \t\n'sStTrRdDlLvV12½Ⅷ,.!_"]

    def text_of(alphabet):
        mixed = ([chr(draw.choice(alphabet)), draw.choice(spaced)] for _ in range(draw.randint(0, 40)))
        return "".join(map(draw.choice, mixed))

    texts = [text_of(alphabet) for alphabet in alphabets for _ in range(200)]
    found = page.evaluate(TOKENIZE, [path.read_text(encoding="utf-8"), texts])
    for text, (ids, decoded) in zip(texts, found, strict=True):
        assert ids == tokenizer.encode(text), repr(text)
        assert decoded == text


def test_a_tokenizer_that_cuts_texts_otherwise_is_refused(page):
    words = Tokenizer.train("bpe", ["A text"], vocabulary=300, lowercase=True).backend.to_str()
    with pytest.raises(PlaywrightError, match="export another model"):
        page.evaluate(TOKENIZE, [words, ["A text"]])


def test_bad_input_gets_pythons_line(page, english):
    answers = page.evaluate(FILL, [WRONG, 1])
    for text, answer in zip(WRONG, answers, strict=True):
        with pytest.raises(BlankLMError) as error:
            english.fill(text)
        assert answer["bad"] and answer["wrong"] == str(error.value), text


def test_a_character_that_is_none_is_refused_as_in_python(page, english):
    (answer,) = page.evaluate(f"() => ({FILL})([['😀 ' + String.fromCharCode(0xd83d) + ' ___'], 1])")
    with pytest.raises(BlankLMError) as error:
        english.fill("😀 \ud83d ___")
    assert answer["wrong"] == str(error.value)
