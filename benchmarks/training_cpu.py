"""Training speed on a CPU, against a straightforward padded implementation of the same loss.

    python benchmarks/training_cpu.py [--size small] [--seconds 20] [--threads N] [--out FILE]

The straightforward one takes texts as they come, pads their canvases to the longest, runs every layer over the padding,
and scores a row of the vocabulary and the whole MLP of (l, r) for every hidden word. Both compute the same loss to
rounding, which is checked, and take turns, a few steps each; ours also in bf16. Writes
results/benchmarks/training-cpu.json.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, count
from pathlib import Path

import core
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from blanklm.core.conceal import conceal
from blanklm.core.orders import bound, show_first, uniform_ranks
from blanklm.core.rotation import rotate
from blanklm.core.special import BLANK
from blanklm.core.texts import Batch, TokenisedTexts
from blanklm.models.blm import BLM
from blanklm.paper.provenance import hardware, write_result
from blanklm.training.epochs import Draw, training_epoch

TOKENS_PER_BATCH = 4096
STEPS_IN_TURN = 2


def padded_encoder(model: BLM, canvas: Tensor, lengths: Tensor) -> Tensor:
    """Canvases [B, C] -> z [B, C, d], padding and all."""
    encoder = model.encoder
    drop = partial(F.dropout, p=encoder.dropout.p, training=model.training)
    batch, width = canvas.shape
    rotary = encoder.rotary.angles(torch.arange(width).repeat(batch))
    mask = (torch.arange(width) < lengths[:, None])[:, None, None]  # [B, 1, 1, C]
    z = drop(model.embedding(canvas)).flatten(0, 1)  # [B C, d]
    for layer in encoder.layers:
        qkv = layer.queries_keys_values(layer.attention_norm(z)).view(len(z), 3, layer.heads, -1)
        q, k, v = qkv.unbind(1)
        q, k = rotate(q, rotary), rotate(k, rotary)
        q, k, v = (part.view(batch, width, layer.heads, -1).transpose(1, 2) for part in (q, k, v))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(len(z), -1)
        z = z + drop(layer.attention_out(attended))
        inner = F.gelu(layer.feedforward_in(layer.feedforward_norm(z)))
        z = z + drop(layer.feedforward_out(inner))
    return encoder.norm(z).view(batch, width, -1)


def padded_loss(model: BLM, batch: Batch) -> Tensor:
    """Eq. 8 of each text [B], a row of the vocabulary for each hidden word."""
    shown = show_first(uniform_ranks(batch.seeds, batch.lengths, batch.tokens.shape[1]), batch.lengths, batch.fractions)
    concealed = conceal(batch.tokens, batch.lengths, shown)
    canvas = concealed.canvas[:, : int(concealed.lengths.max())]  # [B, C]
    z = padded_encoder(model, canvas, concealed.lengths)  # [B, C, d]
    log_p_blank = model.choose(z).squeeze(-1).masked_fill(canvas != BLANK, -torch.inf).log_softmax(1)  # [B, C]
    text, position = concealed.hidden.nonzero(as_tuple=True)  # [A] each
    place, word = concealed.place[text, position], batch.tokens[text, position]
    z_word = z[text, place]  # [A, d]
    log_p_word = model.word_logits(z_word).log_softmax(1).gather(1, word[:, None]).squeeze(1)  # [A] of [A, V]
    first_layer = torch.cat((model.sides_from_blank.weight, model.sides_from_word.weight), 1)  # [h, 2d]
    pair = torch.cat((z_word, model.embedding(word)), 1)  # [A, 2d]
    hidden = F.relu(F.linear(pair, first_layer, model.sides_from_blank.bias))  # [A, h]
    sides = 2 * (concealed.left[text, position] > 0) + (concealed.right[text, position] > 0)  # [A]
    log_p_sides = model.sides_out(hidden).log_softmax(1).gather(1, sides[:, None]).squeeze(1)  # [A]
    log_probs = log_p_blank[text, place] + log_p_word + log_p_sides
    total = log_probs.new_zeros(len(batch.lengths)).index_add(0, text, log_probs)
    return bound(total, batch.lengths, concealed.hidden.sum(1), torch.lgamma(batch.lengths + 1.0))


def packed_loss(model: BLM, batch: Batch) -> Tensor:
    return model.loss(model.prepare(batch))


def packed_loss_in_bf16(model: BLM, batch: Batch) -> Tensor:
    """As ``blanklm train --precision bf16`` has it."""
    with torch.autocast("cpu", torch.bfloat16):
        return packed_loss(model, batch)


def as_they_come(texts: TokenisedTexts, epoch: int) -> Iterator[Draw]:
    """Shuffled texts, so many to a batch that a batch has as many tokens as ours on average."""
    rng = np.random.default_rng(epoch)
    each = round(TOKENS_PER_BATCH / (texts.tokens / len(texts)))
    order = rng.permutation(len(texts))
    for start in range(0, len(order), each):
        indices = order[start : start + each]
        yield Draw(indices, rng.random(len(indices)), rng.integers(2**62, size=len(indices)))


def stepper(
    model: BLM, loss: Callable[[BLM, Batch], Tensor], draws: Iterator[Draw], texts: TokenisedTexts
) -> Callable[[], int]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98))

    def step() -> int:
        draw = next(draws)
        tokens = int(texts.lengths[draw.indices].sum())
        (loss(model, draw.collate(texts)).sum() / tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return tokens

    return step


def check_equal(model: BLM, texts: TokenisedTexts) -> None:
    batch = training_epoch(texts, 512, seed=0, epoch=0)[0].collate(texts)
    with torch.no_grad():
        torch.testing.assert_close(
            padded_loss(model.eval(), batch), packed_loss(model, batch).float(), rtol=1e-4, atol=1e-3
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each, at least")
    parser.add_argument("--threads", type=int, help="of the CPU; fewer than its cores where others use it too")
    parser.add_argument("--out", type=Path, default=core.ROOT / "results" / "benchmarks" / "training-cpu.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    texts, model = TokenisedTexts.from_ids(core.synthetic_lines()), core.random_model(options.size)
    check_equal(model, texts)
    ours, in_bf16 = (
        chain.from_iterable(training_epoch(texts, TOKENS_PER_BATCH, 0, epoch) for epoch in count()) for _ in range(2)
    )
    theirs = chain.from_iterable(as_they_come(texts, epoch) for epoch in count())
    steps = {
        "packed": stepper(copy.deepcopy(model).train(), packed_loss, ours, texts),
        "packed, bf16": stepper(copy.deepcopy(model).train(), packed_loss_in_bf16, in_bf16, texts),
        "padded": stepper(copy.deepcopy(model).train(), padded_loss, theirs, texts),
    }
    seconds, tokens = Counter(), Counter()
    for step in steps.values():
        step()  # warm-up
    while min(seconds[name] for name in steps) < options.seconds:
        for name, step in steps.items():
            began = time.perf_counter()
            tokens[name] += sum(step() for _ in range(STEPS_IN_TURN))
            seconds[name] += time.perf_counter() - began
    speeds = {name: tokens[name] / seconds[name] for name in steps}
    record = {
        "benchmark": "training on a CPU", "size": options.size, "hardware": hardware("cpu"),
        "threads": torch.get_num_threads(), "load": os.getloadavg()[0],
         "tokens_per_second": speeds,
        "of_padded": {name: speed / speeds["padded"] for name, speed in speeds.items()},
    }  # fmt: skip
    print(json.dumps(record, indent=2))
    write_result(options.out, record)


if __name__ == "__main__":
    main()
