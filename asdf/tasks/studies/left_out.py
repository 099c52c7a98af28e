"""Runs as folds of one protocol: EERs on the values that each run left out of training.

Invariant: runs are folds of one system only if they agree in every setting that can change a
result, except the left-out values and the seed. Each left-out value counts once per seed; a mean
over values is given only if it covers all of them. The tables on a terminal, on the page and in
LaTeX have the same cells, with means before their values, because wide tables wrap.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from asdf.metrics.results import Result
from asdf.tables.renderers import PageTable, as_latex, as_page, as_text
from asdf.tables.table import RATE, Columns, Table, Value, counts, each, labels_of, rate, texts
from asdf.tasks.studies.configurations import (
    Measured,
    effective_settings,
    group_name,
    name_without_seed,
    recorded_seed,
    recorded_value,
)
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
_LABEL = 28


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
        # Seeds are texts, and '10' would stand before '2': the shorter number is the smaller one.
        return sorted(set().union(*self.results.values()), key=lambda seed: (len(seed), seed))

    @cached_property
    def whole_seeds(self) -> list[str]:
        """The seeds for which every value was left out by some run."""
        whole = set(self.seeds).intersection(*self.results.values())
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
    def worst(self) -> str:
        """The value with the highest EER; the first one of equal values."""
        return max(self.values, key=self.eer)


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
        setting = recorded_value(run, _LEAVE_OUT) if evaluates_left_out(run) else None
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
            chosen = recorded_value(run, _SELECTED)
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
        # Of runs with the same left-out values and seed, the first counts.
        system, values, summary = systems[key], words[1:], measured.summary
        results = {known.value: known.result for known in summary.of_column(system.column)}
        if not results and len(values) == 1:
            # With a single value there are no conditions: all spoofs have it.
            results = {values[0]: summary.result}
        seed = recorded_seed(run) or ""
        for value in values:
            if value in results:
                system.results.setdefault(value, {}).setdefault(seed, results[value])
        system.folds.setdefault(values, summary.result.bona_fide)
    distinct = numbered([group_name(list(dict.fromkeys(members[key]))) for key in systems])
    for name, system in zip(distinct, systems.values(), strict=True):
        system.name = name
    return [system for system in systems.values() if system.results]


def evaluates_left_out(run: RunFolder) -> bool:
    """Whether a run evaluated what it left out of training."""
    return recorded_value(run, _EVALUATE) is True


def left_out_text(systems: Sequence[LeftOutSystem]) -> str:
    """Return the tables as text, each followed by its sentences; '' without a system."""
    parts: list[str] = []
    for column, table in _tables(systems, ["seeds", "mean", "worst"]).items():
        parts += [f"EER % by {column}, left out of training", *as_text(table), *table.notes]
    return "\n\n".join(parts)


def left_out_tables(systems: Sequence[LeftOutSystem]) -> list[PageTable]:
    """Return the tables of the page, a row per system."""
    tables = _tables(systems, ["Seeds", "Mean", "Worst"], is_sorted=True).items()
    caption = "EER in % by {}, left out of training"
    return [as_page(table, caption.format(column), "heat") for column, table in tables]


def left_out_latex(systems: Sequence[LeftOutSystem]) -> str:
    """Return the tables in LaTeX, with booktabs; '' without a system."""
    tables = _tables(systems, ["Seeds", "Mean", "Worst"]).items()
    title = "% EER in per cent by {}, left out of training\n"
    return "\n".join(title.format(column) + as_latex(table) for column, table in tables)


def _tables(
    systems: Sequence[LeftOutSystem], headings: list[str], *, is_sorted: bool = False
) -> dict[str, Table]:
    """Return the EERs of the systems that left out values of each column, by the column.

    Args:
        headings: Names of the columns before those of the values.
        is_sorted: Whether readers sort by columns, so that the worst value has its own column
            instead of standing next to its EER.
    """
    by_column: dict[str, list[LeftOutSystem]] = {}
    for system in systems:
        by_column.setdefault(system.column, []).append(system)
    seeds, mean, worst = headings
    tables = {}
    for name, of_column in by_column.items():
        columns: Columns = [
            counts(seeds, [len(system.seeds) for system in of_column]),
            (rate(mean), [Value.of_spread(system.mean) for system in of_column]),
        ]
        highest = [system.eer(system.worst) for system in of_column]
        named = each(of_column, "worst")
        # The page sorts by columns, which takes a column of numbers alone.
        if is_sorted:
            columns.append(rate(worst, is_shaded=True).with_values(highest))
            columns.append(texts(f"Worst {name}", named))
        else:
            pairs = zip(highest, named, strict=True)
            columns.append(texts(worst, [f"{RATE.format(eer)} ({value})" for eer, value in pairs]))
        for value in sorted({value for system in of_column for value in system.values}):
            eers = [system.eer(value) if value in system.results else None for system in of_column]
            columns.append(rate(value, is_shaded=True).with_values(eers))
        rows = each(of_column, "name")
        heading = "" if seeds == "seeds" else "System"
        notes = left_out_sentences(of_column)
        tables[name] = Table(rows, columns, heading, notes, labels_of(rows, _LABEL))
    return tables


def left_out_sentences(systems: Sequence[LeftOutSystem]) -> list[str]:
    """Return sentences on the trials and networks, given once if they hold for all systems."""
    by_sentence: dict[str, list[str]] = {}
    for system in systems:
        by_sentence.setdefault(_sentence(system), []).append(system.name)
    if len(by_sentence) == 1:
        return list(by_sentence)
    return [f"{', '.join(names)}: {sentence}" for sentence, names in by_sentence.items()]


def _sentence(system: LeftOutSystem) -> str:
    values = len(system.values)
    seeds = len(system.seeds)
    over_seeds = "of one seed" if seeds == 1 else f"means over {seeds} seeds"
    bona_fide = _range(system.folds.values())
    # With any seed, the spoofs of a value are the same trials.
    spoofs = [next(iter(by_seed.values())).spoof for by_seed in system.results.values()]
    sentence = (
        f"Each of {values} values of {system.column} is left out of training in one of "
        f"{len(system.folds)} folds, and its spoofs ({_range(spoofs)} per value) are "
        f"scored against the bona fide trials that the fold left out ({bona_fide} per fold), "
        f"with {system.network}. EERs are {over_seeds}; mean: of the EERs of the {values} "
        "values, ± the standard deviation over seeds; worst: the highest EER."
    )
    missing = [seed for seed in system.seeds if seed not in system.whole_seeds]
    if missing:
        sentence += (
            f" Seeds {', '.join(missing)} lack folds and are excluded from mean and deviation."
        )
    return sentence


def _range(counts: Collection[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"
