"""``blanklm serve`` under load, over the loopback interface, against filling the same texts offline in one batch.

    python benchmarks/serving.py [--sizes bundled,base] [--clients 1,16,64] [--seconds 60] [--requests 10000]

A real server process, and clients that each send one text, wait for the answer, check it and send the next. ``base``
and the other sizes are random weights on synthetic texts (see core.py); ``bundled``, so called in the records, is the
small model of review words in tests/fixtures/yelp-words on its own samples.
The most clients go on for ``--seconds``, fewer for a quarter of that. Then ``--requests`` go to the small model, and
the server's memory after a tenth of them is compared with that at the end. Writes results/benchmarks/serving-cpu.json,
where it replaces the sizes that were measured and keeps the others.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import count, takewhile
from pathlib import Path

import core
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from blanklm.api import BlankLM
from blanklm.core.tokenizer import Tokenizer
from blanklm.paper.provenance import hardware, provenance, write_result

TEXTS = 256
JSON = {"Content-Type": "application/json"}


def language_model(size: str) -> BlankLM:
    if size == "bundled":
        return BlankLM.from_pretrained(core.YELP_WORDS, device="cpu")
    tokenizer = Tokenizer.train("word", [f"w{i}" for i in range(core.WORDS)])
    return BlankLM(core.random_model(size), tokenizer)


def canvases(model: BlankLM, size: str) -> list[str]:
    """Distinct texts, so that an answer that went astray shows."""
    if size == "bundled":
        sentences = [fill.text for fill in model.sample(n=2 * TEXTS, temperature=0.7)]
    else:
        sentences = [model.tokenizer.decode(line.tolist()) for line in core.synthetic_lines()[: 2 * TEXTS]]
    return list(dict.fromkeys(core.with_blanks([s for s in sentences if len(s.split()) > 3])))[:TEXTS]


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """A server process of the model in a folder; its port."""
    command = [sys.executable, "-m", "blanklm", "serve", "--port", "0", "--model", str(folder), "--device", "cpu"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        yield int(re.search(r":(\d+)/", line)[1])
    finally:
        process.terminate()
        process.wait(60)


def metric(port: int, name: str) -> float:
    """What the server says of itself."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    page = connection.getresponse().read().decode()
    return float(re.search(rf"^{name} (\S+)", page, re.MULTILINE)[1])


def memory(port: int) -> float:
    """Its resident bytes."""
    return metric(port, "process_resident_memory_bytes")


def batches(port: int) -> np.ndarray:
    """[2] the texts in all batches so far, and the number of batches."""
    return np.array([metric(port, "blanklm_batch_texts_sum"), metric(port, "blanklm_batch_texts_count")])


class Load:
    """Clients that ask until told to stop, and what became of their requests."""

    def __init__(self, port: int, texts: list[str], fills: list[str]) -> None:
        self.port, self.texts, self.fills = port, texts, fills
        self.seconds: list[float] = []  # of each answer
        self.codes: Counter[str] = Counter()
        self.crossed = self.different = 0
        self._lock = threading.Lock()

    def run(self, clients: int, numbers: Iterable[int]) -> float:
        """Ask with so many clients, who share the requests of these numbers; the seconds that took."""
        shared = iter(numbers)
        threads = [threading.Thread(target=self._client, args=(shared,)) for _ in range(clients)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - started

    def _client(self, numbers: Iterator[int]) -> None:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        while True:
            with self._lock:
                number = next(numbers, None)
            if number is None:
                break
            place = number % len(self.texts)
            started = time.perf_counter()
            try:
                connection.request("POST", "/v1/fill", json.dumps({"texts": [self.texts[place]]}), JSON)
                response = connection.getresponse()
                code, answer = str(response.status), json.loads(response.read())
            except (OSError, ValueError) as error:
                connection.close()
                code = type(error).__name__
            taken = time.perf_counter() - started
            with self._lock:
                self.codes[code] += 1
                if code != "200":
                    continue
                self.seconds.append(taken)
                (result,) = answer["results"]
                self.crossed += result["input"] != self.texts[place]
                self.different += result["fills"][0]["text"] != self.fills[place]
        connection.close()

    def report(self, seconds: float) -> dict:
        p50, p99 = np.percentile(self.seconds, [50, 99])
        return {
            "requests": sum(self.codes.values()),
            "seconds": seconds,
            "texts_per_second": len(self.seconds) / seconds,
            "p50_seconds": p50,
            "p99_seconds": p99,
            "codes": dict(self.codes),
            "crossed": self.crossed,  # answers to another text
            "different": self.different,  # a near tie may fall otherwise in a batch of another make-up
        }


def benchmark(size: str, clients: list[int], seconds: float, requests: int) -> dict:
    model = language_model(size)
    texts = canvases(model, size)
    fills = [fill.text for fill in model.fill(texts)]  # and warm-up
    report: dict = {"texts": len(texts), "clients": {}}
    offline = [texts_per_second(model, texts)]  # and again after each load, which is compared with both its neighbours
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with server(Path(folder)) as port:
            Load(port, texts, fills).run(8, range(32))  # warm-up
            for number in clients:
                load, until = Load(port, texts, fills), seconds if number == max(clients) else seconds / 4
                before, end = batches(port), time.perf_counter() + until
                took = load.run(number, takewhile(lambda _, end=end: time.perf_counter() < end, count()))
                report["clients"][number] = load.report(took)
                in_batches, number_of_batches = batches(port) - before
                report["clients"][number]["texts_per_batch"] = in_batches / number_of_batches
                offline.append(texts_per_second(model, texts))
                beside = sum(offline[-2:]) / 2
                report["clients"][number]["offline_texts_per_second"] = beside
                report["clients"][number]["share_of_offline"] = len(load.seconds) / took / beside
            if requests:
                load = Load(port, texts, fills)
                load.run(max(clients), range(requests // 10))
                before = memory(port)
                load.run(max(clients), range(requests // 10, requests))
                report["memory"] = {
                    "requests": sum(load.codes.values()), "codes": dict(load.codes), "crossed": load.crossed,
                    "megabytes_after_a_tenth": before / 1e6, "megabytes_at_the_end": memory(port) / 1e6,
                }  # fmt: skip
    return report


def texts_per_second(model: BlankLM, texts: list[str]) -> float:
    """Filling them all in one call, in this process."""
    started = time.perf_counter()
    model.fill(texts)
    return len(texts) / (time.perf_counter() - started)


def table(size: str, report: dict) -> Table:
    shown = Table("clients", "a batch", "texts/s", "offline", "share", "p50", "p99", "codes", "crossed", "different")
    shown.title = size
    for clients, r in report["clients"].items():
        shown.add_row(
            str(clients),
            f"{r['texts_per_batch']:.1f}",
            f"{r['texts_per_second']:.1f}",
            f"{r['offline_texts_per_second']:.1f}",
            f"{r['share_of_offline']:.0%}",
            f"{1000 * r['p50_seconds']:.0f} ms",
            f"{1000 * r['p99_seconds']:.0f} ms",
            str(r["codes"]),
            str(r["crossed"]),
            str(r["different"]),
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="bundled,base", help="bundled (yelp-words), or a size of random weights")
    parser.add_argument("--clients", default="1,16,64")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the most clients; fewer: a quarter of it")
    parser.add_argument(
        "--requests", type=int, default=10_000, help="for the memory of the small model's server; 0: none"
    )
    parser.add_argument("--out", type=Path, default=core.ROOT / "results" / "benchmarks" / "serving-cpu.json")
    options = parser.parse_args()
    clients = [int(number) for number in options.clients.split(",")]
    about = {"hardware": hardware("cpu"), "threads": torch.get_num_threads(), "provenance": provenance()}
    sizes = json.loads(options.out.read_text(encoding="utf-8"))["sizes"] if options.out.exists() else {}
    for size in options.sizes.split(","):
        requests = options.requests if size == "bundled" else 0
        sizes[size] = about | benchmark(size, clients, options.seconds, requests)
        Console(width=140).print(table(size, sizes[size]))
    record = {"benchmark": "serving", "sizes": sizes}
    write_result(options.out, record)


if __name__ == "__main__":
    main()
