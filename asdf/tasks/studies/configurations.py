"""Configurations: groups of systems that differ only in their seed, and single systems.

Invariant: each system belongs to one configuration; a system with unique settings is a
configuration with a single seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asdf.runs.evaluations import best_network
from asdf.tasks.studies.grouping import RunGroup, group_runs, recorded_seed
from asdf.tasks.studies.measured import Measured
from asdf.text import numbered
from asdf.trials.run_folder import RunFolder


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
    return [
        Configuration(name, known.systems, known.seeds, known.run)
        for name, known in zip(distinct, configurations, strict=True)
    ]


def _of_group(
    group: RunGroup, runs: Sequence[RunFolder], systems: dict[int, dict[str, str]]
) -> list[Configuration]:
    """Return the configurations of a group of runs, with the matching networks of each run."""
    members = []
    for index, seed in zip(group.runs, group.seeds, strict=True):
        # A run without results is skipped.
        if index in systems:
            members.append((index, seed, systems[index]))
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
    best = []
    for index, _, networks in members:
        best.append(best_network(runs[index].training(), list(networks)) or "")
    return [_one_each(f"{group.name} best", members, best)]


def _one_each(
    name: str, members: Sequence[tuple[int, str, dict[str, str]]], networks: Sequence[str]
) -> Configuration:
    """Return the configuration that has one network of each run."""
    systems = []
    seeds = []
    for (_, seed, known), network in zip(members, networks, strict=True):
        systems.append(known[network])
        seeds.append(seed)
    return Configuration(name, tuple(systems), tuple(seeds), members[0][0])
