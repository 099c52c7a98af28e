"""What users may add to the training loop; called on the main rank only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asdf.errors import AsdfError, UsageError
from asdf.runs.layout import Layout
from asdf.settings.class_path import describe_error, find_class
from asdf.settings.sections import Sections


class Callback:
    """Base of the callbacks named in `network.callbacks`; override what you need.

    An exception in one of these methods is logged, and training goes on: the first of each method
    with its traceback in log.txt, later ones are counted. With
    `network.callback_failures_end_training = True` it ends the run. An exception in the constructor
    always ends it, before the first step.

    Args:
        settings: a plain copy of the run's settings.
        folder: the system folder of the run.
    """

    def __init__(self, settings: Sections, folder: Path) -> None:
        self.settings = settings
        self.folder = folder

    def on_start(self, step: int) -> None:
        """Before the first step; earlier starts of this run took `step` optimiser steps."""

    def on_step(self, record: dict[str, Any]) -> None:
        """After an optimiser step that is printed: step, epoch, loss, learning_rate and the like.

        loss is the mean since the last printed step of the epoch; utterances_per_s is that of all
        processes; data_wait is the proportion of the time, 0 to 1, that was spent waiting for
        clips; seconds_left is the time to the end of training, at the speed so far.
        """

    def on_evaluation(self, record: dict[str, Any]) -> None:
        """After the validation sets have been scored: step, epoch, network, eer (by set)."""

    def on_checkpoint(self, path: Path) -> None:
        """After a thread has written a checkpoint: at the end of a step, maybe of a later one."""

    def on_end(self, record: dict[str, Any]) -> None:
        """After training has ended by itself: step, epoch, reason."""


def find_callbacks(settings: Sections, folder: Path) -> list[type[Callback]]:
    """Return the classes that `network.callbacks` names.

    Args:
        folder: the recipe's, where a user's own modules lie.

    Raises:
        UsageError: one of them does not exist, or is not derived from `Callback`.
        AsdfError: its module fails when it is imported.
    """
    return [
        find_class(path, folder, "network.callbacks", Callback)
        for path in settings.network.callbacks
    ]


def build_callback(kind: type[Callback], settings: Sections, folder: Path) -> Callback:
    """Return the callback of a class.

    Args:
        folder: the system folder of the run.

    Raises:
        AsdfError: its constructor fails.
    """
    try:
        return kind(settings, folder)
    except AsdfError:
        raise
    except Exception as error:
        raise AsdfError(
            f"network.callbacks: {kind.__module__}.{kind.__qualname__}(settings, folder) failed: "
            f"{describe_error(error, __file__)}. Training has not begun. "
            "Mend the callback, or take it off network.callbacks."
        ) from error


class TensorBoard(Callback):
    """Writes the loss, the learning rate and the EERs where `tensorboard --logdir` shows them."""

    def __init__(self, settings: Sections, folder: Path) -> None:
        super().__init__(settings, folder)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UsageError(
                "network.callbacks names TensorBoard, which is not installed. Install it with: "
                "pip install 'asdf-antispoofing[tensorboard]'"
            ) from None
        self._kind = SummaryWriter

    def on_start(self, step: int) -> None:
        # What an earlier start drew beyond its last checkpoint is drawn again.
        self._writer = self._kind(Layout(self.folder).tensorboard, purge_step=step + 1)

    def on_step(self, record: dict[str, Any]) -> None:
        for name in ("loss", "learning_rate", "utterances_per_s", "data_wait"):
            self._writer.add_scalar(f"training/{name}", record[name], record["step"])

    def on_evaluation(self, record: dict[str, Any]) -> None:
        for name, eer in record["eer"].items():
            self._writer.add_scalar(f"eer/{name}", eer, record["step"])
        self._writer.flush()

    def on_checkpoint(self, path: Path) -> None:
        self._writer.flush()

    def on_end(self, record: dict[str, Any]) -> None:
        self._writer.close()
