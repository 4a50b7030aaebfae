"""Filling one text at a time on a CPU, against the decoder that scores left/right for the whole vocabulary.

    python benchmarks/filling.py [--size base] [--texts 40] [--out results/benchmarks/filling-cpu.json]

Both take one token a pass and give the same fills; the reference runs the MLP of (l, r) on [z; v_w] for every word w of
the vocabulary, as the paper's formula reads. The share of the encoder in our time is measured in the same run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import core
import torch
from torch.nn import functional as F

from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.draft import Draft
from blanklm.decoding.fill import fill
from blanklm.decoding.options import FillOptions
from blanklm.decoding.request import Request
from blanklm.decoding.scores import score
from blanklm.models.blm import BLM
from blanklm.paper.provenance import hardware, write_result


@torch.inference_mode()
def fill_by_the_formula(model: BLM, text: Request) -> Draft:
    """Greedy, most confident blank first: argmax over all words and sides of p(w) p(l, r | w)."""
    draft, everything = text.first_draft(), torch.arange(model.config.vocabulary)
    first_layer = torch.cat((model.sides_from_blank.weight, model.sides_from_word.weight), 1)  # [h, 2d]
    never = torch.from_numpy(text.rules.tokenizer.never_written)
    encode, encoded = model.encode, []  # the vectors that score() uses

    def kept(*packed):
        encoded.append(encode(*packed))
        return encoded[-1]

    while not draft.finished:
        model.encode = kept
        scores = score(model, [draft.items])
        model.encode = encode
        log_p_word = scores.log_p_word.masked_fill(never, -torch.inf)  # [K, V]
        blank = int(log_p_word.max(1).values.argmax())
        slot = text.rules.open_blanks(draft)[blank]
        vector = encoded[-1][draft.blanks[blank]].expand(len(everything), -1)  # [V, d]
        pair = torch.cat((vector, model.embedding(everything)), 1)  # [V, 2d]
        hidden = F.relu(F.linear(pair, first_layer, model.sides_from_blank.bias))  # [V, h]
        log_p_sides = model.sides_out(hidden).log_softmax(1)  # [V, 4]
        joint = (log_p_word[blank][:, None] + log_p_sides).masked_fill(~torch.from_numpy(slot.sides[1]), -torch.inf)
        best = int(joint.argmax())
        draft = text.rules.advance(draft, slot, best // 4, best % 4, float(joint.flatten()[best]))
    return draft


def seconds_of(call: Callable[[Request], Draft], texts: list[Request]) -> tuple[float, list[Draft]]:
    call(texts[0])  # warm-up
    started = time.perf_counter()
    drafts = [call(text) for text in texts]
    return time.perf_counter() - started, drafts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="base")
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tokenizer = Tokenizer.train("word", [f"w{i}" for i in range(core.WORDS)])
    model = core.random_model(options.size).eval()
    texts = core.texts_to_fill(model, tokenizer, core.synthetic_lines()[: options.texts])

    slow, expected = seconds_of(lambda text: fill_by_the_formula(model, text), texts)
    in_encoder = 0.0
    encode = model.encode

    def timed(*packed):
        nonlocal in_encoder
        started = time.perf_counter()
        z = encode(*packed)
        in_encoder += time.perf_counter() - started
        return z

    model.encode = timed
    with torch.inference_mode():
        fill(model, texts[:1], FillOptions())
        in_encoder = 0.0
        started = time.perf_counter()
        found = [fill(model, [text], FillOptions())[0][0] for text in texts]
        quick = time.perf_counter() - started
    same = sum(a.items == b.items for a, b in zip(expected, found, strict=True))
    words = sum(draft.steps for draft in found)
    report = {
        "benchmark": "filling", "size": options.size, "hardware": hardware("cpu"),
        "threads": torch.get_num_threads(), "texts": len(texts), "same_fills": same,
        "words_per_second": words / quick, "reference_words_per_second": words / slow, "ratio": slow / quick,
        "encoder_share": in_encoder / quick,
    }  # fmt: skip
    print(
        f"{options.size}: {words / quick:.0f} words/s, {slow / quick:.1f} times the whole-vocabulary decoder's "
        f"{words / slow:.1f}; {in_encoder / quick:.0%} of it in the encoder; {same} of {len(texts)} fills the same"
    )
    if options.out:
        write_result(options.out, report)


if __name__ == "__main__":
    main()
