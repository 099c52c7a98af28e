"""Configurations: systems that differ only in their seed, found by the recorded settings of runs.

Invariant: runs are grouped only if they agree in every setting that can change a result, and each
seed counts once. Runs without a recorded seed are grouped by folder name, if the names differ only
in the number after 'seed'. Each system belongs to one configuration; a system with unique settings
is a configuration with a single seed.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from asdf.runs.evaluations import best_network
from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import Complaint
from asdf.text import numbered
from asdf.trials.run_folder import KeptSetting, RunFolder

if TYPE_CHECKING:
    from asdf.metrics.summary import Summary

SEED = "recipe.seed"
_FEW = 3


@dataclass(frozen=True)
class Measured:
    """One network on one set.

    Attributes:
        run: Index of its run.
        system: Name in the report, the same on every set.
        network: Name of the network, such as 'epoch.20'.
        summary: Summary without scores, because the scores of all systems may not fit into memory.
    """

    run: int
    system: str
    network: str
    summary: Summary


NO_EFFECT = frozenset(
    {
        # Paths, and actions of this call. A corpus may be copied to the disk of each node.
        "paths.output_folder",
        "paths.database_folder",
        "paths.system_folder",
        "paths.sad_folder",
        "recipe.start_stage",
        "recipe.end_stage",
        "recipe.check_recordings",
        # Hardware and speed, which change results by rounding at most.
        "computing.gpu_ids",
        "computing.backend",
        "computing.timeout_s",
        "computing.threads",
        "computing.network_dataloader_workers",
        "computing.profile_steps",
        # Logging and saving during a run.
        "network.print_interval",
        "network.scoring_print_interval",
        "network.checkpoint_interval_s",
        "network.checkpoint_interval_steps",
        "network.save_only_trained",
    }
)
"""Settings that change no result: runs that differ only in these and the seed form a group."""

_SEED_IN_NAME = re.compile(r"(?i)(seed)[-_=]?\d+")


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in their seed, in the order of their seeds.

    Attributes:
        runs: Indices of the runs.
        seeds: Seed of each run, as recorded, or from the name of its folder.
    """

    name: str
    runs: tuple[int, ...]
    seeds: tuple[str, ...]


def group_runs(runs: Sequence[RunFolder], names: Sequence[str]) -> list[RunGroup]:
    """Return the groups of at least two runs, ordered by the first run of each.

    Args:
        names: Names of the runs, which the groups are named after.
    """
    by_configuration: dict[Hashable, dict[str, int]] = {}
    for index, (run, name) in enumerate(zip(runs, names, strict=True)):
        configuration: Hashable = name_without_seed(name)
        seed = recorded_seed(run)
        match = _SEED_IN_NAME.search(name)
        if seed is not None:
            # Sorted, since versions may record the same settings in another order.
            configuration = tuple(sorted(effective_settings(run).items()))
        elif match is not None:
            seed = re.sub(r"\D", "", match.group())
        else:
            continue
        # A second run with the same seed is not another sample: only the first one counts.
        by_configuration.setdefault(configuration, {}).setdefault(seed, index)
    groups = []
    for by_seed in by_configuration.values():
        if len(by_seed) < 2:
            continue
        # The seeds are sorted as numbers.
        seeds = sorted(by_seed, key=lambda seed: (int(seed) if seed.isdecimal() else 0, seed))
        members = tuple(by_seed[seed] for seed in seeds)
        name = group_name([names[index] for index in members])
        groups.append(RunGroup(name, members, tuple(seeds)))
    distinct = numbered([group.name for group in groups])
    return [replace(group, name=name) for group, name in zip(groups, distinct, strict=True)]


def effective_settings(run: RunFolder) -> dict[str, str]:
    """Return the recorded settings that can change a result, without the seed, as text."""
    settings = run.settings()
    ignored = {*NO_EFFECT, SEED}
    texts = {name: setting.text for name, setting in settings.items() if name not in ignored}
    # If other sets choose the network, scoring additional sets changes nothing on the others.
    if settings.get("recipe.validation_sets", KeptSetting("None", "")).text != "None":
        texts.pop("recipe.evaluation_sets", None)
    return texts


def recorded_value(run: RunFolder, name: str) -> object:
    """Return the value of a setting that a run recorded; None where it cannot be read."""
    recorded = run.settings().get(name)
    try:
        return None if recorded is None else parse_literal(recorded.text)
    except Complaint:
        return None


def recorded_seed(run: RunFolder) -> str | None:
    """Return the seed that a run recorded; None if it recorded none."""
    setting = run.settings().get(SEED)
    return None if setting is None else setting.text


def name_without_seed(name: str) -> str:
    """Return 'net_seed*' for 'net_seed3'."""
    return _SEED_IN_NAME.sub(r"\1*", name)


def group_name(names: Sequence[str]) -> str:
    """Return a name for systems that differ in their seed: their common part, or all names."""
    common = dict.fromkeys(map(name_without_seed, names))
    if len(common) == 1:
        return next(iter(common))
    shown = ", ".join(names[:_FEW])
    return shown if len(names) <= _FEW else f"{shown} and {len(names) - _FEW} more"


@dataclass(frozen=True)
class Configuration:
    """Systems that differ only in their seed, or a single system.

    Attributes:
        systems: Names of the systems in the report, in the order of their seeds.
        seeds: Seed of each system; '' if unknown.
        run: Index of the run of the first system, whose settings represent all.
    """

    name: str
    systems: tuple[str, ...]
    seeds: tuple[str, ...]
    run: int


def find_configurations(
    runs: Sequence[RunFolder], names: Sequence[str], measurements: Sequence[Measured]
) -> list[Configuration]:
    """Return the configurations of all systems, those with several seeds first."""
    systems: dict[int, dict[str, str]] = {}
    for measured in measurements:
        systems.setdefault(measured.run, {})[measured.network] = measured.system
    configurations: list[Configuration] = []
    grouped: set[str] = set()
    # Groups with several seeds come first: a run outside of any group is its own configuration.
    for group in group_runs(runs, names):
        for configuration in _of_group(group, runs, systems):
            configurations.append(configuration)
            grouped.update(configuration.systems)
    for index, networks in systems.items():
        for system in networks.values():
            if system not in grouped:
                seed = recorded_seed(runs[index]) or ""
                configurations.append(Configuration(system, (system,), (seed,), index))
    distinct = numbered([known.name for known in configurations])
    return [replace(known, name=name) for known, name in zip(configurations, distinct, strict=True)]


def _of_group(
    group: RunGroup, runs: Sequence[RunFolder], systems: dict[int, dict[str, str]]
) -> list[Configuration]:
    """Return the configurations of a group of runs, with the matching networks of each run."""
    # A run without results is skipped.
    known = [pair for pair in zip(group.runs, group.seeds, strict=True) if pair[0] in systems]
    members = [(index, seed, systems[index]) for index, seed in known]
    if len(members) < 2:
        return []
    networks_of_runs = [list(networks) for _, _, networks in members]
    # The only network of each run is matched whatever its name: the best epochs of seeds differ.
    if max(map(len, networks_of_runs)) == 1:
        return [_one_each(group.name, members, [names[0] for names in networks_of_runs])]
    first = networks_of_runs[0]
    if all(set(names) == set(first) for names in networks_of_runs):
        return [_one_each(f"{group.name} {name}", members, [name] * len(members)) for name in first]
    # If the networks of the runs have different names, the best ones are matched.
    trained = [(runs[index].training(), list(networks)) for index, _, networks in members]
    best = [best_network(training, networks) or "" for training, networks in trained]
    return [_one_each(f"{group.name} best", members, best)]


def _one_each(
    name: str, members: Sequence[tuple[int, str, dict[str, str]]], networks: Sequence[str]
) -> Configuration:
    """Return the configuration that has one network of each run."""
    pairs = zip(members, networks, strict=True)
    systems = tuple(known[network] for (_, _, known), network in pairs)
    return Configuration(name, systems, tuple(seed for _, seed, _ in members), members[0][0])
