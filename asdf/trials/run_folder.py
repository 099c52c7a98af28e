"""What a run has left in its folder: settings, environment, training records, scores; for reports and comparisons.

Invariant: nothing is computed here and nothing in the folder is changed; what a run has not come to yet (or what was
taken away) is empty, not an error, so that a run can be looked at while it goes on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.json_lines import read_json_lines
from asdf.runs.layout import METRICS
from asdf.settings.blocks import parse_assignments
from asdf.trials.score_file import Scores, read_scores
from asdf.trials.table import read_trials
from asdf.trials.trial_list import TrialList

SCORES, TRIALS = "scores", "trials"


@dataclass(frozen=True)
class KeptSetting:
    """A setting of a run: its value as it was written, and in words where it came from."""

    text: str
    source: str


@dataclass(frozen=True)
class RunFolder:
    """The system folder of a run (`paths.output_folder/paths.system_folder`)."""

    path: Path

    @property
    def name(self) -> str:
        """The system's name: that of its folder."""
        return self.path.name

    def settings(self) -> dict[str, KeptSetting]:
        """The settings of the last start, by full name, in the order of the file."""
        text = _text(self.path / "settings.py")
        assignments, _ = parse_assignments(text, str(self.path / "settings.py"))
        return {one.target: KeptSetting(one.text, one.comment.lstrip("# ")) for one in assignments}

    def environments(self) -> list[dict[str, Any]]:
        """The record of each start, oldest first (see `asdf.runs.record.environment_record`)."""
        try:
            records = json.loads(_text(self.path / "environment.json") or "[]")
        except (json.JSONDecodeError, RecursionError):
            return []
        return (
            [record for record in records if isinstance(record, dict)]
            if isinstance(records, list)
            else []
        )

    def training(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl: records whose 'kind' is 'step', 'evaluation' or 'end'."""
        return read_json_lines(self.path / METRICS)

    def score_files(self) -> dict[str, dict[str, Path]]:
        """network ('epoch.20') -> set -> its score file; networks in the order of their epochs."""
        found: dict[str, dict[str, Path]] = {}
        for path in sorted((self.path / SCORES).glob("*/*.txt")):
            found.setdefault(path.parent.name, {})[path.stem] = path
        return dict(sorted(found.items(), key=lambda item: _epoch(item[0])))

    def reported(self) -> list[tuple[str, str]]:
        """(network, set) of each row of the last report, which are the networks that the run's settings chose."""
        try:
            rows = json.loads(_text(self.path / "results" / "results.json") or "[]")
            return [(str(row["epoch"]), str(row["set"])) for row in rows]
        except (ValueError, KeyError, TypeError):
            return []

    def scores(self, network: str, name: str) -> Scores:
        """The scores of a network on the set `name`.

        Raises:
            AsdfError: as `read_scores`.
        """
        return read_scores(self.path / SCORES / network / f"{name}.txt", both_classes=False)

    def trials(self, name: str) -> TrialList | None:
        """What the corpus says of the trials of the set `name`; None where the run has not kept it."""
        path = self.path / TRIALS / f"{name}.tsv"
        return read_trials(path) if path.exists() else None


def open_run_folder(path: Path) -> RunFolder:
    """The run in `path`.

    Raises:
        AsdfError: there is no such folder, or no run ever wrote to it.
    """
    if not path.is_dir():
        raise AsdfError(
            f"there is no folder {path}. Name the system folder of a run: paths.output_folder/paths.system_folder."
        )
    if not (path / "settings.py").exists() and not (path / SCORES).is_dir():
        near = sorted(child.parent.name for child in path.glob("*/settings.py"))
        hint = f" It holds the runs {', '.join(near[:8])}: name one of them." if near else ""
        raise AsdfError(
            f"{path} is not the folder of a run: it holds neither settings.py nor scores.{hint}"
        )
    return RunFolder(path.resolve())


def _epoch(network: str) -> tuple[bool, int, bool, int, str]:
    """Numbered epochs first, 'epoch.3.step.200' (inside the third) before 'epoch.3'; then 'average' and others."""
    numbers = [int(part) for part in network.split(".") if part.isdigit()]
    epoch, step = (*numbers, 0, 0)[:2]
    return not numbers, epoch, len(numbers) == 1, step, network


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise AsdfError(f"cannot read {path}: {error}. Is it the folder of a run?") from None
