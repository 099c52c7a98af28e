"""The content of a run's folder: settings, environment, training records, scores.

For reports and comparisons; the paths come from `asdf.runs.layout`.

Invariant: nothing is computed here and nothing in the folder is changed. Missing files give empty
results, not errors, so a run can be inspected while it is running.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.evaluations import Evaluation, evaluations_in
from asdf.runs.files import read_json_lines
from asdf.runs.layout import Layout, NetworkName, corpus_of_file, in_order, runs_inside
from asdf.settings.config_files import parse_assignments
from asdf.trials.score_file import Scores, read_scores
from asdf.trials.table import read_trials
from asdf.trials.trial_list import TrialList

_SHOWN = 8


@dataclass(frozen=True)
class KeptSetting:
    """A setting of a run: its value as written, and its origin in words."""

    text: str
    source: str


@dataclass(frozen=True)
class RunFolder:
    """The system folder of a run (`paths.output_folder/paths.system_folder`)."""

    path: Path

    @property
    def name(self) -> str:
        """The system's name, which is that of its folder."""
        return self.path.name

    @property
    def layout(self) -> Layout:
        return Layout(self.path)

    def settings(self) -> dict[str, KeptSetting]:
        """Return the settings of the last start by full name, in the order of the file."""
        path = self.layout.settings
        return dict(_parse_settings(_read_text(path), str(path)))

    def database_folder(self) -> Path | None:
        """Return `paths.database_folder` of the last start; None if it is unknown.

        A relative one starts from the folder of the recipe's run.py, which the start's record
        states.
        """
        setting = self.settings().get("paths.database_folder")
        if setting is None:
            return None
        folder = Path(setting.text.strip("'\""))
        starts = self.environments()
        if folder.is_absolute() or not starts:
            return folder
        working_directory = str(starts[-1].get("working_directory", ""))
        try:
            _, program, *_ = shlex.split(str(starts[-1].get("command", "")))
        except ValueError:
            return folder
        return (Path(working_directory) / program).parent / folder

    def environments(self) -> list[dict[str, Any]]:
        """Return a record per start, oldest first (`asdf.runs.start_records`)."""
        records = _known_records(self.layout.environment)
        return [record for record in records if isinstance(record, dict)]

    def changes(self) -> list[str]:
        """Return a sentence for each change with which a later start continued the run.

        Its settings are those of the last start alone.
        """
        of_starts = [start.get("changes") for start in self.environments()]
        lists = [changes for changes in of_starts if isinstance(changes, list)]
        return [str(change) for changes in lists for change in changes]

    def evaluations(self) -> list[Evaluation]:
        """Return the networks' evaluations on the validation sets; empty if none are known."""
        return evaluations_in(_known_records(self.layout.evaluations))

    def training(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl: their 'kind' is 'step', 'evaluation' or 'end'."""
        return read_json_lines(self.layout.metrics)

    def score_files(self) -> dict[str, dict[str, Path]]:
        """Return network ('epoch.20') -> set -> score file; networks in the order of training."""
        files: dict[str, dict[str, Path]] = {}
        for path in self.layout.score_files():
            files.setdefault(path.parent.name, {})[corpus_of_file(path)] = path
        names = in_order([NetworkName(network) for network in files])
        return {str(name): files[str(name)] for name in names}

    def reported(self) -> list[tuple[str, str]]:
        """Return (network, set) of each row of the last report."""
        try:
            rows = _known_records(self.layout.results_json)
            return [(str(row["epoch"]), str(row["set"])) for row in rows]
        except (KeyError, TypeError):
            return []

    def score_file(self, network: str, corpus: str) -> Path:
        """Return the path of the scores of a network on a set."""
        return self.layout.score_file(NetworkName(network), corpus)

    def scores(self, network: str, corpus: str) -> Scores:
        """Read the scores of a network on a set.

        Raises:
            AsdfError: as in `read_scores`.
        """
        # `asdf.metrics.score_checks` reports a missing class with the system's name.
        return read_scores(self.score_file(network, corpus), both_classes=False)

    def trials(self, corpus: str) -> TrialList | None:
        """Read the saved labels and columns of a set's trials; None if the run saved none."""
        path = self.layout.trials_file(corpus)
        return read_trials(path) if path.exists() else None


def open_run_folder(path: Path) -> RunFolder:
    """Return the run in `path`.

    Raises:
        AsdfError: the folder does not exist, or no run has written to it.
    """
    if not path.is_dir():
        raise AsdfError(
            f"there is no folder {path}. Name the system folder of a run: "
            "paths.output_folder/paths.system_folder."
        )
    layout = Layout(path)
    if not layout.settings.exists() and not layout.scores.is_dir():
        runs = ", ".join(run.name for run in runs_inside(path)[:_SHOWN])
        hint = f" It holds the runs {runs}: name one of them." if runs else ""
        raise AsdfError(
            f"{path} is not the folder of a run: it holds neither settings.py nor scores.{hint}"
        )
    # A run is named by its folder, and '.' has no name.
    return RunFolder(path.resolve())


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON list in the results of a run; empty if it does not exist.

    Raises:
        ValueError: it is not such a list.
        AsdfError: it cannot be read.
    """
    try:
        records = json.loads(_read_text(path) or "[]")
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError("not a list of objects")
    return records


# A report asks for the settings of each of a hundred runs a dozen times.
@lru_cache(maxsize=512)
def _parse_settings(text: str, where: str) -> dict[str, KeptSetting]:
    assignments, _ = parse_assignments(text, where)
    return {
        assignment.target: KeptSetting(assignment.text, assignment.comment.lstrip("# "))
        for assignment in assignments
    }


def _known_records(path: Path) -> list[Any]:
    """Return the records of a JSON list; empty if it is damaged."""
    try:
        records = json.loads(_read_text(path) or "[]")
    except (ValueError, RecursionError):
        return []
    return records if isinstance(records, list) else []


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise AsdfError(f"cannot read {path}: {error}. Is it the folder of a run?") from None
