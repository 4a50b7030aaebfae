"""One training loop for every model, on Accelerate.

A run lives in one folder:
  config.json, tokenizer.json, model.safetensors   the best model so far (there from the first second)
  run.json                                         the settings, checked on resume
  metrics.jsonl, tensorboard/                      what happened
  state-00001000/                                  everything needed to continue, bit for bit, from that step
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import DistributedType, gather_object, set_seed
from torch import Tensor, nn

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import TrainingError
from blanklm.models.model import Model
from blanklm.training import checkpoint
from blanklm.training.config import TrainingConfig
from blanklm.training.epochs import PlannedBatch, plan_epochs, validation_epoch
from blanklm.training.folder import RunFolder, Settings
from blanklm.training.interruption import Interruption, interruption
from blanklm.training.optimizer import Average, new_optimizer
from blanklm.training.prepare import Preparation, move
from blanklm.training.processes import check_fit_together, lost_contact, new_accelerator
from blanklm.training.progress import Advance, Progress, duration, progress_bar, say
from blanklm.training.quantise import grouped_matrices, rounded_in_place
from blanklm.training.streamed import StreamedTexts

SAVE_SECONDS = 60.0  # of work, at most, that is lost when a run is killed,
SAVING = 0.02  # unless saving would take more than this share of the time
ESTIMATE_SECONDS = 3.0  # of work after which the time of a run is estimated
STEPS_WORTH_COMPILING = 500  # compiling takes the time of some hundred steps


def train(
    model: Model,
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
    if show_progress and run.accelerator.is_main_process:
        if resume:
            say(run.standing)
        with progress_bar(run.progress, config) as watch:
            run.go(watch.advance, watch.estimate)
    else:
        run.go(lambda loss, speed: None)
    return run.progress


class Run:
    """A model in training: ``begin`` or ``restore`` it, then let it ``go``."""

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        texts: TokenisedTexts | StreamedTexts,
        validation: TokenisedTexts,
        config: TrainingConfig,
        folder: Path,
        about: dict[str, Any] | None,
        compiles: bool = True,
    ) -> None:
        self.config, self.folder, self.tokenizer, self.about = config, folder, tokenizer, about
        self.texts, self.validation = texts, validation
        self.accelerator = new_accelerator(config.precision, folder)
        self.sharded = self.accelerator.distributed_type == DistributedType.FSDP  # weights are, over the processes
        self.files = RunFolder(folder, self.accelerator)
        check_fit_together(model, texts, validation, config, self.accelerator)
        set_seed(config.seed, device_specific=True)  # each process has its own dropout
        on_gpu = self.accelerator.device.type == "cuda"
        optimizer = new_optimizer(model, config, fused=on_gpu)
        if compiles and on_gpu and config.steps >= STEPS_WORTH_COMPILING:
            model.compile_parts()
        self.preparation = Preparation(model, texts, self.accelerator)
        self.progress = Progress()
        self.began: float | None = None  # the clock, less the seconds before the run was resumed
        # Every process steps its own copy of the schedule once a step, so Accelerate must not scale it.
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: config.learning_rate_at(step, self.elapsed)
        )
        with warnings.catch_warnings():  # its new name is not known to Accelerate yet
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated")
            self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        plain: Model = self.accelerator.unwrap_model(self.model)
        self.parameters = list(plain.parameters())  # finding them takes a while
        self.average = Average(plain, config.ema) if config.ema else None
        self.kept_model = self.average.model if self.average else plain  # what is evaluated, and saved where it is best
        self.rounds = False  # whether passes see the weights rounded, by now
        self.matrices, self.kept_matrices = (
            list(grouped_matrices(part).values()) if config.bits else [] for part in (plain, self.kept_model)
        )
        self.saved_at = 0.0  # the clock when the state was last saved, or the run began
        self.save_after = SAVE_SECONDS  # of work since then
        self.pieces = 1  # that a process cuts its part of a batch into, so that it fits in memory
        saved = (self.progress, self.schedule, self.average)
        self.accelerator.register_for_checkpointing(*(part for part in saved if part is not None))

    # --- Starting and resuming ------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """What must be the same for a resumed run to be the same run, as JSON has it."""
        settings = {
            "training": dataclasses.asdict(self.config),
            "model": dataclasses.asdict(self.accelerator.unwrap_model(self.model).config),
            "texts": self.texts.fingerprint,
            "validation texts": self.validation.fingerprint,
        }
        return json.loads(json.dumps(settings))

    def begin(self) -> None:
        """Start the run in a folder that holds none."""
        self._check_agreement()
        self.files.check_unused()
        self._keep_best(trained=False)
        self.files.write_settings(self.settings)
        self.accelerator.init_trackers("tensorboard")

    def restore(self) -> None:
        """Continue the run in the folder from its newest state."""
        self._check_agreement()
        self.files.check_settings(self.settings)
        if self.files.load_state() and isinstance(self.texts, StreamedTexts):
            before, now = len(self.progress.places), self.accelerator.num_processes
            if before != now:
                raise TrainingError(f"cannot resume {self.folder}: {before} processes shared its texts, not {now}")
        self.rounds = self.config.rounds_at(self.progress.step - 1, self.progress.seconds)
        if self.progress.step > self.config.steps:
            raise TrainingError(f"the run has done {self.progress.step:,} steps already: give more --steps")
        self.files.write_settings(self.settings)  # which may be those of a longer run
        self.files.drop_metrics_after(self.progress.step)
        self.accelerator.init_trackers("tensorboard")

    def _check_agreement(self) -> None:
        """Refuse processes that read other files or learnt another vocabulary: they would train without an error."""
        settings = json.dumps(self.settings) + self.tokenizer.backend.to_str()
        if len(set(gather_object([hashlib.sha256(settings.encode()).hexdigest()]))) > 1:
            raise TrainingError("the processes of this run do not have the same texts, vocabulary and settings")

    @property
    def standing(self) -> str:
        """Say in words where the run continues."""
        progress, config = self.progress, self.config
        if not progress.step:
            return f"nothing has been saved in {self.folder} yet: the run starts again"
        done = f"step {progress.step:,} of {config.steps:,}, after {duration(progress.seconds)}"
        if progress.step >= config.steps or 0 < config.seconds <= progress.seconds:
            return f"{self.folder} is done ({done}): a longer run needs more --minutes or --steps"
        return f"continuing {self.folder} at {done}"

    # --- The loop -------------------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """The seconds that the run has taken, those before it was resumed included."""
        return self.progress.seconds if self.began is None else time.perf_counter() - self.began

    def go(self, advance: Advance, estimate: Callable[[float], None] = lambda seconds: None) -> None:
        """Train from where the run stands to its end; ``advance`` is told loss and speed now and then.

        ``estimate`` is told once how many seconds a step takes. Ctrl-C saves before it stops.
        """
        if 0 < self.config.seconds <= self.progress.seconds:
            return
        try:
            with interruption(self.accelerator.num_processes == 1) as interrupted:
                self._loop(advance, estimate, interrupted)
        except RuntimeError as error:
            if not lost_contact(error):
                raise
            raise TrainingError(
                f"another process of this run died, or the connection to it, after step {self.progress.step}: "
                "start all of them again and resume the run"
            ) from None

    def _loop(self, advance: Advance, estimate: Callable[[float], None], interrupted: Interruption) -> None:
        progress, config = self.progress, self.config
        before = progress.running_loss if self.accelerator.is_main_process else 0.0
        running = torch.tensor(before, device=self.accelerator.device)  # nats of this process since the last log
        since, tokens_since = time.perf_counter(), 0
        self.began, self.saved_at, first = since - progress.seconds, since, progress.step
        estimated = False
        self.model.train()
        for planned, prepared, weight in self.preparation.ahead(self._plan()):
            tokens = self._tokens_of_all(planned)
            running = running + self._step(planned, prepared, weight, tokens)
            progress.step, progress.epoch, progress.batch = progress.step + 1, planned.epoch, planned.batch
            progress.running_tokens += tokens
            progress.tokens += tokens
            tokens_since += tokens
            last = progress.step == config.steps or 0 < config.seconds <= self.elapsed or interrupted.asked
            if not estimated and (work := time.perf_counter() - since) >= ESTIMATE_SECONDS and tokens_since > tokens:
                estimate(work / (progress.step - first))
                estimated = True
            if progress.step % config.log_every == 0 or last:
                loss = self._sum_over_processes(running) / progress.running_tokens
                now = time.perf_counter()
                speed = tokens_since / (now - since)
                progress.seconds += now - since
                rate = float(self.schedule.get_last_lr()[0])
                self.files.log(progress, {"loss": loss, "learning_rate": rate, "tokens_per_second": round(speed)})
                advance(loss, speed)
                running, since, tokens_since, progress.running_tokens = torch.zeros_like(running), now, 0, 0
            if progress.step % config.evaluate_every == 0 or last:
                self._evaluate()
            if progress.step % config.save_every == 0 or last or self._should_save():
                progress.running_loss = self._sum_over_processes(running)
                progress.places = gather_object([planned.place]) if planned.place is not None else []
                started = time.perf_counter()
                self.files.save_state(progress.step)
                self.saved_at = time.perf_counter()
                self.save_after = max(SAVE_SECONDS, (self.saved_at - started) / SAVING)
            if last or (config.patience and progress.evaluations_since_best >= config.patience):
                break
        self.accelerator.wait_for_everyone()  # a process that leaves early takes its connections from the others
        self.accelerator.end_training()
        if interrupted.asked and progress.step < config.steps:
            done = f"step {progress.step:,} of {config.steps:,}"
            say(f"saved at {done} in {self.folder}: continue with --resume (resume=True)")
            raise KeyboardInterrupt

    def _should_save(self) -> bool:
        """Whether it is time to save; processes agree on that where they wait for each other anyway."""
        passed = time.perf_counter() - self.saved_at >= self.save_after
        if self.accelerator.num_processes == 1:
            return passed
        if self.progress.step % self.config.log_every:
            return False
        return bool(self.accelerator.reduce(torch.tensor(float(passed), device=self.accelerator.device), "sum"))

    def _sum_over_processes(self, running: Tensor) -> float:
        """Sum the losses; stop before anything that is not a number can reach the log or the disk."""
        total = float(self.accelerator.reduce(running, "sum"))
        if not math.isfinite(total):
            raise TrainingError(
                f"the loss is not a number by step {self.progress.step}: lower the learning rate; "
                f"the best model and the last saved state in {self.folder} are sound"
            )
        return total

    def _plan(self) -> Iterator[PlannedBatch]:
        """Plan the batches from here to the last step."""
        progress, rank = self.progress, self.accelerator.process_index
        if isinstance(self.texts, TokenisedTexts):
            return plan_epochs(self.texts, self.config, progress.step, progress.epoch, progress.batch)
        place = progress.places[rank] if progress.places else None
        processes, config = self.accelerator.num_processes, self.config
        batches = self.texts.batches(config.tokens_per_batch, config.seed, place, rank, processes, config.skew)
        return islice(batches, config.steps - progress.step)

    def _tokens_of_all(self, planned: PlannedBatch) -> int:
        """Count the tokens of a batch over all processes; where texts are streamed, each knows only its own."""
        if planned.texts is None or self.accelerator.num_processes == 1:
            return planned.tokens
        return int(self.accelerator.reduce(torch.tensor(planned.tokens, device=self.accelerator.device), "sum"))

    def _step(self, planned: PlannedBatch, prepared: Any, weight: float, tokens: int) -> Tensor:
        """Update once on the mean loss per token; return the loss of this process's part, NaN for a bad gradient."""
        self._see_whether_to_round()
        with self._rounded(self.matrices):
            loss = self._backward(planned, prepared, weight, tokens)
        if self.sharded:
            norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.config.clip).full_tensor()
        else:
            norm = nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        if self.average is not None:
            self.average.update(self.parameters)
        # The loop finds it in the sum of losses when it next reads that: to look here would wait for the GPU.
        return torch.where(norm.isfinite(), loss, math.nan)

    def _see_whether_to_round(self) -> None:
        """Begin to round the weights when it is time; bounds from before are then not those of what will be stored."""
        began, self.rounds = self.rounds, self.config.rounds_at(self.progress.step, self.elapsed)
        if self.rounds and not began:
            self.progress.best, self.progress.evaluations_since_best = math.inf, 0

    def _rounded(self, matrices: Sequence[Tensor]) -> AbstractContextManager[None]:
        """Let a pass see the matrices rounded to the bits they will be stored at, where it is time for that."""
        return rounded_in_place(matrices, self.config.bits) if self.rounds else nullcontext()

    def _backward(self, planned: PlannedBatch, prepared: Any, weight: float, tokens: int) -> Tensor:
        """Compute the gradients of the mean loss per token, in pieces where memory is short; return the summed loss.

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
                        f"out of memory at step {self.progress.step + 1}: lower tokens_per_batch or max_length"
                    ) from None
            self.optimizer.zero_grad()
            self.pieces *= 2
            if accelerator.device.type == "cuda":
                torch.cuda.empty_cache()

    # --- Evaluating and keeping -----------------------------------------------------------------------------------

    @torch.no_grad()
    def _evaluate(self) -> None:
        """Compute the validation bound in nats per token, on the same canvases every time; keep the best model."""
        progress, accelerator = self.progress, self.accelerator
        model = self.kept_model.eval()
        loss = self.model if self.sharded else model.loss  # only the wrapper brings sharded weights together
        total = torch.zeros((), device=accelerator.device)
        with self._rounded(self.kept_matrices):
            for draw in validation_epoch(self.validation, self.config.tokens_per_batch):
                part, weight = draw.part_or_first(accelerator.process_index, accelerator.num_processes)
                batch = move(part.collate(self.validation, self.preparation.on_gpu), accelerator.device)
                total += loss(model.prepare(batch)).sum() * weight
        bound = float(accelerator.reduce(total, "sum")) / self.validation.tokens
        self.model.train()
        if not math.isfinite(bound):
            raise TrainingError(f"the validation bound is {bound} at step {progress.step}: lower the learning rate")
        self.files.log(progress, {"valid_bound": bound, "valid_perplexity_bound": math.exp(min(bound, 700.0))})
        if bound < progress.best:
            progress.best, progress.best_step, progress.evaluations_since_best = bound, progress.step, 0
            self._keep_best()
        else:
            progress.evaluations_since_best += 1

    def _keep_best(self, trained: bool = True) -> None:
        about = self.about if trained else (self.about or {}) | {"untrained": True}
        weights = self.accelerator.get_state_dict(self.model) if self.sharded else None  # every process has a part
        if self.accelerator.is_main_process:
            checkpoint.save(self.folder, self.kept_model, self.tokenizer, about, weights=weights)
