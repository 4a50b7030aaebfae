"""The page that fills in the browser, built and served by a plain server."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT


def build_script():
    spec = importlib.util.spec_from_file_location("web_build", ROOT / "web" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Site:
    """A folder and where it is served."""

    folder: Path
    url: str
    log: Path

    def requests(self) -> list[str]:
        """The paths that were asked for, in order."""
        return re.findall(r'"GET (\S+) HTTP/', self.log.read_text())

    def size(self, paths: list[str]) -> int:
        """The bytes of the files behind paths."""
        files = (self.folder / path.split("?")[0].lstrip("/") for path in paths)
        return sum((file / "index.html" if file.is_dir() else file).stat().st_size for file in files)


@contextmanager
def served(folder: Path, log: Path) -> Iterator[Site]:
    """Serve a folder as the documents say, until the end of the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    with log.open("w") as file:
        server = subprocess.Popen(command, stdout=file, stderr=file, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield Site(folder, f"http://127.0.0.1:{port}", log)
    finally:
        server.terminate()
        server.wait()
