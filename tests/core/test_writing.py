"""Writings laid out in tensors, against the same in plain Python, and their attention against a mask."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from blanklm.core.conceal import conceal
from blanklm.core.special import BLANK
from blanklm.core.texts import pad
from blanklm.core.writing import END, GAP, write_out
from blanklm.models.attention import attend


def drawn(seed):
    rng = np.random.default_rng(seed)
    texts = [rng.integers(4, 50, n).tolist() for n in rng.integers(1, 14, 5)]
    hidden = [rng.random(len(text)) < 0.5 for text in texts]
    for row in hidden:
        row[rng.integers(len(row))] = True
    return texts, hidden


def plainly(text, hidden):
    """(symbol, position, target, told, shift) of each; tokens are told their ids, spans their first, negated.

    What is written has no shift (None).
    """
    canvas, written, blanks = [], [], 0
    for i, token in enumerate(text):
        place, gaps = len(canvas), GAP * blanks
        if not hidden[i]:
            canvas.append((token, place, 0, 0, gaps))
        elif i == 0 or not hidden[i - 1]:
            canvas.append((BLANK, place, 0, 0, gaps))
            blanks += 1
            end = next((j for j in range(i, len(text)) if not hidden[j]), len(text))
            targets = [*text[i + 1 : end], END]
            written.append((BLANK, place + gaps, token, -token, None))
            written += [
                (text[j], place + gaps + 1 + j - i, target, text[j], None)
                for j, target in zip(range(i, end), targets, strict=True)
            ]
    return canvas + written


@pytest.mark.parametrize("seed", range(20))
def test_a_writing_is_each_canvas_and_then_its_spans(seed):
    texts, hidden = drawn(seed)
    tokens, lengths = pad(texts)
    shown = torch.zeros_like(tokens, dtype=torch.bool)
    for b, row in enumerate(hidden):
        shown[b, : len(row)] = torch.from_numpy(~row)
    writings = write_out(tokens, conceal(tokens, lengths, shown), -tokens, tokens)
    expected = [plainly(text, row) for text, row in zip(texts, hidden, strict=True)]
    flat = [symbol for text in expected for symbol in text]
    packing = writings.packing
    assert writings.symbols.tolist() == [symbol for symbol, *_ in flat]
    assert packing.position.tolist() == [position for _, position, *_ in flat]
    assert packing.shift.tolist() == [shift or 0 for *_, shift in flat]
    assert packing.longest == max(position + (shift or 0) for _, position, _, _, shift in flat) + 1
    assert writings.told.tolist() == [told for *_, told, _ in flat]
    assert packing.on_canvas.tolist() == [shift is not None for *_, shift in flat]
    assert writings.predicts.tolist() == [i for i, (*_, shift) in enumerate(flat) if shift is None]
    assert writings.target.tolist() == [target for _, _, target, _, shift in flat if shift is None]
    of_text = [b for b, text in enumerate(expected) for *_, shift in text if shift is None]
    assert writings.text.tolist() == of_text
    blanks = [(i, shift) for i, (symbol, *_, shift) in enumerate(flat) if symbol == BLANK]
    assert writings.begins.tolist() == [i for i, shift in blanks if shift is None]
    assert writings.canvas_blanks.tolist() == [i for i, shift in blanks if shift is not None]


@pytest.mark.parametrize("seed", range(5))
def test_a_canvas_reads_itself_and_what_is_written_reads_all_before_it(seed):
    texts, hidden = drawn(seed)
    tokens, lengths = pad(texts)
    shown = torch.zeros_like(tokens, dtype=torch.bool)
    for b, row in enumerate(hidden):
        shown[b, : len(row)] = torch.from_numpy(~row)
    packing = write_out(tokens, conceal(tokens, lengths, shown), tokens, tokens).packing
    torch.manual_seed(seed)
    q, k, v = torch.randn(3, len(packing.sequence), 2, 4).unbind(0)  # [T, H, d/H] each
    order, on_canvas = torch.arange(len(q)), packing.on_canvas
    seen = torch.where(on_canvas[:, None], on_canvas[None], order[None] <= order[:, None])
    seen &= packing.sequence[:, None] == packing.sequence[None]  # [T, T]
    expected = F.scaled_dot_product_attention(*(part.transpose(0, 1) for part in (q, k, v)), attn_mask=seen)
    torch.testing.assert_close(attend(q, k, v, packing, causal=False), expected.transpose(0, 1))
