"""Settings of the runs with the source of each value, and the settings in which runs differ.

Invariant: every recorded setting is shown; settings at their default are collapsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from asdf.report.gathering import Gathered
from asdf.trials.run_folder import KeptSetting, RunFolder


@dataclass(frozen=True)
class ShownSetting:
    """A setting of a run.

    Attributes:
        name_parts: Parts of its name, between which a line may break.
        source_parts: Parts of the source of its value, which are not broken.
    """

    name_parts: list[str]
    text: str
    source_parts: list[str]


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run: the changed ones, and those at their default."""

    name: str
    changed: list[ShownSetting]
    defaults: list[ShownSetting]


@dataclass(frozen=True)
class DifferentSetting:
    """A setting in which runs differ; None for a run that does not have it."""

    name_parts: list[str]
    settings: list[KeptSetting | None]


@dataclass(frozen=True)
class SettingDifferences:
    """The settings in which the runs differ."""

    runs: list[str]
    rows: list[DifferentSetting]


def settings_of_runs(gathered: Gathered) -> list[RunSettings]:
    """Return the settings of each run."""
    runs = []
    for name, run in zip(gathered.names, gathered.runs, strict=True):
        shown = RunSettings(name, [], [])
        for key, setting in run.settings().items():
            is_default = setting.source.partition(",")[0] == "default"
            group = shown.defaults if is_default else shown.changed
            group.append(ShownSetting(_name_parts(key), setting.text, setting.source.split(" ")))
        runs.append(shown)
    return runs


def setting_differences(gathered: Gathered) -> SettingDifferences | None:
    """Return the settings in which the runs differ; None for a single run."""
    if len(gathered.runs) < 2:
        return None
    by_run = list(map(RunFolder.settings, gathered.runs))
    names: dict[str, None] = {}
    for settings in by_run:
        names.update(dict.fromkeys(settings))
    rows = []
    for name in names:
        # None stands for a run of a version that does not have the setting.
        row = [settings.get(name) for settings in by_run]
        # A missing setting differs from every value, including None.
        texts = [setting.text for setting in row if setting]
        if len(set(texts)) > 1 or 0 < len(texts) < len(row):
            rows.append(DifferentSetting(_name_parts(name), row))
    return SettingDifferences(gathered.names, rows)


def _name_parts(name: str) -> list[str]:
    """Split a name after its dots and underscores."""
    return re.split(r"(?<=[._])", name)
