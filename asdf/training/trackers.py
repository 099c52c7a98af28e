"""Callbacks that show a run in TensorBoard or Weights & Biases.

Invariant: a run that is stopped and resumed, or scored later, continues the same run of the
tracker, whose identifier is saved in the system folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from asdf.errors import UsageError
from asdf.runs.files import write_text
from asdf.runs.layout import Layout
from asdf.settings.sections import Sections
from asdf.training.callbacks import Callback

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
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "asdf"),
            name=os.environ.get("WANDB_NAME", folder.name),
            id=_identifier(folder),
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


def _identifier(folder: Path) -> str:
    """Return the identifier of this run in Weights & Biases, a new one if it has none yet."""
    path = Layout(folder).tracking
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(path.read_text(encoding="utf-8"))["wandb"])
    identifier = uuid4().hex
    write_text(path, json.dumps({"wandb": identifier}) + "\n")
    return identifier
