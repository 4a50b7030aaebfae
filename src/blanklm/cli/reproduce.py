"""``blanklm reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from blanklm.cli.output import say
from blanklm.errors import BlankLMError
from blanklm.options import check_number

Table = Literal["infilling", "restoration", "sentiment", "language-modelling"]
ALSO = {  # the options that each table has besides --out, --corpus, --seconds and --jobs
    "infilling": {"system", "texts", "backbone"},
    "restoration": {"system", "texts", "model"},
    "sentiment": {"start"},
    "language-modelling": {"system", "orders"},
}


def reproduce(
    table: Annotated[Table, typer.Argument(help="Which of the paper's experiments.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of its runs, fills and results.")],
    corpus: Annotated[
        list[str] | None,
        typer.Option(help="yahoo, yelp; greek, latin; yelp, amazon; ptb, wikitext2, wikitext103; by default all here."),
    ] = None,
    system: Annotated[list[str] | None, typer.Option("--system", "--part", help="Such as blm; by default all.")] = None,
    seconds: Annotated[float, typer.Option(help="Wall-clock limit of each training; 0: all its steps.")] = 0.0,
    jobs: Annotated[int, typer.Option(help="Processes that train or measure at the same time.")] = 1,
    texts: Annotated[int | None, typer.Option(help="infilling, restoration: use so many test texts (all).")] = None,
    orders: Annotated[int | None, typer.Option(help="language-modelling: orders m on the test set (100).")] = None,
    backbone: Annotated[
        str | None, typer.Option(help="infilling: the encoder of BERT+LM, a folder or a Hub id; MiniLM by default.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="restoration: measure the model in this folder instead of training one.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="sentiment: the BLM that the small writer starts from; by default from scratch.")
    ] = None,
) -> None:
    """Train and compare the systems of a table of the paper; finished work is not repeated.

    blanklm reproduce infilling --out runs/infilling --corpus yahoo --system lm --system blm
    """
    given = {"system": system, "texts": texts, "orders": orders, "backbone": backbone, "model": model, "start": start}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if unfit := [f"--{name}" for name in options if name not in ALSO[table]]:
        raise BlankLMError(f"the table {table} does not take {', '.join(unfit)}: leave it out")
    check_number("seconds", seconds, whole=False, ge=0)
    for name, value in {"jobs": jobs, "texts": texts, "orders": orders}.items():
        if value is not None:
            check_number(name, value, ge=1, le=1_000_000)
    systems = options.pop("system", None)
    settings = {"out": out, "corpora": corpus, "seconds": seconds} | options
    from blanklm.paper import runner
    from blanklm.paper.tables import infilling, language_modelling, restoration, sentiment

    if table == "sentiment":
        print(sentiment.table(sentiment.run(**settings, jobs=jobs, say=say)))
        return
    module = {"infilling": infilling, "restoration": restoration, "language-modelling": language_modelling}[table]
    experiments = module.experiments(**settings, systems=systems)
    print(module.table(runner.run_experiments(experiments, jobs, say)))
