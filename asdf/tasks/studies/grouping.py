"""Grouping of runs that differ only in their seed, by their recorded settings.

Invariant: runs are grouped only if they agree in every setting that can change a result, and each
seed counts once. Runs without a recorded seed are grouped by folder name, if the names differ only
in the number after 'seed'.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from asdf.text import numbered
from asdf.trials.run_folder import KeptSetting, RunFolder

SEED = "recipe.seed"

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
        "computing.main_timeout_s",
        "computing.threads",
        "computing.network_dataloader_workers",
        "computing.profile_steps",
        # Logging and saving during a run.
        "network.print_interval",
        "network.scoring_print_interval",
        "network.checkpoint_interval_s",
        "network.checkpoint_interval_steps",
        "network.save_only_trained",
        "network.callback_failures_end_training",
        "tracking.project",
        "tracking.name",
        "tracking.offline",
    }
)
"""Settings that change no result: runs that differ only in these and the seed form a group."""

_SEED_IN_NAME = re.compile(r"(?i)(seed)[-_=]?\d+")
_FEW = 3


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
    for index, (group, name) in enumerate(zip(groups, distinct, strict=True)):
        groups[index] = RunGroup(name, group.runs, group.seeds)
    return groups


def effective_settings(run: RunFolder) -> dict[str, str]:
    """Return the recorded settings that can change a result, without the seed, as text."""
    settings = run.settings()
    texts = {}
    for name, setting in settings.items():
        if name not in NO_EFFECT and name != SEED:
            texts[name] = setting.text
    # If other sets choose the network, scoring additional sets changes nothing on the others.
    if settings.get("recipe.validation_sets", KeptSetting("None", "")).text != "None":
        texts.pop("recipe.evaluation_sets", None)
    return texts


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
