"""What a run keeps on disk beside its best model: its settings, its metrics and its newest state."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import load
from accelerate.utils.constants import RNG_STATE_NAME

from blanklm.errors import CheckpointError, TrainingError
from blanklm.files import replacing
from blanklm.training.progress import Progress

Settings = dict[str, Any]  # as JSON has them
LENGTH = ("steps", "seconds")  # settings that say how long a run is: it can be resumed with others


def check_folder(path: Path, resume: bool) -> None:
    """Refuse a folder that holds a run or a model, or to resume a run that is not there."""
    if resume:
        if not (path / "run.json").exists():
            raise TrainingError(f"there is no run to resume in {path}: start one without --resume (resume=True)")
    elif (path / "run.json").exists():
        raise TrainingError(
            f"{path} holds a run already: continue it with --resume (resume=True), or choose another folder"
        )
    elif (path / "config.json").exists():
        raise TrainingError(f"{path} holds a model already: choose another folder")


class RunFolder:
    """The folder of a run. All processes of the run call its methods; the first of them writes."""

    def __init__(self, path: Path, accelerator: Accelerator) -> None:
        self.path, self.accelerator = path, accelerator
        self.settings, self.metrics = path / "run.json", path / "metrics.jsonl"

    # --- Settings -------------------------------------------------------------------------------------------------

    def check_unused(self) -> None:
        """Refuse a folder that holds a run or a model."""
        check_folder(self.path, resume=False)
        self.accelerator.wait_for_everyone()  # until all have looked

    def write_settings(self, settings: Settings) -> None:
        """Mark the folder as that of a run, with its settings."""
        if self.accelerator.is_main_process:
            with replacing(self.settings) as path:
                path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")

    def check_settings(self, settings: Settings) -> None:
        """Refuse to resume a run with other settings than it was started with, but for how long it is."""
        check_folder(self.path, resume=True)
        before = self.read_settings()
        for part, values in settings.items():
            if _fixed(before.get(part)) != _fixed(values):
                raise TrainingError(f"cannot resume {self.path}: {_difference(part, before.get(part), values)}")

    def read_settings(self) -> Settings:
        try:
            return dict(json.loads(self.settings.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise TrainingError(f"{self.settings} is damaged: start again in another folder") from None

    # --- States ---------------------------------------------------------------------------------------------------

    def save_state(self, step: int) -> None:
        """Write the whole state under a temporary name, then rename it, and only then delete the older ones."""
        temporary, final = self.path / "unfinished-state", self.path / f"state-{step:08d}"
        if self.accelerator.is_main_process:
            shutil.rmtree(temporary, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        try:
            self.accelerator.save_state(str(temporary))
        except (OSError, RuntimeError) as error:
            raise CheckpointError(
                f"cannot write {final} ({error}); the state before it is intact: free some space and resume the run"
            ) from None
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            shutil.rmtree(final, ignore_errors=True)
            temporary.rename(final)
            for older in self.path.glob("state-*"):
                if older != final:
                    shutil.rmtree(older, ignore_errors=True)

    def load_state(self) -> bool:
        """Restore the newest state; False if none has been saved yet."""
        newest = max(self.path.glob("state-*"), default=None)
        if newest is None:
            return False
        random_states = newest / f"{RNG_STATE_NAME}_{self.accelerator.process_index}.pkl"
        if not random_states.exists():  # Accelerate goes on without: as another run
            missing = f"there is no {random_states.name}"
            raise TrainingError(f"{newest} is damaged ({missing}): start again in another folder")
        try:
            # Read as data alone first: Accelerate would run what some of these pickles say, and pass over random
            # states that it cannot read, so that the run would go on as another one.
            for pickled in newest.glob("*.pkl"):
                load(pickled)
            self.accelerator.load_state(str(newest))
        except Exception as error:  # whatever a damaged file makes its reader raise
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise TrainingError(f"{newest} is damaged ({reason}): start again in another folder") from None
        return True

    # --- Metrics --------------------------------------------------------------------------------------------------

    def log(self, progress: Progress, values: dict[str, float]) -> None:
        """Write ``values`` down for a step, with where the run stands, which is left out of TensorBoard."""
        self.accelerator.log(values, step=progress.step)
        if self.accelerator.is_main_process:
            position = {name: getattr(progress, name) for name in ("step", "epoch", "tokens")}
            record = position | {"seconds": round(progress.seconds, 3)} | values
            with open(self.metrics, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def drop_metrics_after(self, step: int) -> None:
        """Drop what a killed run logged after its last saved state: it will be logged again; and what is no log."""
        if not self.accelerator.is_main_process or not self.metrics.exists():
            return
        kept = []
        for line in self.metrics.read_bytes().splitlines():
            try:
                if int(json.loads(line)["step"]) <= step:
                    kept.append(line + b"\n")
            except (ValueError, TypeError, KeyError, RecursionError):
                continue  # such as the line that was being written when the run was killed
        with replacing(self.metrics) as temporary:
            temporary.write_bytes(b"".join(kept))


def settings_of_run(path: Path) -> Settings:
    """Return the training settings of the run in a folder; none if there is none."""
    file = path / "run.json"
    try:
        return dict(json.loads(file.read_text(encoding="utf-8"))["training"]) if file.exists() else {}
    except (ValueError, TypeError, KeyError):
        return {}  # a damaged file is named when the run is resumed


def _fixed(values: Any) -> Any:
    """Leave out what may change when a run is resumed."""
    return {key: value for key, value in values.items() if key not in LENGTH} if isinstance(values, dict) else values


def _difference(part: str, before: Any, now: Any) -> str:
    if not isinstance(before, dict) or not isinstance(now, dict):
        return f"it was started on other {part}"
    for key in _fixed(before | now):
        if before.get(key) != now.get(key):
            return f"{part} setting {key} was {before.get(key)} and is now {now.get(key)}"
    return f"its {part} settings differ"
