"""``blanklm reproduce``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from blanklm.cli.output import say
from blanklm.errors import BlankLMError
from blanklm.options import check_number

Table = Literal[
    "infilling", "restoration", "sentiment", "language-modelling", "sentence-completion", "blimp", "middles"
]
ALSO = {  # the options that each table has besides --out, --corpus, --seconds and --jobs
    "infilling": {"system", "texts", "backbone", "budget"},
    "restoration": {"system", "texts", "model", "budget"},
    "sentiment": {"start", "budget"},
    "language-modelling": {"system", "orders", "budget"},
    "sentence-completion": {"system", "texts", "budget"},
    "blimp": {"system", "texts", "model"},
    "middles": {"system", "texts", "model"},
}


def reproduce(
    table: Annotated[Table, typer.Argument(help="Which of the paper's experiments, or of those beside them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of its runs, fills and results.")],
    corpus: Annotated[
        list[str] | None,
        typer.Option(help="yahoo, yelp; greek, latin; yelp, amazon; ptb, wikitext2, wikitext103; by default all here."),
    ] = None,
    system: Annotated[list[str] | None, typer.Option("--system", "--part", help="Such as blm; by default all.")] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Tokens that each system reads, such as 100M; or small: tiny models, in minutes on a CPU."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Wall-clock limit of each training; 0: all its steps.")] = 0.0,
    jobs: Annotated[int, typer.Option(help="Processes that train or measure at the same time.")] = 1,
    texts: Annotated[int | None, typer.Option(help="Use so many test texts, questions or pairs of a paradigm.")] = None,
    orders: Annotated[int | None, typer.Option(help="language-modelling: orders m on the test set (100).")] = None,
    backbone: Annotated[
        str | None, typer.Option(help="infilling: the encoder of BERT+LM, a folder or a Hub id; MiniLM by default.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="restoration, blimp, middles: measure the model in this folder instead.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="sentiment: the BLM that the small writer starts from; by default from scratch.")
    ] = None,
) -> None:
    """Train and compare the systems of a table of the paper; finished work is not repeated.

    blanklm reproduce infilling --out runs/infilling --corpus yahoo --system lm --system blm
    """
    given = {"system": system, "texts": texts, "orders": orders, "backbone": backbone, "model": model, "start": start}
    given["budget"] = budget
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
    from blanklm.paper.tables import sentiment

    if budget is not None:
        settings["budget"] = runner.Budget.parse(budget)
    if table == "sentiment":
        print(sentiment.table(sentiment.run(**settings, jobs=jobs, say=say)))
        return
    module = import_module(f"blanklm.paper.tables.{table.replace('-', '_')}")
    print(module.table(runner.run_experiments(module.experiments(**settings, systems=systems), jobs, say)))
