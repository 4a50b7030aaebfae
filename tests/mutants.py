"""Break the code on purpose, one line at a time, and see that a test notices: mutants that no test kills.

    python tests/mutants.py [--only WORDS]

Each mutant is a mistake that would make numbers look better than they are, or a model learn something else than it
says, without any error. It is put into a copy of ``src``, and the tests that should notice are run on it. Exit 1 if one
survives. ``test_gates.py`` sees that all of them can still be applied.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Mutant:
    """What would be wrong, where, and the tests that should fail."""

    name: str
    file: str  # under src/blanklm
    right: str
    wrong: str
    tests: str

    def apply(self, src: Path) -> None:
        path = src / "blanklm" / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.right) != 1:
            raise SystemExit(f"{self.name}: {self.right!r} stands {text.count(self.right)} times in {self.file}")
        path.write_text(text.replace(self.right, self.wrong), encoding="utf-8")


MUTANTS = [
    Mutant(
        "decoding chosen on test canvases",
        "paper/tables/infilling.py",
        'masked = self.masks("valid", ratio)',
        'masked = self.masks("test", ratio)',
        "tests/paper/tables/test_infilling.py",
    ),
    Mutant(
        "held-out documents of Yahoo in training",
        "paper/tables/infilling_systems.py",
        "train=lambda: _yahoo()[HELD_OUT:]",
        "train=lambda: _yahoo()[HELD_OUT // 2:]",
        "tests/paper/tables/test_infilling.py",
    ),
    Mutant(
        "a test file of Latin in training",
        "paper/bundled/latin.py",
        'read_corpus("edh_latin", "train")',
        'read_corpus("edh_latin", "test")',
        "tests/paper/tables/test_restoration.py",
    ),
    Mutant(
        "editors' restorations read where a text is placed and dated",
        "paper/bundled/attribution_recipe.py",
        're.sub(r"\\[[^\\]]*\\]", "#", inscription.text)',
        're.sub(r"[\\[\\]]", "", inscription.text)',
        "tests/paper/bundled/test_attribution.py",
    ),
    Mutant(
        "inscriptions of the training file asked about",
        "paper/tables/restoration.py",
        "for text in texts if text not in known]",
        "for text in texts]",
        "tests/paper/tables/test_restoration.py",
    ),
    Mutant(
        "test texts that stand in training scored",
        "paper/tasks/restoration.py",
        "if m.text not in known",
        "if m.text",
        "tests/paper/tasks/test_restoration.py",
    ),
    Mutant(
        "the classifier that ranks as the judge",
        "paper/tables/sentiment.py",
        'from_pretrained(folder / "judge" / "run")',
        'from_pretrained(folder / "classifier" / "run")',
        "tests/paper/tables/test_sentiment.py",
    ),
    Mutant(
        "the classifier that ranks as the judge of settings",
        "paper/tables/sentiment_choice.py",
        'from_pretrained(out / corpus / "judge" / "run")',
        'from_pretrained(out / corpus / "classifier" / "run")',
        "tests/paper/tables/test_sentiment.py",
    ),
    Mutant(
        "the loss divided by texts",
        "training/run.py",
        "accelerator.num_processes / tokens)",
        "accelerator.num_processes / len(planned.draw.indices))",
        "tests/training/test_run.py",
    ),
    Mutant(
        "the place within an epoch lost on resume",
        "training/run.py",
        "progress.step, progress.epoch, progress.batch)",
        "progress.step, progress.epoch, 0)",
        "tests/training/test_run.py",
    ),
    Mutant(
        "the same random stream in every process",
        "training/streamed.py",
        "SeedSequence([seed, rank, begin.shard, begin.text])",
        "SeedSequence([seed, begin.shard, begin.text])",
        "tests/training/test_streamed.py",
    ),
    Mutant(
        "errors of calibration that cancel out",
        "paper/tasks/metrics.py",
        "total += abs(sum(probabilities[i] - right[i] for i in members))",
        "total += sum(probabilities[i] - right[i] for i in members)",
        "tests/paper/tasks/test_restoration.py",
    ),
    Mutant(
        "an average that remembers the initial weights",
        "training/optimizer.py",
        "decay = min(self.decay, self.updates / (10 + self.updates))",
        "decay = self.decay",
        "tests/training/test_run.py",
    ),
    Mutant(
        "held-out paragraphs of the novels in training",
        "paper/tables/sentence_completion.py",
        "(train if number % stride else held_out)",
        "(train if number >= 0 else held_out)",
        "tests/paper/tables/test_sentence_completion.py",
    ),
    Mutant(
        "a tie for a right answer",
        "paper/tasks/choices.py",
        "log_p[asked.answer] > other",
        "log_p[asked.answer] >= other",
        "tests/paper/tasks/test_choices.py",
    ),
    Mutant(
        "what a person wrote compared with itself",
        "paper/tasks/middles.py",
        "Item(item.text, item.references[1:], item.before)",
        "Item(item.text, item.references, item.before)",
        "tests/paper/tasks/test_middles.py",
    ),
    Mutant(
        "a budget of steps for one of tokens",
        "paper/runner.py",
        "round(self.tokens / batch)",
        "round(self.tokens / 8192)",
        "tests/paper/test_runner.py",
    ),
    Mutant(
        "Pythia is not told how many characters are to come",
        "paper/baselines/pythia.py",
        "self.embedding(before), self.to_come(to_come)",
        "self.embedding(before), self.to_come(0 * to_come)",
        "tests/paper/baselines/test_pythia.py",
    ),
    Mutant(
        "Pythia attends to padding",
        "paper/baselines/pythia.py",
        "logits.masked_fill(~inside[:, None], -torch.inf).softmax(2)",
        "logits.softmax(2)",
        "tests/paper/baselines/test_pythia.py",
    ),
    Mutant(
        "Pythia begins from one end of the slot",
        "paper/baselines/pythia.py",
        "read[row, start], read[row, end]",
        "read[row, start], read[row, start]",
        "tests/paper/baselines/test_pythia.py",
    ),
    Mutant(
        "Pythia-Word does not read words",
        "paper/baselines/pythia.py",
        "self.word_embedding(word)), dim=2)  # [B, T, 2 e]",
        "self.word_embedding(0 * word)), dim=2)  # [B, T, 2 e]",
        "tests/paper/baselines/test_pythia.py",
    ),
    Mutant(
        "Pythia does not see what it has written",
        "paper/baselines/pythia.py",
        "before = F.pad(answer[:, :-1], (1, 0), value=BLANK)",
        "before = torch.full_like(answer, BLANK)",
        "tests/paper/baselines/test_pythia.py",
    ),
    Mutant(
        "fewer words hidden than the table says",
        "data/masking.py",
        "math.ceil(Fraction(str(ratio)) * len(words))",
        "math.floor(Fraction(str(ratio)) * len(words))",
        "tests/paper/tasks/test_infilling.py",
    ),
    Mutant(
        "the temperature of a perplexity fitted on test texts",
        "paper/tables/language_modelling.py",
        '_perplexity(self.load(t), self.eval_sets["fit"], draws=4)',
        '_perplexity(self.load(t), self.eval_sets["test"], draws=4)',
        "tests/paper/tables/test_language_modelling.py",
    ),
    Mutant(
        "settings of transfer chosen on test sentences",
        "paper/tables/sentiment_choice.py",
        'records_of(out, corpus, system, "valid")',
        'records_of(out, corpus, system, "test")',
        "tests/paper/tables/test_sentiment.py",
    ),
    Mutant(
        "probabilities of options fitted on the questions that they are measured on",
        "paper/tables/choosing.py",
        "fit(log_p[half], words[half], answers[half])",
        "fit(log_p[rest], words[rest], answers[rest])",
        "tests/paper/tables/test_choosing.py",
    ),
    Mutant(
        "bold though a row has no interval",
        "paper/render/source.py",
        "len(compared) > 1 and all(ranges[number] for number in compared)",
        "len(compared) > 1",
        "tests/paper/test_render.py",
    ),
    Mutant(
        "a restoration run that was cut off reads the same canvases again",
        "paper/bundled/staged_run.py",
        "epoch = self.progress.epoch + 1 if self.progress.step else 0",
        "epoch = 0",
        "tests/paper/bundled/test_staged_run.py",
    ),
    Mutant(
        "what follows a blank is not read in the harness",
        "paper/lm_eval.py",
        "text = (*ids[:place], *tokens, *ids[place + 1 :])",
        "text = (*ids[:place], *tokens)",
        "tests/paper/test_lm_eval.py",
    ),
]


def survives(mutant: Mutant) -> bool:
    """Run the tests of a mutant on a copy of the package that has it."""
    with tempfile.TemporaryDirectory() as folder:
        src = Path(folder) / "src"
        shutil.copytree(ROOT / "src", src, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
        for weights in (ROOT / "src").rglob("*.safetensors"):
            (src / weights.relative_to(ROOT / "src")).symlink_to(weights)
        mutant.apply(src)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutant.tests]
        environment = os.environ | {"PYTHONPATH": str(src), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="of the name of a mutant")
    options = parser.parse_args()
    left = []
    for mutant in MUTANTS:
        if options.only in mutant.name:
            alive = survives(mutant)
            print(f"{'SURVIVES' if alive else 'killed':8}  {mutant.name}", flush=True)
            left += [mutant.name] * alive
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
