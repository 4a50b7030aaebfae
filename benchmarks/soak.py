"""Mixed traffic for a long time against a real server on loopback: flat memory, no crossed answer, no 5xx.

    python benchmarks/soak.py [--minutes 30] [--clients 3] [--out results/soak.json]

Clients fill, stream, sample, score, restore and transfer, leave in the middle, let deadlines pass, send what is no
request and headers without an end. The server's memory is read all the time; of each quarter of the run the median is
kept. The last quarter's may be a twentieth above the second's: in the first, caches fill.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import core
from serving import JSON, memory

from blanklm.paper.provenance import write_result

MODELS = (core.YELP_WORDS, "sentiment", "latin")
MOST_GROWTH = 1.05
SUBJECTS = ("food", "staff", "soup", "bread", "place", "price", "waiter", "salad", "coffee", "service", "menu", "tea")
Answer = tuple[int, Any]


@contextmanager
def server(limits: dict[str, float]) -> Iterator[int]:
    """Run a server of several models, and yield its port."""
    command = [sys.executable, "-m", "blanklm", "serve", "--port", "0", "--device", "cpu"]
    command += [part for name in MODELS for part in ("--model", name)]
    command += [part for name, value in limits.items() for part in ("--limit", f"{name}={value}")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        match = re.search(r":(\d+)/", process.stderr.readline())
        yield int(match[1])
    finally:
        process.terminate()
        if process.wait(90) != 0:
            raise SystemExit(f"the server ended with {process.returncode}: {process.stderr.read()[-2000:]}")


class Traffic:
    """One client's requests, and what became of them; the text of each request is its own."""

    def __init__(self, port: int, number: int) -> None:
        self.port, self.random, self.number = port, Random(number), number
        self.statuses: Counter[str] = Counter()
        self.crossed = self.server_errors = 0

    def run(self, until: float) -> None:
        kinds = [self.fill] * 6 + [self.stream, self.sample, self.score, self.restore, self.transfer] * 2
        kinds += [self.late, self.long_gap, self.leave, self.nonsense, self.unfinished]
        while time.monotonic() < until:
            kind = self.random.choice(kinds)
            try:
                kind()
            except (OSError, ValueError) as error:
                self.statuses[f"{kind.__name__} {type(error).__name__}"] += 1
            time.sleep(0.02)

    # --- Requests -------------------------------------------------------------------------------------------------

    def text(self) -> str:
        words = self.random.choices(SUBJECTS, k=self.random.randint(2, 8))
        return f"the {' and the '.join(words)} was ___[{self.random.randint(1, 3)}] ."

    def fill(self) -> None:
        text = self.text()
        self.expect("fill", {"texts": [text], "n": self.random.choice([1, 1, 3]), "beam": 3}, [text], self.keeps_text)

    def sample(self) -> None:
        texts = [self.text() for _ in range(3)]
        self.expect("sample", {"texts": texts, "n": 2, "seed": self.random.randrange(99)}, texts, self.keeps_text)

    def score(self) -> None:
        text = self.text().replace("___", "good")
        self.expect("score", {"texts": [text], "orders": 4}, [text])

    def restore(self) -> None:
        word = self.random.choice(["iuliae", "felici", "vixit"])
        text = f"d(is) m(anibus) s[..] {word} an[...] {'x' * (1 + self.number)}"
        self.expect("restore", {"texts": [text], "top": 3}, [text])

    def transfer(self) -> None:
        text = f"the {self.random.choice(SUBJECTS)} was great and the {self.random.choice(SUBJECTS)} friendly ."
        self.expect("transfer", {"texts": [text], "to": "negative", "samples": 2}, [text])

    def late(self) -> None:
        """A deadline that nothing can keep."""
        status, _ = self.post("fill", {"texts": ["the ___[80] ."] * 3, "n": 3, "beam": 3, "deadline": 0.05})
        self.note("late", status, allowed=(200, 504))

    def long_gap(self) -> None:
        status, _ = self.post("restore", {"texts": ["d(is) m(anibus) s[c. 500] iuliae"], "deadline": 1.0})
        self.note("long gap", status, allowed=(504,))

    def nonsense(self) -> None:
        body = self.random.choice([{"texts": ["\ud800 ___"]}, {"texts": []}, {"x": 1}, {"texts": ["no blank"]}, [1]])
        status, _ = self.post(self.random.choice(["fill", "sample", "score", "restore", "transfer"]), body)
        self.note("nonsense", status, allowed=(200, 422))

    def stream(self) -> None:
        text = self.text()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", "/v1/fill", json.dumps({"texts": [text], "stream": True}), JSON)
        response = connection.getresponse()
        events = response.read().decode()
        connection.close()
        self.note("stream", response.status)
        fill = re.search(r"event: fill\ndata: (.*)\n", events)
        self.crossed += fill is None or json.loads(fill[1])["result"]["input"] != text

    def leave(self) -> None:
        body = json.dumps({"texts": ["the ___[60] ."] * 4, "n": 4, "beam": 4}).encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            head = "POST /v1/fill HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.2)
        self.statuses["leave"] += 1

    def unfinished(self) -> None:
        """A connection that another thread's time closes: its header never ends."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        client.sendall(b"POST /v1/fill HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        threading.Thread(target=self._closed_by_server, args=(client,), daemon=True).start()

    def _closed_by_server(self, client: socket.socket) -> None:
        with client:
            try:
                answer = client.recv(4096)
            except OSError as error:
                answer = type(error).__name__.encode()
        self.statuses["unfinished 408" if answer.startswith(b"HTTP/1.1 408") else f"unfinished {answer[:20]!r}"] += 1

    # --- Answers --------------------------------------------------------------------------------------------------

    def post(self, task: str, body: Any) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("POST", f"/v1/{task}", json.dumps(body), JSON)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def note(self, what: str, status: int, allowed: tuple[int, ...] = (200,)) -> None:
        self.statuses[f"{what} {status}"] += 1
        self.server_errors += status not in (*allowed, 429)

    def expect(
        self, task: str, body: Any, texts: list[str], is_own: Callable[[str, Any], bool] = lambda text, result: True
    ) -> None:
        """Ask, and see whether each result is one of its own text."""
        status, answer = self.post(task, body)
        self.note(task, status)
        if status == 200:
            results = answer["results"]
            own = [r.get("input") == text and is_own(text, r) for text, r in zip(texts, results, strict=True)]
            self.crossed += not all(own)

    @staticmethod
    def keeps_text(text: str, result: Any) -> bool:
        before = text.partition("___")[0]
        return all(fill["text"].startswith(before) and fill["text"].endswith(" .") for fill in result["fills"])


def soak(minutes: float, clients: int) -> dict[str, Any]:
    with server({"header_seconds": 5, "deadline": 60}) as port:
        started = time.monotonic()
        until = started + 60 * minutes
        traffic = [Traffic(port, number) for number in range(clients)]
        threads = [threading.Thread(target=one.run, args=(until,)) for one in traffic]
        for thread in threads:
            thread.start()
        megabytes: list[float] = []
        while any(thread.is_alive() for thread in threads):
            time.sleep(min(5.0, 60 * minutes / 40))
            megabytes.append(memory(port) / 1e6)
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - started
        time.sleep(6)  # for the last unfinished headers
    size = max(1, len(megabytes) // 4)
    quarters = [round(median(megabytes[k * size : (k + 1) * size] or megabytes[-1:]), 1) for k in range(4)]
    statuses = sum((one.statuses for one in traffic), Counter())
    return {
        "benchmark": "soak",
        "minutes": round(seconds / 60, 1),
        "clients": clients,
        "requests": sum(statuses.values()),
        "statuses": dict(sorted(statuses.items())),
        "crossed": sum(one.crossed for one in traffic),
        "unexpected": sum(one.server_errors for one in traffic),  # answers with another status than is right
        "megabytes_by_quarter": quarters,
        "flat": quarters[3] <= MOST_GROWTH * quarters[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--out", type=Path, default=core.ROOT / "results" / "soak.json")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    report = write_result(options.out, soak(options.minutes, options.clients))
    print(json.dumps({name: value for name, value in report.items() if name != "provenance"}, indent=1))
    if report["crossed"] or report["unexpected"] or not report["flat"]:
        raise SystemExit("the server did not hold")


if __name__ == "__main__":
    main()
