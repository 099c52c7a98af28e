"""From a command line to the runs of a launch: every config with every point and fold.

Invariants: all runs are known, and free of errors, before the first one starts; all have different
system folders. The folds of a point are those of its training sets, read as its runs will read
them. Points of one config with different values have different names, regardless of the command and
of the order of the settings; a name is a single path component on any system.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from asdf.errors import UsageError
from asdf.launcher.points import (
    SEED,
    SYSTEM_FOLDER,
    Point,
    PointOptions,
    Points,
    read_points_options,
)
from asdf.recipe.command_line import corpora_of, from_current_folder
from asdf.recipe.left_out_folds import (
    CorpusLists,
    FoldRequest,
    check_fold,
    divide_into_folds,
    fold_overrides,
)
from asdf.recipe.problems import Problem, failures, raise_problems
from asdf.recipe.run_folders import folders_of
from asdf.settings import Sections, Settings
from asdf.settings.catalogue import Catalogue
from asdf.settings.config_layers import Config
from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import Collector, Complaint
from asdf.text import count_of

_MAX_VALUE = 32
# File systems allow 255 bytes per name, part of which the config's folder uses.
_MAX_NAME = 150
_UNSAFE = re.compile(r"[^A-Za-z0-9.+_]+")


@dataclass(frozen=True)
class PlannedPoint:
    """A config with a point applied.

    Attributes:
        overrides: Overrides of the point, and those for all runs.
        fold: Name of the fold; '' for none.
    """

    config: Config
    point: Point
    overrides: list[str]
    fold: str = ""


def fold_points(
    recipe: Path, folds: str, planned: Sequence[PlannedPoint], initial: Settings
) -> tuple[list[int], list[PlannedPoint]]:
    """Return the number of folds of each point, and a point per fold, grouped by seed.

    Args:
        recipe: Path of the recipe's run.py.
        folds: Description of the folds, such as 'attack:2'.

    Raises:
        UsageError, AsdfError: the lists of a point cannot be read or divided, or a fold lacks data
            for its run.
    """
    request = FoldRequest.parse(folds)
    corpora = corpora_of(recipe)
    run_configs = recipe.parent / "configs" / "run_configs.py"
    by_database: dict[Path, CorpusLists] = {}
    checked: set[tuple[str, Point, str]] = set()
    problems: list[Problem] = []
    counts = []
    points = []
    for planned_point in planned:
        name = planned_point.config.name
        point = planned_point.point
        settings = planned_point.config.sections()
        # A point may have another database folder.
        database = folders_of(settings.paths, recipe.parent).database
        lists = by_database.setdefault(database, CorpusLists(corpora, database))
        training = [lists.read(corpus) for corpus in settings.recipe.training_sets]
        divided = divide_into_folds(training, request)
        requests = []
        for fold in divided:
            overrides = fold_overrides(fold, settings, corpora)
            requests.append([*planned_point.overrides, *overrides])
        (configs,) = initial.read_points(run_configs, [name], requests)
        # Once for all seeds, which do not affect the problems of a fold.
        unseeded = tuple(choice for choice in point if choice.setting != SEED)
        for config, fold, overrides in zip(configs, divided, requests, strict=True):
            if (name, unseeded, fold.name) not in checked:
                checked.add((name, unseeded, fold.name))
                for error in failures([partial(check_fold, config.sections(), lists)]):
                    problems.append(Problem(config.name, error))
            points.append(PlannedPoint(config, point, overrides, fold.name))
        counts.append(len(divided))
    raise_problems(problems, list(dict.fromkeys(point.config.name for point in planned)))
    return counts, points


def point_name(values: Mapping[str, Any], catalogue: Catalogue, fold: str = "") -> str:
    """Return the name of a point such as 'hidden_64-initial_learning_rate_1e-05-seed3'.

    Args:
        values: Values of the point's settings by full names, in the form of the settings.
        catalogue: Settings of the config, which show if a short name is ambiguous.
        fold: Name of the point's fold, which precedes the seed.
    """
    sharing = Counter(known.name for known in catalogue.settings.values())
    parts = []
    for setting in sorted(values):
        if setting == SEED:
            continue
        short = setting.rpartition(".")[2]
        shown = short if sharing[short] == 1 else setting
        parts.append(f"{shown}_{value_name(values[setting])}")
    name = "-".join(parts)
    if len(name) > _MAX_NAME:
        # Room for a dash and the eight digits.
        name = f"{name[: _MAX_NAME - 9]}-{_digest(name)}"
    seed = f"seed{values[SEED]}" if SEED in values else ""
    return "-".join(filter(None, (name, fold, seed)))


def value_name(value: Any) -> str:
    """Return a value as part of a file name; a digest replaces characters that are not allowed."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str) and 0 < len(value) <= _MAX_VALUE:
        try:
            parse_literal(value)
        except Complaint:  # it is not read as a value of another type
            if not _UNSAFE.search(value) and not value.startswith("."):
                return value
    are_few = isinstance(value, tuple) and 0 < len(value) <= 4
    if are_few and all(isinstance(number, int | float) for number in value):
        # A single number without a suffix is not a tuple.
        return "_".join(map(repr, value)) + "_" * (len(value) == 1)
    text = value.rpartition("/")[2] if isinstance(value, str) else repr(value)
    readable = _UNSAFE.sub("_", text)[:_MAX_VALUE].strip("_.")
    return f"{readable}-{_digest(repr(value))}" if readable else _digest(repr(value))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


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
    """The runs of a launch, and their points.

    Attributes:
        folds: Number of folds of each point of each config; None without folds.
    """

    runs: tuple[PlannedRun, ...]
    points: Points
    draw_seed: int = 0
    folds: tuple[int, ...] | None = None

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
            configs = len(self.folds) // (points * seeds)
        factors = [count_of(configs, "config")]
        if points < self.points.grid_size:
            factors.append(
                f"{points} of the {self.points.grid_size:,} points of the grid (drawn with "
                f"--random-seed {self.draw_seed})"
            )
        elif points > 1:
            factors.append(count_of(points, "point"))
        if self.folds is not None:
            low, high = min(self.folds), max(self.folds)
            factors.append(count_of(low, "fold") if low == high else f"{low} to {high} folds")
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
        folds = tuple(counts)
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
