"""Whole words that BPE tokens spell on a draft: which are known, allowed, or may still grow."""

from __future__ import annotations

from collections.abc import Sequence

from blanklm.core.special import BLANK
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.constraint import Rule, bare_word


class Spelling:
    """The rules of one text about whole words. ``items`` are a draft's ids, ``origins`` the blank of each."""

    def __init__(self, by_blank: Sequence[Rule], tokenizer: Tokenizer) -> None:
        self.by_blank, self.tokenizer = by_blank, tokenizer

    def allows(self, items: tuple[int, ...], origins: tuple[int, ...], at: int) -> bool:
        """Of the words around the new token, each is allowed by the rule of every blank that it has a part of."""
        for start, end in self._words_around(items, at):
            if start > 0 and items[start - 1] == BLANK and not self.tokenizer.starts_word[items[start]]:
                continue  # its beginning is not known yet
            complete = end == len(items) or items[end] != BLANK
            for origin in set(origins[start:end]) - {-1}:
                rule = self.by_blank[origin]
                if not (rule.banned or rule.only):
                    continue
                spelt = self.tokenizer.decode(items[start:end]).strip()
                forms = {spelt.casefold(), bare_word(spelt)}
                if complete:
                    if forms & rule.banned or (rule.only and not forms & rule.only):
                        return False
                elif rule.only and items[start:end] not in rule.only_prefixes:
                    return False
                elif rule.only and origins[end] != origin and bare_word(spelt) not in rule.only:
                    return False  # what is left open beside it belongs to another blank: the word must be whole here
        return True

    def can_continue(self, items: tuple[int, ...], origins: tuple[int, ...], blank: int) -> bool:
        """Whether a blank may begin with a token that continues the word before it."""
        rule = self.by_blank[origins[blank]]
        if blank == 0 or origins[blank - 1] != origins[blank] or self.ends_required(items, origins, blank):
            return False
        if not rule.only:
            return True
        start, end = self._words_around(items, blank - 1)[0]
        return any(len(p) > end - start and p[: end - start] == items[start:end] for p in rule.only_prefixes)

    def ends_required(self, items: tuple[int, ...], origins: tuple[int, ...], end: int) -> bool:
        """Whether a whole required phrase stands right before ``end``, written into the same blank."""
        for phrase in self.by_blank[origins[end]].required:
            for spelling in (phrase.tokens, phrase.unspaced):
                start = end - len(spelling or ())
                if spelling and items[max(0, start) : end] == spelling and origins[start] == origins[end]:
                    return True
        return False

    def _words_around(self, items: tuple[int, ...], at: int) -> list[tuple[int, int]]:
        """[start, end) of the word that holds the token at ``at`` and of its neighbours, as far as they are known."""
        starts_word = self.tokenizer.starts_word

        def word_start(i: int) -> int:
            while i > 0 and not starts_word[items[i]] and items[i - 1] != BLANK:
                i -= 1
            return i

        def word_end(i: int) -> int:
            while i < len(items) and items[i] != BLANK and not starts_word[items[i]]:
                i += 1
            return i

        start, end = word_start(at), word_end(at + 1)
        words = [(start, end)]
        if start > 0 and items[start - 1] != BLANK:
            words.append((word_start(start - 1), start))
        if end < len(items) and items[end] != BLANK:
            words.append((end, word_end(end + 1)))
        return words
