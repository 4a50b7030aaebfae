"""``blanklm transfer``."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from blanklm.bulk.lines import (
    LINES_AT_ONCE,
    Answer,
    Line,
    one_line_json,
)
from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    pass
from blanklm.cli.options import Device, File, Json, Jsonl, Model, read_lines
from blanklm.cli.output import print_error, progress_bar, say, warn_of_unknown


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
    lines, failed, seen = read_lines(texts, file, jsonl), 0, 0
    with progress_bar(None, "texts") as advance:
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
                    print_error(Answer(line, error=found), as_json)
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


def _print_rewritten(marked, rewritten, line: Line, as_json: bool, show_mask: bool) -> None:
    if as_json:
        print(one_line_json(rewritten.to_json() if rewritten else {"input": marked.text, **marked.to_json()}))
        return
    if show_mask:
        print(marked.masked.template.render([f"[{span}]" for span in marked.masked.spans]))
    if rewritten is None:
        return
    warn_of_unknown(rewritten.unknown, line)
    if rewritten.reads_as == rewritten.to:
        say(f"note: {line.place}the text reads as {rewritten.to} already (p = {rewritten.reads_as_p:.2f})")
    elif rewritten.rewrites[0].style < 0.5:
        found = f"nothing was found that reads as {rewritten.to} (p = {rewritten.rewrites[0].style:.2f} at best)"
        say(f"note: {line.place}{found}: replace more with --mask, or give more --samples or a higher --temperature")
    for rewrite in rewritten.rewrites:
        print((f"{rewrite.style:6.1%}  " if len(rewritten.rewrites) > 1 else "") + rewrite.text)
