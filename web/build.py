"""Put together the page that fills in the browser: a folder that any web server can serve.

    python web/build.py                      # english-small, into web/dist
    python -m http.server --directory web/dist

onnxruntime-web comes from npm, is checked against the checksum below and kept in a cache folder. What is large is
compressed here, because a plain server does not do it.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from blanklm import serve
from blanklm.api import BlankLM
from blanklm.errors import BlankLMError
from blanklm.export.to_onnx import export
from blanklm.files import replacing

HERE = Path(__file__).resolve().parent
PAGE = ("index.html", "page.css", "check.js", "app.js", "worker.js")
SHARED = ("style.css", "icon.svg", "dom.js")  # with the page of `blanklm serve`
RUNTIME = "onnxruntime-web"
VERSION = "1.30.0"
# As npm says it:
INTEGRITY = "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
LIBRARY, MACHINE = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
PATIENCE = 300  # seconds
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blanklm" / f"{RUNTIME}-{VERSION}"


class NotFetchedError(BlankLMError):
    """npm is not here, or has no connection."""


def build(out: Path, model: str = "english-small") -> None:
    """Write the page with a model into the folder ``out``."""
    runtime = fetch_runtime()
    for name in PAGE:
        copy(HERE / name, out / name)
    for path in (HERE / "blanklm").glob("*.js"):
        copy(path, out / "blanklm" / path.name)
    for name in SHARED:
        copy(Path(serve.__file__).parent / "static" / name, out / name)
    copy(runtime / LIBRARY, out / LIBRARY)
    with tempfile.TemporaryDirectory() as folder:
        export(BlankLM.from_pretrained(model, device="cpu"), Path(folder))
        files = [*Path(folder).iterdir(), runtime / MACHINE]
        sizes = {path.name: compress(path, out / "model" / f"{path.name}.gz") for path in sorted(files)}
    (out / "model" / "sizes.json").write_text(json.dumps(sizes), encoding="utf-8")


def fetch_runtime() -> Path:
    """Return the folder of onnxruntime-web's two files, fetched by npm if they are not in the cache."""
    if all((CACHE / name).is_file() for name in (LIBRARY, MACHINE)):
        return CACHE
    npm = shutil.which("npm")
    if npm is None:
        raise NotFetchedError(f"npm is not installed, which fetches {RUNTIME}: install Node.js")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", f"{RUNTIME}@{VERSION}", "--pack-destination", folder]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise NotFetchedError(f"npm did not fetch {RUNTIME} in {PATIENCE} seconds: check the connection") from None
        packages = list(Path(folder).glob("*.tgz"))
        if done.returncode or not packages:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
            raise NotFetchedError(f"npm could not fetch {RUNTIME} {VERSION} ({reason}): check the connection")
        content = packages[0].read_bytes()
        found = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        if found != INTEGRITY:
            raise BlankLMError(f"what npm fetched is not {RUNTIME} {VERSION}: its checksum is {found}")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tarfile.open(packages[0]) as archive:
            for name in (LIBRARY, MACHINE):
                member = archive.extractfile(f"package/dist/{name}")
                assert member is not None
                with replacing(CACHE / name) as temporary:
                    temporary.write_bytes(member.read())
    return CACHE


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def compress(source: Path, target: Path) -> int:
    """Compress a file, the same way every time, and return its size."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(source.read_bytes(), 9, mtime=0))
    return target.stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="english-small", help="a bundled model, a folder or a Hub id")
    parser.add_argument("--out", type=Path, default=HERE / "dist")
    options = parser.parse_args()
    try:
        build(options.out, options.model)
    except BlankLMError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file())
    print(f"{size / 1e6:.1f} MB in {options.out}: python -m http.server --directory {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
