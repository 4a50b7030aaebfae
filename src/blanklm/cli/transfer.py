"""``blanklm transfer``."""

from __future__ import annotations

import sys
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from blanklm.bulk.lines import LINES_AT_ONCE, Answer, Line, attempt, each_or_its_error, one_line_json
from blanklm.cli.options import Device, File, Json, Jsonl, Model, WholeTexts, expanded, loading, read_lines
from blanklm.cli.output import print_error, print_line, progress_bar, say, warn_of_unknown
from blanklm.errors import BlankLMError
from blanklm.transfer.options import TransferOptions

if TYPE_CHECKING:
    from blanklm.transfer.marking import MarkedText
    from blanklm.transfer.results import TextRewrites
    from blanklm.transfer.transfer import Transfer


@expanded
def transfer(
    texts: WholeTexts = None,
    to: Annotated[str | None, typer.Option(help="The style to write in, such as negative or positive.")] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(help="A word or phrase to replace; may be repeated; by default, those that carry the style."),
    ] = None,
    show_mask: Annotated[
        bool, typer.Option("--show-mask", help="Print the text with marked words in brackets; without --to, only that.")
    ] = False,
    file: File = None,
    model: Model = None,
    *,
    options: TransferOptions,
    as_json: Json = False,
    jsonl: Jsonl = False,
    device: Device = None,
) -> None:
    """Rewrite each text in another style: mask the words that carry its style, fill the blanks, choose the best.

    blanklm transfer --to negative "The employees were super nice and efficient!"
    """
    if to is None and not show_mask:
        raise BlankLMError("no style to write in: choose one with --to, such as --to negative")
    with loading(model or "the model tone"):
        from blanklm.transfer.transfer import DEFAULT, Transfer

        rewriter = Transfer.from_pretrained(model or DEFAULT, device)
    if to is not None:
        rewriter.style_number(to)
    lines, failures = enumerate(read_lines(texts, file, jsonl)), 0
    with progress_bar(None, "texts") as advance:
        while group := dict(islice(lines, LINES_AT_ONCE)):
            marked = {number: attempt(line, partial(rewriter.mark, mask=mask)) for number, line in group.items()}
            # Samples depend on the number of a line, not on how lines are grouped.
            ready = {number: marked_text for number, marked_text in marked.items() if not isinstance(marked_text, str)}
            results: dict[int, TextRewrites | str | None] = {}
            if to is not None:
                rewrites = each_or_its_error(partial(_rewrites, rewriter, to, options), list(ready.items()))
                results = dict(zip(ready, rewrites, strict=True))
            for number, line in group.items():
                marked_text, result = marked[number], results.get(number)
                if isinstance(marked_text, str) or isinstance(result, str):
                    failures += 1
                    wrong = marked_text if isinstance(marked_text, str) else result
                    print_error(Answer(line, error=str(wrong)), as_json)
                else:
                    _print_result(marked_text, result, line, as_json, show_mask)
            sys.stdout.flush()
            advance(len(group))
    if failures:
        sys.exit(1)


def _rewrites(
    rewriter: Transfer, to: str, options: TransferOptions, ready: list[tuple[int, MarkedText]]
) -> list[TextRewrites | None]:
    numbers, marked = zip(*ready, strict=True)
    return rewriter.rewrite(marked, to, options=options, numbers=numbers)


def _print_result(marked: MarkedText, result: TextRewrites | None, line: Line, as_json: bool, show_mask: bool) -> None:
    if as_json:
        print(one_line_json({"input": marked.text, **marked.to_json()} if result is None else result.to_json()))
        return
    if show_mask:
        print_line(line, marked.masked.template.render([f"[{span}]" for span in marked.masked.spans]))
    if result is None:
        return
    warn_of_unknown(result.unknown, line)
    if result.reads_as == result.to:
        say(f"note: {line.place}the text reads as {result.to} already (p = {result.reads_as_p:.2f})")
    elif result.rewrites[0].style < 0.5:
        problem = f"no rewrite reads as {result.to} (p = {result.rewrites[0].style:.2f} at best)"
        say(f"note: {line.place}{problem}: replace more with --mask, or try more --samples or a higher --temperature")
    for rewrite in result.rewrites:
        print_line(line, rewrite.text, f"{rewrite.style:6.1%}  " if len(result.rewrites) > 1 else "")
