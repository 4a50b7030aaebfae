"""``blanklm train``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    pass
from blanklm.cli.output import say


class Size(StrEnum):
    tiny = "tiny"
    small = "small"
    base = "base"


class TokenizerKind(StrEnum):
    word = "word"
    character = "character"
    bpe = "bpe"


class Precision(StrEnum):
    auto = "auto"
    bf16 = "bf16"
    float32 = "float32"


class OptimizerKind(StrEnum):
    adamw = "adamw"
    muon = "muon"


class TrainingTask(StrEnum):
    fill = "fill"
    transfer = "transfer"


def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the run and of the best model.")],
    texts: Annotated[
        Path | None, typer.Argument(help="One text a line, or .jsonl; may be compressed; or a 'pattern'.")
    ] = None,
    valid: Annotated[
        Path | None, typer.Option(help="Validation texts; by default 1 % of the texts, or 50, are held out.")
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Start from a pretrained Hugging Face encoder: a folder or a Hub id.")
    ] = None,
    size: Annotated[Size | None, typer.Option(help="small by default; base is the paper's.")] = None,
    tokenizer: Annotated[
        TokenizerKind | None, typer.Option(help="What a token is: by default a word, or what it is to the backbone.")
    ] = None,
    vocabulary: Annotated[int, typer.Option(help="Most tokens in the vocabulary.")] = 30_000,
    min_count: Annotated[int, typer.Option(help="Rarer words become unknown.")] = 1,
    lowercase: Annotated[bool, typer.Option(help="Read everything in lower case.")] = False,
    max_length: Annotated[
        int | None, typer.Option(help="Longer texts are cut, in tokens; by default at 512, or what the backbone takes.")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Train on one stream with <eos>, in chunks of that.")
    ] = False,
    from_disk: Annotated[
        bool, typer.Option("--from-disk", help="Read the texts while training: for more than memory holds.")
    ] = False,
    dropout: Annotated[float | None, typer.Option(help="By default 0.1, or the backbone's own.")] = None,
    steps: int = 10_000,
    tokens_per_batch: int = 8192,
    learning_rate: Annotated[
        float | None, typer.Option(help="By default 0.001, or 0.003 for muon, or 0.0002 with a backbone.")
    ] = None,
    optimizer: Annotated[
        OptimizerKind, typer.Option(help="muon learns more in as many steps, where training begins from nothing.")
    ] = OptimizerKind.adamw,
    warmup: Annotated[
        int | None, typer.Option(help="Steps of rising learning rate; by default a tenth, at most 500.")
    ] = None,
    weight_decay: float = 0.01,
    ema: Annotated[float, typer.Option(help="Keep an average of the weights with this decay; 0: none.")] = 0.0,
    evaluate_every: int = 500,
    save_every: int = 500,
    patience: Annotated[int, typer.Option(help="Stop after so many evaluations without a better bound; 0: never.")] = 0,
    seed: int = 0,
    precision: Annotated[
        Precision, typer.Option(help="Of activations: bf16 on a GPU; on a CPU that has it, bf16 trains faster too.")
    ] = Precision.auto,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    task: Annotated[
        TrainingTask, typer.Option(help="fill: a BLM; transfer: what rewrites texts of one style in another.")
    ] = TrainingTask.fill,
    style0: Annotated[
        Path | None, typer.Option(help="transfer: texts of one style, which has the file's name.")
    ] = None,
    style1: Annotated[Path | None, typer.Option(help="transfer: texts of the other style.")] = None,
) -> None:
    """Train a BLM on your own texts.

    blanklm train reviews.txt --out runs/reviews --size small --steps 5000
    """
    if task == TrainingTask.transfer:
        unfit = {"TEXTS": texts, "--valid": valid, "--backbone": backbone, "--tokenizer": tokenizer}
        unfit |= {"--stream": stream, "--from-disk": from_disk}
        if given := [name for name, value in unfit.items() if value]:
            raise BlankLMError(f"--task transfer trains on --style0 and --style1: leave out {', '.join(given)}")
        if style0 is None or style1 is None:
            raise BlankLMError("--task transfer needs the texts of two styles: give --style0 and --style1")
    elif style0 or style1:
        raise BlankLMError("--style0 and --style1 go with --task transfer")
    elif texts is None:
        raise BlankLMError("no texts: write blanklm train reviews.txt --out runs/reviews")
    import torch

    from blanklm.core.texts import TokenisedTexts, stream_chunks
    from blanklm.core.tokenizer import Tokenizer
    from blanklm.data.readers import matching_files
    from blanklm.models.backbone import Pretrained
    from blanklm.models.blm import BLM, BLMConfig
    from blanklm.models.encoder import EncoderConfig
    from blanklm.models.init import init_bias_from_frequencies, init_heads_on_neighbours
    from blanklm.training.run import TrainingConfig
    from blanklm.training.run import train as run
    from blanklm.training.streamed import StreamedTexts, sample_texts

    config = TrainingConfig(
        steps=steps,
        tokens_per_batch=tokens_per_batch,
        learning_rate=_rate(optimizer, backbone) if learning_rate is None else learning_rate,
        optimizer=optimizer.value,
        warmup=min(500, steps // 10) if warmup is None else warmup,
        weight_decay=weight_decay,
        ema=ema,
        evaluate_every=evaluate_every,
        save_every=save_every,
        patience=patience,
        seed=seed,
        precision=precision.value,
    )
    if (max_length is not None and max_length < 1) or seed < 0:
        raise BlankLMError("--max-length must be at least 1, and --seed 0 or more")
    if task == TrainingTask.transfer:
        encoder = EncoderConfig.of_size((size or Size.small).value, 0.1 if dropout is None else dropout)
        _train_transfer([style0, style1], out, encoder, config, vocabulary, min_count, lowercase, max_length, resume)
        return
    if backbone and (size is not None or dropout is not None):
        raise BlankLMError("--size and --dropout are the backbone's own: leave them out")
    source = Pretrained.load(backbone) if backbone else None
    longest = source.config.longest if source else max_length or 512
    max_length = max_length or min(512, longest)
    if max_length > longest:
        raise BlankLMError(f"{backbone} takes at most {longest} tokens: lower --max-length")
    encoder = EncoderConfig.of_size((size or Size.small).value, 0.1 if dropout is None else dropout)
    if from_disk and valid is None:
        raise BlankLMError("--from-disk reads no text before it is needed, so none is held out: give --valid")
    files = matching_files(str(texts))
    if from_disk:
        train_lines, valid_lines = sample_texts(files), _texts_of([valid])
        say(f"{len(files):,} files to train on, {len(valid_lines):,} texts to validate on")
    else:
        train_lines, valid_lines = _training_lines(files, valid, seed)
        say(f"{len(train_lines):,} texts to train on, {len(valid_lines):,} to validate on")
    if resume and (out / "tokenizer.json").exists():
        words = Tokenizer.load(out / "tokenizer.json")
    elif source and tokenizer is None:
        words = source.tokenizer()
    else:
        kind = (tokenizer or TokenizerKind.word).value
        words = Tokenizer.train(kind, train_lines, vocabulary, min_count, lowercase)

    def encode(lines: list[str]) -> list[list[int]]:
        return stream_chunks(words.encode_many(lines), max_length) if stream else words.encode_many(lines)

    validation = TokenisedTexts.from_ids(encode(valid_lines), max_length)
    training = (
        StreamedTexts(files, encode, max_length)
        if from_disk
        else TokenisedTexts.from_ids(encode(train_lines), max_length)
    )
    parts = [part for part in (training, validation) if isinstance(part, TokenisedTexts)]
    cut, empty = sum(part.cut for part in parts), sum(part.empty for part in parts)
    if cut or empty:
        say(f"{empty:,} empty texts left out, {cut:,} cut to {max_length} tokens")
    torch.manual_seed(seed)
    if source:
        model = BLM.on(source, words, max_length=max_length)
    else:
        model = BLM(BLMConfig(len(words), encoder, max_length=max_length))
        init_heads_on_neighbours(model.encoder.layers[0])
        some = TokenisedTexts.from_ids(encode(list(sample_texts(files, 1_000_000)))) if from_disk else training
        init_bias_from_frequencies(model, some.flat)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    name = Path(backbone).name if backbone else (size or Size.small).value
    known = "" if from_disk else f"; {training.tokens:,} training tokens"
    say(f"{name} model, {parameters:,} parameters, vocabulary {len(words):,}{known}")
    about = {"data": texts.name} | ({"backbone": name} if backbone else {})
    progress = run(model, words, training, validation, config, out, resume=resume, about=about)
    say(f"best validation bound {progress.best:.4f} nats/token at step {progress.best_step}; the model is in {out}")


def _rate(optimizer: OptimizerKind, backbone: str | None) -> float:
    """The learning rate where none is given."""
    if backbone:
        return 2e-4
    return 3e-3 if optimizer == OptimizerKind.muon else 1e-3


def _train_transfer(files: list[Path], out: Path, encoder, config, vocabulary, min_count, lowercase, length, resume):
    from blanklm.core.tokenizer import Tokenizer
    from blanklm.data.readers import matching_files
    from blanklm.transfer.train import train_transfer

    styles = [file.name.split(".")[0] or file.name for file in files]
    if styles[0] == styles[1]:
        styles = [file.name for file in files]
    if styles[0] == styles[1]:
        raise BlankLMError(f"both styles would be called {styles[0]!r}: give the files names of their own")
    split = [_training_lines(matching_files(str(file)), None, config.seed) for file in files]
    training, held_out = [lines for lines, _ in split], [lines for _, lines in split]
    counts = " and ".join(f"{len(lines):,} of {style!r}" for style, lines in zip(styles, training, strict=True))
    say(f"{counts} to train on, {sum(map(len, held_out)):,} to validate on")
    if resume and (out / "writer" / "tokenizer.json").exists():
        words = Tokenizer.load(out / "writer" / "tokenizer.json")
    else:
        every = [line for lines in training for line in lines]
        words = Tokenizer.train("word", every, vocabulary, min_count, lowercase, marks_apart=True)
    about = {"data": " and ".join(file.name for file in files)}
    train_transfer(training, held_out, styles, encoder, words, config, out, length or 512, resume, about, say=say)
    say(f"the model is in {out}: blanklm transfer --model {out} --to {styles[1]} ...")


def _texts_of(files: list[Path]) -> list[str]:
    from blanklm.data import read_texts

    return [line for file in files for line in read_texts(file) if line.strip()]


def _training_lines(files: list[Path], valid: Path | None, seed: int) -> tuple[list[str], list[str]]:
    lines = _texts_of(files)
    if valid is not None:
        return lines, _texts_of([valid])
    if len(lines) < 2:
        raise BlankLMError(f"{files[0]} has {len(lines)} texts: too few to hold one out; give --valid")
    import random

    random.Random(seed).shuffle(lines)
    held_out = max(1, min(2000, max(len(lines) // 100, min(50, len(lines) // 10))))
    return lines[held_out:], lines[:held_out]
