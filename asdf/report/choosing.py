"""Choice of the runs and networks in a report, and the names of the runs.

Invariant: a network is chosen on its validation set, never on an evaluation set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from asdf.runs.evaluations import best_network
from asdf.runs.layout import Layout, runs_inside
from asdf.trials.run_folder import RunFolder, open_run_folder

Choice = Literal["best", "reported", "all"]
_MAX_PARTS = 32


def runs_in(paths: Iterable[Path]) -> list[RunFolder]:
    """Return the runs in these folders, which are folders of a run or folders of runs.

    Raises:
        AsdfError: a folder does not exist, or is not such a folder.
    """
    # A run that is given twice, directly and by its parent folder, counts once.
    runs: dict[RunFolder, None] = {}
    for path in paths:
        folders = [path]
        if not Layout(path).settings.exists():
            # A folder without any run is opened too, which explains what it lacks.
            folders = runs_inside(path) or folders
        for folder in folders:
            runs[open_run_folder(folder)] = None
    return list(runs)


def chosen(run: RunFolder, choice: Choice) -> list[tuple[str, str]]:
    """Return (network, set) of the results to show.

    'reported' means 'best' for a run without a report.
    """
    files = run.score_files()
    scored = []
    for network, sets in files.items():
        scored += [(network, set_name) for set_name in sets]
    if choice == "all":
        return scored
    if choice == "reported":
        # Reported score files may have been removed since.
        reported = [pair for pair in run.reported() if pair in scored]
        if reported:
            return reported
    best = best_network(run.training(), list(files))
    return [(network, set_name) for network, set_name in scored if network == best]


def picks_best(run: RunFolder, choice: Choice) -> bool:
    """Return whether `chosen` returns the best network by the run's validation."""
    return choice == "best" or (choice == "reported" and not run.reported())


def distinct_names(runs: Sequence[RunFolder]) -> list[str]:
    """Return distinct names of the runs: their folder names, with parent folders if needed."""
    parts = 1
    names = [run.name for run in runs]
    # A run that is given twice has equal names with any number of parent folders.
    while len(set(names)) < len(names) and parts < _MAX_PARTS:
        parts += 1
        longer = []
        for run, name in zip(runs, names, strict=True):
            is_shared = names.count(name) > 1
            longer.append("/".join(run.path.parts[-parts:]) if is_shared else name)
        names = longer
    return names
