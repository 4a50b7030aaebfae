"""Perplexities within minutes: several systems side by side on one GPU, each trained and measured by the clock.

    python -m blanklm.recipes.language_modelling_at_once OUT --seconds 450 --parts ptb:blm+ ptb:lm+ wikitext2:blm+ ...

Folder and files are those of recipes/language_modelling.py, which finishes what the clock cut off. A system that fails
does not stop the others: what each has to say is in OUT/logs. Let several processes use the GPU at a time (CUDA MPS),
but few: each step is begun by its process, and those share the cores.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from blanklm.recipes import language_modelling
from blanklm.recipes.language_modelling import Part
from blanklm.recipes.reproduction import Clock, Together

LATEST = 0.9  # when training may end at the latest, in parts of the time there is: its end has to be written down
MEASURING = 0.95  # when measuring ends


@dataclass(kw_only=True)
class Measured(Together):
    """The processes of the parts: ``corpus:name``, with a + where a system is worth compiling."""

    orders: int = 100
    training: float = 0.66  # when training ends, in parts of the time

    def part(self, name: str, **settings) -> Part:
        corpus, _, system = name.removesuffix("+").partition(":")
        compiles = name.endswith("+")
        (part,) = language_modelling.parts_of(
            corpus, [system], out=self.out, workers=2, compiles=compiles, orders=self.orders, **settings
        )
        return part

    def train_and_measure(self, name: str) -> None:
        self.part(name, seconds=max(1.0, self.clock.left_until(self.training))).train(self.say)
        self.part(name).measure(self.say, until=lambda: self.clock.part > MEASURING)

    def run(self, names: list[str], say: Callable[[str], None] = print) -> list[str]:
        """All of it; returns what failed or was too late."""
        for corpus in {name.partition(":")[0] for name in names}:
            language_modelling.tokenised(corpus)  # once, for all processes
        for name in names:
            say(f"{self.clock.part:6.1%} {self.launch(self.train_and_measure, name)}")
        while not self.done(list(self.running)) and self.clock.part < MEASURING + 0.03:
            time.sleep(0.3)
        return self.stop()


def main(arguments: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(description="Systems of the language-modelling table at once, within a clock.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--training", type=float, default=0.66, help="when training ends, in parts of the seconds")
    parser.add_argument("--orders", type=int, default=100)
    parser.add_argument("--parts", nargs="+", default=["ptb:blm+", "ptb:lm", "ptb:insertion", "wikitext2:blm+"])
    chosen = parser.parse_args(arguments)
    if not 0 < chosen.training <= LATEST:
        parser.error(f"--training is a share of the seconds, at most {LATEST}: what is cut off is trained again")
    clock = Clock(chosen.seconds)
    together = Measured(out=chosen.out, corpus="all", clock=clock, orders=chosen.orders, training=chosen.training)
    failed = together.run(chosen.parts, lambda line: print(line, flush=True))
    rows = [part for part in map(together.part, chosen.parts) if part.row.exists()]
    print(language_modelling.table([language_modelling.read_row(part) for part in rows]))
    together.tell(failed)
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
