"""Which runs and which of their networks a report is of, and the names that they go by.

Invariant: a network is chosen by the set that it was validated on, never by an evaluation set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from asdf.runs.evaluations import best_first, metrics_evaluations
from asdf.runs.layout import Layout, runs_inside
from asdf.trials.run_folder import RunFolder, open_run_folder

Choice = Literal["best", "reported", "all"]


def runs_in(paths: Iterable[Path]) -> list[RunFolder]:
    """The runs in these folders: each is a run's own folder, or one that holds the folders of runs.

    Raises:
        AsdfError: a folder is not there, or neither.
    """
    runs: list[RunFolder] = []
    for path in paths:
        inside = runs_inside(path)
        if inside and not Layout(path).settings.exists():
            runs += [open_run_folder(folder) for folder in inside]
        else:
            runs.append(open_run_folder(path))
    return list(dict.fromkeys(runs))


def chosen(run: RunFolder, choice: Choice) -> list[tuple[str, str]]:
    """(network, set) of what is to be shown: 'reported' falls back on 'best' where the run has no report."""
    files = run.score_files()
    there = [(network, corpus) for network, sets in files.items() for corpus in sets]
    if choice == "all":
        return there
    if choice == "reported" and (reported := [pair for pair in run.reported() if pair in there]):
        return reported
    best = best_network(run.training(), list(files))
    return [pair for pair in there if pair[0] == best]


def best_network(training: list[dict[str, Any]], networks: Sequence[str]) -> str | None:
    """The network of the lowest EER on the first validation set, of equals the later one; else the last that is there.

    It is chosen as the recipe chooses 'best'.
    """
    for evaluation in best_first(metrics_evaluations(training)):
        if str(evaluation.network) in networks:
            return str(evaluation.network)
    return networks[-1] if networks else None


def distinct_names(runs: Sequence[RunFolder]) -> list[str]:
    """Names of the runs; runs of one name get as many of the folders above them as tell them apart."""
    parts = 1
    names = [run.name for run in runs]
    while len(set(names)) < len(names) and parts < 32:
        parts += 1
        names = [
            "/".join(run.path.parts[-parts:]) if names.count(name) > 1 else name
            for run, name in zip(runs, names, strict=True)
        ]
    return names
