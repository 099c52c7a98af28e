"""Systems that differ in their seed only, as one: the mean of their EERs and how far they lie apart."""

from __future__ import annotations

import re

import numpy as np

from asdf.report.gathering import Gathered
from asdf.report.markup import Cell, Content, Html, name_cell, table
from asdf.report.names import labels_of

_LABEL = 28
_SEED = re.compile(r"(?i)(seed)[-_=]?\d+")


def seeds_table(gathered: Gathered) -> Html | None:
    """A row for each group of systems whose names differ only in the number behind 'seed'; None without one."""
    groups: dict[str, list[str]] = {}
    for system in gathered.systems:
        if _SEED.search(system):
            groups.setdefault(_SEED.sub(r"\1*", system), []).append(system)
    several = {name: systems for name, systems in groups.items() if len(systems) > 1}
    if not several:
        return None
    rows: list[list[Cell | Content]] = []
    labels = labels_of(list(several), _LABEL)
    for (name, systems), label in zip(several.items(), labels, strict=True):
        row: list[Cell | Content] = [name_cell(name, label), len(systems)]
        for corpus in gathered.sets:
            eers = [
                100 * one.summary.result.eer for one in gathered.on(corpus) if one.system in systems
            ]
            row.append(_mean_cell(eers))
        rows.append(row)
    caption = "EER in % over seeds: mean ± standard deviation"
    return table(caption, ["Systems", "Seeds", *gathered.sets], rows, class_="seeds")


def _mean_cell(values: list[float]) -> Cell:
    if len(values) < 2:
        return Cell("–")
    mean, deviation = float(np.mean(values)), float(np.std(values, ddof=1))
    return Cell(f"{mean:.2f} ± {deviation:.2f}", mean)
