"""A corpus as one stream: chunks, sentences and texts in context."""

import numpy as np
import pytest

from blanklm.core.special import EOS
from blanklm.core.texts import TokenisedTexts
from blanklm.errors import BlankLMError
from blanklm.paper.streams import TextsInContext, TokenStream, sentence_lengths
from blanklm.training.epochs import Draw, training_epoch, validation_epoch


def test_a_stream_is_cut_elsewhere_in_every_epoch():
    stream = TokenStream([[5, 6, 7], [], [8, 9]], 3)
    assert stream.flat.tolist() == [5, 6, 7, EOS, EOS, 8, 9, EOS] and stream.tokens == 8
    firsts = set()
    for epoch in range(30):
        members = stream.of_epoch(seed=0, epoch=epoch)
        firsts.add(int(members[0]))
        assert np.concatenate([stream[i] for i in members]).tolist() == stream.flat[members[0] :].tolist()
        drawn = sorted(i for draw in training_epoch(stream, 6, 0, epoch) for i in draw.indices)
        assert drawn == members.tolist() == stream.of_epoch(seed=0, epoch=epoch).tolist()
    assert firsts == {0, 1, 2}
    tokens, lengths = stream.padded(np.array([1, 6]))
    assert lengths.tolist() == [3, 2] and tokens.tolist() == [[6, 7, EOS], [9, EOS, 0]]
    assert stream.fingerprint != TokenStream([[5, 6, 7], [], [8, 9]], 4).fingerprint


def test_sentences_go_to_their_ends_and_take_the_ends_of_lines_with_them():
    stop = 4
    stream = [5, 6, stop, 7, stop, EOS, EOS, 8, 9, EOS, stop, 5, 6, 7, 8, 9]
    assert sentence_lengths(stream, [stop], 10) == [3, 4, 3, 1, 5]
    assert sentence_lengths(stream, [], 10) == [7, 3, 6]
    assert sentence_lengths(stream, [], 3) == [3, 3, 1, 3, 3, 3]
    assert sentence_lengths([], [stop], 3) == []


def test_texts_in_context_come_after_what_stands_before_them():
    flat = np.array([5, 6, 7, EOS, EOS, 8, 9, EOS])
    texts = TextsInContext(flat, [3, 3, 2], 2)
    tokens, lengths = texts.padded(np.arange(3))
    assert texts.given(np.arange(3)).tolist() == [0, 2, 2] and texts.sizes.tolist() == lengths.tolist() == [3, 5, 4]
    read = [row[:length].tolist() for row, length in zip(tokens, lengths, strict=True)]
    assert read == [flat[:3].tolist(), flat[1:6].tolist(), flat[4:].tolist()]
    assert texts.tokens == 8  # the context is not counted again
    batch = Draw(np.array([0, 2]), np.zeros(2), np.zeros(2)).collate(texts)
    assert batch.given.tolist() == [0, 2] and batch.lengths.tolist() == [3, 4]
    for draws in (training_epoch(texts, 10, 0, 0), validation_epoch(texts, 10)):
        assert all(draw.collate(texts).tokens.numel() <= 10 for draw in draws)  # what is read counts
    many = TextsInContext(np.full(2600, 5), [1, 25] * 100, 20)
    drawn = [many.lengths[draw.indices].mean() for draw in training_epoch(many, 900, 0, 0)]
    assert len(drawn) == 10 and min(drawn) > 5 and max(drawn) < 21  # short and long ones together
    with pytest.raises(BlankLMError, match="texts in context are parts of one stream"):
        TokenisedTexts.joined([texts, texts])
    alone = TokenisedTexts(flat, [3, 3, 2])
    assert alone.sizes.tolist() == alone.padded(np.arange(3))[1].tolist() == [3, 3, 2]
    assert Draw(np.array([0, 2]), np.zeros(2), np.zeros(2)).collate(alone).given is None
    assert texts.fingerprint != alone.fingerprint != TextsInContext(flat, [3, 3, 2], 1).fingerprint
