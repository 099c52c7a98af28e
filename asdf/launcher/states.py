"""The runs of a launch and what is known of each: in memory, and in `launch.json` of its system folder.

Invariant: a run counts as done only if it ended well with the settings that it would get now, and nobody has run
anything else in its system folder since. The state lies in that folder, so it goes when the folder goes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from asdf.runs.files import write_text
from asdf.runs.layout import Layout
from asdf.settings import Sections
from asdf.trials.how_scored import set_and_precision

State = Literal["waiting", "running", "done", "failed", "stopped"]

# Where and how fast a run computes, not what: other values make no finished run unfinished.
_PLACE = (
    "use_gpu",
    "gpu_ids",
    "backend",
    "timeout_s",
    "threads",
    "network_dataloader_workers",
    "profile_steps",
)


@dataclass
class Job:
    """One config of a launch.

    Attributes:
        overrides: all that stands behind the config's name on the run's command line.
        digest: of the settings; see `settings_digest`.
        slots_needed: how many slots the run takes.
        detail: what the table says behind the state.
        results: EERs (fractions) by (epoch, set), as the run's results.json has them.
    """

    config: str
    overrides: list[str]
    system: Path
    digest: str
    slots_needed: int = 1
    state: State = "waiting"
    detail: str = ""
    results: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """All that the run prints, of one start after another."""
        return Layout(self.system).launch_log

    @property
    def stop_file(self) -> Path:
        """The run stops when it sees this file."""
        return Layout(self.system).launch_stop

    @property
    def metrics(self) -> Path:
        return Layout(self.system).metrics

    @property
    def results_file(self) -> Path:
        return Layout(self.system).results_json

    @property
    def _state_file(self) -> Path:
        return Layout(self.system).launch_state

    def recall(self) -> None:
        """Be done if an earlier launch got so far."""
        try:
            kept = json.loads(self._state_file.read_text(encoding="utf-8"))
            done = (kept["state"], kept["digest"], kept["last_run"]) == (
                "done",
                self.digest,
                self._last_run(),
            )
            results = {(row["epoch"], row["set"]): float(row["eer"]) for row in kept["results"]}
        except (OSError, ValueError, KeyError, TypeError):
            return
        if done:
            self.state, self.detail, self.results = "done", "by an earlier launch", results

    def keep(self) -> None:
        """Write the state down for a later launch.

        Raises:
            AsdfError: the system folder cannot be written.
        """
        rows = [
            {"epoch": epoch, "set": name, "eer": eer} for (epoch, name), eer in self.results.items()
        ]
        kept: dict[str, Any] = {"config": self.config, "state": self.state, "detail": self.detail}
        kept |= {"digest": self.digest, "last_run": self._last_run(), "results": rows}
        write_text(self._state_file, json.dumps(kept, indent=1, ensure_ascii=False) + "\n")

    def _last_run(self) -> str:
        """A digest of the settings that the last run in the system folder saved; '' if there was none."""
        try:
            return hashlib.sha256(Layout(self.system).settings.read_bytes()).hexdigest()
        except FileNotFoundError:
            return ""


def settings_digest(settings: Sections) -> str:
    """A digest of the settings that a run's outcome depends on: all but the folders and the place of computation."""
    values = asdict(settings)
    del values["paths"]
    for name in _PLACE:
        del values["computing"][name]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_results(path: Path) -> dict[tuple[str, str], float]:
    """EERs by (epoch, set) of a results.json; nothing where there is none.

    A set that was scored in another precision than fp32 is called 'dev, in bf16'.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {(str(row["epoch"]), set_and_precision(row)): float(row["eer"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
