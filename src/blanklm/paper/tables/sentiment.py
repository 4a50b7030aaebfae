"""Table 4 of the paper, sentiment transfer on Yelp and Amazon, and the bundled model ``sentiment``.

    blanklm reproduce sentiment --out OUT [--corpus yelp] [--start YELP_WORDS] [--jobs N]

Trains the models (``sentiment_models``), has each rewrite validation sentences, chooses settings by them, and has the
chosen ones rewrite the test sentences. OUT/CORPUS holds the models, ``pools`` (all that was written), ``choice.json``
(the settings) and, for Yelp, ``model`` (what is bundled); OUT/results/CORPUS.json is the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from blanklm.paper import runner
from blanklm.paper.provenance import Row, read_json, write_result
from blanklm.paper.runner import WHOLE_RECIPE, Budget, Say, Step, print_line
from blanklm.paper.tables.sentiment_choice import CONTENT, Setting, best, choose, needed, rows_of
from blanklm.paper.tables.sentiment_models import CORPORA, SYSTEMS, bundle, experiments, tokenise
from blanklm.paper.tables.sentiment_pools import FIXED, GRID, is_written, records_of, write_pools, writes
from blanklm.paper.tasks.sentiment import TestSet, score, score_known
from blanklm.transfer.transfer import StyleClassifier

SMALL_SENTENCES = 5  # of each sentiment that are rewritten with the small budget


def score_corpus(out: Path, corpus: str, say: Say = print_line, most: int | None = None) -> Row:
    """The table of a corpus, from what was chosen and written; a writer that wrote nothing has no row."""
    folder = out / corpus
    judge, test = StyleClassifier.from_pretrained(folder / "judge" / "run"), TestSet.load(corpus)
    if most is not None:  # of each sentiment
        first = test.targets.index(0)
        test = test.among([*range(most), *range(first, first + most)])
    choice = read_json(folder / "choice.json") if (folder / "choice.json").exists() else {"chosen": {}}
    ours: dict[str, dict[str, float]] = {}
    for name, (writer, pick) in rows_of(choice).items():
        if is_written(folder, writer, "test"):
            ours[name] = score(test, [pick(record) for record in records_of(out, corpus, writer)], judge)
    ranked: dict[str, dict[str, float]] = {}
    if "one" in choice["chosen"]:  # the chosen ranking with other weights of content, for docs/plots
        setting = Setting.of(choice["chosen"]["one"]["ranking"]["setting"])
        for content in CONTENT:
            pick = best(replace(setting, weights=replace(setting.weights, content=content)))
            texts = [pick(record) for record in records_of(out, corpus, setting.system)]
            ranked[f"{content:g}"] = score(test, texts, judge)
    files = {name: folder / name / "training.json" for name in SYSTEMS}
    result = {
        "corpus": corpus,
        "known": score_known(corpus, judge),
        "ours": ours,
        "ranked": ranked,
        "parts": {name: read_json(path) for name, path in files.items() if path.exists()},
    }
    return write_result(row_file(out, corpus), result)


# --- The table ------------------------------------------------------------------------------------------------


def row_file(out: Path, corpus: str) -> Path:
    return out / "results" / f"{corpus}.json"


def steps(
    out: Path, corpus: str, seconds: float = 0.0, start: str | None = None, budget: Budget = WHOLE_RECIPE
) -> list[Step]:
    """Tokenise, train, write for validation, choose, write the test sentences, score."""
    folder, most = out / corpus, SMALL_SENTENCES if budget.small else None
    tokenising = Step(f"tokenise {corpus}", partial(tokenise, out, corpus), (folder / "tokenizer.json").exists)
    trainings = runner.training_steps(experiments(out, corpus, seconds=seconds, start=start, budget=budget))
    models = [replace(step, after=(*step.after, tokenising.name)) for step in trainings.values()]
    if corpus == "yelp":
        parts = ("train yelp classifier", "train yelp blm-small")
        models.append(
            Step("bundle yelp", partial(bundle, out, corpus), (folder / "model" / "config.json").exists, parts)
        )
    trained = tuple(step.name for step in models)

    def write(writer: str, split: str) -> Step:
        work = partial(write_pools, out, corpus, writer, split, most=most)
        done = partial(is_written, folder, writer, split)
        return Step(f"write {corpus} {writer} {split}", work, done, trained)

    tried = [write(name, "valid") for name in ("two", *GRID) if writes(corpus, name)]
    fixed = [write(name, "test") for name in FIXED if writes(corpus, name)]
    choosing = Step(
        f"choose {corpus}",
        partial(choose, out, corpus),
        (folder / "choice.json").exists,
        tuple(step.name for step in tried),
    )
    chosen = Step(
        f"write {corpus} as chosen",
        partial(write_chosen, out, corpus, most=most),
        partial(chosen_is_written, out, corpus),
        (choosing.name,),
    )
    after = (chosen.name, *(step.name for step in fixed))
    scoring = Step(
        f"score {corpus}", partial(score_corpus, out, corpus, most=most), row_file(out, corpus).exists, after
    )
    return [tokenising, *models, *tried, *fixed, choosing, chosen, scoring]


def chosen_writers(out: Path, corpus: str) -> dict[str, tuple[int, bool]]:
    """What each chosen writer has to sample; the fixed ones write the test sentences in any case."""
    chosen = needed(read_json(out / corpus / "choice.json"))
    return {writer: samples for writer, samples in chosen.items() if writer in GRID}


def write_chosen(out: Path, corpus: str, say: Say = print_line, most: int | None = None) -> None:
    """Rewrite the test sentences with the settings that were chosen."""
    for writer, (samples, fewer) in chosen_writers(out, corpus).items():
        write_pools(out, corpus, writer, "test", say, samples, fewer, most)


def chosen_is_written(out: Path, corpus: str) -> bool:
    choice = out / corpus / "choice.json"
    return choice.exists() and all(is_written(out / corpus, w, "test") for w in chosen_writers(out, corpus))


def run(
    out: Path,
    corpora: Sequence[str] | None = None,
    seconds: float = 0.0,
    start: str | None = None,
    jobs: int = 1,
    say: Say = print_line,
    budget: Budget = WHOLE_RECIPE,
) -> list[Row]:
    """Do whatever is not done yet of the table of each corpus."""
    names = runner.choose("corpus", corpora, CORPORA, CORPORA)
    left = [name for name in names if not row_file(out, name).exists()]
    runner.run_steps([step for name in left for step in steps(out, name, seconds, start, budget)], jobs, say)
    return [read_json(row_file(out, name)) for name in names]


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal."""
    return "\n".join(line for row in rows for line in _lines(row))


def _lines(result: Row) -> Iterator[str]:
    ranked = {f"content {content}": row for content, row in result["ranked"].items()}
    for name, row in (result["known"] | result["ours"] | ranked).items():
        numbers = " ".join(f"{key} {row[key]:.1f}" for key in ("accuracy", "bleu", "bleu_all_references") if key in row)
        yield f"{result['corpus']}: {name}: {numbers}"
