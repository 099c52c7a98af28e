"""From a command line to the runs of a launch: every config with every point and fold.

Invariant: all runs are known, and free of errors, before the first one starts; all have different
system folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from asdf.errors import UsageError
from asdf.launcher.fold_points import FoldCounts, PlannedPoint, fold_points
from asdf.launcher.point_names import point_name
from asdf.launcher.points import SYSTEM_FOLDER, PointOptions, Points, read_points_options
from asdf.recipe.command_line import from_current_folder
from asdf.recipe.run_folders import folders_of
from asdf.settings import Sections, Settings
from asdf.settings.mistakes import Collector
from asdf.text import count_of


@dataclass(frozen=True)
class PlannedRun:
    """A run of a launch: a config with a point applied.

    Attributes:
        name: Name of the config and the point, for display.
        overrides: Arguments after the config's name on the command line of its run.py.
        output: Folder of all systems, which usually contains that of the run.
    """

    name: str
    config: str
    overrides: tuple[str, ...]
    system: Path
    output: Path
    settings: Sections


@dataclass(frozen=True)
class Plan:
    """The runs of a launch, and their points."""

    runs: tuple[PlannedRun, ...]
    points: Points
    draw_seed: int = 0
    folds: FoldCounts | None = None

    @property
    def has_points(self) -> bool:
        """Whether the runs are more than unchanged configs."""
        return self.points != Points() or self.folds is not None

    def describe(self) -> str:
        """Return the number of runs and its factors, in words."""
        points = len(self.points.swept)
        seeds = max(len(self.points.seeds), 1)
        configs = len(self.runs) // (points * seeds)
        if self.folds is not None:
            configs = self.folds.configs
        factors = [count_of(configs, "config")]
        if points < self.points.grid_size:
            factors.append(
                f"{points} of the {self.points.grid_size:,} points of the grid (drawn with "
                f"--random-seed {self.draw_seed})"
            )
        elif points > 1:
            factors.append(count_of(points, "point"))
        if self.folds is not None:
            factors.append(self.folds.describe())
        if self.points.seeds:
            factors.append(count_of(seeds, "seed"))
        return f"{count_of(len(self.runs), 'run')}: {' x '.join(factors)}"


def plan_runs(
    recipe: Path,
    configs: Sequence[str],
    overrides: Sequence[str],
    options: PointOptions | None = None,
    launchers: Sequence[str] = (),
) -> Plan:
    """Return the runs of a launch.

    Args:
        recipe: Path of the recipe's run.py.
        configs: Names of configs, or patterns.
        overrides: The user's overrides for all runs.
        launchers: Overrides that the launcher adds.

    Raises:
        UsageError: lists every error in the options, in the configs and in all points; or two runs
            have the same system folder.
    """
    options = options or PointOptions()
    collector = Collector()
    points = read_points_options(options, overrides, collector, from_current_folder)
    all_points = points.all()
    common = [*overrides, *launchers]
    requests = []
    for point in all_points:
        requests.append([*common, *(choice.override for choice in point)])
    folder = recipe.parent / "configs"
    initial = Settings(folder / "init_config.py")
    run_configs = folder / "run_configs.py"
    groups = initial.read_points(run_configs, configs, requests, collector.mistakes)
    planned = []
    for group in groups:
        for config, point, request in zip(group, all_points, requests, strict=True):
            planned.append(PlannedPoint(config, point, request))
    folds = None
    if options.folds is not None:
        counts, planned = fold_points(recipe, options.folds, planned, initial)
        folds = FoldCounts(len(groups), tuple(counts))
    runs: dict[Path, PlannedRun] = {}
    for entry in planned:
        run = _plan_run(recipe, entry)
        earlier = runs.setdefault(run.system, run)
        if earlier is not run:
            raise UsageError(
                f"configs {earlier.name} and {run.name} have the same system folder, "
                f"{run.system}, and would overwrite each other: give one of them another "
                "paths.system_folder."
            )
    return Plan(tuple(runs.values()), points, options.draw_seed, folds)


def _plan_run(recipe: Path, planned: PlannedPoint) -> PlannedRun:
    config = planned.config
    settings = config.sections()
    name = config.name
    overrides = planned.overrides
    if planned.point or planned.fold:
        values = {choice.setting: config.values[choice.setting] for choice in planned.point}
        suffix = point_name(values, config.catalogue, planned.fold)
        name = f"{config.name}-{suffix}"
        system = f"{settings.paths.system_folder.rstrip('/')}-{suffix}"
        settings = replace(settings, paths=replace(settings.paths, system_folder=system))
        # The folder for all runs is the beginning of this one.
        overrides = [word for word in overrides if word.partition("=")[0].strip() != SYSTEM_FOLDER]
        overrides.append(f"{SYSTEM_FOLDER}={system!r}")
    folders = folders_of(settings.paths, recipe.parent)
    # Through a link, one folder may have two names.
    system_folder = folders.system.resolve()
    return PlannedRun(name, config.name, tuple(overrides), system_folder, folders.output, settings)
