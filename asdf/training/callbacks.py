"""What users may add to a run: methods that are called when something happens.

Invariant: they are called on the main rank only, and what a callback does costs the other ranks
nothing but the time.

Shapes: B utterances, E embedding values, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from asdf.errors import UsageError
from asdf.settings.catalogue import named_classes
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import Paths, Tracking
from asdf.text import did_you_mean
from asdf.training.training_sections import TrainingSections

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from asdf.training.training_progress import Progress

SETTING = "network.callbacks"


class CallbackSections(TrainingSections, Protocol):
    """The sections of a training, and what trackers show of a run."""

    @property
    def tracking(self) -> Tracking: ...
    @property
    def paths(self) -> Paths: ...
    def plain(self) -> dict[str, dict[str, Any]]:
        """Return plain values, by section and name."""


@dataclass(frozen=True)
class Training:
    """What a callback sees of a training. It may look at everything and should change nothing.

    Attributes:
        network: Network as it is trained, on the main process's device.
        optimiser: Optimiser with a parameter group per learning rate and weight decay.
        progress: Progress of the run.
    """

    network: nn.Module
    optimiser: Optimizer
    progress: Progress


@dataclass(frozen=True)
class StepOutputs:
    """What the network gave for the main process's utterances of a step.

    Attributes:
        utterances: their ids.
        labels_B: (utterances,), 1 for bona fide.
        embeddings_BE: (utterances, anything).
        logits_B2: (utterances, 2), those of the loss where it has weights of its own.
    """

    utterances: list[str]
    labels_B: Tensor
    embeddings_BE: Tensor
    logits_B2: Tensor


@dataclass(frozen=True)
class StepRecord:
    """An optimiser step.

    Attributes:
        step: Number of the step, from 1 on.
        epoch: epochs done, with the part of the current one.
        loss: the mean over the utterances of the step, of all processes.
        learning_rate: the highest of the parameter groups.
        gradient_norm: the 2-norm of the gradient before any clipping; None if no callback of the
            run says `needs_gradient_norm`.
        outputs: Outputs of the network; None if no callback of the run says `needs_outputs`.
    """

    step: int
    epoch: float
    loss: float
    learning_rate: float
    gradient_norm: float | None = None
    outputs: StepOutputs | None = None


class Callback:
    """Base of the callbacks named in `network.callbacks`; override what you need.

    An exception in one of these methods is logged, and the run goes on: the first of each method
    with its traceback in log.txt, later ones are counted. With
    `network.callback_failures_end_training = True` it ends the run. An exception in the constructor
    always ends it, before the first step.

    Args:
        settings: a plain copy of the run's settings.
        folder: System folder of the run.

    Attributes:
        needs_gradient_norm, needs_outputs: True if the records of `on_every_step` are to have
            these, which costs time: the norm is computed, and the host waits for it.
        training: the network and its optimiser, from `on_start` on; None in stages 2 and 3.

    Examples:
        >>> from pathlib import Path
        >>> from asdf.settings import Sections
        >>> from asdf.training.callbacks import Callback
        >>> class Notify(Callback):
        ...     def on_evaluation(self, record):
        ...         for name, eer in record["eer"].items():
        ...             print(f"epoch {record['epoch']}, {name}: {100 * eer:.2f} %")
        >>> notify = Notify(Sections(), Path("output/system1"))
        >>> notify.on_evaluation({"epoch": 3, "eer": {"demo-dev": 0.125}})
        epoch 3, demo-dev: 12.50 %
    """

    needs_gradient_norm: ClassVar[bool] = False
    needs_outputs: ClassVar[bool] = False
    training: Training | None = None

    def __init__(self, settings: CallbackSections, folder: Path) -> None:
        self.settings = settings
        self.folder = folder

    def on_start(self, step: int) -> None:
        """Before the first step; earlier starts of this run took `step` optimiser steps."""

    def on_epoch_start(self, epoch: int) -> None:
        """Before the first step of an epoch, counted from 1, or of the rest of one."""

    def on_every_step(self, record: StepRecord) -> None:
        """After each optimiser step. While nobody overrides it, it costs nothing."""

    def on_step(self, record: dict[str, Any]) -> None:
        """After an optimiser step that is printed: step, epoch, loss, learning_rate and the like.

        loss is the mean since the last printed step of the epoch; utterances_per_s is that of all
        processes; data_wait is the proportion of the time, 0 to 1, that was spent waiting for
        clips; seconds_left is the time to the end of training, at the speed so far. With further
        terms of the loss terms has the means of each since then, by name.
        """

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """After a whole epoch: step, epoch, and loss, the mean over the epoch; terms as above."""

    def on_evaluation(self, record: dict[str, Any]) -> None:
        """After the validation sets have been scored: step, epoch, network, eer (by set).

        validation_loss is the mean of the training's loss by set, where it is known.
        Where networks are chosen by another metric, validation_metric is its name, and the entry of
        that name has its values by set.
        """

    def on_checkpoint(self, path: Path) -> None:
        """After a thread has written a checkpoint: at the end of a step, maybe of a later one."""

    def on_end(self, record: dict[str, Any]) -> None:
        """After training has ended by itself: step, epoch, reason."""

    def on_scores(self, record: dict[str, Any]) -> None:
        """After stage 2 has scored a set: network, set, eer, path (of the score file)."""

    def on_results(self, rows: list[dict[str, Any]]) -> None:
        """After stage 3: the rows of results.json, one per network and set, with all metrics."""

    def on_stop(self, reason: str) -> None:
        """When the run ends because somebody stopped it: by a signal, or by a file."""

    def on_failure(self, error: BaseException) -> None:
        """When the run ends by an error."""

    def close(self) -> None:
        """At the very end, however the run ended."""


def find_callbacks(settings: CallbackSections, folder: Path) -> list[type[Callback]]:
    """Return the classes that `network.callbacks` names.

    Args:
        folder: Folder of the recipe, where a user's own modules lie.

    Raises:
        UsageError: one of them does not exist, is not derived from `Callback`, or has a method
            that looks like one of `Callback`'s and is none.
        AsdfError: its module fails when it is imported.
    """
    paths = named_classes(SETTING, settings.network.callbacks)
    kinds = [find_class(path, folder, SETTING, Callback) for path in paths]
    for kind in kinds:
        _check_methods(kind)
    return kinds


def _check_methods(kind: type[Callback]) -> None:
    """Refuse a misspelt method, which nobody would ever call."""
    events = [name for name in dir(Callback) if name.startswith("on_")]
    for name in dir(kind):
        if name.startswith("on_") and name not in events:
            raise UsageError(
                f"{SETTING}: {kind.__module__}.{kind.__qualname__} has a method {name!r}, which "
                f"nothing calls.{did_you_mean(name, events)} The methods of a callback are "
                f"{', '.join(events)}; give one of your own another beginning than 'on_'."
            )


def build_callback(kind: type[Callback], settings: CallbackSections, folder: Path) -> Callback:
    """Return the callback of a class.

    Args:
        folder: System folder of the run.

    Raises:
        AsdfError: its constructor fails.
    """
    failed = f"{SETTING}: {kind.__module__}.{kind.__qualname__}(settings, folder) failed"
    advice = "Training has not begun. Fix the callback, or take it off network.callbacks."
    with UserErrors(failed, advice):
        return kind(settings, folder)


def __getattr__(name: str) -> Any:
    if name == "TensorBoard":
        # Configs of the first version name it by this module.
        return import_module("asdf.training.trackers").TensorBoard
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
