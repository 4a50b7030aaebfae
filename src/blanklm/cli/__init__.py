"""The command line. Nothing heavy is imported before a command needs it, so ``blanklm --help`` is quick."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blanklm.bulk.lines import (
    LINES_AT_ONCE,
    Answer,
    EveryBlank,
    Line,
    answers,
    lines_in,
    lines_of,
    listed,
    one_line_json,
)
from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    from rich.text import Text as RichText

    from blanklm.api import BlankLM, Request
    from blanklm.core.canvas import Fill, Trajectory

UsageError = typer.BadParameter.__base__  # whichever click typer brings along

app = typer.Typer(
    name="blanklm",
    help="Fill blanks of any length in text: write ___ where words are missing, ___[3] for three, ___[2-5] for 2 to 5.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def main() -> None:
    """Run a command; whatever the user can cause ends in one line on standard error, never in a traceback."""
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        sys.exit(app(_with_ray_address(sys.argv[1:]), standalone_mode=False) or 0)
    except BlankLMError as error:
        _fail(str(error), 1)
    except UsageError as error:
        if not sys.argv[1:]:
            print(error.format_message())  # the help, which is what no arguments ask for
            sys.exit(2)
        known = {command.callback.__name__ for command in app.registered_commands}
        command = "".join(f"{name} " for name in sys.argv[1:2] if name in known)
        _fail(f"{error.format_message()} (blanklm {command}--help says what there is)", 2)
    except (typer.Abort, KeyboardInterrupt):
        _fail("stopped", 130)
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror or error}", 1)
    except MemoryError:
        _fail("out of memory: fill fewer or shorter texts at a time", 1)


def _with_ray_address(arguments: list[str]) -> list[str]:
    """``--ray`` may stand alone, which typer's options cannot: then its address is empty."""
    if "--ray" not in arguments:
        return arguments
    after = arguments.index("--ray") + 1
    alone = after == len(arguments) or arguments[after].startswith("-")
    return [*arguments[:after], "", *arguments[after:]] if alone else arguments


def _fail(message: str, code: int) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


# --- Options that several commands share ------------------------------------------------------------------------------


class Order(StrEnum):
    confident = "confident"
    model = "model"
    left_to_right = "left-to-right"
    parallel = "parallel"


class Method(StrEnum):
    exact = "exact"
    monte_carlo = "monte-carlo"
    bound = "bound"


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


Texts = Annotated[list[str] | None, typer.Argument(help="Texts with blanks. None: read --file or standard input.")]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="One text a line, or .jsonl; may be .xz, .gz, .bz2, .zst. -: standard input."),
]
Model = Annotated[str | None, typer.Option("--model", "-m", help="A bundled model, a folder or a Hugging Face Hub id.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, ...; the GPU by default where there is one.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="Read JSON lines: {text, constraints}.")]
Trace = Annotated[bool, typer.Option("--trace", help="Show the trajectory, step by step.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse texts with words that the model does not know.")]
Min = Annotated[int | None, typer.Option("--min", help="Least length of each blank, in words (characters).")]
Max = Annotated[int | None, typer.Option("--max", help="Greatest length of each blank.")]
Ban = Annotated[list[str] | None, typer.Option("--ban", help="A word no blank may hold; 2=WORD: only blank 2.")]
Require = Annotated[
    list[str] | None, typer.Option("--require", help="A word every blank must hold; 2=WORD: only blank 2.")
]
Only = Annotated[list[str] | None, typer.Option("--only", help="Allow only these words; 2=WORD: only in blank 2.")]


def _lines(texts: list[str] | None, file: Path | None, jsonl: bool) -> Iterator[Line]:
    """The inputs of a command, one at a time; a bad one carries its error, and the rest go on."""
    if texts and file:
        raise BlankLMError("give texts or --file, not both")
    if texts:
        yield from (Line(None, text) for text in texts)
        return
    file = None if file == Path("-") else file
    if file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise BlankLMError('no text: write blanklm fill "They also have ___ which ___.", or use --file or a pipe')
    if file is not None:
        yield from lines_of(file, jsonl)
        return
    with sys.stdin.buffer as stream:
        yield from lines_in(stream, "standard input", jsonl)


def _every_blank(least, most, ban, require, only) -> EveryBlank:
    return EveryBlank(least, most, *(tuple(words or ()) for words in (ban, require, only)))


def _load(model: str | None, device: str | None) -> BlankLM:
    from blanklm.api import BlankLM
    from blanklm.pretrained import DEFAULT

    return BlankLM.from_pretrained(model or DEFAULT, device)


@contextmanager
def _progress(total: int | None, unit: str) -> Iterator[Any]:
    """A bar on standard error, for people who wait at a terminal while the results go elsewhere."""
    if not sys.stderr.isatty() or (sys.stdout.isatty() and unit == "texts"):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit, total=total)
        yield lambda done: bar.advance(task, done)


# --- fill and sample --------------------------------------------------------------------------------------------------


@app.command()
def fill(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    n: Annotated[int, typer.Option("--n", "-n", help="How many fills of each text, best first.")] = 1,
    beam: Annotated[int, typer.Option(help="Beam width; 1 is greedy.")] = 1,
    order: Annotated[Order, typer.Option(help="Which blank next; parallel: many at once.")] = Order.confident,
    length_penalty: Annotated[float, typer.Option(help="Rank by log p / steps^this.")] = 0.0,
    threshold: Annotated[float, typer.Option(help="With parallel: how sure a blank must be to act.")] = 0.0,
    least: Min = None,
    most: Max = None,
    ban: Ban = None,
    require: Require = None,
    only: Only = None,
    as_json: Json = False,
    jsonl: Jsonl = False,
    trace: Trace = False,
    strict: Strict = False,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(help="A folder for the results of --file, a path or 'pattern'.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="With --out: so many processes; by default one a GPU or core.")
    ] = None,
    ray: Annotated[str | None, typer.Option(metavar="[ADDRESS]", help="With --out: fill on a Ray cluster.")] = None,
) -> None:
    """Fill the blanks of each text with the most probable words.

    blanklm fill "They also have ___ which ___."
    """
    from blanklm.bulk.shards import Filling
    from blanklm.pretrained import DEFAULT

    shared = _every_blank(least, most, ban, require, only)
    where = str(Path(model).absolute()) if model and Path(model).is_dir() else model or DEFAULT
    filling = Filling(where, device, n, beam, order.value, length_penalty, threshold, shared, jsonl, strict, trace)
    if out is not None:
        _fill_files(texts, file, filling, out, workers, ray, as_json)
        return
    if workers is not None or ray is not None:
        raise BlankLMError("--workers and --ray fill files into a folder: give --file and --out")
    _fill_all(filling.fills, _lines(texts, file, jsonl), model, device, shared, as_json, trace, strict)


def _fill_files(texts, pattern: Path | None, filling, out: Path, workers, ray: str | None, as_json: bool) -> None:
    """Fill whole files into a folder and print the totals."""
    from blanklm.bulk.shards import fill_shards, plan

    if texts or pattern is None or pattern == Path("-"):
        raise BlankLMError("--out takes the results of files: give --file, a path or a quoted pattern")
    with _progress(len(plan(str(pattern), out)), "shards") as advance:
        totals = fill_shards(str(pattern), filling, out, workers, ray, advance)
    for failure in totals.failed_shards:
        _say(f"error: {failure['shard']}: {' '.join(failure['error'].split())}")
    if totals.failed_lines:
        _say(f"error: {totals.failed_lines:,} lines could not be filled: see {out / 'failures.jsonl'}")
    if as_json:
        print(one_line_json(asdict(totals)))
    else:
        before = f" ({totals.skipped} done before)" if totals.skipped else ""
        print(f"{totals.shards} shards{before}, {totals.lines:,} lines in {totals.seconds:.1f} s; they are in {out}")
    if totals.failed_shards or totals.failed_lines:
        sys.exit(1)


@app.command()
def sample(
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts with blanks; by default nothing but a blank.")
    ] = None,
    file: File = None,
    model: Model = None,
    n: Annotated[int, typer.Option("--n", "-n", help="How many samples of each text.")] = 1,
    temperature: Annotated[float, typer.Option(help="Below 1: safer; above 1: wilder.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Draw from the k most probable words; 0: from all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from the fewest words that hold this probability.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same samples.")] = 0,
    order: Annotated[Order, typer.Option(help="Which blank next.")] = Order.model,
    least: Min = None,
    most: Max = None,
    ban: Ban = None,
    require: Require = None,
    only: Only = None,
    as_json: Json = False,
    jsonl: Jsonl = False,
    trace: Trace = False,
    strict: Strict = False,
    device: Device = None,
) -> None:
    """Fill the blanks at random, as probable as the model finds it; write whole texts from a single blank.

    blanklm sample -n 5 --temperature 0.8
    """
    drawing = {"n": n, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "order": order.value}

    def draw(language_model: BlankLM, requests: list[Request], numbers: list[int]) -> list[list[Fill]]:
        return language_model.sample(requests, **drawing, numbers=numbers)

    lines = iter([Line(None, "___")]) if not texts and file is None and not jsonl else _lines(texts, file, jsonl)
    shared = _every_blank(least, most, ban, require, only)
    _fill_all(draw, lines, model, device, shared, as_json, trace, strict)


def _fill_all(fills, lines: Iterator[Line], model, device, shared, as_json: bool, trace: bool, strict: bool) -> None:
    """Fill and print a group of lines at a time, in order; bad lines are reported and passed over."""
    language_model = _load(model, device)
    failed = 0
    with _progress(None, "texts") as advance:
        for group in answers(language_model, lines, fills, shared, strict):
            for answer in group:
                _warn_of_unknown(answer.unknown, answer.line)
            for answer in group:
                failed += answer.error is not None
                _print_answer(answer, as_json, trace)
            sys.stdout.flush()
            advance(len(group))
    if failed:
        sys.exit(1)


def _print_error(answer: Answer, as_json: bool) -> None:
    _say(f"error: {answer.line.place}{' '.join(answer.error.split())}")
    if as_json:
        print(one_line_json(answer.to_json()))
    elif answer.line.number is not None:
        print()  # so that the n-th line out answers the n-th line in


def _print_answer(answer: Answer, as_json: bool, trace: bool) -> None:
    if answer.error is not None:
        _print_error(answer, as_json)
        return
    if as_json:
        print(one_line_json(answer.to_json(trace)))
        return
    for fill in answer.fills:
        score = f"{fill.log_prob:9.3f}  " if len(answer.fills) > 1 else ""
        if sys.stdout.isatty():
            _terminal().print(score, end="", highlight=False)
            _terminal().print(_highlighted(answer.line.text, fill), soft_wrap=True)
        else:
            print(score + fill.text)
        if trace and fill.trajectory is not None:
            _terminal().print(_figure(fill.trajectory))


def _terminal():
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 200)


def _highlighted(text: str, fill: Fill) -> RichText:
    """The filled text with what was filled in underlined and green, as the paper prints it."""
    from rich.text import Text as RichText

    from blanklm.core.template import Template

    shown, rest = RichText(), fill.text
    for piece, span in zip(Template.parse(text).pieces, (*fill.spans, ""), strict=True):
        shown.append(piece)
        rest = rest[len(piece) :]
        at = rest.index(span)  # touching word-level blanks have a space between them
        shown.append(rest[:at])
        shown.append(span, style="underline green")
        rest = rest[at + len(span) :]
    return shown


def _figure(trajectory: Trajectory):
    """The trajectory as the paper's Figure 2 draws it: blanks are numbered, from 1."""
    from rich.box import HORIZONTALS
    from rich.table import Table
    from rich.text import Text as RichText

    from blanklm.core.template import Blank

    table = Table(box=HORIZONTALS)
    for heading in ("Step t", "Canvas c", "Location b", "Word w", "Left l", "Right r", "log p"):
        table.add_column(heading, justify="left" if heading in ("Canvas c", "Word w") else "center")
    for t, canvas in enumerate(trajectory.canvases):
        row, number = RichText(), 0
        for i, item in enumerate(canvas.items):
            if i:
                row.append(canvas.separator)
            if isinstance(item, Blank):
                number += 1
                row.append(f"__#{number}__", style="bold")
            else:
                row.append(str(item), style="green" if canvas.origins[i] is not None else "")
        if t == len(trajectory.actions):
            table.add_row(f"{t}.", row, "-End-")
            continue
        action, log_p = trajectory.actions[t], f"{trajectory.log_probs[t]:.2f}" if trajectory.log_probs else ""
        sides = ("Yes" if side else "No" for side in (action.left, action.right))
        table.add_row(f"{t}.", row, f"#{action.blank + 1}", str(action.token).strip(), *sides, log_p)
    return table


# --- restore ----------------------------------------------------------------------------------------------------------


class Notation(StrEnum):
    leiden = "leiden"
    epidoc = "epidoc"


class Count(StrEnum):
    characters = "characters"
    letters = "letters"


class Language(StrEnum):
    greek = "greek"
    latin = "latin"


@app.command()
def restore(
    text: Annotated[
        str | None, typer.Argument(help="A damaged text, Leiden or EpiDoc. None: read --file or standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A file with one text. -: standard input.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file for the restored text.")] = None,
    notation: Annotated[Notation | None, typer.Option(help="Detected if it is not named.")] = None,
    language: Annotated[Language | None, typer.Option(help="Told by the letters if it is not named.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="By default the bundled model of the language.")
    ] = None,
    top: Annotated[int, typer.Option("--top", "-n", min=1, help="How many restorations of each gap.")] = 20,
    abstain_below: Annotated[
        float, typer.Option(min=0, max=1, help="Leave a gap as it is if nothing is as probable as this.")
    ] = 0.05,
    sure: Annotated[
        float, typer.Option(min=0, max=1, help="Leave characters lost that are less probable than this.")
    ] = 0.0,
    parallels: Annotated[int, typer.Option(min=0, help="How many parallels for each gap.")] = 3,
    count: Annotated[Count, typer.Option(help="What lengths count; letters: not the spaces.")] = Count.characters,
    details: Annotated[
        bool | None,
        typer.Option(help="Show what speaks for each; by default at a terminal and with --out."),
    ] = None,
    as_json: Json = False,
    device: Device = None,
) -> None:
    """Restore a damaged Greek or Latin text: Leiden notation or EpiDoc in, the same out.

    blanklm restore "d(is) m(anibus) s[.....] iuliae felici vixit an[...] xx"
    """
    from blanklm.restoration import edition as editions
    from blanklm.restoration import notation as notations

    document = notations.parse(_damaged_text(text, file), notation.value if notation else None)
    find = editions.parallels_of(parallels) if parallels else None
    with _progress(len(document.lacunae), "gaps") as advance:
        edition = editions.restore_document(
            document,
            lambda found: editions.load_restorer(model or editions.model_for(found), device),
            language.value if language else None,
            top,
            abstain_below,
            sure,
            find,
            count.value,
            advance,
        )
    for number, restored in enumerate(edition.lacunae):
        if restored.reason:
            line, column = notations.position(document.source, restored.lacuna.start)
            _say(f"gap {number + 1} (line {line}, column {column}) is left as it is: {restored.reason}")
    written = document.encoded(edition.text)
    if out is not None:
        out.write_bytes(written)
    if as_json:
        print(one_line_json(edition.to_json()))
        return
    if out is None and text is not None:
        print(edition.text)
    elif out is None:  # a file, byte for byte
        sys.stdout.flush()
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()
    if details or (details is None and (out is not None or sys.stdout.isatty())):
        from blanklm.restoration.report import report

        terminal = _terminal()
        for shown in report(edition):
            terminal.print(shown, highlight=False, soft_wrap=True)


def _damaged_text(text: str | None, file: Path | None) -> str | bytes:
    if text is not None and file is not None:
        raise BlankLMError("give a text or --file, not both")
    if text is not None:
        return text
    if file is not None and file != Path("-"):
        return file.read_bytes()
    if sys.stdin is None or sys.stdin.isatty():
        raise BlankLMError('no text: write blanklm restore "τῶι δ[. . . .]", or use --file or a pipe')
    return sys.stdin.buffer.read()


# --- score ------------------------------------------------------------------------------------------------------------


@app.command()
def score(
    texts: Annotated[list[str] | None, typer.Argument(help="Whole texts. None: read --file or standard input.")] = None,
    file: File = None,
    model: Model = None,
    method: Annotated[Method, typer.Option(help="exact: up to 16 tokens.")] = Method.monte_carlo,
    orders: Annotated[int, typer.Option(help="Orders (monte-carlo) or canvases (bound) a text.")] = 64,
    stream: Annotated[bool, typer.Option("--stream", help="Perplexity of all texts as one stream with <eos>.")] = False,
    seed: int = 0,
    as_json: Json = False,
    jsonl: Jsonl = False,
    device: Device = None,
) -> None:
    """log p of whole texts, and the perplexity of them all.

    blanklm score "the food was really good ."
    """
    import math

    if any("___" in text for text in texts or ()):
        _say("note: ___ is scored as it stands, as part of a whole text; blanklm fill fills it")
    language_model = _load(model, device)
    lines = _lines(texts, file, jsonl)
    if stream:
        _score_stream(language_model, [line for line in lines if not line.error], orders, seed, as_json)
        return
    failed = scored = tokens = 0
    total = 0.0
    while group := list(islice(lines, LINES_AT_ONCE)):
        reasons = [_reason_not_to_score(language_model, line, method.value) for line in group]
        good = [line.text for line, reason in zip(group, reasons, strict=True) if reason is None]
        with _progress(language_model.score_work(good, method.value, orders), "canvases") as advance:
            answers = iter(language_model.score(good, method.value, orders, seed, progress=advance) if good else ())
        for line, reason in zip(group, reasons, strict=True):
            if reason is not None:
                failed += 1
                _print_error(Answer(line, error=reason), as_json)
                continue
            answer = next(answers)
            scored, tokens, total = scored + 1, tokens + answer.tokens, total + answer.log_prob
            if as_json:
                print(one_line_json(answer.to_json()))
            else:
                print(f"{answer.log_prob:10.3f}  {answer.perplexity:10.2f}  {answer.text}")
        sys.stdout.flush()
    if scored > 1 and not as_json:
        print(f"{total:10.3f}  {math.exp(-total / tokens):10.2f}  (all {scored} texts, {tokens} tokens)")
    if failed:
        sys.exit(1)
    if not scored:
        raise BlankLMError("there is no text to score: give one, or a --file that holds some")


def _reason_not_to_score(language_model: BlankLM, line: Line, method: str) -> str | None:
    if line.error:
        return line.error
    try:
        language_model.to_score(line.text, method)
    except BlankLMError as error:
        return str(error)
    return None


def _score_stream(language_model: BlankLM, lines: list[Line], orders: int, seed: int, as_json: bool) -> None:
    """The perplexity of all texts as one stream with <eos>, as language models are compared."""
    texts = [line.text for line in lines]
    if not texts:
        raise BlankLMError("there is no text to score")
    config = language_model.model.config
    context = getattr(config, "context", 0)
    chunk = config.max_length - context
    work = orders * sum(len(language_model.tokenizer.encode(text)) + 1 for text in texts)
    with _progress(work, "canvases") as advance:
        estimate = language_model.perplexity(texts, orders, seed=seed, progress=advance)
    low, high = estimate.interval
    record = {
        "perplexity": estimate.perplexity,
        "interval": [low, high],
        "orders": orders,
        "tokens_with_eos": int(estimate.tokens.sum()),
        "chunk": chunk,
        "context": context,
    }
    if as_json:
        print(one_line_json(record))
    else:
        print(
            f"perplexity {estimate.perplexity:.2f} ({low:.2f} to {high:.2f} at m = {orders} orders; lower as m grows), "
            f"{record['tokens_with_eos']:,} tokens with <eos>, "
            + (f"sentences of at most {chunk} after {context} tokens" if context else f"chunks of {chunk}")
        )


# --- train ------------------------------------------------------------------------------------------------------------


@app.command()
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
        _say(f"{len(files):,} files to train on, {len(valid_lines):,} texts to validate on")
    else:
        train_lines, valid_lines = _training_lines(files, valid, seed)
        _say(f"{len(train_lines):,} texts to train on, {len(valid_lines):,} to validate on")
    if resume and (out / "tokenizer.json").exists():
        words = Tokenizer.load(out / "tokenizer.json")
    elif source and tokenizer is None:
        words = source.tokenizer()
    else:
        kind = (tokenizer or TokenizerKind.word).value
        words = Tokenizer.train(kind, train_lines, vocabulary, min_count, lowercase)

    def encode(lines: list[str]) -> list[list[int]]:
        return stream_chunks(words.encode_many(lines), max_length) if stream else words.encode_many(lines)

    validation = TokenisedTexts(encode(valid_lines), max_length)
    training = (
        StreamedTexts(files, encode, max_length) if from_disk else TokenisedTexts(encode(train_lines), max_length)
    )
    parts = [part for part in (training, validation) if isinstance(part, TokenisedTexts)]
    cut, empty = sum(part.cut for part in parts), sum(part.empty for part in parts)
    if cut or empty:
        _say(f"{empty:,} empty texts left out, {cut:,} cut to {max_length} tokens")
    torch.manual_seed(seed)
    if source:
        model = BLM.on(source, words, max_length=max_length)
    else:
        model = BLM(BLMConfig(len(words), encoder, max_length=max_length))
        init_heads_on_neighbours(model.encoder.layers[0])
        some = TokenisedTexts(encode(list(sample_texts(files, 1_000_000)))) if from_disk else training
        init_bias_from_frequencies(model, some.flat)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    name = Path(backbone).name if backbone else (size or Size.small).value
    known = "" if from_disk else f"; {training.tokens:,} training tokens"
    _say(f"{name} model, {parameters:,} parameters, vocabulary {len(words):,}{known}")
    about = {"data": texts.name} | ({"backbone": name} if backbone else {})
    progress = run(model, words, training, validation, config, out, resume=resume, about=about)
    _say(f"best validation bound {progress.best:.4f} nats/token at step {progress.best_step}; the model is in {out}")


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
    _say(f"{counts} to train on, {sum(map(len, held_out)):,} to validate on")
    if resume and (out / "writer" / "tokenizer.json").exists():
        words = Tokenizer.load(out / "writer" / "tokenizer.json")
    else:
        every = [line for lines in training for line in lines]
        words = Tokenizer.train("word", every, vocabulary, min_count, lowercase, marks_apart=True)
    about = {"data": " and ".join(file.name for file in files)}
    train_transfer(training, held_out, styles, encoder, words, config, out, length or 512, resume, about, say=_say)
    _say(f"the model is in {out}: blanklm transfer --model {out} --to {styles[1]} ...")


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


def _say(message: str) -> None:
    """To people, once: of several training processes the first speaks."""
    if os.environ.get("RANK", "0") == "0":
        print(message, file=sys.stderr)


# --- evaluate ---------------------------------------------------------------------------------------------------------


class Task(StrEnum):
    infilling = "infilling"


@app.command()
def evaluate(
    task: Annotated[Task, typer.Argument(help="What to evaluate.")],
    file: Annotated[Path, typer.Option("--file", "-f", help="Whole texts, one a line, or .jsonl; may be compressed.")],
    model: Model = None,
    ratios: Annotated[str, typer.Option(help="Shares of the words to hide, in percent.")] = "10,20,30,40,50",
    seed: Annotated[int, typer.Option(help="The same seed hides the same words.")] = 0,
    beam: Annotated[int, typer.Option(help="Beam width; 1 is greedy.")] = 1,
    order: Annotated[
        Order | None, typer.Option(help="Which blank next; by default many at once (parallel), with a beam confident.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="The folder of a left-to-right model: also report how fluent it finds the fills.")
    ] = None,
    as_json: Json = False,
    device: Device = None,
) -> None:
    """Hide a share of each text's words, fill, and compare with the original.

    blanklm evaluate infilling --file held-out.txt --ratios 10,30,50
    """
    from blanklm.data import read_texts
    from blanklm.paper.baselines.systems import Infiller, LanguageModel, load_system
    from blanklm.paper.tasks.infilling import evaluate as evaluate_infilling
    from blanklm.pretrained import DEFAULT

    shares = _percentages(ratios)
    language_model = load_system(model or DEFAULT, device)
    options: dict[str, Any] = {
        "beam": beam,
        "order": (order or (Order.parallel if beam == 1 else Order.confident)).value,
    }
    if isinstance(language_model, Infiller):
        if beam != 1 or order is not None:
            raise BlankLMError("a model to compare with has one way to fill: leave out --beam and --order")
        options = {}
    fluency = LanguageModel.from_pretrained(judge, device) if judge else None
    texts = [text for text in read_texts(file) if text.strip()]
    longest, encode_many = language_model.longest, language_model.tokenizer.encode_many
    long = [text for text, ids in zip(texts, encode_many(texts), strict=True) if len(ids) > longest]
    too_long = {text for text in long if max(map(len, encode_many(text.split()))) >= longest}  # in a single word
    fitting = [text for text in texts if text not in too_long]
    if not fitting:
        raise BlankLMError(f"{file} holds no text that the model can take")
    with _progress(len(shares) * len(fitting), "texts to fill") as advance:
        rows = evaluate_infilling(language_model, fitting, shares, seed, advance, fluency, **options)
    left_out = len(texts) - len(fitting)
    cut = len(long) - left_out
    if as_json:
        report = {"task": task.value, "model": model or "default", "file": file.name, "seed": seed} | options
        print(one_line_json(report | {"cut": cut, "too_long": left_out, "ratios": rows}))
        return
    print(
        f"{len(fitting)} texts"
        + (f", {cut} of them longer than the model takes and filled in pieces" if cut else "")
        + (f", {left_out} left out: a word too long for the model" if left_out else "")
    )
    columns = f"{'hidden':>8} {'no infill':>10} {'BLEU':>7} {'failures':>9} {'length error':>13} {'words/s':>9}"
    print(columns + (f" {'perplexity':>11} {'(original)':>11}" if judge else ""))
    for share, row in rows.items():
        print(
            f"{float(share):>8.0%} {row['no_infill_bleu']:>10.1f} {row['bleu']:>7.1f} {row['failure_rate']:>9.1%} "
            f"{row['length_error']:>13.2f} {row['words_per_second']:>9.0f}"
            + (f" {row['perplexity']:>11.1f} {row['original_perplexity']:>11.1f}" if judge else "")
        )


def _percentages(written: str) -> list[float]:
    try:
        shares = [float(part) / 100 for part in written.split(",")]
    except ValueError:
        raise BlankLMError(f"--ratios takes percentages such as 10,20,30, not {written!r}") from None
    if not all(0.01 <= share <= 1 for share in shares):
        raise BlankLMError(f"--ratios takes percentages from 1 to 100, so 30 and not 0.3; it was given {written!r}")
    return shares


# --- transfer ---------------------------------------------------------------------------------------------------------


@app.command()
def transfer(
    texts: Annotated[list[str] | None, typer.Argument(help="Whole texts. None: read --file or standard input.")] = None,
    to: Annotated[
        str | None, typer.Option(help="The style to write in: negative or positive, for the bundled model.")
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(help="A word or phrase to replace; repeat for several. None: found by attention."),
    ] = None,
    show_mask: Annotated[
        bool,
        typer.Option("--show-mask", help="Print the text with what is replaced in brackets; without --to, that alone."),
    ] = False,
    file: File = None,
    model: Model = None,
    n: Annotated[int, typer.Option("--n", "-n", help="How many rewritten texts of each, best first.")] = 1,
    samples: Annotated[int, typer.Option(help="How often each mask is filled, to choose from.")] = 10,
    content: Annotated[float | None, typer.Option(help="Weight of keeping words, against that of the style.")] = None,
    fluency: Annotated[float | None, typer.Option(help="Weight of the writer's own probability.")] = None,
    fewer: Annotated[bool, typer.Option("--fewer", help="Also try to replace fewer of the marked words.")] = False,
    temperature: Annotated[float, typer.Option(help="Below 1: safer; above 1: wilder.")] = 0.7,
    contrast: Annotated[
        float | None, typer.Option(help="How far to go out of the way of words of the other style; 0: not at all.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same texts.")] = 0,
    as_json: Json = False,
    jsonl: Jsonl = False,
    device: Device = None,
) -> None:
    """Rewrite each text in another style: mask the words that carry its own, fill the blanks, choose.

    blanklm transfer --to negative "The employees were super nice and efficient!"
    """
    from blanklm.transfer.transfer import CONTRAST, DEFAULT, Marked, Transfer, Weights

    if to is None and not show_mask:
        raise BlankLMError("say in which style to write with --to, such as --to negative")
    rewriter = Transfer.from_pretrained(model or DEFAULT, device, CONTRAST if contrast is None else contrast)
    if to is not None:
        rewriter.number_of(to)
    usual = Weights()
    weights = Weights(usual.content if content is None else content, usual.fluency if fluency is None else fluency)
    options = {"n": n, "samples": samples, "weights": weights, "temperature": temperature, "seed": seed}
    lines, failed, seen = _lines(texts, file, jsonl), 0, 0
    with _progress(None, "texts") as advance:
        while group := list(islice(lines, LINES_AT_ONCE)):
            marked = [_or_error(line.error, lambda text=line.text: rewriter.mark(text, mask)) for line in group]
            good = [(number, m) for number, m in enumerate(marked, seen) if isinstance(m, Marked)]
            seen += len(group)
            done = iter(())
            if to is not None and good:
                numbers, ready = zip(*good, strict=True)
                done = iter(rewriter.rewrite(list(ready), to, fewer=fewer, numbers=numbers, **options))
            for line, found in zip(group, marked, strict=True):
                if isinstance(found, str):
                    failed += 1
                    _print_error(Answer(line, error=found), as_json)
                else:
                    _print_rewritten(found, next(done, None), line, as_json, show_mask)
            sys.stdout.flush()
            advance(len(group))
    if failed:
        sys.exit(1)


def _or_error(error: str | None, find):
    """What ``find`` finds, or the reason that there is nothing."""
    try:
        return error or find()
    except BlankLMError as problem:
        return str(problem)


def _warn_of_unknown(words, line: Line) -> None:
    if words:
        _say(f"warning: {line.place}the model does not know {listed(words)}; it sees unknown words there")


def _print_rewritten(marked, rewritten, line: Line, as_json: bool, show_mask: bool) -> None:
    if as_json:
        print(one_line_json(rewritten.to_json() if rewritten else {"input": marked.text, **marked.to_json()}))
        return
    if show_mask:
        print(marked.masked.template.render([f"[{span}]" for span in marked.masked.spans]))
    if rewritten is None:
        return
    _warn_of_unknown(rewritten.unknown, line)
    if rewritten.reads_as == rewritten.to:
        _say(f"note: {line.place}the text reads as {rewritten.to} already (p = {rewritten.reads_as_p:.2f})")
    elif rewritten.rewrites[0].style < 0.5:
        found = f"nothing was found that reads as {rewritten.to} (p = {rewritten.rewrites[0].style:.2f} at best)"
        _say(f"note: {line.place}{found}: replace more with --mask, or give more --samples or a higher --temperature")
    for rewrite in rewritten.rewrites:
        print((f"{rewrite.style:6.1%}  " if len(rewritten.rewrites) > 1 else "") + rewrite.text)


# --- serve ------------------------------------------------------------------------------------------------------------


@app.command()
def serve(
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="A model to serve; repeat for several. None: all bundled.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0: on every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="BLANKLM_TOKEN", help="What clients must send as a bearer token.")
    ] = None,
    allow_host: Annotated[list[str] | None, typer.Option(help="A further name that the server is called by.")] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="Another site whose pages may call the API (CORS).")
    ] = None,
    limit: Annotated[list[str] | None, typer.Option(help="NAME=VALUE: change a limit, such as deadline=10.")] = None,
    device: Device = None,
) -> None:
    """Serve the HTTP API and the web page.

    blanklm serve --port 8000
    """
    try:
        from blanklm.serve.server import run
    except ModuleNotFoundError as error:
        raise BlankLMError(f'serving needs {error.name}: pip install "blanklm[serve]"') from None
    run(model or [], host, port, device, token, allow_host or [], allow_origin or [], limit or [])


# --- What there is ----------------------------------------------------------------------------------------------------


@app.command()
def models(as_json: Json = False) -> None:
    """The models that come with blanklm."""
    from blanklm.pretrained import DEFAULT, HERE, bundled
    from blanklm.training.checkpoint import read_config

    records = []
    for name in bundled():
        about = read_config(HERE / name)["about"]
        size = sum(path.stat().st_size for path in (HERE / name).iterdir())
        record = {"name": name, "default": name == DEFAULT, "megabytes": round(size / 1e6, 1)}
        records.append(record | {key: about.get(key, "") for key in ("language", "licence", "summary")})
    if as_json:
        print(json.dumps(records, ensure_ascii=False))
        return
    for record in records:
        mark = " (default)" if record["default"] else ""
        print(f"{record['name']}{mark}  {record['megabytes']} MB  {record['language']}  {record['licence']}")
        print(f"    {record['summary']}")


@app.command()
def info(
    model: Annotated[str | None, typer.Argument(help="A bundled model, a folder or a Hub id.")] = None,
    as_json: Json = False,
) -> None:
    """What a model is, and the versions in use."""
    import importlib.metadata
    import platform

    from blanklm.pretrained import DEFAULT, locate
    from blanklm.training.checkpoint import read_config

    folder = locate(model or DEFAULT)
    config = read_config(folder)
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / "model.safetensors", framework="numpy") as weights:
            parameters = sum(_count(weights.get_slice(key).get_shape()) for key in weights.keys())  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise BlankLMError(f"{folder / 'model.safetensors'} is missing or damaged ({error})") from None
    packages = ("blanklm", "torch", "tokenizers", "safetensors", "accelerate")
    record = {
        "model": model or DEFAULT,
        "kind": config["kind"],
        "parameters": parameters,
        **{key: value for key, value in config["model"].items() if not isinstance(value, dict)},
        **{f"encoder.{key}": value for key, value in config["model"].get("encoder", {}).items()},
        **config["about"],
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in packages},
    }
    if as_json:
        print(json.dumps(record, ensure_ascii=False))
        return
    width = max(map(len, record))
    for key, value in record.items():
        print(f"{key:<{width}}  {value:,}" if isinstance(value, int) else f"{key:<{width}}  {value}")


def _count(shape: list[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


@app.command()
def data(
    name: Annotated[str | None, typer.Argument(help="A corpus; none: list them all.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check the files against their checksums.")] = False,
    as_json: Json = False,
) -> None:
    """The corpora that blanklm knows: where each comes from, its licence, and which files are here."""
    from blanklm.data import corpora, data_root
    from blanklm.data import verify as verify_corpus

    known = {corpus.name: corpus for corpus in corpora()}
    if name is not None and name not in known:
        raise BlankLMError(f"there is no corpus {name!r}: known are {', '.join(known)}")
    chosen = [known[name]] if name else list(known.values())
    bad = 0
    for corpus in chosen:
        record: dict[str, Any] = {"name": corpus.name, "summary": corpus.summary}
        record |= {"origin": corpus.origin, "licence": corpus.licence}
        if verify:
            statuses = verify_corpus(corpus.name)
            record["files"] = {status.split: status.status for status in statuses}
            bad += sum(status.status == "differs" for status in statuses)
        else:
            record["files"] = {
                split: "here" if (data_root() / file.path).exists() else "not here"
                for split, file in corpus.files.items()
            }
        if as_json:
            print(json.dumps(record, ensure_ascii=False))
            continue
        counts = {
            state: list(record["files"].values()).count(state) for state in dict.fromkeys(record["files"].values())
        }
        print(
            f"{corpus.name}: {', '.join(f'{n} {state}' for state, n in counts.items()) or 'text not distributed here'}"
        )
        print(f"    {corpus.summary}\n    from {corpus.origin}\n    licence: {corpus.licence}")
        if name:
            for split, state in record["files"].items():
                print(f"    {split}: {state}")
    if not as_json:
        print(f"looked in {data_root()} (set BLANKLM_DATA to change it)")
    if bad:
        sys.exit(1)


# --- reproduce --------------------------------------------------------------------------------------------------------


class Table(StrEnum):
    infilling = "infilling"
    sentiment = "sentiment"
    language_modelling = "language-modelling"


@app.command()
def reproduce(
    table: Annotated[Table, typer.Argument(help="Which of the paper's experiments.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of its runs, fills and results.")],
    corpus: Annotated[
        list[str] | None, typer.Option(help="yahoo or yelp; ptb, wikitext2 or wikitext103. Those at hand by default.")
    ] = None,
    part: Annotated[list[str] | None, typer.Option(help="A system, such as blm or insertion; all by default.")] = None,
    texts: Annotated[int, typer.Option(help="Fill so many texts of the test set; 0: all.")] = 0,
    orders: Annotated[int, typer.Option(help="language-modelling: orders m on the whole test set.")] = 100,
    seconds: Annotated[float, typer.Option(help="End each system's training by the clock; 0: by its steps.")] = 0.0,
    backbone: Annotated[
        str | None, typer.Option(help="The pretrained encoder of BERT+LM: a folder or a Hub id; MiniLM by default.")
    ] = None,
) -> None:
    """Train and compare every system of a table of the paper; what is done already is not done again.

    blanklm reproduce infilling --out runs/infilling --corpus yahoo --part lm --part blm
    """
    if table == Table.sentiment:
        from blanklm.paper.tables import sentiment

        if corpus or part or texts or backbone:
            raise BlankLMError("the sentiment table is made as a whole: give --out and --seconds alone")
        sentiment.main(out, seconds or sentiment.SECONDS)
        return
    if table == Table.language_modelling:
        from blanklm.paper.tables import language_modelling

        if texts or backbone:
            raise BlankLMError("language models are measured on whole test sets: leave out --texts and --backbone")
        chosen = corpus or language_modelling.AT_HAND
        settings = {"out": out, "orders": orders, "seconds": seconds}
        parts = [one for name in chosen for one in language_modelling.parts_of(name, part, **settings)]
        print(language_modelling.table(language_modelling.main(parts, _say)))
        return
    from blanklm.paper.tables import infilling

    chosen = corpus or list(infilling.CORPORA)
    settings = {"out": out, "texts": texts, "seconds": seconds, "backbone": backbone}
    parts = [one for name in chosen for one in infilling.parts_of(name, part, **settings)]
    rows = infilling.main(parts, _say)
    print(infilling.table(rows))
