"""Blanks as people write them: regions of a text that are hidden while everything else is given.

A region is one to four spans of whole words. Their lengths are heavy-tailed; some end where a clause or a sentence
ends, some are whole sentences. Inside the region orders are uniform, so the model learns p(region | rest) with the
bound of Eq. 8 over the k tokens of the region: - log k! - k / (k - t) * sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blanklm.core.orders import uniform

MARK, CLAUSE_END, SENTENCE_END = 1, 2, 3  # what a token is that has no letter and no digit (``Tokenizer.marks``)

LONGEST = 30  # words in a span
MORE_SPANS = (0.40, 0.20, 0.08)  # the probability of at least two, three, four spans
WHOLE_TEXT = 0.04  # the probability that nothing is given
# Kinds of span, by the upper end of each kind's share of [0, 1): to the end of its clause, of its sentence, a whole
# sentence; the rest have a length that is log-uniform in 1..LONGEST.
TO_CLAUSE_END, TO_SENTENCE_END, SENTENCE = 0.15, 0.30, 0.40
MARK_STAYS = 0.6  # the probability that the mark after the last word of a span of drawn length is given
NUMBERS = 4  # random numbers per span: kind, length, place, mark
STREAM = 0x5DEECE66D  # tells the random numbers of regions from those of orders


@dataclass(frozen=True)
class Words:
    """Where the words of texts [B, L] begin and end; W is their greatest number, L at most."""

    of: Tensor  # [B, L] the number of the word that a position belongs to; -1 on padding
    count: Tensor  # [B]
    after_core: Tensor  # [B, L] whether a position holds a mark after the last letter or digit of its word
    has_core: Tensor  # [B, W] whether a word has a letter or a digit
    end: Tensor  # [B, W] CLAUSE_END or SENTENCE_END if a mark at the end of the word says so, else less

    @classmethod
    def of_texts(cls, tokens: Tensor, lengths: Tensor, starts_word: Tensor, marks: Tensor) -> Words:
        """Find the words of ``tokens`` [B, L]; ``starts_word`` and ``marks`` [V] are what ``Tokenizer`` says."""
        width = tokens.shape[1]
        position = torch.arange(width, device=tokens.device).expand_as(tokens)
        inside = position < lengths[:, None]  # [B, L]
        starts = starts_word[tokens] | (position == 0)
        word = (starts & inside).cumsum(1) - 1  # [B, L]; padding has the number of the last word
        mark = marks[tokens].long()  # [B, L]
        core = torch.full_like(word, -1)  # [B, W] the last position of each word that is no mark
        core.scatter_reduce_(1, word.clamp_min(0), torch.where(inside & (mark == 0), position, -1), "amax")
        after_core = inside & (position > core.gather(1, word.clamp_min(0)))
        end = torch.zeros_like(word).scatter_reduce_(1, word.clamp_min(0), torch.where(after_core, mark, 0), "amax")
        return cls(torch.where(inside, word, -1), (starts & inside).sum(1), after_core, core >= 0, end)

    def next_end(self, kind: int) -> Tensor:
        """[B, W] the first word from each on that ends a clause or more (``kind``); the last word, if none does."""
        number = torch.arange(self.end.shape[1], device=self.end.device).expand_as(self.end)
        found = torch.where(self.end >= kind, number, self.count[:, None] - 1)
        return found.flip(1).cummin(1).values.flip(1).maximum(number)

    def sentence_start(self) -> Tensor:
        """[B, W] the first word of the sentence that each word is in."""
        number = torch.arange(self.end.shape[1], device=self.end.device).expand_as(self.end)
        after_end = torch.where(self.end >= SENTENCE_END, number + 1, 0)
        starts = after_end.roll(1, dims=1)
        starts[:, 0] = 0
        return starts.cummax(1).values


def draw_regions(tokens: Tensor, lengths: Tensor, seeds: Tensor, starts_word: Tensor, marks: Tensor) -> Tensor:
    """Draw the region [B, L] of each text by its own seed [B]: at least one token of every text that has one."""
    words = Words.of_texts(tokens, lengths, starts_word, marks)
    clause_end, sentence_end = words.next_end(CLAUSE_END), words.next_end(SENTENCE_END)  # [B, W] each
    sentence_start = words.sentence_start()  # [B, W]
    spans = len(MORE_SPANS) + 1
    numbers = uniform(seeds ^ STREAM, 2 + NUMBERS * spans)  # [B, .]
    whole, more = numbers[:, 0] < WHOLE_TEXT, numbers[:, 1]
    region = whole[:, None] & (words.of >= 0)  # [B, L]
    for s in range(spans):
        kind, size, place, mark = numbers[:, 2 + NUMBERS * s :].unbind(1)[:NUMBERS]  # [B] each
        length = torch.pow(LONGEST + 1.0, size).long()  # [B] log-uniform in 1..LONGEST
        length = torch.minimum(length, (2 * words.count + 2) // 3).clamp_min(1)  # two thirds of a short text
        first = (place * (words.count - length + 1)).long()  # [B]
        last, trimmed = first + length - 1, mark < MARK_STAYS
        anywhere = (place * words.count).long()[:, None]  # [B, 1] a word that a span by sense is drawn around
        by_sense = (
            (kind < TO_CLAUSE_END, anywhere, clause_end, True),
            ((kind >= TO_CLAUSE_END) & (kind < TO_SENTENCE_END), anywhere, sentence_end, True),
            ((kind >= TO_SENTENCE_END) & (kind < SENTENCE), sentence_start.gather(1, anywhere), sentence_end, False),
        )
        for drawn, start, ends, mark_stays in by_sense:
            end = ends.gather(1, anywhere)  # [B, 1]
            drawn = drawn & ((end - start).squeeze(1) < LONGEST)
            first, last = torch.where(drawn, start.squeeze(1), first), torch.where(drawn, end.squeeze(1), last)
            trimmed = torch.where(drawn, mark_stays, trimmed)
        span = (words.of >= first[:, None]) & (words.of <= last[:, None])  # [B, L]
        trimmed = trimmed & words.has_core.gather(1, last[:, None].clamp_min(0)).squeeze(1)
        span = span & ~(trimmed[:, None] & words.after_core & (words.of == last[:, None]))
        wanted = more < MORE_SPANS[s - 1] if s else torch.ones_like(whole)
        region = region | (span & wanted[:, None])
    return region & (words.of >= 0)
