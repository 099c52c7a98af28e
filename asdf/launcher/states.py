"""The runs of a launch and their states, in memory and in `launch.json` of their folders.

Invariant: a run counts as done only if it ended successfully with the settings that it would get
now, and nothing else has run in its system folder since. It may have been run by a launch, a
cluster job, or by hand. The state is stored in that folder and disappears with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.runs.layout import Layout
from asdf.runs.start_records import was_finished
from asdf.settings.loading import read_init_config
from asdf.trials.how_scored import described_set

State = Literal["waiting", "running", "done", "failed", "stopped"]

# Settings that change only where or how fast a run computes: a finished run stays finished if they
# change.
_PLACE_OR_SPEED = (
    "use_gpu",
    "gpu_ids",
    "backend",
    "timeout_s",
    "threads",
    "network_dataloader_workers",
    "profile_steps",
)


@dataclass(frozen=True)
class JobResult:
    """The EER (a fraction) of a network on a set.

    Attributes:
        network: Name of the network: 'epoch.20', 'best', ...
        set: Name of the set, with the precision of its scores if it is not fp32.
        metric: Selection metric of the networks; '' if it is the EER.
        value: Value of that metric on the set.
    """

    network: str
    set: str
    eer: float
    metric: str = ""
    value: float | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any], set_name: str) -> JobResult:
        """Return the result in a row of results.json, or of launch.json.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: the row is malformed.
        """
        metric = row.get("validation_metric")
        if metric is None:
            return cls(str(row["epoch"]), set_name, float(row["eer"]))
        value = float(row["validation_value"])
        return cls(str(row["epoch"]), set_name, float(row["eer"]), str(metric), value)

    def row(self) -> dict[str, Any]:
        """Return the row of launch.json, which `from_row` reads."""
        row: dict[str, Any] = {"epoch": self.network, "set": self.set, "eer": self.eer}
        if self.metric:
            row |= {"validation_metric": self.metric, "validation_value": self.value}
        return row


@dataclass
class Job:
    """One run of a launch.

    Attributes:
        overrides: Arguments after the config's name on the run's command line.
        digest: Digest of the settings; see `settings_digest`.
        slots_needed: Number of slots that the run takes.
        detail: Text that the table shows after the state.
        results: Rows of the run's results.json.
        name: Name of the run, if it differs from its config.
        settings: Settings that its outcome depends on; see `outcome_settings`.
        modules: Folder of the recipe, for modules of your own.
    """

    config: str
    overrides: list[str]
    system: Path
    digest: str
    slots_needed: int = 1
    state: State = "waiting"
    detail: str = ""
    results: list[JobResult] = field(default_factory=list)
    name: str = ""
    settings: Mapping[str, Any] | None = None
    modules: Path | None = None

    @property
    def label(self) -> str:
        """The name of the run for the screen."""
        return self.name or self.config

    @property
    def layout(self) -> Layout:
        """The paths in the run's folder."""
        return Layout(self.system)

    @property
    def log(self) -> Path:
        """All output of the run, one start after another."""
        return self.layout.launch_log

    def restore_state(self) -> None:
        """Mark the job as done if the run is finished and nothing has changed since."""
        self._restore_launch()
        if self.state != "done" and self._was_finished():
            self.state = "done"
            self.detail = "by an earlier run"
            self.results = read_results(self.layout.results_json)

    def _was_finished(self) -> bool:
        """Whether a run that was not started by a launch on this machine ended successfully here.

        Examples are a run by hand, or a task of a job array.
        """
        if not was_finished(self.layout.environment):
            return False
        try:
            saved = read_init_config(self.layout.settings, self.modules).sections().plain()
        except AsdfError:
            return False
        # Digests would not do: a default of 20 becomes 20.0 when it is read from a file.
        return outcome_settings(saved) == self.settings

    def _restore_launch(self) -> None:
        """Mark the job as done if an earlier launch recorded so."""
        try:
            saved = json.loads(self.layout.launch_state.read_text(encoding="utf-8"))
            is_done = (
                saved["state"] == "done"
                and saved["digest"] == self.digest
                and saved["last_run"] == self._last_run_digest()
            )
            results = [JobResult.from_row(row, row["set"]) for row in saved["results"]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # An unreadable state counts as none: the run waits.
            return
        if is_done:
            self.state = "done"
            self.detail = "by an earlier launch"
            self.results = results

    def save_state(self) -> None:
        """Save the state for a later launch.

        Raises:
            AsdfError: the system folder cannot be written.
        """
        saved: dict[str, Any] = {
            "config": self.config,
            "state": self.state,
            "detail": self.detail,
            "digest": self.digest,
            "last_run": self._last_run_digest(),
            "results": [result.row() for result in self.results],
        }
        text = json.dumps(saved, indent=1, ensure_ascii=False)
        write_text(self.layout.launch_state, text + "\n")

    def _last_run_digest(self) -> str:
        """Return a digest of the settings of the last run in the folder; '' without one."""
        try:
            return hashlib.sha256(self.layout.settings.read_bytes()).hexdigest()
        except FileNotFoundError:
            return ""


def outcome_settings(plain: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings that a run's outcome depends on, by section and name.

    These exclude folders, and settings that change only where or how fast the run computes.

    Args:
        plain: All settings, as returned by `Sections.plain`.
    """
    values = {section: dict(settings) for section, settings in plain.items()}
    del values["paths"]
    for name in _PLACE_OR_SPEED:
        values["computing"].pop(name, None)
    return values


def settings_digest(plain: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a digest of the settings that a run's outcome depends on; `plain` as above."""
    # Sorted, because a later version may define the same settings in another order.
    text = json.dumps(outcome_settings(plain), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_results(path: Path) -> list[JobResult]:
    """Return the rows of a results.json; [] if the file is missing or malformed.

    The name of a set scored in another precision than fp32 includes it: 'dev, in bf16'.
    """
    results = []
    try:
        for row in json.loads(path.read_text(encoding="utf-8")):
            results.append(JobResult.from_row(row, described_set(row)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return results
