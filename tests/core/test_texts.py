"""Texts in one array: padding and joining."""

import numpy as np
import torch

from blanklm.core.texts import TokenisedTexts, pad
from blanklm.training.epochs import training_epoch


def test_padding_many_texts_at_once_equals_padding_them_one_by_one():
    rng = np.random.default_rng(0)
    texts = TokenisedTexts.from_ids([rng.integers(4, 100, size=rng.integers(1, 60)).tolist() for _ in range(1000)])
    for draw in training_epoch(texts, 512, 0, 0)[:20]:
        fast, slow = texts.padded(draw.indices), pad([texts[i] for i in draw.indices])
        assert all(torch.equal(a, b) for a, b in zip(fast, slow, strict=True))


def test_empty_texts_are_left_out_and_long_ones_cut_and_both_counted():
    texts = TokenisedTexts.from_ids([[], [5, 6, 7, 8], [9]], max_length=3)
    assert (len(texts), texts.empty, texts.cut) == (2, 1, 1)
    assert texts[0].tolist() == [5, 6, 7] and texts[1].tolist() == [9]


def test_joined_texts_keep_their_styles():
    joined = TokenisedTexts.joined(
        [TokenisedTexts.from_ids(ids, style=i) for i, ids in enumerate([[[5], []], [[6, 7], [8]]])]
    )
    assert joined.styles.tolist() == [0, 1, 1] and (joined.tokens, joined.empty) == (4, 1)
    assert [text.tolist() for text in joined] == [[5], [6, 7], [8]]
    assert TokenisedTexts.joined([joined, TokenisedTexts(np.array([9]), [1])]).styles is None
