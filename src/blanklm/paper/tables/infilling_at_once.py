"""The infilling table of a corpus within minutes: all systems on one GPU, some side by side, each with a clock.

    python -m blanklm.paper.tables.infilling_at_once OUT [--corpus yahoo] [--seconds 560] [--texts 1000] [--backbone FOLDER]

Folder and files are those of recipes/infilling.py, which finishes what the clock cut off. A system that fails does not
stop the others: what each has to say is in OUT/logs. Trainings end by the clock, so the rows depend on the machine; the
steps that each system had are in them. Let several processes use the GPU at a time (CUDA MPS).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blanklm.paper.tables import infilling
from blanklm.paper.tables.infilling import JUDGE, SYSTEMS, Part
from blanklm.paper.tables.reproduction import Clock, Together

# When the training of a system begins and ends, in parts of the time there is. A process keeps a core busy and two more
# prepare its batches: four or five at a time learn more than all at once, and those come first that fill slowly.
SPANS = {
    "yahoo": {
        JUDGE: (0.0, 0.30), "blm": (0.0, 0.42), "blm-english": (0.0, 0.42), "blm-minilm": (0.0, 0.45),
        "bert-lm": (0.0, 0.45), "insertion": (0.24, 0.62), "mlm": (0.30, 0.66),
        "seq2seq-full": (0.42, 0.74), "seq2seq-fill": (0.42, 0.76),
    },
    "yelp": {
        JUDGE: (0.0, 0.35), "blm": (0.0, 0.40), "blm-english": (0.0, 0.40), "blm-minilm": (0.0, 0.40),
        "bert-lm": (0.0, 0.40), "insertion": (0.35, 0.70), "mlm": (0.40, 0.75),
        "seq2seq-full": (0.40, 0.75), "seq2seq-fill": (0.40, 0.75),
    },
}  # fmt: skip
# Long enough to pay; the library's are as they are.
COMPILED = {("yahoo", name) for name in ("blm", "blm-english", "insertion")}
END = 0.95  # what still runs then is stopped
# Systems that fill with a beam, and the processes for each mask ratio: the BLM's keeps its drafts in Python.
SHARES = {"blm": {0.1: 1, 0.2: 2, 0.3: 2, 0.4: 3, 0.5: 4}, "seq2seq-full": {}, "seq2seq-fill": {}}


@dataclass(kw_only=True)
class Infilled(Together):
    """The processes of the table of a corpus."""

    settings: dict[str, Any]
    compiles: bool = True

    def part(self, name: str, **settings: Any) -> Part:
        (part,) = infilling.parts_of(self.corpus, [name], out=self.out, workers=2, **self.settings, **settings)
        return part

    # --- What the processes do -------------------------------------------------------------------------------------

    def system(self, name: str) -> None:
        """Train a system, then fill and score with it in every way that does not wait for a choice.

        The judge goes on with what was filled before.
        """
        seconds = max(1.0, self.clock.left_until(SPANS[self.corpus][name][1]))
        compiles = self.compiles and (self.corpus, name) in COMPILED
        self.part(name, seconds=seconds, compiles=compiles).train(self.say)
        self.await_trained(JUDGE)
        for other, system in SYSTEMS.items():
            part = self.part(other)
            kept = name == JUDGE and not part.row.exists() and all(map(part.filled, infilling.RATIOS))
            if other == name not in SHARES or system.model_of == name or kept:
                infilling.main([part], self.say)

    def choice(self, name: str, number: int, ratio: float) -> None:
        os.nice(5)
        part = self.part(name)
        part.try_choice(part.system.choices[number], ratio)

    def share(self, name: str, ratio: float, number: int, of: int) -> None:
        os.nice(5)
        self.part(name).fill_share(ratio, number, of)

    def finish(self, name: str) -> None:
        self.await_trained(JUDGE)
        infilling.main([self.part(name)], self.say)

    def await_trained(self, name: str) -> None:
        while not self.trained(name) and self.clock.part < END:
            time.sleep(0.5)

    def trained(self, name: str) -> bool:
        return (self.part(name).folder / "training.json").exists()

    # --- The order of it ---------------------------------------------------------------------------------------------

    def run(self, say: Callable[[str], None] = print) -> list[str]:
        """All of it; returns what failed or was too late."""
        for ratio in infilling.RATIOS:  # the masks, before several ask for them at once
            for split in ("valid", "test"):
                self.part(JUDGE).masks(split, ratio)
        waiting = [(start, name) for name, (start, _) in SPANS[self.corpus].items()]
        beams = [self._beams(name) for name in SHARES if name in SPANS[self.corpus]]
        while waiting or beams or not self.done(list(self.running)):
            for entry in [entry for entry in waiting if entry[0] <= self.clock.part]:
                waiting.remove(entry)
                say(f"{self.clock.part:6.1%} {self.launch(self.system, entry[1])}")
            beams = [beam for beam in beams if next(beam, False)]
            if self.clock.part > END:
                break
            time.sleep(0.3)
        return self.stop()

    def _beams(self, name: str) -> Iterator[bool]:
        """The way of a system that fills with a beam, once it is trained: the best beam, then the shares of the fills.

        Yields while there is nothing to do but wait.
        """
        part, training = self.part(name), self.name_of(self.system, name)
        while not self.trained(name):
            if training in self.running and self.done([training]):
                return  # it failed
            yield True
        beams = range(len(part.system.choices)) if len(part.system.choices) > 1 else ()
        names = [self.launch(self.choice, name, beam, ratio) for beam in beams for ratio in infilling.RATIOS]
        while not self.done(names):
            yield True
        shares = {ratio: SHARES[name].get(ratio, 1) for ratio in infilling.RATIOS if not part.filled(ratio)}
        names = [self.launch(self.share, name, ratio, n, of) for ratio, of in shares.items() for n in range(of)]
        while not self.done(names):
            yield True
        if any(self.running[share].exitcode for share in names):
            return
        for ratio, of in shares.items():
            part.join_shares(ratio, of)
        self.launch(self.finish, name)


def main(arguments: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(description="Every system of an infilling table, within a clock.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--corpus", choices=SPANS, default="yahoo")
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--backbone")
    parser.add_argument("--eager", action="store_true", help="compile nothing: for a trial of a minute")
    chosen = parser.parse_args(arguments)
    settings = {"texts": chosen.texts, "backbone": chosen.backbone}
    together = Infilled(
        out=chosen.out, corpus=chosen.corpus, clock=Clock(chosen.seconds), settings=settings, compiles=not chosen.eager
    )
    failed = together.run(lambda line: print(line, flush=True))
    rows = [part for part in infilling.parts_of(chosen.corpus, out=chosen.out, **settings) if part.row.exists()]
    print(infilling.table(infilling.main(rows)))
    together.tell(failed)
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
