"""From texts to a trained BLM in a folder: read, learn a vocabulary, make a model, train it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from blanklm.core.characters import check_text
from blanklm.core.texts import TokenisedTexts, cut, one_stream
from blanklm.core.tokenizer import Tokenizer
from blanklm.data.readers import matching_files, read_texts
from blanklm.errors import TrainingError
from blanklm.models.backbone import Pretrained
from blanklm.models.blm import BLM
from blanklm.models.causal_backbone import CausalPretrained, is_causal
from blanklm.models.encoder import EncoderConfig, EncoderLayer
from blanklm.models.init import init_bias_from_frequencies, init_heads_on_neighbours
from blanklm.models.span_blm import SpanBLM
from blanklm.training.checkpoint import Checkpoint
from blanklm.training.config import FitOptions, TrainingConfig
from blanklm.training.folder import check_folder, settings_of_run
from blanklm.training.progress import say
from blanklm.training.run import Progress, train
from blanklm.training.streamed import StreamedTexts, sample_texts

DEFAULT_LENGTH = 512  # tokens
SAMPLE = 500  # texts that a model to start from is chosen by
CHARACTERS_FOR_FREQUENCIES = 1_000_000  # of streamed texts, which word frequencies are counted in

Backbone = Pretrained | CausalPretrained
Texts = str | PathLike[str] | Sequence[str]  # a path, a pattern such as 'shards/*.jsonl', or the texts themselves


Start = Callable[[Sequence[str]], "Checkpoint | None"]  # a model to start from, for some of the texts


@dataclass(frozen=True)
class Fitted:
    """What training has come to."""

    progress: Progress
    held_out: list[str]
    started_from: str | None  # the name of the model that it began as; None: from scratch, or from a backbone


def fit_folder(
    texts: Texts,
    out: Path,
    options: FitOptions,
    config: TrainingConfig,
    valid: Texts | None = None,
    resume: bool = False,
    show_progress: bool = True,
    find_start: Start | None = None,
) -> Fitted:
    """Train a BLM on texts; ``out`` is the folder of the run, and of its best model."""
    report: Callable[[str], None] = say if show_progress else lambda message: None
    check_folder(out, resume)  # before anything is read: training looks again
    backbone = _load_backbone(options.backbone) if options.backbone else None
    max_length = _max_length(options, backbone)
    files, lines, held_out = _read_corpus(texts, valid, options.from_disk, config.seed)
    count = f"{len(files):,} files" if files else f"{len(lines):,} texts"
    report(f"{count} to train on, {len(held_out):,} texts to validate on")
    start = find_start(list(islice(sample_texts(files), SAMPLE)) if files else lines[:SAMPLE]) if find_start else None
    if start:
        max_length = int(start.model.config.max_length)
    tokenizer = _tokenizer(sample_texts(files) if files else lines, out, options, backbone, start, resume)

    def encode(group: list[str]) -> Sequence[Sequence[int]]:
        ids = tokenizer.encode_many(group)
        return cut(one_stream(ids), max_length) if options.stream else ids

    validation = TokenisedTexts.from_ids(encode(held_out), max_length)
    training: TokenisedTexts | StreamedTexts
    if files:
        training = StreamedTexts(files, encode, max_length)
        counted = TokenisedTexts.from_ids(encode(list(sample_texts(files, CHARACTERS_FOR_FREQUENCIES))))
        in_memory, size_of_corpus, tokens = [validation], "", None
    else:
        training = counted = TokenisedTexts.from_ids(encode(lines), max_length)
        tokens = training.tokens
        in_memory, size_of_corpus = [training, validation], f"; {tokens:,} training tokens"
    shortened, empty = sum(part.cut for part in in_memory), sum(part.empty for part in in_memory)
    if shortened or empty:
        report(f"{empty:,} empty texts left out, {shortened:,} cut to {max_length} tokens")
    config = options.complete(config, tokens, start is not None)
    if resume and (before := settings_of_run(out)):
        config = options.resumed(config, before)
    if tokenizer.kind == "word" and _has_marks_attached(held_out):
        report('note: punctuation is attached to words, so "end." and "end" are different words: try --tokenizer bpe')
    torch.manual_seed(config.seed)
    if start:
        model, name = _continued(start, options), str(start.about.get("name") or options.start)
    else:
        model = _new_model(tokenizer, options, max_length, backbone, counted)
        name = Path(options.backbone).name if options.backbone else options.size or "small"
    report(f"{name} model, {model.parameter_count:,} parameters, vocabulary {len(tokenizer):,}{size_of_corpus}")
    about = {"data": _name_of(texts)} | ({"backbone": name} if backbone else {"started_from": name} if start else {})
    progress = train(model, tokenizer, training, validation, config, out, resume, about, show_progress)
    report(f"best validation bound {progress.best:.4f} nats/token at step {progress.best_step}; the model is in {out}")
    return Fitted(progress, held_out, name if start else None)


def read_and_split(texts: Texts, seed: int) -> tuple[list[str], list[str]]:
    """Read texts, shuffle them, and hold out 1 % of them, or 50, but at most a tenth, for validation."""
    lines = _read(texts)
    if len(lines) < 2:
        raise TrainingError(f"{_name_of(texts)}: {len(lines)} texts are too few to hold one out; give validation texts")
    random.Random(seed).shuffle(lines)
    held_out = max(1, min(2000, max(len(lines) // 100, min(50, len(lines) // 10))))
    return lines[held_out:], lines[:held_out]


def encoder_config(options: FitOptions) -> EncoderConfig:
    """Return the encoder of a model that is trained from scratch."""
    return EncoderConfig.of_size(options.size or "small", 0.1 if options.dropout is None else options.dropout)


def _read_corpus(
    texts: Texts, valid: Texts | None, from_disk: bool, seed: int
) -> tuple[list[Path], list[str], list[str]]:
    """Return the files to read while training or else the texts to train on, and the texts to validate on."""
    if from_disk:
        if valid is None:
            raise TrainingError("texts that are read while training cannot be held out: give validation texts (valid)")
        if not isinstance(texts, str | PathLike):
            raise TrainingError("from_disk reads files: give a path or a pattern, not a list of texts")
        return matching_files(str(texts)), [], _read(valid)
    return [], *(read_and_split(texts, seed) if valid is None else (_read(texts), _read(valid)))


def _read(texts: Texts) -> list[str]:
    """Read all texts but the empty ones."""
    if not isinstance(texts, str | PathLike):
        return [text for text in texts if check_text(text).strip()]
    return [text for file in matching_files(str(texts)) for text in read_texts(file) if text.strip()]


def _has_marks_attached(texts: Sequence[str]) -> bool:
    """Tell text as people write it, with a mark on one word in twenty or more, from tokenised text."""
    words = [word for text in texts for word in text.split()]
    attached = sum(word[-1] in ".,;:!?" and word[0].isalpha() for word in words)
    return attached > 0.05 * len(words)


def _name_of(texts: Texts) -> str:
    return Path(texts).name if isinstance(texts, str | PathLike) else f"{len(texts):,} texts"


def _load_backbone(name: str) -> Backbone:
    return CausalPretrained.load(name) if is_causal(name) else Pretrained.load(name)


def _max_length(options: FitOptions, backbone: Backbone | None) -> int:
    if backbone is None:
        return options.max_length or DEFAULT_LENGTH
    longest = backbone.config.longest
    if options.max_length is not None and options.max_length > longest:
        raise TrainingError(f"{options.backbone} takes at most {longest} tokens: lower max_length")
    return options.max_length or min(DEFAULT_LENGTH, longest)


def _tokenizer(
    sample: Iterable[str],
    out: Path,
    options: FitOptions,
    backbone: Backbone | None,
    start: Checkpoint | None,
    resume: bool,
) -> Tokenizer:
    if start:
        return start.tokenizer
    if resume and (out / "tokenizer.json").exists():
        return Tokenizer.load(out / "tokenizer.json")
    if options.merges is not None and (options.tokenizer or not isinstance(backbone, CausalPretrained)):
        raise TrainingError("merges cut the tokenizer of a causal backbone: leave the option out")
    if isinstance(backbone, CausalPretrained) and options.tokenizer is None:
        return backbone.tokenizer(options.merges)
    if backbone and options.tokenizer is None:
        return backbone.tokenizer()
    kind = options.tokenizer or "bpe"
    return Tokenizer.train(kind, sample, options.vocabulary, options.min_count, options.lowercase)


def _new_model(
    tokenizer: Tokenizer, options: FitOptions, max_length: int, backbone: Backbone | None, counted: TokenisedTexts
) -> BLM:
    """Make a model on the backbone, or one from scratch whose words are as probable as in the ``counted`` texts."""
    blanks = options.blanks or ("both" if tokenizer.words_have_parts else "words")
    kind: type[BLM] = BLM if blanks == "words" else SpanBLM
    settings: dict[str, Any] = {"max_length": max_length}
    if blanks != "words":
        settings["spans"] = 1.0 if blanks == "spans" else 0.5
    if backbone:
        return kind.on(backbone, tokenizer, **settings)
    model = kind(kind.config_class(len(tokenizer), encoder_config(options), **settings))
    model.set_vocabulary(tokenizer)
    init_heads_on_neighbours(next(layer for layer in model.modules() if isinstance(layer, EncoderLayer)))
    init_bias_from_frequencies(model, counted.flat)
    return model


def _continued(start: Checkpoint, options: FitOptions) -> BLM:
    """Return the model to start from, with the blanks that are asked for."""
    model, spans = start.model, {"spans": 1.0, "both": 0.5, "words": 0.0, None: None}[options.blanks]
    if not isinstance(model, BLM):
        raise TrainingError(f"{options.start} does not fill blanks: start from another model")
    if spans is None:
        return model
    if isinstance(model, SpanBLM) == (options.blanks == "words"):
        learnt = "spans too" if isinstance(model, SpanBLM) else "blanks of words alone"
        raise TrainingError(f"the model to start from has learnt {learnt}: leave out blanks, or start from scratch")
    if isinstance(model, SpanBLM):
        model.config = replace(model.config, spans=spans)
    return model
