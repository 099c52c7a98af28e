"""From a command line to the runs of a launch: every config with every point and fold.

Invariants: all runs are known, and free of errors, before the first one starts; all have different
system folders. The folds of a point are those of its training sets, read as its runs will read
them. Points of one config with different values have different names, regardless of the command and
of the order of the settings; a name is a single path component on any system.

Points of a launch: the settings in which its runs differ, and their values.

    --seeds 0-4,7                                     a run per seed
    --sweep network.initial_learning_rate=1e-5,1e-6   a run per value; with others: the full grid
    --random 20                                       20 points of the grid

Invariant: the drawn points depend on the seed of the draw and on the points themselves. The same
command draws the same points, and a grid with additional values draws many of them again.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError, UsageError
from asdf.launcher.states import Job
from asdf.recipe.command_line import config_files, config_folders, corpora_of, from_current_folder
from asdf.recipe.left_out import FOLD_SETTINGS, FoldRequest, divide_into_folds, fold_overrides
from asdf.recipe.lists import Lists
from asdf.recipe.problems import Problem, raise_problems
from asdf.recipe.run_folders import folders_of
from asdf.recipe.used_sets import check_classes
from asdf.runs.seeds import derived_seed
from asdf.settings import Settings
from asdf.settings.catalogue import Catalogue
from asdf.settings.config_layers import Config
from asdf.settings.literals import parse_literal, split_values
from asdf.settings.mistakes import COMMAND_LINE, Collector, Complaint, shortened
from asdf.text import count_of

SEED = "recipe.seed"
SYSTEM_FOLDER = "paths.system_folder"
MAX_RUNS = 10_000
# Drawing takes a second per hundred thousand points.
_MAX_GRID = 1_000_000
_SEEDS = re.compile(r"(\d{1,10})(?:\s*-\s*(\d{1,10}))?")


Point = tuple[str, ...]
"""Overrides of one run on top of its config, as `run.py` takes them; () for an unchanged config."""


@dataclass(frozen=True, kw_only=True)
class PointOptions:
    """The command-line options that define the points.

    Attributes:
        sweep: Texts of the form 'section.name=value,value'.
        random: Number of points to draw from the grid; None for all.
        folds: Description such as 'attack:2'; each point then has a run per fold (see
            `asdf.recipe.left_out`).
    """

    seeds: str | None = None
    sweep: Sequence[str] = ()
    random: int | None = None
    folds: str | None = None


@dataclass(frozen=True)
class Points:
    """The points of a launch, each of which is a run of every config.

    Attributes:
        swept: Points without seeds, in the order of the grid; a single () if nothing is swept.
        grid_size: Number of points from which `swept` were drawn.
        seeds: Overrides of the seed, the last one of each point; () if no seeds are given.
    """

    swept: tuple[Point, ...] = ((),)
    grid_size: int = 1
    seeds: tuple[str, ...] = ()

    def all(self) -> list[Point]:
        """Return the points with their seeds, grouped by swept point."""
        if not self.seeds:
            return list(self.swept)
        return [(*point, seed) for point, seed in product(self.swept, self.seeds)]


def read_points_options(
    options: PointOptions,
    overrides: Iterable[str],
    collector: Collector,
    typed: Callable[[str], str] = str,
) -> Points:
    """Return the points defined by the options.

    Args:
        overrides: Overrides for all runs; their settings cannot be swept too.
        collector: Collector of errors in the options, which are then left out.
        typed: Function that converts a typed override, such as a relative path, to that of a run.
    """
    grid = _Grid(overrides, collector, typed)
    if options.folds is not None:
        for setting in FOLD_SETTINGS:
            grid.reserve(setting, "--folds")
    if options.seeds is not None:
        grid.add(SEED, "--seeds", _read_seeds(options.seeds, collector))
    for sweep in options.sweep:
        grid.add_sweep(sweep)
    seeds = tuple(grid.axes.pop(SEED, ()))
    size = prod(map(len, grid.axes.values()))
    if options.random is not None:
        swept = _draw(grid.axes, size, options.random, collector)
        _check_size(len(swept) * max(len(seeds), 1), collector)
    else:
        _check_size(size * max(len(seeds), 1), collector)
        swept = _all_points(grid.axes, size)
    return Points(swept, size, seeds)


class _Grid:
    """The axes of the grid while they are read: the overrides of each setting."""

    def __init__(
        self, overrides: Iterable[str], collector: Collector, typed: Callable[[str], str]
    ) -> None:
        self.axes: dict[str, list[str]] = {}
        self._taken = {setting_of(override): "set for all runs" for override in overrides}
        self._collector = collector
        self._typed = typed

    def reserve(self, setting: str, option: str) -> bool:
        """Reserve a setting for an option; return False, and note it, if it is taken already."""
        earlier = self._taken.setdefault(setting, "")
        if earlier:
            problem = f"{setting} is {earlier} and named by {option}: remove one"
            self._collector.add(COMMAND_LINE, problem)
            return False
        self._taken[setting] = f"named by {option}"
        return True

    def add_sweep(self, sweep: str) -> None:
        """Add the setting of a --sweep; note its errors."""
        setting, equals, text = (part.strip() for part in sweep.partition("="))
        if not equals or not setting:
            problem = f"--sweep {shortened(sweep)}: write section.name=value,value"
            self._collector.add(COMMAND_LINE, problem)
            return
        if setting == SYSTEM_FOLDER:
            problem = "each point already has its own system folder, named after its values"
            self._collector.add(COMMAND_LINE, f"--sweep {SYSTEM_FOLDER}: {problem}")
            return
        try:
            values = split_values(text)
            spellings: dict[str, str] = {}
            for value in values:
                plain = value
                # A text without quotes is a string.
                with suppress(Complaint):
                    plain = parse_literal(value)
                earlier = spellings.setdefault(repr(plain), value)
                if earlier is not value:
                    raise Complaint(
                        f"{shortened(earlier)} and {shortened(value)} are the same value"
                    )
        except Complaint as complaint:
            about = f"--sweep {shortened(sweep)}"
            self._collector.mistakes.append(complaint.at(COMMAND_LINE, about))
            return
        self.add(setting, "--sweep", values)

    def add(self, setting: str, option: str, values: Sequence[str]) -> None:
        """Add the values of a setting, unless it has values already."""
        if values and self.reserve(setting, option):
            typed = [self._typed(f"{setting}={value}") for value in values]
            # Only the text after the name changes.
            self.axes[setting] = [f"{setting}={text.partition('=')[2]}" for text in typed]


def setting_of(override: str) -> str:
    """Return the setting that an override names."""
    return override.partition("=")[0].strip()


def _read_seeds(text: str, collector: Collector) -> list[str]:
    """Return the seeds of '0-4,7', in their order; [] after an error."""
    seeds: list[int] = []
    for part in text.split(","):
        match = _SEEDS.fullmatch(part.strip())
        if match is None:
            problem = f"--seeds {shortened(text)}: write numbers and ranges, such as 0-4 or 0,3,7-9"
            collector.add(COMMAND_LINE, problem)
            return []
        first = int(match[1])
        last = int(match[2] or first)
        if last < first:
            problem = f"--seeds {shortened(text)}: the range {match[0]} ends before it begins"
            collector.add(COMMAND_LINE, problem)
            return []
        # Checked before a mistyped range uses memory.
        if len(seeds) + last - first >= MAX_RUNS:
            _check_size(len(seeds) + last - first + 1, collector)
            return []
        seeds += range(first, last + 1)
    seed, times = Counter(seeds).most_common(1)[0]
    if times > 1:
        problem = f"--seeds {shortened(text)}: {seed} is named {times} times"
        collector.add(COMMAND_LINE, problem)
    return [str(seed) for seed in dict.fromkeys(seeds)]


def _check_size(runs: int, collector: Collector) -> None:
    if runs > MAX_RUNS:
        problem = (
            f"{runs:,} runs per config: more than {MAX_RUNS:,} are refused; --random N draws N "
            "points of a grid"
        )
        collector.add(COMMAND_LINE, problem)


def _all_points(axes: dict[str, list[str]], size: int) -> tuple[Point, ...]:
    """Return the full grid; nothing if it is refused for its size."""
    return tuple(product(*axes.values())) if size <= MAX_RUNS else ((),)


def _draw(
    axes: dict[str, list[str]], size: int, draws: int, collector: Collector
) -> tuple[Point, ...]:
    """Return points of the grid without repetition, in the order of the grid."""
    problem = ""
    if draws < 1:
        problem = "at least one point is needed"
    elif not axes:
        problem = "there is no grid to draw from; define one with --sweep section.name=value,value"
    elif draws > size:
        problem = f"the grid has {size:,} points only"
    elif size > _MAX_GRID:
        problem = f"the grid has {size:,} points, more than {_MAX_GRID:,}: name fewer values"
    if problem:
        collector.add(COMMAND_LINE, f"--random {draws}: {problem}")
        # Errors in the values are reported too.
        return _all_points(axes, size)
    ranked = []
    # Each point has its own random number, independent of the others in the grid.
    for index, point in enumerate(product(*axes.values())):
        # Sorted, so that the order of the sweeps does not matter.
        ranked.append((derived_seed(0, "launch --random", *sorted(point)), index, point))
    lowest = nsmallest(draws, ranked, key=lambda entry: entry[:2])
    return tuple(entry[2] for entry in sorted(lowest, key=lambda entry: entry[1]))


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
    run_configs = config_files(recipe.parent, config_folders(recipe))
    by_database: dict[Path, Lists] = {}
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
        lists = by_database.setdefault(database, Lists(corpora, database))
        training = [lists.read(corpus) for corpus in settings.recipe.training_sets]
        divided = divide_into_folds(training, request)
        requests = []
        for fold in divided:
            overrides = fold_overrides(fold, settings, corpora)
            requests.append([*planned_point.overrides, *overrides])
        (configs,) = initial.read_points(run_configs, [name], requests)
        # Once for all seeds, which do not affect the problems of a fold.
        unseeded = tuple(override for override in point if setting_of(override) != SEED)
        for config, fold, overrides in zip(configs, divided, requests, strict=True):
            if (name, unseeded, fold.name) not in checked:
                checked.add((name, unseeded, fold.name))
                chosen = config.sections().recipe
                names = [*chosen.training_sets, *chosen.validated_sets, *chosen.evaluation_sets]
                try:
                    used = [lists.read(corpus) for corpus in dict.fromkeys(names)]
                    check_classes(used, config.sections())
                except AsdfError as error:
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
class Plan:
    """The runs of a launch, and their points.

    Attributes:
        folds: Number of folds of each point of each config; None without folds.
    """

    jobs: list[Job]
    points: Points
    folds: tuple[int, ...] | None = None

    @property
    def has_points(self) -> bool:
        """Whether the runs are more than unchanged configs."""
        return self.points != Points() or self.folds is not None

    def describe(self) -> str:
        """Return the number of runs and its factors, in words."""
        points = len(self.points.swept)
        seeds = max(len(self.points.seeds), 1)
        configs = len(self.jobs) // (points * seeds)
        if self.folds is not None:
            configs = len(self.folds) // (points * seeds)
        factors = [count_of(configs, "config")]
        if points < self.points.grid_size:
            factors.append(f"{points} of the {self.points.grid_size:,} points of the grid")
        elif points > 1:
            factors.append(count_of(points, "point"))
        if self.folds is not None:
            low, high = min(self.folds), max(self.folds)
            factors.append(count_of(low, "fold") if low == high else f"{low} to {high} folds")
        if self.points.seeds:
            factors.append(count_of(seeds, "seed"))
        return f"{count_of(len(self.jobs), 'run')}: {' x '.join(factors)}"


def plan_runs(
    recipe: Path,
    configs: Sequence[str],
    overrides: Sequence[str],
    options: PointOptions,
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
    collector = Collector()
    points = read_points_options(options, overrides, collector, from_current_folder)
    all_points = points.all()
    common = [*overrides, *launchers]
    requests = [[*common, *point] for point in all_points]
    initial = Settings(recipe.parent / "configs" / "init_config.py")
    run_configs = config_files(recipe.parent, config_folders(recipe))
    groups = initial.read_points(run_configs, configs, requests, collector.mistakes)
    planned = []
    for group in groups:
        for config, point, request in zip(group, all_points, requests, strict=True):
            planned.append(PlannedPoint(config, point, request))
    folds = None
    if options.folds is not None:
        counts, planned = fold_points(recipe, options.folds, planned, initial)
        folds = tuple(counts)
    jobs: dict[Path, Job] = {}
    for entry in planned:
        job = _plan_job(recipe, entry)
        earlier = jobs.setdefault(job.system, job)
        if earlier is not job:
            raise UsageError(
                f"configs {earlier.name} and {job.name} have the same system folder, "
                f"{job.system}, and would overwrite each other: give one of them another "
                "paths.system_folder."
            )
    return Plan(list(jobs.values()), points, folds)


def _plan_job(recipe: Path, planned: PlannedPoint) -> Job:
    config = planned.config
    settings = config.sections()
    name = config.name
    overrides = planned.overrides
    if planned.point or planned.fold:
        names = map(setting_of, planned.point)
        values = {name: config.values[name] for name in names}
        suffix = point_name(values, config.catalogue, planned.fold)
        name = f"{config.name}-{suffix}"
        system = f"{settings.paths.system_folder.rstrip('/')}-{suffix}"
        settings = replace(settings, paths=replace(settings.paths, system_folder=system))
        # The folder for all runs is the beginning of this one.
        overrides = [word for word in overrides if setting_of(word) != SYSTEM_FOLDER]
        overrides.append(f"{SYSTEM_FOLDER}={system!r}")
    folders = folders_of(settings.paths, recipe.parent)
    # Through a link, one folder may have two names.
    system_folder = folders.system.resolve()
    return Job(
        name, config.name, list(overrides), system_folder, settings, folders.output, recipe.parent
    )
