"""The callbacks of a run, called together, and the progress line and record that they get.

A callback of the project's own writes `metrics.jsonl`.

Invariants: a user's callback cannot break the training. An exception in one is logged and the run
continues; if one of the project's own fails, all ranks end together. Each step and each evaluation
of the run has exactly one line in the file, however often the run was killed. Outputs and gradient
norms are computed only if a callback requests them; all ranks know the callbacks' needs. A progress
line reports the steps since the last one; validation and checkpoints between epochs are not
included, except in the time to the end.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from tqdm import tqdm

from asdf.data.loaders import BatchLoader
from asdf.data.training_plan import TrainingPlan, Window
from asdf.distributed.stopping import Stopped
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import write_advice, write_text
from asdf.runs.layout import Layout
from asdf.runs.log import LOG
from asdf.settings.class_path import UserErrors, describe_error
from asdf.settings.sections import Network, Sections
from asdf.text import count_of
from asdf.training.callbacks import (
    SETTING,
    Callback,
    StepOutputs,
    StepRecord,
    Training,
    find_callbacks,
)
from asdf.training.profile import DATA
from asdf.training.schedules import follows_plateau
from asdf.training.step import Step, TakenStep
from asdf.training.training_progress import Progress, position_of

# The share of training that may be spent waiting for clips, and the time after which it is judged.
_ACCEPTED_SHARE = 0.1
_JUDGED_S = 30.0


class _Line(NamedTuple):
    """A parsed line of the file."""

    text: str
    kind: str
    step: float


class MetricsFile(Callback):
    """Appends records, after removing the lines of steps that a resumed run repeats."""

    def __init__(self, settings: Sections, folder: Path) -> None:
        super().__init__(settings, folder)
        self.path = Layout(folder).metrics
        self._evaluated_steps: set[float] = set()

    def on_start(self, step: int) -> None:
        """Remove the lines of later steps, a premature end, and unreadable lines.

        They are left by a kill or a broken disk.
        """
        if not self.path.exists():
            return
        lines = [line for line in self._read() if line.step <= step and line.kind != "end"]
        self._write(lines)
        self._evaluated_steps = {line.step for line in lines if line.kind == "evaluation"}

    def on_step(self, record: dict[str, Any]) -> None:
        self._append({"kind": "step", **record})

    def on_evaluation(self, record: dict[str, Any]) -> None:
        # A run killed after this line, but before evaluations.json is written, evaluates again.
        if record["step"] in self._evaluated_steps:
            step = record["step"]
            lines = self._read()
            self._write([line for line in lines if line.kind != "evaluation" or line.step != step])
        self._append({"kind": "evaluation", **record})

    def on_end(self, record: dict[str, Any]) -> None:
        self._append({"kind": "end", **record})

    def _read(self) -> list[_Line]:
        """Return the lines, except one that is incomplete, not a record, or not text."""
        lines = []
        # As bytes, since a line that a kill cut off need not be text.
        for line in self.path.read_bytes().splitlines(keepends=True):
            with suppress(ValueError, KeyError, TypeError):
                text = line.decode()
                record = json.loads(text)
                if text.endswith("\n"):
                    lines.append(_Line(text, str(record["kind"]), float(record["step"])))
        return lines

    def _write(self, lines: list[_Line]) -> None:
        write_text(self.path, "".join(line.text for line in lines))

    def _append(self, record: dict[str, Any]) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise AsdfError(write_advice(self.path, error)) from error


@dataclass(frozen=True)
class Needs:
    """The data that the callbacks of a run need besides the records that are always made."""

    every_step: bool = False
    gradient_norm: bool = False
    outputs: bool = False

    @classmethod
    def of(cls, kinds: Iterable[type[Callback]]) -> Needs:
        """Return the needs of callbacks of these classes."""
        watching = [kind for kind in kinds if kind.on_every_step is not Callback.on_every_step]
        return cls(
            every_step=bool(watching),
            gradient_norm=any(kind.needs_gradient_norm for kind in watching),
            outputs=any(kind.needs_outputs for kind in watching),
        )


@dataclass(frozen=True)
class CallbackGroup:
    """Calls callbacks on the main rank while the other ranks wait.

    Attributes:
        required: Callbacks of the project's own, whose failures end the run.
        users: Callbacks that `network.callbacks` names; only the main rank needs any.
        needs: Needs of `users`, on every rank.
    """

    required: Sequence[Callback]
    users: Sequence[Callback]
    world: World
    needs: Needs = Needs()
    _failures: Counter[str] = field(init=False, default_factory=Counter)

    def show(self, training: Training) -> None:
        """Give the callbacks access to the training that begins."""
        for callback in (*self.required, *self.users):
            callback.training = training

    def call(self, event: str, argument: Any) -> None:
        """Call the method `event` of every callback with `argument`; all ranks call this together.

        Raises:
            AsdfError: a callback whose failures end the run has failed; raised on every rank.
        """
        self.world.run_on_main(lambda: self.call_alone(event, argument))

    def end(self, error: BaseException | None) -> None:
        """Report how the run ended, on the main rank, where the other ranks may be gone.

        A failure of a callback never hides `error`.
        """
        with suppress(AsdfError):
            if isinstance(error, Stopped):
                self.call_alone("on_stop", str(error))
            elif error is not None:
                self.call_alone("on_failure", error)
        for callback in self.users:
            callback.training = None
            try:
                callback.close()
            except Exception as failure:
                self._note_failure(callback, "close", failure)
        self.report_failures()

    def report_failures(self) -> None:
        """Log the number of failures of each callback that failed more than once."""
        for method, count in self._failures.items():
            if count > 1:
                LOG.warning("%s: %s failed %d times", SETTING, method, count)

    def call_alone(self, event: str, argument: Any) -> None:
        """Do the same as `call`, but only on the main rank, where the other ranks may be gone."""
        for callback in self.required:
            getattr(callback, event)(argument)
        for callback in self.users:
            try:
                getattr(callback, event)(argument)
            except Exception as error:
                self._note_failure(callback, event, error)

    def _note_failure(self, callback: Callback, event: str, error: Exception) -> None:
        method = f"{type(callback).__module__}.{type(callback).__qualname__}.{event}"
        self._failures[method] += 1
        if self._failures[method] == 1:
            LOG.warning(
                "%s: %s failed: %s. Training goes on; the traceback is in log.txt. Its further "
                "failures are counted.",
                SETTING,
                method,
                describe_error(error, __file__),
                exc_info=error,
            )


def build_callbacks(
    settings: Sections, folder: Path, recipe_folder: Path, world: World
) -> CallbackGroup:
    """Return the callbacks of a run; all ranks call this together.

    Args:
        folder: System folder of the run.
        recipe_folder: Folder of the user's modules.

    Raises:
        AsdfError: a callback cannot be created; raised on every rank.
    """
    kinds = find_callbacks(settings, recipe_folder)
    users: list[Callback] = []

    def build_users() -> None:
        advice = "Training has not begun. Fix the callback, or remove it from network.callbacks."
        for kind in kinds:
            name = f"{kind.__module__}.{kind.__qualname__}"
            with UserErrors(f"{SETTING}: {name}(settings, folder) failed", advice):
                users.append(kind(settings, folder))

    world.run_on_main(build_users)
    return CallbackGroup([MetricsFile(settings, folder)], users, world, needs=Needs.of(kinds))


class StepObserver:
    """Calls `on_every_step` of the callbacks that have it.

    Raises:
        UsageError: a callback needs the network's outputs, which a CUDA graph does not provide.
    """

    def __init__(self, step: Step, plan: TrainingPlan, callbacks: CallbackGroup) -> None:
        self._step = step
        self._plan = plan
        self._callbacks = callbacks
        self._outputs: list[tuple[Tensor, Tensor]] | None = None
        needs = callbacks.needs
        step.update.measures_gradient = needs.gradient_norm
        if needs.outputs:
            if step.settings.computing.cuda_graphs is True:
                raise UsageError(
                    f"{SETTING}: a callback has needs_outputs, which computing.cuda_graphs = True "
                    "does not give. Switch one of them off."
                )
            self._outputs = []
            step.trained.register_forward_hook(self._take_outputs)

    def after_step(self, taken: TakenStep, window: Window, progress: Progress) -> None:
        """Call the callbacks; all ranks call this together."""
        if not self._callbacks.needs.every_step:
            return
        position = position_of(progress, self._plan)

        def call() -> None:
            norm = None if taken.gradient_norm is None else float(taken.gradient_norm)
            loss, rate = taken.loss, taken.learning_rate
            outputs = self._collect(window)
            record = StepRecord(
                **position, loss=loss, learning_rate=rate, gradient_norm=norm, outputs=outputs
            )
            self._callbacks.call_alone("on_every_step", record)

        self._step.world.run_on_main(call)
        if self._outputs is not None:
            self._outputs.clear()

    def _take_outputs(self, module: nn.Module, arguments: Any, outputs: Any) -> None:
        assert self._outputs is not None
        # A validation between steps does not belong to a step.
        if module.training:
            embeddings, logits = outputs
            self._outputs.append((embeddings.detach(), logits.detach()))

    def _collect(self, window: Window) -> StepOutputs | None:
        """Return the outputs for the utterances of this rank, without the fillers."""
        if self._outputs is None:
            return None
        # A loss with two passes leaves the outputs of the first before those of the second.
        passes = self._outputs[-len(window.shares) :]
        counts = [share.counted for share in window.shares]
        keys = [key for share in window.shares for key in share.clip_keys()[: share.counted]]
        pairs = list(zip(passes, counts, strict=True))
        return StepOutputs(
            utterances=[self._step.utterances.ids[index] for _, index in keys],
            labels_B=self._step.targets.labels_of(keys),
            embeddings_BE=torch.cat([embeddings[:count] for (embeddings, _), count in pairs]),
            logits_B2=torch.cat([logits[:count] for (_, logits), count in pairs]),
        )


class DataWait:
    """Sums the time spent waiting for clips, and reports once if it is too long.

    Args:
        workers: Number of loader processes of this process.
        cores: Number of cores that this process may use.
    """

    def __init__(self, workers: int, cores: int) -> None:
        self.workers = workers
        self.cores = cores
        self._waited_s = 0.0
        self._total_s = 0.0
        self._is_reported = False

    def advice(self, seconds: Mapping[str, float], steady: bool) -> str:
        """Return a line for the log if much of half a minute or more was spent waiting, else ''.

        The line is returned only once.

        Args:
            seconds: Time of each part of the clock since the last call, in seconds.
            steady: Whether the time counts; False while the workers start on a new epoch.
        """
        if steady:
            self._waited_s += seconds[DATA]
            self._total_s += sum(seconds.values())
        if self._is_reported or self._total_s < _JUDGED_S:
            return ""
        if self._waited_s <= _ACCEPTED_SHARE * self._total_s:
            return ""
        self._is_reported = True
        cores = count_of(self.cores, "core")
        remedy = (
            f"the {cores} of this process can read no faster. Ask for more cores, keep the "
            "recordings on a disk of the node itself, as WAV at 16 kHz, or augment less"
        )
        if self.workers < self.cores and self.cores > 1:
            remedy = f"raise computing.network_dataloader_workers (now {self.workers} of {cores})"
        share = 100 * self._waited_s / self._total_s
        return f"waiting for data took {share:.0f} % of the time: {remedy}"


class TimeLeft:
    """The time per step, including all work between steps, and the time to the end.

    Args:
        training: Section with the limits of training.
        clock: Function that returns the time in seconds.
    """

    def __init__(
        self, training: Network, plan: TrainingPlan, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._training = training
        self._plan = plan
        self._clock = clock
        self.begin(0)

    def begin(self, step: int) -> None:
        """Start counting; earlier starts of the run have taken `step` steps."""
        self._first_step = step
        self._since_s = self._clock()

    def seconds(self, progress: Progress) -> float:
        """Return the seconds to the end; at least one step must have been taken.

        The time per step includes the validation and the checkpoints so far.
        """
        steps_taken = progress.step - self._first_step
        seconds_per_step = (self._clock() - self._since_s) / steps_taken
        return seconds_per_step * steps_left(self._training, self._plan, progress)

    def describe(self, seconds: float) -> str:
        """Return 'about 3 h 20 min left', or 'at most ...' if training may end earlier."""
        may_stop_early = self._training.early_stop_evaluations is not None
        is_limit = may_stop_early or follows_plateau(self._training)
        return f"{'at most' if is_limit else 'about'} {duration(seconds)} left"


def steps_left(training: Network, plan: TrainingPlan, progress: Progress) -> int:
    """Return the optimiser steps to `max_epochs`, or to `max_steps` if these are fewer."""
    # The last step of an epoch may be a short one.
    epoch = progress.epochs + 1
    this_epoch = plan.steps_per_epoch(epoch) - plan.steps_before(epoch, progress.position)
    later_epochs = (training.max_epochs - epoch) * plan.steps_per_epoch(epoch)
    steps = this_epoch + later_epochs
    if training.max_steps is not None:
        steps = min(steps, training.max_steps - progress.step)
    return max(0, steps)


def duration(seconds: float) -> str:
    """Return the two relevant units: '45 s', '12 min', '3 h 20 min', '2 d 5 h'."""
    # From 59.5 on, rounding would give '60 s'.
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


class ProgressLines:
    """Logs the progress of training every `network.print_interval` steps."""

    def __init__(
        self, step: Step, plan: TrainingPlan, loader: BatchLoader, callbacks: CallbackGroup
    ) -> None:
        self._step = step
        self._plan = plan
        self._callbacks = callbacks
        self._interval = step.settings.network.print_interval
        self._data_wait = DataWait(loader.workers, loader.cores)
        self._time_left = TimeLeft(step.settings.network, plan)
        self._is_first = True
        self._note(0)

    def begin_run(self, progress: Progress) -> None:
        """Estimate the time to the end from the steps taken from now on."""
        self._time_left.begin(progress.step)

    def begin_epoch(self, progress: Progress) -> None:
        """Let the next line report the steps from now on; the workers start on a new epoch."""
        self._is_first = True
        self._note(progress.position)

    def log_if_due(self, progress: Progress, rate: float, bar: tqdm) -> None:
        """Log a line and call the callbacks if the step is one to log.

        Args:
            rate: Highest learning rate of the step.
            bar: Progress bar, which shows the time to the end.
        """
        if progress.step % self._interval:
            return
        since_s, since_position, since_clock = self._since
        self._note(progress.position)
        now_s, _, clock = self._since
        seconds = {part: now - since_clock[part] for part, now in clock.items()}
        speed = (progress.position - since_position) / (now_s - since_s)
        seconds_left = self._time_left.seconds(progress)
        total_s = sum(seconds.values())
        waiting = seconds[DATA] / total_s if total_s else 0.0
        record = {
            **position_of(progress, self._plan),
            "loss": progress.loss_since_printed(),
            "learning_rate": rate,
            "utterances_per_s": speed,
            "data_wait": waiting,
            "seconds_left": seconds_left,
        }
        line = (
            f"epoch {progress.epochs + 1}, utterance {progress.position} of {self._plan.size}, "
            f"step {progress.step}: loss {record['loss']:.4f}, "
        )
        terms = progress.terms_since_printed()
        if terms:
            record["terms"] = terms
            line += "".join(f"{name} {value:.4f}, " for name, value in terms.items())
        left = self._time_left.describe(seconds_left)
        line += f"learning rate {rate:.3g}, {speed:.1f} utterances/s, {left}"
        line += f", data wait {100 * waiting:.0f} %"
        mfu = self._step.utilisation(speed)
        if mfu is not None:
            record["mfu"] = mfu
            line += f", MFU {100 * mfu:.0f} %"
        LOG.info("%s", line)
        bar.set_postfix_str(left)
        advice = self._data_wait.advice(seconds, steady=not self._is_first)
        self._is_first = False
        if advice:
            LOG.info("%s", advice)
        last = self._step.update.last
        if last.loss_scale is not None:
            skipped = last.take_skipped()
            record["loss_scale"] = last.loss_scale
            record["skipped_steps"] = skipped
            if skipped:
                LOG.info(
                    f"fp16 skipped {count_of(skipped, 'step')} since the last line, whose "
                    f"gradients were not finite: loss scale {last.loss_scale:g}"
                )
        self._callbacks.call("on_step", record)

    def _note(self, position: int) -> None:
        self._since = (time.monotonic(), position, self._step.clock.seconds())
