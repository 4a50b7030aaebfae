"""One training loop for every model, on Accelerate. A model brings two things: ``prepare(batch)``, what its
loss needs computed ahead, and ``loss(prepared) -> nats per text [B]``.

A run lives in one folder:
  config.json, tokenizer.json, model.safetensors   the best model so far (there from the first second)
  run.json                                         the settings, checked on resume
  metrics.jsonl, tensorboard/                      what happened
  state-00001000/                                  everything needed to go on, bit for bit, from that step
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import importlib.util
import json
import math
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, DistributedType, gather_object, load, set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import CheckpointError, TrainingError
from blanklm.training import checkpoint
from blanklm.training.epochs import Draw, training_epoch, validation_epoch
from blanklm.training.muon import Muon, hidden_matrices
from blanklm.training.streamed import Place, StreamedTexts

STEPS_WORTH_COMPILING = 500  # compiling takes the time of some hundred steps
PRECISIONS = ("auto", "bf16", "float32")
OPTIMIZERS = ("adamw", "muon")
WORKERS = 12  # processes that prepare batches for a GPU, where the machine has as many cores to spare


@dataclass(frozen=True)
class TrainingConfig:
    steps: int = 10_000
    tokens_per_batch: int = 8192
    learning_rate: float = 1e-3
    optimizer: str = "adamw"  # or muon, from nothing: it learns more in few steps, at two to four times the rate
    warmup: int = 500  # steps of linear rise; then a cosine falls to nothing at the last step
    weight_decay: float = 0.01
    clip: float = 1.0  # largest gradient norm
    skew: float = 1.0  # the shown share of a canvas is u^skew, u uniform: the bound at 1, fuller canvases below it
    canvases: int = 1  # of each text, side by side in its batch
    ema: float = 0.0  # decay of the averaged weights that are evaluated and kept; 0 keeps the last ones
    evaluate_every: int = 500
    save_every: int = 500
    log_every: int = 20
    patience: int = 0  # stop after this many evaluations without a better bound; 0 never stops early
    seed: int = 0
    precision: str = "auto"  # of activations: bf16 or float32; auto takes bf16 on a GPU
    seconds: float = 0.0  # above 0, the clock may end the run before its steps do, the learning rate falling in time

    def __post_init__(self) -> None:
        for name in ("steps", "tokens_per_batch", "canvases", "evaluate_every", "save_every", "log_every"):
            if getattr(self, name) < 1:
                raise TrainingError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("warmup", "weight_decay", "patience", "seconds"):
            if not getattr(self, name) >= 0:
                raise TrainingError(f"{name} must be 0 or more, not {getattr(self, name)}")
        for name in ("learning_rate", "clip", "skew"):
            if not 0 < getattr(self, name) < math.inf:
                raise TrainingError(f"{name} must be a number above 0, not {getattr(self, name)}")
        if self.precision not in PRECISIONS:
            raise TrainingError(f"precision must be {', '.join(PRECISIONS)}, not {self.precision!r}")
        if self.optimizer not in OPTIMIZERS:
            raise TrainingError(f"optimizer must be {' or '.join(OPTIMIZERS)}, not {self.optimizer!r}")
        if not 0 <= self.ema < 1:
            raise TrainingError(f"ema must be 0 (off) or a decay below 1, not {self.ema}")

    def learning_rate_at(self, step: int, seconds: float = 0.0) -> float:
        """As a fraction of the peak."""
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        done = self._done((step - self.warmup) / max(1, self.steps - self.warmup), seconds)
        return 0.5 * (1 + math.cos(math.pi * done))

    def _done(self, of_steps: float, seconds: float) -> float:
        """The share of the run that is over, by its steps or by the clock, whichever is ahead."""
        return min(1.0, max(of_steps, seconds / self.seconds if self.seconds else 0.0))


@dataclass
class Progress:
    """Where a run stands; saved and restored with its state."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already used
    tokens: int = 0
    seconds: float = 0.0
    places: list[Place] = field(default_factory=list)  # where each process stands in texts that are streamed
    running_loss: float = 0.0  # nats and tokens since the last line of the log
    running_tokens: int = 0
    best: float = math.inf  # lowest validation bound, nats per token
    best_step: int = 0
    evaluations_since_best: int = 0

    def state_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"places": [Place(**place) for place in state.get("places", ())]})


def train(
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: TokenisedTexts | StreamedTexts,
    validation: TokenisedTexts,
    config: TrainingConfig,
    folder: Path,
    resume: bool = False,
    about: dict[str, Any] | None = None,
    show_progress: bool = True,
) -> Progress:
    """Train until ``config.steps`` or until the validation bound stops falling; the best model is in ``folder``."""
    if not len(texts) or not len(validation):
        raise TrainingError("there is no text to train on" if not len(texts) else "there is no text to validate on")
    run = Run(model, tokenizer, texts, validation, config, folder, about)
    if resume:
        run.restore()
    else:
        run.begin()
    with run.bar(show_progress) as advance:
        run.go(advance)
    return run.progress


class Run:
    """The parts of a run that are saved together."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        texts: TokenisedTexts | StreamedTexts,
        validation: TokenisedTexts,
        config: TrainingConfig,
        folder: Path,
        about: dict[str, Any] | None,
        workers: int = WORKERS,
        compiles: bool = True,
    ) -> None:
        self.config, self.folder, self.tokenizer, self.about = config, folder, tokenizer, about
        self.texts, self.validation = texts, validation
        trackers = "tensorboard" if importlib.util.find_spec("tensorboard") else None
        gpu = torch.cuda.is_available()
        half = config.precision == "bf16" or (gpu and config.precision == "auto")
        AcceleratorState._reset_state()  # of a run before this one, which may have had another precision
        self.accelerator = Accelerator(
            mixed_precision="bf16" if half else "no",
            cpu=not gpu,
            log_with=trackers,
            project_dir=str(folder),
            kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)],  # they are constants
        )
        self.sharded = self.accelerator.distributed_type == DistributedType.FSDP
        if self.sharded and config.ema:
            raise TrainingError("an average of weights that are sharded over processes cannot be kept: leave out --ema")
        if self.sharded and config.optimizer == "muon":
            raise TrainingError("muon needs matrices that are whole, not sharded over processes: take adamw")
        if isinstance(texts, StreamedTexts) and config.canvases > 1:
            raise TrainingError("texts that are read while training have one canvas each")
        if (texts.context or validation.context) and not model.reads_context:
            raise TrainingError(f"{type(model).__name__} has no use for a context: give it texts alone")
        wanted = getattr(model.config, "context", texts.context)
        if wanted != texts.context:
            raise TrainingError(
                f"the model is to be given {wanted} tokens of context, and the texts have {texts.context}"
            )
        if config.seconds and self.accelerator.num_processes > 1:
            raise TrainingError("the clock can end a run of one process only: give a number of steps")
        set_seed(config.seed, device_specific=True)  # dropout of its own in every process
        on_gpu = self.accelerator.device.type == "cuda"
        kind, orthogonal = (Muon, hidden_matrices(model)) if config.optimizer == "muon" else (torch.optim.AdamW, [])
        groups = _decay_groups(model, config.weight_decay, orthogonal)
        optimizer = kind(groups, lr=config.learning_rate, betas=(0.9, 0.98), fused=on_gpu or None)
        if compiles and on_gpu and config.steps >= STEPS_WORTH_COMPILING:
            model.compile_parts()
        self.progress = Progress()
        self.began: float | None = None  # the clock, less the seconds of earlier parts of the run
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: config.learning_rate_at(step, self.elapsed)
        )
        self.preparation = Preparation(model, texts, self.accelerator, workers)
        # Every process steps its own copy of the schedule once a step, so Accelerate must not scale it.
        self.schedule = schedule
        with warnings.catch_warnings():  # its new name is not known to Accelerate yet
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated")
            self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.pieces = 1  # that a process cuts its part of a batch into, so that it fits in memory
        self.accelerator.register_for_checkpointing(self.progress, self.schedule)
        self.parameters = list(self.accelerator.unwrap_model(self.model).parameters())  # to find them takes a while
        self.averaged = None
        if config.ema:
            self.averaged = Average(self.accelerator.unwrap_model(self.model), config.ema)
            self.accelerator.register_for_checkpointing(self.averaged)

    # --- Beginning and going on --------------------------------------------------------------------------------

    @property
    def settings(self) -> dict[str, Any]:
        """What must be the same for a resumed run to be the same run, as JSON has it."""
        settings = {
            "training": dataclasses.asdict(self.config),
            "model": dataclasses.asdict(self.accelerator.unwrap_model(self.model).config),
            "texts": self.texts.fingerprint,
            "validation texts": self.validation.fingerprint,
        }
        return json.loads(json.dumps(settings))

    def _check_all_agree(self) -> None:
        """Processes that read other files or learnt another vocabulary would train as if nothing were wrong."""
        own = json.dumps(self.settings) + self.tokenizer.backend.to_str()
        if len(set(gather_object([hashlib.sha256(own.encode()).hexdigest()]))) > 1:
            raise TrainingError("the processes of this run do not have the same texts, vocabulary and settings")

    def begin(self) -> None:
        self._check_all_agree()
        if (self.folder / "run.json").exists():
            raise TrainingError(f"{self.folder} holds a run already: go on with --resume, or choose another folder")
        if (self.folder / "config.json").exists():
            raise TrainingError(f"{self.folder} holds a model already: choose another folder")
        self.accelerator.wait_for_everyone()  # until all have looked
        self._keep_best()
        if self.accelerator.is_main_process:
            with checkpoint.replacing(self.folder / "run.json") as path:
                path.write_text(json.dumps(self.settings, indent=2) + "\n", encoding="utf-8")
        self._start_trackers()

    def restore(self) -> None:
        states = sorted(self.folder.glob("state-*"))
        if not (self.folder / "run.json").exists():
            raise TrainingError(f"{self.folder} holds no run to resume: leave out --resume to begin one")
        try:
            before = dict(json.loads((self.folder / "run.json").read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise TrainingError(f"{self.folder / 'run.json'} is damaged: begin again in another folder") from None
        self._check_all_agree()
        for part, values in self.settings.items():
            if before.get(part) != values:
                raise TrainingError(f"cannot resume {self.folder}: {_difference(part, before.get(part), values)}")
        if states:
            try:
                # Read as data alone first: Accelerate would run what some of these pickles say, and pass over random
                # states that it cannot read, so that the run would go on as another one.
                for pickled in states[-1].glob("*.pkl"):
                    load(pickled)
                self.accelerator.load_state(str(states[-1]))
            except Exception as error:  # whatever a damaged file makes its reader raise
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                raise TrainingError(f"{states[-1]} is damaged ({reason}): begin again in another folder") from None
        if isinstance(self.texts, StreamedTexts) and states:
            before, now = len(self.progress.places), self.accelerator.num_processes
            if before != now:
                raise TrainingError(f"cannot resume {self.folder}: {before} processes shared its texts, not {now}")
        self._forget_metrics_after(self.progress.step)
        self._start_trackers()

    def _start_trackers(self) -> None:
        self.accelerator.init_trackers("tensorboard")

    def _forget_metrics_after(self, step: int) -> None:
        """What a killed run logged after its last saved state will be logged again."""
        path = self.folder / "metrics.jsonl"
        if not self.accelerator.is_main_process or not path.exists():
            return
        kept = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except json.JSONDecodeError:
                break  # the line that was being written when the run was killed
        with checkpoint.replacing(path) as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")

    # --- The loop ----------------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Seconds that the run has gone on for, those before it was resumed included."""
        return self.progress.seconds if self.began is None else time.perf_counter() - self.began

    def go(self, advance) -> None:
        """Train from where the run stands to its end; ``advance`` is told loss and speed now and then."""
        try:
            self._loop(advance)
        except RuntimeError as error:
            if not _lost_contact(error):
                raise
            raise TrainingError(
                f"another process of this run died, or the connection to it, after step {self.progress.step}: "
                "start all of them again with --resume"
            ) from None

    def _loop(self, advance) -> None:
        progress, config = self.progress, self.config
        before = progress.running_loss if self.accelerator.is_main_process else 0.0
        running = torch.tensor(before, device=self.accelerator.device)
        since, tokens_since = time.perf_counter(), 0
        self.began = since - progress.seconds
        self.model.train()
        for planned, prepared, weight in self.preparation.ahead(self._plan()):
            tokens = self._tokens_of_all(planned)
            running = running + self._step(planned, prepared, weight, tokens)
            progress.step, progress.epoch, progress.batch = progress.step + 1, planned.epoch, planned.batch
            progress.running_tokens += tokens
            progress.tokens += tokens
            tokens_since += tokens
            last = progress.step == config.steps or 0 < config.seconds <= self.elapsed
            if progress.step % config.log_every == 0 or last:
                loss = self._checked(running) / progress.running_tokens
                now = time.perf_counter()
                speed = tokens_since / (now - since)
                progress.seconds += now - since
                rate = self.schedule.get_last_lr()[0]
                self._log({"loss": loss, "learning_rate": rate, "tokens_per_second": round(speed)})
                advance(loss, speed)
                running, since, tokens_since, progress.running_tokens = torch.zeros_like(running), now, 0, 0
            if progress.step % config.evaluate_every == 0 or last:
                self._evaluate()
            if progress.step % config.save_every == 0 or last:
                progress.running_loss = self._checked(running)
                progress.places = gather_object([planned.place]) if planned.place is not None else []
                self._save_state()
            if last or (config.patience and progress.evaluations_since_best >= config.patience):
                break
        self.accelerator.wait_for_everyone()  # a process that leaves early takes its connections from the others
        self.accelerator.end_training()

    def _checked(self, running: torch.Tensor) -> float:
        """The sum over processes. Stop before anything that is not a number can reach the log or the disk."""
        total = float(self.accelerator.reduce(running, "sum"))
        if not math.isfinite(total):
            raise TrainingError(
                f"the loss is not a number by step {self.progress.step}: lower --learning-rate; "
                f"the best model and the last saved state in {self.folder} are sound"
            )
        return total

    def _plan(self) -> Iterator[Planned]:
        """The batches from here to the last step, each with where the run stands after it."""
        epoch, batch, step = self.progress.epoch, self.progress.batch, self.progress.step
        budget, seed, skew = self.config.tokens_per_batch, self.config.seed, self.config.skew
        if isinstance(self.texts, StreamedTexts):
            rank, processes = self.accelerator.process_index, self.accelerator.num_processes
            place = self.progress.places[rank] if self.progress.places else None
            streamed = self.texts.batches(budget, seed, place, rank, processes, skew)
            for own in islice(streamed, self.config.steps - step):
                yield Planned(own.draw, own.tokens, own.epoch, own.after.batch, own.texts, own.after)
            return
        while step < self.config.steps:
            draws = training_epoch(self.texts, budget, seed, epoch, skew, self.config.canvases)
            for draw in draws[batch : batch + self.config.steps - step]:
                batch, step = batch + 1, step + 1
                tokens = int(self.texts.lengths[draw.indices].sum())
                yield Planned(draw, tokens, *((epoch + 1, 0) if batch == len(draws) else (epoch, batch)))
            epoch, batch = epoch + 1, 0

    def _tokens_of_all(self, planned: Planned) -> int:
        """The tokens of a batch over all processes; where texts are streamed, each knows only its own."""
        if planned.texts is None or self.accelerator.num_processes == 1:
            return planned.tokens
        return int(self.accelerator.reduce(torch.tensor(planned.tokens, device=self.accelerator.device), "sum"))

    def _step(self, planned: Planned, prepared: Any, weight: float, tokens: int) -> torch.Tensor:
        """One update on the sum of the batch's losses over its tokens; returns the sum, of this process's part."""
        accelerator = self.accelerator
        total = self._backward(planned, prepared, weight, tokens)
        if self.sharded:
            norm = accelerator.clip_grad_norm_(self.model.parameters(), self.config.clip).full_tensor()
        else:
            norm = nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        if self.averaged is not None:
            self.averaged.update(self.parameters)
        return total + 0.0 * norm  # a gradient that is not finite shows, like such a loss, in the sum

    def _backward(self, planned: Planned, prepared: Any, weight: float, tokens: int) -> torch.Tensor:
        """The gradients of the batch's loss over its tokens, and this process's part; in pieces where memory is short.

        The canvas of a text does not depend on its batch, so the pieces add up to the same gradients.
        """
        accelerator, exchanging = self.accelerator, False
        while True:
            pieces = [prepared] if self.pieces == 1 else self.preparation.in_pieces(planned, self.pieces)
            total = torch.zeros((), device=accelerator.device)
            try:
                for number, piece in enumerate(pieces, 1):
                    last = number == len(pieces)
                    with nullcontext() if last else accelerator.no_sync(self.model):
                        loss = self.model(piece).sum() * weight
                        exchanging = last and accelerator.num_processes > 1
                        # Distributed gradients are averaged over processes; the batch's loss is their sum.
                        accelerator.backward(loss * accelerator.num_processes / tokens)
                    total += loss.detach()
                return total
            except torch.OutOfMemoryError:
                if len(pieces) < self.pieces or exchanging or self.sharded:  # a text alone, or others wait for us
                    raise TrainingError(
                        f"out of memory at step {self.progress.step + 1}: lower --tokens-per-batch or --max-length"
                    ) from None
            self.optimizer.zero_grad()
            self.pieces *= 2
            if accelerator.device.type == "cuda":
                torch.cuda.empty_cache()

    @torch.no_grad()
    def _evaluate(self) -> None:
        """The validation bound in nats per token, on the same canvases every time."""
        progress, accelerator = self.progress, self.accelerator
        model = self._kept_model().eval()
        loss = self.model if self.sharded else model.loss  # only the wrapper brings sharded weights together
        total = torch.zeros((), device=accelerator.device)
        for draw in validation_epoch(self.validation, self.config.tokens_per_batch):
            part, weight = draw.part_or_first(accelerator.process_index, accelerator.num_processes)
            batch = model.prepare(part.collate(self.validation, self.preparation.on_gpu).to(accelerator.device))
            total += loss(batch).sum() * weight
        bound = float(accelerator.reduce(total, "sum")) / self.validation.tokens
        self.model.train()
        if not math.isfinite(bound):
            raise TrainingError(f"the validation bound is {bound} at step {progress.step}: lower --learning-rate")
        self._log({"valid_bound": bound, "valid_perplexity_bound": math.exp(min(bound, 700.0))})
        if bound < progress.best:
            progress.best, progress.best_step, progress.evaluations_since_best = bound, progress.step, 0
            self._keep_best()
        else:
            progress.evaluations_since_best += 1

    # --- Keeping ----------------------------------------------------------------------------------------------

    def _kept_model(self) -> nn.Module:
        return self.averaged.model if self.averaged is not None else self.accelerator.unwrap_model(self.model)

    def _keep_best(self) -> None:
        weights = self.accelerator.get_state_dict(self.model) if self.sharded else None  # every process has a part
        if self.accelerator.is_main_process:
            checkpoint.save(self.folder, self._kept_model(), self.tokenizer, self.about, weights=weights)

    def _save_state(self) -> None:
        """Write state-N under another name, rename it when whole, and only then drop the ones before it."""
        temporary, final = self.folder / "unfinished-state", self.folder / f"state-{self.progress.step:08d}"
        if self.accelerator.is_main_process:
            shutil.rmtree(temporary, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        try:
            self.accelerator.save_state(str(temporary))
        except (OSError, RuntimeError) as error:
            raise CheckpointError(
                f"cannot write {final} ({error}); the states before it are untouched: free some space and --resume"
            ) from None
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            shutil.rmtree(final, ignore_errors=True)
            temporary.rename(final)
            for older in self.folder.glob("state-*"):
                if older != final:
                    shutil.rmtree(older, ignore_errors=True)

    def _log(self, values: dict[str, float]) -> None:
        step = self.progress.step
        self.accelerator.log(values, step=step)
        if self.accelerator.is_main_process:
            record = {"step": step, "epoch": self.progress.epoch, "tokens": self.progress.tokens, **values}
            with open(self.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(record | {"seconds": round(self.progress.seconds, 3)}) + "\n")

    @contextmanager
    def bar(self, show: bool) -> Iterator[Any]:
        """A progress bar with loss, tokens/s and time left, on the main process's terminal."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        steps = (TextColumn("step"), MofNCompleteColumn(), BarColumn())
        columns = (*steps, TextColumn("{task.description}"), TimeRemainingColumn())
        shown = show and self.accelerator.is_main_process
        with Bar(*columns) if shown else nullcontext() as bar:
            task = bar.add_task("", total=self.config.steps, completed=self.progress.step) if shown else None

            def advance(loss: float, speed: float) -> None:
                if bar is not None:
                    best = "" if math.isinf(self.progress.best) else f", best valid {self.progress.best:.3f}"
                    words = f"loss {loss:.3f} nats/token{best}, {speed:,.0f} tokens/s"
                    bar.update(task, completed=self.progress.step, description=words)

            yield advance


@dataclass(frozen=True)
class Planned:
    """A batch to come, its tokens over all processes, and where the run stands when it is done."""

    draw: Draw
    tokens: int
    epoch: int
    batch: int
    texts: TokenisedTexts | None = None  # where they are streamed: this process's own, and its tokens and place
    place: Place | None = None


class Average:
    """An exponential moving average of a model's weights, which leaves the first, random ones behind quickly."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay, self.updates = copy.deepcopy(model).requires_grad_(False), decay, 0
        self.model.uncompile_read_out()  # the average is only evaluated: not worth compiling
        self.parameters = list(self.model.parameters())

    @torch.no_grad()
    def update(self, parameters: list[nn.Parameter]) -> None:
        self.updates += 1
        decay = min(self.decay, self.updates / (10 + self.updates))
        torch._foreach_lerp_(self.parameters, parameters, 1 - decay)

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]


class Preparation(Dataset):
    """This process's part of each planned batch, as the model wants it, and its weight in the batch's loss.

    On a GPU, worker processes prepare the batches to come on the CPU: the GPU has nothing to do but train, and the
    process that keeps it busy never waits for a count of symbols or blanks.
    """

    def __init__(
        self,
        model: nn.Module,
        texts: TokenisedTexts | StreamedTexts,
        accelerator: Accelerator,
        workers: int = WORKERS,
    ) -> None:
        self.texts, self.device = texts, accelerator.device
        self.workers = max(2, min(workers, (os.cpu_count() or 2) - 2))
        self.rank, self.processes = accelerator.process_index, accelerator.num_processes
        self.on_gpu = self.device.type == "cuda"
        self.model = copy.deepcopy(model) if self.on_gpu else model  # stays on the CPU when the model moves

    def __getitem__(self, planned: Planned) -> tuple[Planned, Any, float]:
        part, texts, weight = self._part(planned)
        return planned, self.model.prepare(part.collate(texts, self.on_gpu)), weight

    def _part(self, planned: Planned) -> tuple[Draw, TokenisedTexts, float]:
        if planned.texts is not None:
            return planned.draw, planned.texts, 1.0
        part, weight = planned.draw.part_or_first(self.rank, self.processes)
        return part, self.texts, weight

    def in_pieces(self, planned: Planned, pieces: int) -> list[Any]:
        """This process's part in as many pieces, or as many as it has texts, on the device."""
        part, texts, _ = self._part(planned)
        cut = [part.part(number, pieces) for number in range(pieces)]
        prepared = [self.model.prepare(piece.collate(texts, self.on_gpu)) for piece in cut if len(piece.indices)]
        return [_moved(piece, self.device) for piece in prepared]

    def ahead(self, plan: Iterator[Planned]) -> Iterator[tuple[Planned, Any, float]]:
        """Every planned batch, in order."""
        if not self.on_gpu:
            yield from map(self.__getitem__, plan)
            return
        beside, training = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)
        for planned, prepared, weight in self.in_workers(plan, self.workers):
            with torch.cuda.stream(beside):  # a copy waits for what its stream has queued, so not after the last step
                moved = _moved(prepared, self.device, training)
            training.wait_stream(beside)
            yield planned, moved, weight

    def in_workers(self, plan: Iterator[Planned], workers: int) -> DataLoader:
        """Every planned batch, in order, prepared by other processes."""
        return DataLoader(self, batch_size=None, sampler=plan, num_workers=workers, prefetch_factor=2)


def _moved(value: Any, device: torch.device, used_on: torch.cuda.Stream | None = None) -> Any:
    """The tensors of a dataclass on a device, kept there until the other stream that uses them is done with them."""
    if isinstance(value, torch.Tensor):
        value = value.to(device, non_blocking=True)
        if used_on is not None:
            value.record_stream(used_on)
    elif dataclasses.is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return type(value)(**{name: _moved(part, device, used_on) for name, part in parts.items()})
    return value


def _lost_contact(error: RuntimeError) -> bool:
    """Whether an exchange between processes failed; gloo has no error class of its own."""
    signs = ("closed by peer", "reset by peer", "Broken pipe", "gloo")
    return isinstance(error, torch.distributed.DistError) or any(sign in str(error) for sign in signs)


def _decay_groups(model: nn.Module, weight_decay: float, orthogonal: list[nn.Parameter]) -> list[dict[str, Any]]:
    """Decay the matrices; leave biases and norms alone. A group for matrices with ``orthogonal`` updates (Muon)."""
    apart = {id(matrix) for matrix in orthogonal}
    matrices = [p for p in model.parameters() if p.dim() > 1 and id(p) not in apart]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
    if orthogonal:
        groups.append({"params": orthogonal, "weight_decay": weight_decay, "orthogonal": True})
    return groups


def _difference(part: str, before: Any, now: Any) -> str:
    if not isinstance(before, dict) or not isinstance(now, dict):
        return f"it was started on other {part}"
    for key in before | now:
        if before.get(key) != now.get(key):
            return f"{part} setting {key} was {before.get(key)} and is now {now.get(key)}"
    return f"its {part} settings differ"
