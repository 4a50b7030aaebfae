"""Fills of spans as people leave them blank: a few neighbouring words, or a sentence, while all around them is given.

A canvas hides one to three spans of one kind: k words each, or a whole sentence each. Words are separated by
whitespace. At least two given words stand between two spans, and no more words are hidden than given; a text that is
too short for that is left out. The marks at the end of a span's last word stay, as people leave them: of "a dog, and"
it hides "a dog" and gives "___, and". A span of k words may go on over the end of a sentence. A sentence is hidden with
its mark.

What is hidden depends on the text, the kind and the seed alone. Intervals are over texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Literal
from unicodedata import category

import numpy as np

from blanklm.core.canvas import Fill
from blanklm.core.template import Blank, Template
from blanklm.data import MaskedText
from blanklm.decoding.around import ABBREVIATIONS
from blanklm.errors import DataError
from blanklm.paper.tasks.fluency import Judge
from blanklm.paper.tasks.infilling import Filler, Progress, failure, fills_of

Kind = int | Literal["sentence"]  # how many words a span has

KINDS: tuple[Kind, ...] = (1, 2, 3, 5, 8, "sentence")
MOST_SPANS = 3
BETWEEN = 2  # given words between two spans, at least
RESAMPLES = 1000
NEAR, LONG_WORD = 6, 4  # an echo: so many words from itself at most, so many letters at least

_ENDS, _CLOSING = ".!?…", "\"'”’)]»"

# Each metric is a ratio of two sums over texts (see ``_counts``).
_RATIOS = {
    "hidden": ("hidden", "blanks"),
    "written": ("written", "blanks"),
    "written_to_hidden": ("written", "hidden"),
    "exact": ("exact", "blanks"),
    "length_error": ("errors", "blanks"),
    "failure_rate": ("failures", "texts"),
    "echoes": ("echoes", "words"),
}
_NGRAMS = 4
_NOTHING = MaskedText(Template(("",), ()), ())


# --- The protocol ----------------------------------------------------------------------------------------------------


def hide_spans(text: str, kind: Kind, seed: int = 0) -> MaskedText | None:
    """Hide one to three spans of a kind; None if the text is too short for one."""
    if kind != "sentence" and kind < 1:
        raise DataError(f"a span has at least one word, not {kind}")
    places = [word.span() for word in re.finditer(r"\S+", text)]
    words = [text[start:end] for start, end in places]
    candidates = _spans_of(words, kind)
    rng = Random(f"{seed}/{kind}/{text}")
    rng.shuffle(candidates)
    wanted = rng.randint(1, MOST_SPANS)
    chosen: list[tuple[int, int]] = []
    hidden = 0
    for start, end in candidates:
        apart = all(end + BETWEEN <= other or other_end + BETWEEN <= start for other, other_end in chosen)
        if apart and 2 * (hidden + end - start) <= len(words):
            chosen.append((start, end))
            hidden += end - start
        if len(chosen) == wanted:
            break
    if not chosen:
        return None
    pieces, spans, shown_from = [], [], 0
    for start, end in sorted(chosen):
        first, last = places[start][0], places[end - 1][1]
        if kind != "sentence":
            last -= len(words[end - 1]) - _core_end(words[end - 1])
        pieces.append(text[shown_from:first])
        spans.append(text[first:last])
        shown_from = last
    return MaskedText(Template((*pieces, text[shown_from:]), (Blank(),) * len(spans)), tuple(spans))


def hide_spans_of_corpus(texts: Iterable[str], kind: Kind, seed: int = 0) -> list[MaskedText]:
    """Apply ``hide_spans`` to each text that is long enough."""
    return [masked for text in texts if (masked := hide_spans(text, kind, seed))]


def sentences(words: Sequence[str]) -> list[tuple[int, int]]:
    """Cut the words of a text into sentences [start, end); what follows the last mark is one too.

    A sentence ends at a word with one of . ! ? … if the next does not begin with a small letter; an initial or a usual
    abbreviation does not end it. A mark that stands alone, as in tokenised texts, ends it always.
    """
    ends = [i + 1 for i in range(len(words) - 1) if _ends_sentence(words[i], words[i + 1])]
    return list(zip((0, *ends), (*ends, len(words)), strict=True)) if words else []


def _spans_of(words: Sequence[str], kind: Kind) -> list[tuple[int, int]]:
    if kind != "sentence":  # any that end with a word, not with a mark that stands alone
        return [(end - kind, end) for end in range(kind, len(words) + 1) if _core_end(words[end - 1])]
    # A text's only sentence is more than is left of it, so it is never hidden.
    return [span for span in sentences(words) if _has_end(words[span[1] - 1]) and any(map(_bare, words[slice(*span)]))]


def _has_end(word: str) -> bool:
    return word.rstrip(_CLOSING).endswith(tuple(_ENDS))


def _ends_sentence(word: str, following: str) -> bool:
    if not _has_end(word):
        return False
    core = _bare(word)
    if not core:
        return True
    if word.endswith(".") and (core in ABBREVIATIONS or (len(core) == 1 and core.isalpha() and core != "i")):
        return False
    return not _bare(following, fold=False)[:1].islower()


def _is_mark(character: str) -> bool:
    return category(character)[0] in "PS"


def _core_end(word: str) -> int:
    """Return where the marks at the end of a word begin; 0 if it is nothing but marks."""
    return next((i + 1 for i in reversed(range(len(word))) if not _is_mark(word[i])), 0)


def _bare(word: str, fold: bool = True) -> str:
    """Return a word without the marks around it, in small letters: "" if it has nothing else."""
    start = next((i for i, character in enumerate(word) if not _is_mark(character)), len(word))
    core = word[start : _core_end(word)]
    return core.casefold() if fold else core


# --- The metrics -----------------------------------------------------------------------------------------------------


def evaluate_spans(
    system: Filler,
    texts: Sequence[str],
    kinds: Sequence[Kind] = KINDS,
    seed: int = 0,
    progress: Progress | None = None,
    judge: Judge | None = None,
    **options: Any,
) -> dict[str, dict[str, Any]]:
    """Hide spans of each kind, fill, and return the metrics of ``score_spans``, by kind."""
    report = {}
    known: dict[str, float] = {}  # log p of the texts that were judged: every kind has the same originals
    for kind in kinds:
        masked = hide_spans_of_corpus(texts, kind, seed)
        if progress is not None:
            progress(len(texts) - len(masked))  # those left out
        fills = fills_of(system, masked, progress=progress, **options) if masked else []
        if judge is not None:
            both = (*(m.text for m in masked), *(fill.text for fill in fills))
            unknown = dict.fromkeys(text for text in both if text not in known)
            known |= zip(unknown, judge.log_prob(list(unknown)) if unknown else (), strict=True)
        report[str(kind)] = score_spans(masked, fills, None if judge is None else known)
    return report


def score_spans(
    masked: Sequence[MaskedText], fills: Sequence[Fill], log_probs: dict[str, float] | None = None, seed: int = 0
) -> dict[str, Any]:
    """Return what is reported of the fills of one kind, None where nothing is defined, with 95 % bootstrap intervals.

    Per blank: words hidden and written, their ratio, the share of exactly the right length and the mean error of
    length. Of all written words: the share that is distinct (that of the hidden words beside it) and that echoes. These
    are of fills that do not fail. Of all texts: the share that fails, BLEU and, with the ``log_probs`` of the texts,
    perplexities per word (see tasks/fluency.py).
    """
    counts = [_counts(m, fill, log_probs) for m, fill in zip(masked, fills, strict=True)]
    names = list(_counts(_NOTHING, Fill("", (), 0.0), None if log_probs is None else {"": 0.0}))
    table = np.array([[row[name] for name in names] for row in counts]).reshape(-1, len(names))  # [texts, names]
    found = _metrics(dict(zip(names, table.sum(0).tolist(), strict=True)))
    rng = np.random.default_rng(seed)
    share = np.full(len(table), 1 / max(1, len(table)))  # [texts]
    drawn = rng.multinomial(len(table), share, RESAMPLES) if counts else ()  # [resamples, texts] how often each
    resampled = [_metrics(dict(zip(names, times @ table, strict=True))) for times in drawn]
    intervals = {name: _interval([metrics[name] for metrics in resampled]) for name in found}
    valid = [(m, fill) for m, fill in zip(masked, fills, strict=True) if failure(m, fill) is None]
    return {
        "texts": len(fills),
        "blanks": sum(len(m.spans) for m in masked),
        **found,
        # Without an interval: a resample holds texts several times, and so fewer distinct words.
        "distinct": _distinct(span for _, fill in valid for span in fill.spans),
        "hidden_distinct": _distinct(span for m, _ in valid for span in m.spans),
        "intervals": intervals,
    }


def _counts(masked: MaskedText, fill: Fill, log_probs: dict[str, float] | None) -> dict[str, float]:
    """Return what one text adds to each sum."""
    fails = failure(masked, fill) is not None
    pairs = [] if fails else [(len(h.split()), len(w.split())) for h, w in zip(masked.spans, fill.spans, strict=True)]
    original = masked.text
    counts: dict[str, float] = {
        "texts": 1,
        "failures": fails,
        "blanks": len(pairs),
        "hidden": sum(hidden for hidden, _ in pairs),
        "written": sum(written for _, written in pairs),
        "exact": sum(hidden == written for hidden, written in pairs),
        "errors": sum(abs(hidden - written) for hidden, written in pairs),
        "words": 0 if fails else sum(len(_bare_words(span)) for span in fill.spans),
        "echoes": 0 if fails else echoes(masked, fill),
    }
    counts |= _ngrams(fill.text, original)
    if log_probs is not None:
        for name, text in (("filled", fill.text), ("original", original)):
            counts |= {f"{name}_log_prob": log_probs[text], f"{name}_words": len(text.split()) + 1}
    return counts


def _metrics(sums: dict[str, float]) -> dict[str, float | None]:
    metrics = {name: _ratio(sums[above], sums[below]) for name, (above, below) in _RATIOS.items()}
    metrics["bleu"] = _bleu(sums)
    for name, metric in (("filled", "perplexity"), ("original", "original_perplexity")):
        if f"{name}_words" in sums:
            surprise = _ratio(-sums[f"{name}_log_prob"], sums[f"{name}_words"])
            metrics[metric] = None if surprise is None else float(np.exp(surprise))
    return metrics


def _ratio(above: float, below: float) -> float | None:
    return float(above / below) if below else None


def _interval(values: Sequence[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return [float(bound) for bound in np.percentile(known, (2.5, 97.5))] if known else None


def _ngrams(output: str, reference: str) -> dict[str, float]:
    """Return what BLEU counts in one text."""
    from sacrebleu.metrics import BLEU  # here, since most commands need none of it

    score = BLEU(tokenize="none", force=True).corpus_score([output], [[reference]])
    counts: dict[str, float] = {"output_length": score.sys_len, "reference_length": score.ref_len}
    for n in range(_NGRAMS):
        counts |= {f"found_{n}": score.counts[n], f"ngrams_{n}": score.totals[n]}
    return counts


def _bleu(sums: dict[str, float]) -> float | None:
    """Return ``corpus_bleu`` of the texts whose n-grams were summed."""
    from sacrebleu.metrics import BLEU

    if not sums["reference_length"]:
        return None
    found, ngrams = ([int(sums[f"{name}_{n}"]) for n in range(_NGRAMS)] for name in ("found", "ngrams"))
    lengths = int(sums["output_length"]), int(sums["reference_length"])
    return float(BLEU.compute_bleu(found, ngrams, *lengths, smooth_method="exp").score)


def _bare_words(text: str) -> list[str]:
    return [bare for word in text.split() if (bare := _bare(word))]


def _distinct(spans: Iterable[str]) -> float | None:
    words = [word for span in spans for word in _bare_words(span)]
    return _ratio(len(set(words)), len(words))


def echoes(masked: MaskedText, fill: Fill) -> int:
    """Count the written words, four letters or more, that stand within six words of themselves.

    Words that do so in the original are not counted. Case and marks around words do not matter.
    """
    filled, original = (_with_origin(masked.template, spans) for spans in (fill.spans, masked.spans))
    usual = {original[i][0] for i in _repeated(original)}
    return sum(filled[i][1] and filled[i][0] not in usual for i in _repeated(filled))


def _with_origin(template: Template, spans: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the words of a filled template, each with whether it stands in a blank."""
    words = [(word, False) for word in _bare_words(template.pieces[0])]
    for span, piece in zip(spans, template.pieces[1:], strict=True):
        words += [(word, True) for word in _bare_words(span)]
        words += [(word, False) for word in _bare_words(piece)]
    return words


def _repeated(words: Sequence[tuple[str, bool]]) -> list[int]:
    """Return where a long word stands near another occurrence of itself."""
    return [
        i
        for i, (word, _) in enumerate(words)
        if sum(map(str.isalpha, word)) >= LONG_WORD
        and any(word == other for other, _ in (*words[max(0, i - NEAR) : i], *words[i + 1 : i + 1 + NEAR]))
    ]
