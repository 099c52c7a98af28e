"""The callbacks of a run, called together; one of the project's own writes `metrics.jsonl`.

Invariants: a user's callback cannot break the training. An exception in one is logged and the run
continues; if one of the project's own fails, all ranks end together. Each step and each evaluation
of the run has exactly one line in the file, however often the run was killed. Outputs and gradient
norms are computed only if a callback requests them; all ranks know the callbacks' needs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from asdf.data.training_plan import TrainingPlan, Window
from asdf.distributed.stopping import Stopped
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import write_advice, write_text
from asdf.runs.layout import Layout
from asdf.runs.log import LOG
from asdf.settings.class_path import UserErrors, describe_error
from asdf.settings.sections import Sections
from asdf.training.callbacks import (
    SETTING,
    Callback,
    StepOutputs,
    StepRecord,
    Training,
    find_callbacks,
)
from asdf.training.step import Step, TakenStep
from asdf.training.training_progress import Progress, position_of


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
                    f"{SETTING}: a callback wants the network's outputs (needs_outputs), which "
                    "computing.cuda_graphs = True does not give. Switch one of them off."
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
            record = StepRecord(
                step=position["step"],
                epoch=position["epoch"],
                loss=taken.loss,
                learning_rate=taken.learning_rate,
                gradient_norm=norm,
                outputs=self._collect(window),
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
        indices = []
        keys = []
        embeddings = []
        logits = []
        for share, (share_embeddings, share_logits) in zip(window.shares, passes, strict=True):
            indices += share.utterances[: share.counted].tolist()
            keys += share.clip_keys()[: share.counted]
            embeddings.append(share_embeddings[: share.counted])
            logits.append(share_logits[: share.counted])
        return StepOutputs(
            utterances=[self._step.utterances.ids[index] for index in indices],
            labels_B=self._step.targets.labels_of(keys),
            embeddings_BE=torch.cat(embeddings),
            logits_B2=torch.cat(logits),
        )
