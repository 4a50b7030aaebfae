"""Measure ``choose``: sentence completion, and how far its probabilities may be trusted.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.tables.choosing OUT/ --model english english-small

A temperature and a credit per word are fitted on half of the questions made from held-out texts, with options of one
to three words, and reported on the other half. Questions whose answered sentence stands in the training texts come
apart.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from blanklm.api import BlankLM
from blanklm.data import read_corpus
from blanklm.paper.provenance import Row, write_result
from blanklm.paper.tasks.choices import Asked
from blanklm.paper.tasks.completion import of_any_length, seen_in_training, sentence_completion
from blanklm.paper.tasks.metrics import expected_calibration_error, share_interval

HELD_OUT = 400  # questions, half of them to fit the temperature
TEMPERATURES = np.round(np.arange(0.5, 6.01, 0.1), 1)
PER_WORD = np.round(np.arange(0.0, 12.01, 0.2), 1)  # nats
AT_ONCE = 32


def log_probs(model: BlankLM, questions: Sequence[Asked]) -> tuple[np.ndarray, np.ndarray]:
    """log p [N, 5] of the options of each question, and their words [N, 5]."""
    rows, words = [], []
    for start in range(0, len(questions), AT_ONCE):
        group = questions[start : start + AT_ONCE]
        parsed = [model.question(asked.text, alternatives=asked.alternatives) for asked in group]
        for asked, choices in zip(group, model.choose(parsed), strict=True):
            by_spans = {choice.spans: choice.log_prob for choice in choices.choices}
            rows.append([by_spans[row] for row in asked.alternatives])
            words.append([len(" ".join(row).split()) for row in asked.alternatives])
    return np.array(rows), np.array(words)


def accuracy(log_p: np.ndarray, answers: np.ndarray) -> Row:
    """The share of right answers, with its 95 % interval (Wilson)."""
    count, share = len(answers), float((log_p.argmax(1) == answers).mean())
    return {"questions": count, "accuracy": share, "interval": share_interval(share, count)}


def calibration(log_p: np.ndarray, answers: np.ndarray, temperature: float) -> Row:
    """How good the probabilities are: nats per question, and the calibration error of the best option."""
    p = np.exp(log_p / temperature)
    p /= p.sum(1, keepdims=True)
    best, right = p.max(1), p.argmax(1) == answers
    ece = expected_calibration_error(best.tolist(), right.tolist())
    return {"nats": float(-np.log(p[np.arange(len(p)), answers]).mean()), "ece": ece}


def fit(log_p: np.ndarray, words: np.ndarray, answers: np.ndarray) -> tuple[float, float]:
    """The temperature and the nats per word that make the answers most probable."""
    tried = [(float(temperature), float(nats)) for temperature in TEMPERATURES for nats in PER_WORD]
    return min(tried, key=lambda pair: calibration(log_p + pair[1] * words, answers, pair[0])["nats"])


def measure(name: str, device: str | None, seen: set[int]) -> Row:
    model = BlankLM.from_pretrained(name, device)
    started = time.perf_counter()
    row: Row = {"model": Path(name).name, "parameters": model.parameters, "device": str(model.model.device)}
    made = of_any_length(read_corpus("english", "valid"), HELD_OUT)
    (log_p, words), answers = log_probs(model, made), np.array([asked.answer for asked in made])
    half, rest = slice(0, len(made) // 2), slice(len(made) // 2, None)
    temperature, per_word = fit(log_p[half], words[half], answers[half])
    row |= {"temperature": temperature, "per_word": per_word}

    def both(log_p: np.ndarray, words: np.ndarray, answers: np.ndarray) -> Row:
        """By log p alone, and as fitted."""
        fitted = log_p + per_word * words
        return {
            "raw": accuracy(log_p, answers) | calibration(log_p, answers, 1.0),
            "fitted": accuracy(fitted, answers) | calibration(fitted, answers, temperature),
        }

    row["held_out"] = both(log_p[rest], words[rest], answers[rest])
    for test in ("msr", "sat"):
        asked = sentence_completion(test)
        (log_p, words), answers = log_probs(model, asked), np.array([question.answer for question in asked])
        row[test] = both(log_p, words, answers)
        parts = {f"{count} blanks": np.array([question.blanks == count for question in asked]) for count in (1, 2)}
        if test == "msr":
            parts = {"seen": np.array([number in seen for number in range(len(asked))])}
            parts["unseen"] = ~parts["seen"]
        fitted = log_p + per_word * words
        row[test] |= {part: accuracy(fitted[which], answers[which]) for part, which in parts.items() if which.any()}
    return row | {"seconds": round(time.perf_counter() - started, 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a folder")
    parser.add_argument("--model", nargs="+", default=["english"], help="bundled names or folders")
    parser.add_argument("--device")
    options = parser.parse_args()
    seen = seen_in_training(sentence_completion("msr"))
    for name in options.model:
        write_result(options.out / f"{Path(name).name}.json", measure(name, options.device, seen))
