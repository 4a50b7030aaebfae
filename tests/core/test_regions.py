"""Regions drawn by tensors against regions drawn in plain Python from the same random numbers."""

import math

import pytest
import torch

from blanklm.core import regions
from blanklm.core.orders import uniform
from blanklm.core.regions import draw_regions
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer

TEXTS = [
    "We are sorry to inform you that the train is late. Please wait, or take the bus; it leaves at ten.",
    "Yes.",
    "no",
    'He said: "Go home!" and left -- without a word, as he always did... Why?',
    "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 3,
    "( ) . , ! ?",
]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train("bpe", TEXTS, vocabulary=300)


def plainly_drawn(ids, starts_word, marks, numbers):
    """The set of positions of a region, one word at a time."""
    words: list[list[int]] = []
    for position, token in enumerate(ids):
        if position == 0 or starts_word[token]:
            words.append([])
        words[-1].append(position)

    def split(word):  # the positions up to the last that is no mark, and the marks after it
        cores = [p for p in word if marks[ids[p]] == 0]
        return [p for p in word if cores and p <= cores[-1]], [p for p in word if not cores or p > cores[-1]]

    def end(word):
        return max((marks[ids[p]] for p in split(word)[1]), default=0)

    def next_end(w, kind):
        return next((v for v in range(w, len(words)) if end(words[v]) >= kind), len(words) - 1)

    def start_of_sentence(w):
        return next((v + 1 for v in range(w - 1, -1, -1) if end(words[v]) >= regions.SENTENCE_END), 0)

    region = set(range(len(ids))) if numbers[0] < regions.WHOLE_TEXT else set()
    spans = 1 + sum(numbers[1] < p for p in regions.MORE_SPANS)
    for s in range(spans):
        kind, size, place, mark = numbers[2 + 4 * s : 6 + 4 * s]
        length = max(1, min(math.floor((regions.LONGEST + 1) ** size), math.ceil(2 * len(words) / 3)))
        first = math.floor(place * (len(words) - length + 1))
        last, mark_stays = first + length - 1, mark < regions.MARK_STAYS
        w = math.floor(place * len(words))
        sense = None
        if kind < regions.TO_CLAUSE_END:
            sense = w, next_end(w, regions.CLAUSE_END), True
        elif kind < regions.TO_SENTENCE_END:
            sense = w, next_end(w, regions.SENTENCE_END), True
        elif kind < regions.SENTENCE:
            sense = start_of_sentence(w), next_end(w, regions.SENTENCE_END), False
        if sense and sense[1] - sense[0] < regions.LONGEST:
            first, last, mark_stays = sense
        core, after = split(words[last])
        region |= {p for word in words[first:last] for p in word} | set(core)
        region |= set() if mark_stays and core else set(after)
    return region


def test_regions_of_a_batch_are_those_drawn_word_by_word(tokenizer):
    ids = tokenizer.encode_many(TEXTS)
    tokens, lengths = pad(ids)
    for seed in range(300):
        seeds = torch.arange(len(ids)) + 1000 * seed
        drawn = draw_regions(
            tokens, lengths, seeds, torch.from_numpy(tokenizer.starts_word), torch.from_numpy(tokenizer.marks)
        )
        numbers = uniform(seeds ^ regions.STREAM, 18).tolist()
        for row, text in enumerate(ids):
            expected = plainly_drawn(text, tokenizer.starts_word, tokenizer.marks, numbers[row])
            assert set(drawn[row].nonzero().flatten().tolist()) == expected, (seed, TEXTS[row])
            assert expected  # something is hidden in every text


def test_lengths_of_spans_are_heavy_tailed(tokenizer):
    """Spans of one, two, ... thirty words, each length k with a share of about log((k + 1) / k)."""
    text = tokenizer.encode(TEXTS[4].strip())  # 78 words of one letter, without a mark
    draws = 4000
    tokens, lengths = pad([text] * draws)
    starts_word, marks = torch.from_numpy(tokenizer.starts_word), torch.from_numpy(tokenizer.marks)
    drawn = draw_regions(tokens, lengths, torch.arange(draws), starts_word, marks)
    runs = (drawn & ~drawn.roll(1, dims=1)).sum(1)
    alone = drawn[(runs == 1) & (drawn.sum(1) <= regions.LONGEST)].sum(1)
    shares = torch.bincount(alone, minlength=31)[1:] / len(alone)
    for k in (1, 2, 5):
        assert shares[k - 1].item() == pytest.approx(math.log((k + 1) / k) / math.log(31), abs=0.05)
    assert (shares > 0).all()
    assert 2 <= runs.max() <= 4


def test_a_text_of_nothing_has_no_region(tokenizer):
    tokens, lengths = pad([[], tokenizer.encode("no")])
    drawn = draw_regions(
        tokens, lengths, torch.arange(2), torch.from_numpy(tokenizer.starts_word), torch.from_numpy(tokenizer.marks)
    )
    assert drawn.sum(1).tolist() == [0, int(lengths[1])]
