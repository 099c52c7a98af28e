"""Callbacks that show a run in TensorBoard, Weights & Biases or MLflow.

Invariant: a run that is stopped and resumed, or that is scored on another day, goes on in the same
run of the tracker: its identifier lies in the system folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from asdf.errors import UsageError
from asdf.runs.files import write_text
from asdf.runs.layout import Layout
from asdf.settings.sections import Sections
from asdf.training.callbacks import Callback

# What of a record is drawn over the steps.
_OVER_STEPS = ("loss", "learning_rate", "utterances_per_s", "data_wait")


class TensorBoard(Callback):
    """Writes losses, learning rates, error rates and results for `tensorboard --logdir`."""

    def __init__(self, settings: Sections, folder: Path) -> None:
        super().__init__(settings, folder)
        self._kind = _import("torch.utils.tensorboard", "TensorBoard", "tensorboard").SummaryWriter
        self._writer: Any = None

    def on_start(self, step: int) -> None:
        # What an earlier start drew beyond its last checkpoint is drawn again.
        self._writer = self._kind(Layout(self.folder).tensorboard, purge_step=step + 1)

    def on_step(self, record: dict[str, Any]) -> None:
        for name in _OVER_STEPS:
            self._writer.add_scalar(f"training/{name}", record[name], record["step"])

    def on_evaluation(self, record: dict[str, Any]) -> None:
        for name, value in _evaluation_values(record).items():
            self._writer.add_scalar(name, value, record["step"])
        self._writer.flush()

    def on_checkpoint(self, path: Path) -> None:
        self._writer.flush()

    def on_end(self, record: dict[str, Any]) -> None:
        self._writer.close()

    def on_results(self, rows: list[dict[str, Any]]) -> None:
        writer = self._kind(Layout(self.folder).tensorboard)
        for name, value in _result_values(rows).items():
            writer.add_scalar(name, value, 0)
        writer.close()


class WeightsAndBiases(Callback):
    """Sends the same to Weights & Biases, or saves it for `wandb sync`: `tracking.offline`."""

    def __init__(self, settings: Sections, folder: Path) -> None:
        super().__init__(settings, folder)
        wandb = _import("wandb", "WeightsAndBiases", "wandb")
        tracking = settings.tracking
        self._run = wandb.init(
            project=tracking.project,
            name=tracking.name or folder.name,
            id=_identifier(folder, "wandb", uuid4().hex),
            resume="allow",
            dir=str(folder),
            config=settings.plain(),
            mode="offline" if tracking.offline else "online",
            settings=wandb.Settings(silent=True),
        )

    def on_step(self, record: dict[str, Any]) -> None:
        values = {f"training/{name}": record[name] for name in _OVER_STEPS}
        self._run.log(values, step=record["step"])

    def on_evaluation(self, record: dict[str, Any]) -> None:
        self._run.log(_evaluation_values(record), step=record["step"])

    def on_results(self, rows: list[dict[str, Any]]) -> None:
        self._run.summary.update(_result_values(rows))

    def on_stop(self, reason: str) -> None:
        self._run.summary.update({"ended": f"stopped: {reason}"})

    def on_failure(self, error: BaseException) -> None:
        self._run.summary.update({"ended": f"failed: {error}"})

    def close(self) -> None:
        self._run.finish()


class MLflow(Callback):
    """Sends the same to MLflow: to `tracking.mlflow_uri`, or a database in the system folder."""

    def __init__(self, settings: Sections, folder: Path) -> None:
        super().__init__(settings, folder)
        tracking = settings.tracking
        uri = tracking.mlflow_uri or f"sqlite:///{Layout(folder).mlflow.absolute()}"
        self._client = _import("mlflow", "MLflow", "mlflow").MlflowClient(uri)
        self._status = "FINISHED"
        run = _saved_identifier(folder, "mlflow")
        if run is None:
            run = self._begin_run(tracking.project, tracking.name or folder.name)
        self._run = _identifier(folder, "mlflow", run)

    def on_step(self, record: dict[str, Any]) -> None:
        for name in _OVER_STEPS:
            self._client.log_metric(
                self._run, f"training/{name}", record[name], step=record["step"]
            )

    def on_evaluation(self, record: dict[str, Any]) -> None:
        for name, value in _evaluation_values(record).items():
            self._client.log_metric(self._run, name, value, step=record["step"])

    def on_results(self, rows: list[dict[str, Any]]) -> None:
        for name, value in _result_values(rows).items():
            self._client.log_metric(self._run, name, value)

    def on_stop(self, reason: str) -> None:
        self._status = "KILLED"

    def on_failure(self, error: BaseException) -> None:
        self._status = "FAILED"
        self._client.set_tag(self._run, "error", str(error)[:500])

    def close(self) -> None:
        self._client.set_terminated(self._run, self._status)

    def _begin_run(self, project: str, name: str) -> str:
        client = self._client
        experiment = client.get_experiment_by_name(project)
        number = experiment.experiment_id if experiment else client.create_experiment(project)
        run: str = client.create_run(number, run_name=name).info.run_id
        for section, values in self.settings.plain().items():
            for setting, value in values.items():
                # The longest value that its databases take.
                client.log_param(run, f"{section}.{setting}", repr(value)[:500])
        return run


def _import(module: str, name: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(
            f"network.callbacks names {name}, which is not installed. Install it with: "
            f"pip install 'asdf-antispoofing[{extra}]'"
        ) from None


def _evaluation_values(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of an evaluation by 'metric/set'."""
    values = {}
    for metric, by_set in record.items():
        # Everything that is measured per set: the EER, the loss, and the chosen metric.
        if isinstance(by_set, Mapping):
            for name, value in by_set.items():
                # The digests of the sets' recordings are not numbers.
                if isinstance(value, int | float):
                    values[f"{metric}/{name}"] = value
    return values


def _result_values(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the numbers of stage 3 by 'results/network/set/metric'."""
    values = {}
    for row in rows:
        for metric, value in row.items():
            # To Python True is an int.
            if isinstance(value, int | float) and not isinstance(value, bool):
                values[f"results/{row['epoch']}/{row['set']}/{metric}"] = value
    return values


def _saved_identifiers(folder: Path) -> dict[str, Any]:
    """Return what the trackers call this run; nothing from a file that is missing or damaged."""
    try:
        saved = json.loads(Layout(folder).tracking.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return saved if isinstance(saved, dict) else {}


def _saved_identifier(folder: Path, tracker: str) -> str | None:
    """Return what the tracker calls this run, if an earlier start has begun one."""
    identifier = _saved_identifiers(folder).get(tracker)
    return identifier if isinstance(identifier, str) else None


def _identifier(folder: Path, tracker: str, new: str) -> str:
    """Return what the tracker calls this run; `new`, which is saved, for a run that has begun."""
    identifier = _saved_identifier(folder, tracker)
    if identifier is not None:
        return identifier
    saved = {**_saved_identifiers(folder), tracker: new}
    write_text(Layout(folder).tracking, json.dumps(saved) + "\n")
    return new
