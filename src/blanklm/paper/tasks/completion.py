"""Questions for ``choose``: sentence completion, and held-out texts with options of several lengths."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from blanklm.data import read_corpus
from blanklm.paper.tasks.choices import Asked

TRAINED_ON = [("english", split) for split in ("mix.0", "mix.1", "mix.2", "more.0", "more.1")]
TRAINED_ON += [("sentence_completion", "train.0")]
WINDOW = 6  # words about the blank by which a sentence is known again
LONGEST_OPTION = 3  # words
OPTIONS = 5


def sentence_completion(name: str) -> list[Asked]:
    """The questions of "msr" (one blank, five words) or "sat" (one or two blanks)."""
    asked = []
    for line in read_corpus("sentence_completion", f"{name}.questions.jsonl"):
        record = json.loads(line)
        rows = tuple((row,) if isinstance(row, str) else tuple(row) for row in record["options"])
        asked.append(Asked(record.get("natural", record["text"]), rows, "abcde".index(record["answer"])))
    return asked


def seen_in_training(questions: Sequence[Asked]) -> set[int]:
    """The numbers of the questions whose answered sentence stands in the texts that the models were trained on."""
    windows: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for number, question in enumerate(questions):
        before, *after = (question.text or "").split("___")
        left, answer = _words(before), _words(question.alternatives[question.answer][0])
        first = max(0, len(left) - WINDOW // 2)
        words = left + answer + _words(after[0])
        windows[tuple(words[first : first + WINDOW])].add(number)
    starts = {window[0] for window in windows}
    seen: set[int] = set()
    for corpus, split in TRAINED_ON:
        for line in read_corpus(corpus, split):
            words = _words(line)
            for i, word in enumerate(words):
                if word in starts:
                    seen |= windows.get(tuple(words[i : i + WINDOW]), set())
    return seen


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def of_any_length(texts: Iterable[str], count: int, seed: int = 0, longest: int = LONGEST_OPTION) -> list[Asked]:
    """Questions from held-out texts: one to ``longest`` words hidden, and beside them others that follow the same word.

    The wrong options begin as they do elsewhere in these texts, so that none is out of place at once.
    """
    rng = random.Random(seed)
    split = [words for words in (text.split() for text in texts) if 8 <= len(words) <= 40]
    after: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, words in enumerate(split):
        for i in range(1, len(words) - longest):
            after[words[i - 1].lower()].append((number, i))
    asked: list[Asked] = []
    for number in rng.sample(range(len(split)), len(split)):
        words = split[number]
        places = [i for i in range(1, len(words) - longest) if len(after[words[i - 1].lower()]) >= 4 * OPTIONS]
        if not places:
            continue
        at = rng.choice(places)
        options = [_span(words, at, rng, longest)]
        for other, i in rng.sample(after[words[at - 1].lower()], 4 * OPTIONS):
            option = _span(split[other], i, rng, longest)
            if other != number and option and option not in options and len(options) < OPTIONS:
                options.append(option)
        if len(options) < OPTIONS or not options[0]:
            continue
        hidden = words[at : at + len(options[0].split())]
        rest = hidden[-1][len(options[0].split()[-1]) :]  # the mark after the last word stays
        text = " ".join([*words[:at], "___" + rest, *words[at + len(hidden) :]])
        order = rng.sample(range(OPTIONS), OPTIONS)
        asked.append(Asked(text, tuple((options[i],) for i in order), order.index(0)))
        if len(asked) == count:
            break
    return asked


def _span(words: Sequence[str], at: int, rng: random.Random, longest: int) -> str:
    """One to ``longest`` words without a mark between or after them; nothing where the first is no word."""
    found: list[str] = []
    for word in words[at : at + rng.randint(1, longest)]:
        bare = re.match(r"[\w'’-]+", word)
        if not bare:
            break
        found.append(bare[0])
        if bare[0] != word:
            break
    return " ".join(found)
