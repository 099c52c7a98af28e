"""The base class of callbacks, whose methods are called at events of a run.

Invariant: callbacks are called only on the main rank, and cost the other ranks nothing but time.

Shapes: B utterances, E embedding values, 2 classes (spoof, bona fide).

Callbacks that show a run in TensorBoard or Weights & Biases.

Invariant: a run that is stopped and resumed, or scored later, continues the same run of the
tracker, whose identifier is saved in the system folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from asdf.errors import UsageError
from asdf.runs.files import write_text
from asdf.runs.layout import Layout
from asdf.settings.catalogue import named_classes
from asdf.settings.class_path import find_class
from asdf.settings.sections import Sections
from asdf.text import did_you_mean

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from asdf.training.training_progress import Progress

SETTING = "network.callbacks"


@dataclass(frozen=True)
class Training:
    """A training as callbacks see it: they may read everything but should change nothing.

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
    """The network's outputs for the main process's utterances of a step.

    Attributes:
        utterances: Names of the utterances.
        labels_B: Labels (utterances,), 1 for bona fide.
        embeddings_BE: Embeddings (utterances, anything).
        logits_B2: Logits (utterances, 2), those of the loss if it has weights of its own.
    """

    utterances: list[str]
    labels_B: Tensor
    embeddings_BE: Tensor
    logits_B2: Tensor


@dataclass(frozen=True)
class StepRecord:
    """A record of an optimiser step.

    Attributes:
        step: Number of the step, counted from 1.
        epoch: Epochs done, including the part of the current one.
        loss: Mean loss over the utterances of the step, of all processes.
        learning_rate: Highest learning rate of the parameter groups.
        gradient_norm: 2-norm of the gradient before any clipping; None if no callback of the run
            sets `needs_gradient_norm`.
        outputs: Outputs of the network; None if no callback of the run sets `needs_outputs`.
    """

    step: int
    epoch: float
    loss: float
    learning_rate: float
    gradient_norm: float | None = None
    outputs: StepOutputs | None = None


class Callback:
    """Base class of the callbacks named in `network.callbacks`; override what you need.

    An exception in one of these methods is logged, and the run continues: for each method, the
    first exception has its traceback in log.txt, later ones are counted. An
    exception in the constructor ends it, before the first step.

    Args:
        settings: Settings of the run, as a plain copy.
        folder: System folder of the run.

    Attributes:
        needs_gradient_norm, needs_outputs: Whether the records of `on_every_step` include these;
            computing the norm takes time, and the host waits for it.
        training: Network and optimiser, from `on_start` on; None in stages 2 and 3.

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

    def __init__(self, settings: Sections, folder: Path) -> None:
        self.settings = settings
        self.folder = folder

    def on_start(self, step: int) -> None:
        """Called before the first step; earlier starts of this run took `step` optimiser steps."""

    def on_epoch_start(self, epoch: int) -> None:
        """Called before the first step of an epoch, counted from 1, or of the rest of one."""

    def on_every_step(self, record: StepRecord) -> None:
        """Called after each optimiser step; it has no cost unless a callback overrides it."""

    def on_step(self, record: dict[str, Any]) -> None:
        """Called after a step that is printed: step, epoch, loss, learning_rate and the like.

        The entry loss is the mean since the last printed step of the epoch; utterances_per_s is
        that of all processes; data_wait is the proportion of time spent waiting for clips, from 0
        to 1; seconds_left is the estimated time to the end of training. With further loss terms,
        terms has their means since the last printed step, by name.
        """

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """Called after a whole epoch: step, epoch, mean loss over the epoch; terms as above."""

    def on_evaluation(self, record: dict[str, Any]) -> None:
        """Called after the validation sets have been scored: step, epoch, network, eer (by set).

        The entry validation_loss has the mean training loss by set, if it is known.
        If networks are chosen by another metric, validation_metric is its name, and the entry of
        that name has its values by set.
        """

    def on_checkpoint(self, path: Path) -> None:
        """Called after a thread has written a checkpoint: at the end of this or a later step."""

    def on_end(self, record: dict[str, Any]) -> None:
        """Called after training has ended by itself: step, epoch, reason."""

    def on_scores(self, record: dict[str, Any]) -> None:
        """Called after stage 2 has scored a set: network, set, eer, path (of the score file)."""

    def on_results(self, rows: list[dict[str, Any]]) -> None:
        """Called after stage 3 with the rows of results.json, one per network and set."""

    def on_stop(self, reason: str) -> None:
        """Called when the run ends because of a stop request, by a signal or a file."""

    def on_failure(self, error: BaseException) -> None:
        """Called when the run ends with an error."""

    def close(self) -> None:
        """Called at the very end, however the run ended."""


def find_callbacks(settings: Sections, folder: Path) -> list[type[Callback]]:
    """Return the classes that `network.callbacks` names.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: one of them does not exist, does not derive from `Callback`, or has a method
            whose name resembles one of `Callback`'s.
        AsdfError: importing its module fails.
    """
    paths = named_classes(SETTING, settings.network.callbacks)
    kinds = [find_class(path, folder, SETTING, Callback) for path in paths]
    events = [name for name in dir(Callback) if name.startswith("on_")]
    for kind in kinds:
        # A misspelt method would never be called.
        for name in dir(kind):
            if name.startswith("on_") and name not in events:
                raise UsageError(
                    f"{SETTING}: {kind.__module__}.{kind.__qualname__} has a method {name!r}, "
                    f"which is never called.{did_you_mean(name, events)} The methods of a callback "
                    f"are {', '.join(events)}; names of your own methods must not begin with 'on_'."
                )
    return kinds


# The entries of a record that are drawn over the steps.
_OVER_STEPS = ("loss", "learning_rate", "utterances_per_s", "data_wait")


class _Tracker(Callback):
    """Sends the numbers of steps and evaluations; each tracker implements `send`."""

    def send(self, values: dict[str, float], step: int) -> None:
        raise NotImplementedError

    def on_step(self, record: dict[str, Any]) -> None:
        values = {f"training/{name}": record[name] for name in _OVER_STEPS}
        if "mfu" in record:
            values["training/mfu"] = record["mfu"]
        for name, value in record.get("terms", {}).items():
            values[f"training/term/{name}"] = value
        self.send(values, record["step"])

    def on_evaluation(self, record: dict[str, Any]) -> None:
        values = {}
        for metric, by_set in record.items():
            # All values per set: the EER, the loss, and the chosen metric.
            if isinstance(by_set, Mapping):
                for name, value in by_set.items():
                    # The digests of the sets' recordings are not numbers.
                    if isinstance(value, int | float):
                        values[f"{metric}/{name}"] = value
        self.send(values, record["step"])


class TensorBoard(_Tracker):
    """Writes losses, learning rates, error rates and results for `tensorboard --logdir`."""

    def __init__(self, settings: Sections, folder: Path) -> None:
        super().__init__(settings, folder)
        self._kind = _import("torch.utils.tensorboard", "TensorBoard", "tensorboard").SummaryWriter
        self._writer: Any = None

    def on_start(self, step: int) -> None:
        # Steps that an earlier start drew after its last checkpoint are drawn again.
        self._writer = self._kind(Layout(self.folder).tensorboard, purge_step=step + 1)

    def send(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def on_evaluation(self, record: dict[str, Any]) -> None:
        super().on_evaluation(record)
        self._writer.flush()

    def on_checkpoint(self, path: Path) -> None:
        self._writer.flush()

    def on_end(self, record: dict[str, Any]) -> None:
        self._writer.close()

    def on_results(self, rows: list[dict[str, Any]]) -> None:
        # Training has closed its writer, or stage 3 runs without training.
        writer = self._kind(Layout(self.folder).tensorboard)
        for name, value in _result_values(rows).items():
            writer.add_scalar(name, value, 0)
        writer.close()


class WeightsAndBiases(_Tracker):
    """Sends the same to Weights & Biases, or saves it for `wandb sync` (`WANDB_MODE=offline`)."""

    def __init__(self, settings: Sections, folder: Path) -> None:
        super().__init__(settings, folder)
        wandb = _import("wandb", "WeightsAndBiases", "wandb")
        path = Layout(folder).tracking
        try:
            identifier = str(json.loads(path.read_text(encoding="utf-8"))["wandb"])
        except (OSError, ValueError, KeyError, TypeError):  # it has none yet, or it is damaged
            identifier = uuid4().hex
            write_text(path, json.dumps({"wandb": identifier}) + "\n")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "asdf"),
            name=os.environ.get("WANDB_NAME", folder.name),
            id=identifier,
            resume="allow",  # with this id, a later start goes on in the same run
            dir=str(folder),
            config=settings.plain(),
            settings=wandb.Settings(silent=True),
        )

    def send(self, values: dict[str, float], step: int) -> None:
        self._run.log(values, step=step)

    def on_results(self, rows: list[dict[str, Any]]) -> None:
        self._run.summary.update(_result_values(rows))

    def on_stop(self, reason: str) -> None:
        self._run.summary.update({"ended": f"stopped: {reason}"})

    def on_failure(self, error: BaseException) -> None:
        self._run.summary.update({"ended": f"failed: {error}"})

    def close(self) -> None:
        self._run.finish()


def _import(module: str, name: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(
            f"network.callbacks names {name}, which is not installed. Install it with: "
            f"pip install 'asdf-antispoofing[{extra}]'"
        ) from None


def _result_values(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the numbers of stage 3 by 'results/network/set/metric'."""
    values = {}
    for row in rows:
        for metric, value in row.items():
            # bool is a subclass of int.
            if isinstance(value, int | float) and not isinstance(value, bool):
                values[f"results/{row['epoch']}/{row['set']}/{metric}"] = value
    return values
