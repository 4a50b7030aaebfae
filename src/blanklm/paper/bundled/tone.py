"""The bundled model ``tone``: the bundled English model, steered to write in a negative or a positive tone.

    pip install vaderSentiment==3.3.2
    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.tone OUT [--seconds 900]

Texts: sentences of the English corpus that VADER (Hutto and Gilbert 2014) is sure of, and Yelp reviews put into print.
First the votes learn to tell the styles apart; then the vectors learn to write the words that the votes find. All else
of the model is left as it is. Half an hour on two CPU cores with bfloat16. Writes OUT/model and OUT/result.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from blanklm import pretrained
from blanklm.core.regions import draw_regions
from blanklm.core.texts import Batch, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.data.readers import read_lines
from blanklm.data.registry import data_root
from blanklm.errors import DataError
from blanklm.models.llama import LlamaEncoder
from blanklm.models.span_blm import SpanBLM
from blanklm.models.steered_span_blm import SteeredSpanBLM
from blanklm.models.tone import Tone, ToneConfig
from blanklm.paper.provenance import hardware, write_result
from blanklm.training import checkpoint, sums
from blanklm.transfer.marking import carriers

STYLES = ["negative", "positive"]
ABOUT = {
    "name": "tone",
    "summary": "Rewrites everyday English from negative to positive and back; stands on the model english",
    "language": "English",
    "licence": "CC BY-SA 4.0",
    "data": "sentences of the English corpus that a lexicon of sentiment is sure of, and Yelp reviews",
}
SURE = 0.45  # the least score of a sentence by VADER, of 1
# Openings of chat, and topics rather than tone: a death or an illness is sad, and yet no critical remark.
LEFT_OUT = re.compile(
    r"\?|please|thank|^(?:yes|ok|okay|no|sure|great|hi|hello|well|right|oh|perfect|awesome)\b"
    r"|\b(?:kill|die[sd]?\b|dying|dead|death|murder|prison|jail|arrest|attack|war\b|wars|army|bomb|crim|guilty|victim|"
    r"disease|cancer|accident|injur|weapon|gun\b|guns|shoot|shot\b|steal|stole|thief|thieve|rape|suicid|terror|hell\b|slave|"
    r"blood|battle|enem|fire[ds]?\b|defeat|prize|award|medal|champion|elected|festival|sick|\bill\b|vomit|pain|hurt|"
    r"wound|\bpoor\b|poverty|hungry|homeless|blind|\bdeaf|\bcry\b|cried|cries)",
    re.IGNORECASE,
)
_JOINED = re.compile(r" (?=(?:n['’]t|['’](?:s|ve|m|ll|re|d))\b|[.,:;!?)](?!\w))|(?<=\() ")


@dataclass(frozen=True)
class Schedule:
    sentences: int = 60_000  # to learn from, at most
    held_out: int = 600
    epochs: int = 4  # of the votes
    sentences_per_step: int = 256
    votes_rate: float = 2e-3
    sparse: float = 0.02  # weight of the votes' size: what says nothing should not vote
    seconds: float = 900.0  # of the vectors
    tokens: int = 1500  # of a step
    vectors_rate: float = 1e-2  # falls to nothing
    carriers: float = 0.7  # the share of canvases that hide what carries the style; the others hide what is drawn
    seed: int = 0


@dataclass(frozen=True)
class Sentence:
    ids: list[int]
    style: int
    carries: np.ndarray | None = None  # [L] the tokens of words that carry the style


# --- Texts ------------------------------------------------------------------------------------------------------------


def put_into_print(text: str) -> str:
    """Write a tokenised review as print has it."""
    text = re.sub(r"\bi\b", "I", _JOINED.sub("", text))
    return text[:1].upper() + text[1:]


def reviews(split: str) -> Iterator[tuple[str, int]]:
    for style in range(2):
        for line in read_lines(data_root() / "yelp" / f"{split}.{style}.xz"):
            if "_" not in line and 4 <= len(line.split()) <= 16:
                yield put_into_print(line.strip()), style


def everyday(parts: Sequence[str] = ("mix.0", "mix.1", "mix.2")) -> Iterator[tuple[str, int]]:
    """Sentences whose words, by the lexicon, all point one way."""
    try:
        scores = importlib.import_module("vaderSentiment.vaderSentiment").SentimentIntensityAnalyzer().polarity_scores
    except ImportError:
        raise DataError("labels come from VADER, which is not installed: pip install vaderSentiment==3.3.2") from None
    for part in parts:
        for line in read_lines(data_root() / "english" / f"{part}.txt.xz"):
            if (
                not 3 <= len(line.split()) <= 22
                or not line[0].isupper()
                or line[-1] not in ".!"
                or LEFT_OUT.search(line)
            ):
                continue
            found = scores(line)
            if found["compound"] >= SURE and not found["neg"]:
                yield line, 1
            elif found["compound"] <= -SURE and not found["pos"]:
                yield line, 0


def balanced(texts: Iterator[tuple[str, int]], most: int, chance: random.Random) -> list[tuple[str, int]]:
    """As many texts of either style, ``most`` in all, shuffled."""
    by_style: list[list[str]] = [[], []]
    for text, style in dict(texts).items():
        by_style[style].append(text)
    for some in by_style:
        chance.shuffle(some)
    kept = [(text, style) for style in range(2) for text in by_style[style][: min(most // 2, *map(len, by_style))]]
    chance.shuffle(kept)
    return kept


def encoded(texts: Sequence[tuple[str, int]], tokenizer: Tokenizer) -> list[Sentence]:
    ids = tokenizer.encode_many([text for text, _ in texts])
    return [Sentence(own, style) for own, (_, style) in zip(ids, texts, strict=True) if 2 <= len(own) <= 64]


# --- Votes ------------------------------------------------------------------------------------------------------------


def in_groups(sentences: Sequence[Sentence], size: int) -> Iterator[Sequence[Sentence]]:
    for start in range(0, len(sentences), size):
        yield sentences[start : start + size]


def read(tone: Tone, base: SpanBLM, sentences: Sequence[Sentence]) -> list[Tensor]:
    """The states [L, d] of each sentence that the votes read."""
    states: list[Tensor] = []
    for group in in_groups(sentences, 128):
        tokens, lengths = pad([sentence.ids for sentence in group])  # [B, L], [B]
        states += tone.states(base, tokens, lengths).bfloat16().split(lengths.tolist())
    return states


def totals(tone: Tone, states: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The logits [B, S] of sentences, and how large the votes are in each [B]."""
    votes = tone.votes(torch.cat(list(states)))  # [T, S]
    row = torch.arange(len(states)).repeat_interleave(torch.tensor([len(part) for part in states]))  # [T]
    logits = votes.new_zeros(len(states), votes.shape[1]).index_add(0, row, votes)
    return logits, votes.new_zeros(len(states)).index_add(0, row, (votes[:, 1] - votes[:, 0]).abs())


def learn_votes(tone: Tone, states: Sequence[Tensor], styles: Tensor, schedule: Schedule) -> None:
    parts = [tone.votes_norm, tone.votes_in, tone.votes_out]
    parameters = [parameter for part in parts for parameter in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=schedule.votes_rate, weight_decay=0.05)
    for _ in range(schedule.epochs):
        for group in torch.randperm(len(states)).split(schedule.sentences_per_step):
            logits, sizes = totals(tone, [F.dropout(states[i].float(), 0.1) for i in group.tolist()])
            loss = F.cross_entropy(logits, styles[group]) + schedule.sparse * sizes.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.inference_mode()
def best_temperature(tone: Tone, states: Sequence[Tensor], styles: Tensor) -> float:
    logits = totals(tone, states)[0]
    return min((round(0.5 + 0.1 * i, 1) for i in range(40)), key=lambda t: float(F.cross_entropy(logits / t, styles)))


@torch.inference_mode()
def right(tone: Tone, base: SpanBLM, sentences: Sequence[Sentence]) -> float:
    """The percentage of sentences whose style the votes tell."""
    styles = torch.tensor([sentence.style for sentence in sentences])
    return 100 * float((totals(tone, read(tone, base, sentences))[0].argmax(1) == styles).float().mean())


@torch.inference_mode()
def with_carriers(
    tone: Tone, states: Sequence[Tensor], sentences: Sequence[Sentence], tokenizer: Tokenizer
) -> list[Sentence]:
    """Sentences of which the votes think as their label says, with the words that carry the style."""
    kept = []
    for part, sentence in zip(states, sentences, strict=True):
        votes = tone.votes(part)  # [L, 2]
        own = (votes[:, sentence.style] - votes[:, 1 - sentence.style]).numpy()  # [L]
        if own.sum() <= 0:
            continue
        first = tokenizer.starts_word[sentence.ids].copy()
        first[0] = True
        word = first.cumsum() - 1  # [L]
        weights = np.zeros(word[-1] + 1)
        np.add.at(weights, word, own)
        chosen = np.isin(word, list(carriers(weights.tolist()))) & (tokenizer.marks[sentence.ids] == 0)
        kept.append(replace(sentence, carries=None if chosen.all() else chosen))
    return kept


# --- Vectors ----------------------------------------------------------------------------------------------------------


class Canvases:
    """Draws what is hidden of sentences, and how much of that is written already."""

    def __init__(self, model: SteeredSpanBLM, schedule: Schedule) -> None:
        self.model, self.share, self.chance = model, schedule.carriers, torch.Generator().manual_seed(schedule.seed)

    def targets(self, sentences: Sequence[Sentence], styles: Tensor) -> Any:
        tokens, lengths = pad([sentence.ids for sentence in sentences])  # [B, L], [B]
        seeds = torch.randint(2**40, (len(sentences),), generator=self.chance)
        fractions = torch.rand(len(sentences), generator=self.chance, dtype=torch.float64)
        model = self.model
        region = draw_regions(tokens, lengths, seeds, model.starts_word, model.marks)  # [B, L]
        by_style = torch.rand(len(sentences), generator=self.chance) < self.share
        for row, sentence in enumerate(sentences):
            if sentence.carries is not None and by_style[row]:
                region[row] = False
                region[row, : len(sentence.ids)] = torch.from_numpy(sentence.carries)
        return model.prepare_styled(Batch(tokens, lengths, fractions, seeds, styles=styles), region)


def steps(sentences: Sequence[Sentence], tokens: int, chance: random.Random) -> Iterator[list[Sentence]]:
    """Groups of about so many tokens, without end."""
    while True:
        order, group = list(sentences), list[Sentence]()
        chance.shuffle(order)
        for sentence in order:
            group.append(sentence)
            if sum(len(one.ids) for one in group) >= tokens:
                yield group
                group = []


def learn_vectors(
    model: SteeredSpanBLM, sentences: Sequence[Sentence], schedule: Schedule, say: Callable[[str], None]
) -> tuple[int, int]:
    """Learn for so many seconds; return the steps and the tokens read."""
    optimizer = torch.optim.Adam([model.vectors], lr=schedule.vectors_rate, betas=(0.9, 0.98))
    canvases, started, done, read_so_far = Canvases(model, schedule), time.perf_counter(), 0, 0
    for group in steps(sentences, schedule.tokens, random.Random(schedule.seed)):
        passed = (time.perf_counter() - started) / schedule.seconds
        if passed >= 1:
            break
        for settings in optimizer.param_groups:
            settings["lr"] = schedule.vectors_rate * min(1, (done + 1) / 20) * (1 + math.cos(math.pi * passed)) / 2
        targets = canvases.targets(group, torch.tensor([sentence.style for sentence in group]))
        loss = model.loss(targets).sum() / int(targets.tokens.sum())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        done, read_so_far = done + 1, read_so_far + int(targets.tokens.sum())
        if done % 50 == 0:
            say(f"step {done}, loss {float(loss.detach()):.3f}")
    return done, read_so_far


@torch.inference_mode()
def losses(model: SteeredSpanBLM, sentences: Sequence[Sentence], schedule: Schedule) -> dict[str, float]:
    """Nats per token on canvases that hide what carries the style: told the style, and told the other."""
    found = {}
    for name, flip in (("own", 0), ("other", 1)):
        canvases, total, count = Canvases(model, replace(schedule, carriers=1.0)), 0.0, 0
        for group in in_groups(sentences, 64):
            targets = canvases.targets(group, torch.tensor([sentence.style ^ flip for sentence in group]))
            total, count = total + float(model.loss(targets).sum()), count + int(targets.tokens.sum())
        found[name] = round(total / count, 4)
    return found


# --- The whole --------------------------------------------------------------------------------------------------------


def make(out: Path, schedule: Schedule, base_name: str, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Learn and measure; write OUT/model and OUT/result.json."""
    started, chance = time.perf_counter(), random.Random(schedule.seed)
    torch.manual_seed(schedule.seed)
    folder = pretrained.locate(base_name)
    loaded = checkpoint.load(folder)
    base, tokenizer = loaded.model.to(torch.bfloat16).requires_grad_(False), loaded.tokenizer
    assert isinstance(base, SpanBLM)
    assert isinstance(base.encoder, LlamaEncoder)
    known = (base.config.vocabulary, base.config.max_length, len(base.encoder.layers), base.config.encoder.width)
    config = ToneConfig(*known, STYLES, base_name, sums.written_in(folder)[sums.TENSORS])
    tone = Tone(replace(config, votes_above=min(config.votes_above, config.layers)))
    sources = {
        "everyday": balanced(everyday(), schedule.sentences * 2 // 3 + schedule.held_out, chance),
        "reviews": balanced(reviews("train"), schedule.sentences // 3 + schedule.held_out, chance),
    }
    held_out = {name: encoded(texts[: schedule.held_out], tokenizer) for name, texts in sources.items()}
    sentences = encoded([text for texts in sources.values() for text in texts[schedule.held_out :]], tokenizer)
    chance.shuffle(sentences)
    say(f"{len(sentences):,} sentences, read below layer {tone.config.votes_above}")
    states, styles = read(tone, base, sentences), torch.tensor([sentence.style for sentence in sentences])
    learn_votes(tone, states, styles, schedule)
    unseen = [sentence for some in held_out.values() for sentence in some]
    temperature = best_temperature(tone, read(tone, base, unseen), torch.tensor([one.style for one in unseen]))
    accuracy = {name: round(right(tone, base, some), 1) for name, some in held_out.items()}
    say(f"right style: {accuracy}, temperature {temperature}")
    kept = with_carriers(tone, states, sentences, tokenizer)
    unseen = with_carriers(tone, read(tone, base, unseen), unseen, tokenizer)
    del states
    model = SteeredSpanBLM.steering(base, tone.vectors)
    before = losses(model, unseen, schedule)
    done, tokens_read = learn_vectors(model, kept, schedule, say)
    after = losses(model, unseen, schedule)
    finished = Tone(replace(tone.config, temperature=temperature))
    finished.load_state_dict(tone.state_dict())
    checkpoint.save(out / "model", finished, tokenizer, ABOUT, dtype=torch.float16)
    row = {
        "recipe": "tone",
        "schedule": asdict(schedule),
        "model": asdict(finished.config),
        "parameters": finished.parameter_count,
        "model_bytes": sum(path.stat().st_size for path in (out / "model").iterdir()),
        "hardware": hardware("cpu"),
        "seconds": round(time.perf_counter() - started, 1),
        "sentences": {"labelled": len(sentences), "of one mind with the votes": len(kept)},
        "steps": done,
        "tokens_read": tokens_read,
        "right_style": accuracy,
        "nats_per_token": {"before": before, "after": after},
    }
    return write_result(out / "result.json", row)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train the bundled model tone.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=Schedule.seconds)
    parser.add_argument("--base", default="english")
    options = parser.parse_args()
    made = make(options.out, replace(Schedule(), seconds=options.seconds), options.base)
    print(json.dumps({key: made[key] for key in ("seconds", "steps", "right_style", "nats_per_token")}, indent=2))
