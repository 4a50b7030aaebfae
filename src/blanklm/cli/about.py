"""``blanklm models``, ``info`` and ``data``: what there is."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    pass
from blanklm.cli.options import Json


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
