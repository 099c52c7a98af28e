"""Runs as folds of one protocol: EERs on the values that each run left out of training.

Invariant: runs are folds of one system only if they agree in every setting that can change a
result, except the left-out values and the seed. Each left-out value counts once per seed; a mean
over values is given only if it covers all of them.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from asdf.metrics.results import Result
from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import Complaint
from asdf.tasks.studies.grouping import (
    effective_settings,
    group_name,
    name_without_seed,
    recorded_seed,
)
from asdf.tasks.studies.measured import Measured
from asdf.tasks.studies.over_seeds import Spread, spread_of
from asdf.text import numbered
from asdf.trials.run_folder import RunFolder

_EVALUATE = "recipe.evaluate_left_out"
_LEAVE_OUT = "recipe.leave_out"
_SPEAKERS = "recipe.leave_out_speakers"
_SELECTED = "recipe.selected_epochs"
_SEED_IN_NAME = re.compile(r"[-_]?seed\*")
_NETWORKS = {
    "best": "the best epoch by the rest of the validation sets",
    "average": "the average of the best epochs by the rest of the validation sets",
    "last": "the last epoch",
}


class Worst(NamedTuple):
    """The value with the highest mean EER over seeds."""

    value: str
    eer: float


@dataclass
class LeftOutSystem:
    """A system in all of its folds.

    Attributes:
        column: Column whose values are left out.
        network: Network of each run that was scored, in words.
        results: Results of a left-out value's spoofs against its fold's bona fide trials, by value
            and seed.
        folds: Number of bona fide trials of each fold, by the left-out value.
    """

    name: str
    column: str
    network: str
    results: dict[str, dict[str, Result]] = field(default_factory=dict)
    folds: dict[tuple[str, ...], int] = field(default_factory=dict)

    @property
    def values(self) -> list[str]:
        """All values that a run left out, sorted."""
        return sorted(self.results)

    @cached_property
    def seeds(self) -> list[str]:
        """The seeds in numerical order."""
        seeds: dict[str, None] = {}
        for by_seed in self.results.values():
            seeds.update(dict.fromkeys(by_seed))
        # Seeds are texts, and '10' would stand before '2': the shorter number is the smaller one.
        return sorted(seeds, key=lambda seed: (len(seed), seed))

    @cached_property
    def whole_seeds(self) -> list[str]:
        """The seeds for which every value was left out by some run."""
        whole = set(self.seeds)
        for by_seed in self.results.values():
            whole &= by_seed.keys()
        return [seed for seed in self.seeds if seed in whole]

    def eer(self, value: str) -> float:
        """Return the mean over seeds of the EER on a value, a fraction."""
        results = self.results[value].values()
        return spread_of([result.eer for result in results]).mean

    @cached_property
    def mean(self) -> Spread | None:
        """The mean over values for each whole seed, over seeds; None without a whole seed."""
        means = []
        for seed in self.whole_seeds:
            of_seed = [by_seed[seed].eer for by_seed in self.results.values()]
            means.append(spread_of(of_seed).mean)
        return spread_of(means) if means else None

    @property
    def worst(self) -> Worst:
        """The value with the highest EER; the first one of equal values."""
        value = max(self.values, key=self.eer)
        return Worst(value, self.eer(value))


def measure_left_out(
    runs: Sequence[RunFolder], names: Sequence[str], measurements: Sequence[Measured]
) -> list[LeftOutSystem]:
    """Return the systems of runs that evaluated the values they left out.

    Args:
        names: Names of the runs.
    """
    systems: dict[Hashable, LeftOutSystem] = {}
    members: dict[Hashable, list[str]] = {}
    for index, run in enumerate(runs):
        setting = _value_of(run, _LEAVE_OUT) if evaluates_left_out(run) else None
        words = tuple(map(str, setting)) if isinstance(setting, tuple) else ()
        of_run = [m for m in measurements if m.run == index]
        by_key = {(m.network, m.summary.set): m for m in of_run}
        # Only the first network and set that the run reported are used.
        reported = (by_key[pair] for pair in run.reported() if pair in by_key)
        measured = next(reported, of_run[0] if of_run else None)
        # The first word is the column, the others are its values.
        if len(words) < 2 or measured is None:
            continue
        settings = effective_settings(run)
        # These differ from fold to fold of one system.
        for name in (_LEAVE_OUT, _SPEAKERS):
            settings.pop(name, None)
        key = (words[0], tuple(sorted(settings.items())))
        if key not in systems:
            chosen = _value_of(run, _SELECTED)
            network = _NETWORKS["last"]
            if isinstance(chosen, tuple) and chosen:
                network = _NETWORKS.get(str(chosen[0]), measured.network)
            systems[key] = LeftOutSystem("", words[0], network)
        # 'my-net' for 'my-net-attack_A01_A02-fold1of4-seed0'.
        start = rf"-{re.escape(words[0])}_"
        name = re.sub(rf"{start}(?:(?!{start})[^/])*-fold\d+of\d+", "", names[index])
        if name != names[index]:
            name = _SEED_IN_NAME.sub("", name_without_seed(name))
        members.setdefault(key, []).append(name)
        _add(systems[key], words[1:], recorded_seed(run) or "", measured)
    distinct = numbered([group_name(list(dict.fromkeys(members[key]))) for key in systems])
    for name, system in zip(distinct, systems.values(), strict=True):
        system.name = name
    return [system for system in systems.values() if system.results]


def evaluates_left_out(run: RunFolder) -> bool:
    """Whether a run evaluated what it left out of training."""
    setting = run.settings().get(_EVALUATE)
    return setting is not None and setting.text == "True"


def _value_of(run: RunFolder, setting: str) -> object:
    """Return the value of a setting that a run recorded; None where it cannot be read."""
    recorded = run.settings().get(setting)
    try:
        return None if recorded is None else parse_literal(recorded.text)
    except Complaint:
        return None


def _add(system: LeftOutSystem, values: tuple[str, ...], seed: str, measured: Measured) -> None:
    """Add the results of a run; of runs with the same left-out values and seed the first counts."""
    summary = measured.summary
    results = {known.value: known.result for known in summary.of_column(system.column)}
    if not results and len(values) == 1:
        # With a single value there are no conditions: all spoofs have it.
        results = {values[0]: summary.result}
    for value in values:
        if value in results:
            system.results.setdefault(value, {}).setdefault(seed, results[value])
    system.folds.setdefault(values, summary.result.bona_fide)
