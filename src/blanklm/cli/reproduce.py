"""``blanklm reproduce``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    pass
from blanklm.cli.output import say


class Table(StrEnum):
    infilling = "infilling"
    sentiment = "sentiment"
    language_modelling = "language-modelling"


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
        print(language_modelling.table(language_modelling.main(parts, say)))
        return
    from blanklm.paper.tables import infilling

    chosen = corpus or list(infilling.CORPORA)
    settings = {"out": out, "texts": texts, "seconds": seconds, "backbone": backbone}
    parts = [one for name in chosen for one in infilling.parts_of(name, part, **settings)]
    rows = infilling.main(parts, say)
    print(infilling.table(rows))
