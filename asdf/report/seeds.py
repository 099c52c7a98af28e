"""Systems that differ in their seed only: the mean of their EERs and how far they lie apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from asdf.report.cells import ABSENT, Cell, Table, head_cells, name_cell
from asdf.report.gathering import Gathered
from asdf.report.names import labels_of

_LABEL = 28
_SEED = re.compile(r"(?i)(seed)[-_=]?\d+")


def seeds_table(gathered: Gathered) -> Table | None:
    """Return a row for each group of systems that differ only in the number behind 'seed'.

    None without such a group.
    """
    groups = _group_by_seed(gathered.systems)
    if not groups:
        return None
    rows = []
    labels = labels_of(list(groups), _LABEL)
    for name, label in zip(groups, labels, strict=True):
        systems = groups[name]
        row = [name_cell(name, label), Cell(len(systems))]
        for set_name in gathered.sets:
            eers = _eers_of(gathered, set_name, systems)
            row.append(_mean_cell(eers))
        rows.append(row)
    caption = "EER in % over seeds: mean ± standard deviation"
    return Table(caption, head_cells(["Systems", "Seeds", *gathered.sets]), rows, "seeds")


def _eers_of(gathered: Gathered, set_name: str, systems: Sequence[str]) -> list[float]:
    """Return the EERs in % of those of the systems that were scored on the set."""
    eers = []
    for measured in gathered.on(set_name):
        if measured.system in systems:
            eers.append(100 * measured.summary.result.eer)
    return eers


def _group_by_seed(systems: Sequence[str]) -> dict[str, list[str]]:
    """Return name with 'seed*' -> systems, for names that at least two systems share."""
    groups: dict[str, list[str]] = {}
    for system in systems:
        if _SEED.search(system):
            name = _SEED.sub(r"\1*", system)
            groups.setdefault(name, []).append(system)
    return {name: alike for name, alike in groups.items() if len(alike) > 1}


def _mean_cell(values: Sequence[float]) -> Cell:
    # One value has no deviation.
    if len(values) < 2:
        return Cell(ABSENT)
    mean = float(np.mean(values))
    # ddof=1: these seeds are a sample of all that might have been drawn.
    deviation = float(np.std(values, ddof=1))
    return Cell(f"{mean:.2f} ± {deviation:.2f}", mean)
