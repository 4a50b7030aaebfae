"""Coverage-guided fuzzing of everything that reads what others wrote; needs ``pip install atheris`` (Linux).

    python fuzz/parsers.py TARGET [-max_total_time=60] [-seed=1]
    python fuzz/parsers.py all 60 results/fuzzing.json   each target for 60 seconds with seed 1, recorded

A target may only return or raise BlankLMError with a message of one line; anything else is a finding.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import atheris
import zstandard

with atheris.instrument_imports(include=["blanklm"]):
    from blanklm.bulk.lines import lines_in, lines_of
    from blanklm.core.canvas import Canvas
    from blanklm.core.template import Template
    from blanklm.core.tokenizer import Tokenizer
    from blanklm.data import read_texts
    from blanklm.decoding.constraint import Constraint, compile_rules
    from blanklm.errors import BlankLMError
    from blanklm.models.blm import BLM, BLMConfig
    from blanklm.models.encoder import EncoderConfig
    from blanklm.paper.provenance import write_result
    from blanklm.restoration.notation import Document, Supplement, parse
    from blanklm.restoration.notation.language import language_of
    from blanklm.training import checkpoint

HERE = Path(__file__).parent
FOLDER = Path(tempfile.mkdtemp())
WORDS = Tokenizer.train("word", ["a b c ___ [ ] the food was good"])
PACKINGS = {
    ".txt": bytes,
    ".jsonl": bytes,
    ".txt.xz": lzma.compress,
    ".txt.gz": gzip.compress,
    ".txt.bz2": bz2.compress,
    ".txt.zst": zstandard.compress,
}


def template(data: bytes) -> None:
    text = atheris.FuzzedDataProvider(data).ConsumeUnicodeNoSurrogates(len(data))
    parsed = Template.parse(text)
    ids, _ = WORDS.encode_template(parsed)
    assert len(parsed.pieces) == len(parsed.blanks) + 1 and len(ids) >= len(parsed.blanks)
    assert Template.parse(str(parsed)) == parsed
    str(Canvas.parse(text))


def line(data: bytes) -> None:
    (FOLDER / "lines.jsonl").write_bytes(data)
    with open(FOLDER / "lines.jsonl", "rb") as stream:
        read = list(lines_in(stream, "lines", jsonl=True))
    assert len(read) == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def reader(data: bytes) -> None:
    suffix = list(PACKINGS)[data[0] % len(PACKINGS) if data else 0]
    path = FOLDER / f"texts{suffix}"
    path.write_bytes(data[1:])
    list(lines_of(path))
    list(read_texts(path))


def constraint(data: bytes) -> None:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(values, dict):
        parsed = Template.parse("the ___ was ___[2-5] .")
        compile_rules(parsed, [Constraint.from_json(values)] * 2, WORDS.encode_template(parsed)[1], WORDS)


def model(data: bytes) -> None:
    """One of the files of a model folder is what came in, the others are sound."""
    changed = checkpoint.FILES[data[0] % 3 if data else 0]
    for name, content in SOUND.items():
        (FOLDER / name).write_bytes(data[1:] if name == changed else content)
    checkpoint.load(FOLDER)


def notation(document: Document) -> None:
    """Everything comes back, and what is restored can be read again."""
    assert document.restored({}) == document.source
    fill = "αβ" if re.search("[Ͱ-Ͽἀ-῿]", document.source) else "ab"  # Greek letters change what a v means
    supplements = {number: Supplement(fill) for number in range(len(document.lacunae))}
    assert not parse(document.restored(supplements), document.notation).lacunae
    for passage in document.passages:
        language_of(document.source, passage)


def leiden(data: bytes) -> None:
    notation(parse(data, "leiden"))


def epidoc(data: bytes) -> None:
    document = parse(data, "epidoc")
    assert document.encoded(document.source) == data
    notation(document)


def sound_model() -> dict[str, bytes]:
    folder = FOLDER / "sound"
    checkpoint.save(folder, BLM(BLMConfig(len(WORDS), EncoderConfig(1, 1, 4, 4), sides_hidden=4)), WORDS)
    return {name: (folder / name).read_bytes() for name in checkpoint.FILES}


SOUND = sound_model()
SEEDS = {  # to begin from: libFuzzer would be long in finding JSON
    "template": [rb"a ___ b ___[2-5] \___ ___\[ \\___[3]"],
    "line": [b'{"text": "a ___", "constraints": {"max": 2}}\n{"input": "___"}\r\n\xef\xbb\xbf[1]\n\n'],
    "reader": [bytes([k]) + pack(b'{"text": "a ___"}\nsecond\n') for k, pack in enumerate(PACKINGS.values())],
    "constraint": [b'{"min": 1, "max": 3, "ban": ["a"], "require": ["the food"], "only": ["b", "c"]}'],
    "model": [bytes([k]) + SOUND[name] for k, name in enumerate(checkpoint.FILES)],
    "leiden": ["1 [. . 5 . .]α̣ [c. 5]|2 β-\n3 (γ) <δ=ε> {ζ} [[η[---]]] vac. +++ ⟦..⟧".encode()],
    "epidoc": [path.read_bytes() for path in sorted((HERE.parent / "tests/restoration/notation/files").glob("*.xml"))]
    + [b'<ab>a<gap reason="lost" atLeast="2" atMost="5"/><lb break="no"/><app><lem>b</lem><rdg>c</rdg></app></ab>'],
}
TARGETS = {function.__name__: function for function in (template, line, reader, constraint, model, leiden, epidoc)}


def run_all(seconds: int, out: Path) -> None:
    rows = []
    for name in TARGETS:
        command = [
            sys.executable,
            __file__,
            name,
            f"-max_total_time={seconds}",
            "-seed=1",
            f"-artifact_prefix={FOLDER}/",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        runs = re.findall(r"Done (\d+) runs in (\d+) second|^#(\d+)\t", done.stderr, re.MULTILINE)
        tried = max(int(number) for run in runs for number in (run[0], run[2]) if number)
        rows.append({"target": name, "inputs": tried, "seconds": seconds, "findings": int(done.returncode != 0)})
        print(rows[-1], done.stderr[-3000:] if done.returncode else "", flush=True)
    write_result(out, {"fuzzer": f"atheris {metadata.version('atheris')}", "seed": 1, "rows": rows})


def main() -> None:
    if sys.argv[1:2] == ["all"]:
        run_all(int(sys.argv[2]), Path(sys.argv[3]))
        return
    if sys.argv[1:2] == [] or sys.argv[1] not in TARGETS:
        raise SystemExit(f"name a target: {', '.join(TARGETS)}")
    name = sys.argv.pop(1)
    target, corpus = TARGETS[name], FOLDER / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(SEEDS[name]):
        (corpus / f"{number}").write_bytes(seed)

    def one_input(data: bytes) -> None:
        try:
            target(data)
        except BlankLMError as error:
            assert "\n" not in str(error), str(error)

    atheris.Setup([*sys.argv, "-max_len=20000", str(corpus)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
