"""``blanklm models``, ``info`` and ``data``: what there is."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated, Any

import typer

from blanklm.bulk.lines import one_line_json
from blanklm.cli.options import Json

SHOWN = 10  # values of a list


def models(as_json: Json = False) -> None:
    """List the models that come with blanklm."""
    from blanklm.pretrained import DEFAULT, HERE, bundled
    from blanklm.training.checkpoint import read_config

    records = []
    for name in bundled():
        about = read_config(HERE / name)["about"]
        size = sum(path.stat().st_size for path in (HERE / name).iterdir())
        record = {"name": name, "default": name == DEFAULT, "megabytes": round(size / 1e6, 1)}
        records.append(record | {key: about.get(key, "") for key in ("language", "licence", "summary")})
    if as_json:
        print(one_line_json(records))
        return
    for record in records:
        mark = " (default)" if record["default"] else ""
        print(f"{record['name']}{mark}  {record['megabytes']} MB  {record['language']}  {record['licence']}")
        print(f"    {record['summary']}")


def info(
    model: Annotated[str | None, typer.Argument(help="A bundled model, a folder or a Hub id.")] = None,
    as_json: Json = False,
) -> None:
    """Describe a model, and the versions in use."""
    import importlib.metadata
    import platform

    from blanklm.pretrained import DEFAULT, locate
    from blanklm.training.checkpoint import parameter_count, read_config

    folder = locate(model or DEFAULT)
    config = read_config(folder)
    packages = ("blanklm", "torch", "tokenizers", "safetensors", "accelerate")
    record = {
        "model": model or DEFAULT,
        **config["about"],
        "kind": config["kind"],
        "parameters": parameter_count(folder),
        **{key: value for key, value in config["model"].items() if not isinstance(value, dict)},
        **{f"encoder.{key}": value for key, value in config["model"].get("encoder", {}).items()},
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in packages},
    }
    if as_json:
        print(one_line_json(record))
        return
    width = max(map(len, record))
    for key, value in record.items():
        print(f"{key:<{width}}  {_shown(value)}")


def _shown(value: Any) -> str:
    """Show a setting in a line, as people read it."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ", ".join(map(_shown, value[:SHOWN])) + (f", ... ({len(value)} in all)" if len(value) > SHOWN else "")
    return str(value)


def data(
    name: Annotated[str | None, typer.Argument(help="A corpus; by default all are listed.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check the files against their checksums.")] = False,
    as_json: Json = False,
) -> None:
    """List the corpora that blanklm knows: where each comes from, its licence, and which files are here."""
    from blanklm.data.registry import corpora, corpus_named, data_root
    from blanklm.data.registry import verify as verify_corpus

    damaged = False
    for corpus in corpora() if name is None else [corpus_named(name)]:
        if verify:
            files = {status.split: str(status.status) for status in verify_corpus(corpus.name)}
            damaged |= "differs" in files.values()
        else:
            present = {split: (data_root() / file.path).exists() for split, file in corpus.files.items()}
            files = {split: "here" if here else "not here" for split, here in present.items()}
        if as_json:
            about = {"name": corpus.name, "summary": corpus.summary, "origin": corpus.origin, "licence": corpus.licence}
            print(one_line_json(about | {"files": files}))
            continue
        counts = ", ".join(f"{count} {state}" for state, count in Counter(files.values()).items())
        print(f"{corpus.name}: {counts or 'text not distributed here'}")
        print(f"    {corpus.summary}\n    from {corpus.origin}\n    licence: {corpus.licence}")
        if name:
            for split, state in files.items():
                print(f"    {split}: {state}")
    if not as_json:
        print(f"looked in {data_root()} (set BLANKLM_DATA to change it)")
    if damaged:
        sys.exit(1)
