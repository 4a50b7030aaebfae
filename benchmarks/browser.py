"""The page that fills in the browser: bytes and seconds in Chromium, and how far its fills and scores agree.

    PYTHONPATH=src python benchmarks/browser.py [--loads 5] [--out results/benchmarks/browser-cpu.json]

Builds the page, serves it with ``python -m http.server`` over the loopback interface, and loads it in new browsers. The
canvases are those that the tests compare; scores are compared with PyTorch on each canvas as it is at first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Browser, Page, expect, sync_playwright

from blanklm import BlankLM
from blanklm.core.special import BLANK
from blanklm.paper.provenance import ROOT, hardware, write_result

sys.path.insert(0, str(ROOT))
from tests.support.browser import chromium
from tests.support.onnx_graphs import exported, kinds_of, places
from tests.support.site import Site, build_script, served
from tests.web.canvases import canvases

MODEL = "english-small"
SHOWN = [
    "She opened the ___ and ___.",
    "My ___ and I ___.",
    "I will ___ come back.",
    "It was ___[1-2], but we ___[2-5].",
]
AGREE = """(texts) => new Promise((resolve, reject) => {
  const worker = new Worker("worker.js", { type: "module" }), answers = [];
  const next = () => worker.postMessage({ text: texts[answers.length], n: 1 });
  worker.onmessage = ({ data }) => {
    if (data.failed) reject(data.failed);
    if (data.text !== undefined) answers.push(data.fills[0]);
    if (data.text !== undefined && answers.length === texts.length) resolve(answers);
    else if (data.ready || data.text !== undefined) next();
  };
})"""


@contextmanager
def chrome() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def seconds_of_a_visit(browser: Browser, site: Site) -> tuple[float, list[float]]:
    """From the address to a page that is ready, and of each example from the button to the text."""
    page = browser.new_page()
    page.set_default_timeout(120_000)
    started = time.perf_counter()
    page.goto(f"{site.url}/#text=none")
    page.locator("#status.wrong").wait_for()  # the text has no blank, which a model says that is ready
    load, fills = time.perf_counter() - started, []
    for text in SHOWN:
        before = page.locator("#result").inner_text()
        page.get_by_label("Your text").fill(text)
        started = time.perf_counter()
        page.get_by_role("button", name="Fill", exact=True).click()
        expect(page.locator("#result")).not_to_have_text(before, timeout=120_000)
        fills.append(time.perf_counter() - started)
    page.close()
    return load, fills


def agreement(page: Page, model: BlankLM, texts: list[str]) -> dict[str, Any]:
    found = page.evaluate(AGREE, texts)
    pairs = list(zip(model.fill(texts), found, strict=True))
    same = sum((fill.text, list(fill.spans)) == (own["text"], own["spans"]) for fill, own in pairs)
    far = max(abs(fill.log_prob - own["logProb"]) for fill, own in pairs)
    return {"canvases": len(texts), "same_fills": same, "log_prob_difference": far}


@torch.inference_mode()
def differences(model: BlankLM, texts: list[str], folder: Path) -> dict[str, float]:
    """The largest differences of log-probabilities between the exported graphs and PyTorch."""
    run, policy = exported(model, folder), model.model.for_blanks("spans")
    largest = dict.fromkeys(("words", "lengths", "sides"), 0.0)
    for text in texts:
        ids = torch.tensor([model.prepare(text).ids])  # [1, L]
        lengths, told = torch.tensor([ids.shape[1]]), torch.full_like(ids, -1)
        expected = policy.score_spans(ids, lengths, ids.shape[1], told)
        found = run(0, canvas=ids, lengths=lengths, blanks=places(ids), kinds=kinds_of(ids, told))
        rows = torch.arange(int((ids == BLANK).sum()))
        likely = expected.log_p_first.argmax(1)
        sides = run(1, from_blank=found["from_blank"], words=likely)["sides"][:, :2].log_softmax(1)
        possible = expected.log_p_first.isfinite()
        pairs = {
            "words": (found["log_p_word"][possible], expected.log_p_first[possible]),
            "lengths": (found["log_p_length"], expected.log_p_length),
            "sides": (sides, expected.log_p_more(rows, likely)),
        }
        largest = {name: max(largest[name], float((a - b).abs().max())) for name, (a, b) in pairs.items()}
    return largest


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--canvases", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    texts, model = canvases()[: options.canvases], BlankLM.from_pretrained(MODEL, device="cpu")
    visits = []
    with tempfile.TemporaryDirectory() as folder:
        page_folder = Path(folder) / "page"
        build_script().build(page_folder, MODEL)
        with served(page_folder, Path(folder) / "log") as site:
            for _ in range(options.loads):
                with chrome() as browser:
                    visits.append(seconds_of_a_visit(browser, site))
            requests = site.requests()
            loaded = site.size(requests) / options.loads
            with chrome() as browser:
                page = browser.new_context(bypass_csp=True).new_page()
                page.goto(f"{site.url}/page.css")
                agreed, version = agreement(page, model, texts), browser.version
        large = {path.name: path.stat().st_size / 1e6 for path in (page_folder / "model").glob("*.gz")}
        far = differences(model, texts, Path(folder) / "graphs")
    record = {
        "model": MODEL,
        "hardware": hardware("cpu"),
        "browser": f"Chromium {version}",
        "megabytes": loaded / 1e6,
        "parts": {
            "weights": large["weights.bin.gz"],
            "onnxruntime-web": large["ort-wasm-simd-threaded.wasm.gz"],
            "the rest": loaded / 1e6 - large["weights.bin.gz"] - large["ort-wasm-simd-threaded.wasm.gz"],
        },
        "seconds": {
            "load": statistics.median(load for load, _ in visits),
            "fill": statistics.median(fill for _, fills in visits for fill in fills),
        },
        "agreement": agreed,
        "differences": far,
    }
    print(record)
    if options.out:
        write_result(options.out, record)


if __name__ == "__main__":
    main()
