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
from functools import cache
from heapq import nsmallest
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError, UsageError
from asdf.launcher.folds import FOLD_SETTINGS, divide_into_folds, fold_overrides
from asdf.launcher.states import Job
from asdf.recipe.command_line import config_files, config_folders, corpora_of, from_current_folder
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.recipe.problems import Problem, find_problems, raise_problems, read_stages
from asdf.recipe.run_folders import folders_of
from asdf.recipe.used_sets import check_classes
from asdf.runs.seeds import derived_seed
from asdf.settings import Settings
from asdf.settings.catalogue import Catalogue
from asdf.settings.config_layers import Config
from asdf.settings.literals import parse_literal, split_values
from asdf.settings.mistakes import COMMAND_LINE, Collector, Complaint, shortened
from asdf.text import count_of
from asdf.trials.trial_list import TrialList, join

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
            `asdf.launcher.folds`).
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
    named: list[tuple[str, str, list[str]]] = []
    if options.folds is not None:
        named += [("--folds", setting, []) for setting in FOLD_SETTINGS]
    # Named before their values are read, which may have mistakes too.
    if options.seeds is not None:
        named.append(("--seeds", SEED, []))
        with collector.collecting(COMMAND_LINE, f"--seeds {shortened(options.seeds)}"):
            named[-1][2].extend(_read_seeds(options.seeds))
    for sweep in options.sweep:
        named.append(("--sweep", setting_of(sweep), []))
        with collector.collecting(COMMAND_LINE, f"--sweep {shortened(sweep)}"):
            named[-1][2].extend(_read_sweep(sweep))
    taken = {setting_of(override): "set for all runs" for override in overrides}
    axes: dict[str, list[str]] = {}
    for option, setting, values in named:
        if setting in taken:
            problem = f"{setting} is {taken[setting]} and named by {option}: remove one"
            collector.add(COMMAND_LINE, problem)
            continue
        taken[setting] = f"named by {option}"
        if values:
            words = [typed(f"{setting}={value}") for value in values]
            # Only the text after the name changes.
            axes[setting] = [f"{setting}={word.partition('=')[2]}" for word in words]
    seeds = tuple(axes.pop(SEED, ()))
    size = prod(map(len, axes.values()))
    # After a mistake all of them, whose values have their own.
    swept = tuple(product(*axes.values())) if size <= MAX_RUNS else ((),)
    with collector.collecting(COMMAND_LINE):
        if options.random is not None:
            swept = _draw(axes, size, options.random)
        _check_size((options.random or size) * max(len(seeds), 1))
    return Points(swept, size, seeds)


def setting_of(override: str) -> str:
    """Return the setting that an override names."""
    return override.partition("=")[0].strip()


def _read_seeds(text: str) -> list[str]:
    """Return the seeds of '0-4,7', in their order."""
    ranges = []
    for part in text.split(","):
        match = _SEEDS.fullmatch(part.strip())
        if match is None:
            raise Complaint("write numbers and ranges, such as 0-4 or 0,3,7-9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise Complaint(f"the range {match[0]} ends before it begins")
        ranges.append(range(first, last + 1))
    # Checked before a mistyped range uses memory.
    _check_size(sum(map(len, ranges)))
    seed, times = Counter(chain(*ranges)).most_common(1)[0]
    if times > 1:
        raise Complaint(f"{seed} is named {times} times")
    return list(map(str, chain(*ranges)))


def _read_sweep(sweep: str) -> list[str]:
    """Return the values of 'section.name=value,value'."""
    setting, equals, text = (part.strip() for part in sweep.partition("="))
    if not equals or not setting:
        raise Complaint("write section.name=value,value")
    if setting == SYSTEM_FOLDER:
        raise Complaint("each point already has its own system folder, named after its values")
    values = split_values(text)
    spellings: dict[str, str] = {}
    for value in values:
        plain = value
        # A text without quotes is a string.
        with suppress(Complaint):
            plain = parse_literal(value)
        earlier = spellings.get(repr(plain))
        if earlier is not None:
            raise Complaint(f"{shortened(earlier)} and {shortened(value)} are the same value")
        spellings[repr(plain)] = value
    return values


def _check_size(runs: int) -> None:
    if runs > MAX_RUNS:
        raise Complaint(
            f"{runs:,} runs per config: more than {MAX_RUNS:,} are refused; --random N draws N "
            "points of a grid"
        )


def _draw(axes: dict[str, list[str]], size: int, draws: int) -> tuple[Point, ...]:
    """Return points of the grid without repetition, in the order of the grid."""
    problems = {
        "at least one point is needed": draws < 1,
        "there is no grid to draw from; define one with --sweep section.name=value,value": not axes,
        f"the grid has {size:,} points only": draws > size,
        f"the grid has {size:,} points, more than {_MAX_GRID:,}: name fewer values": (
            size > _MAX_GRID
        ),
    }
    for problem, is_there in problems.items():
        if is_there:
            raise Complaint(f"--random {draws}: {problem}")
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
        name: Name of the run.
    """

    config: Config
    point: Point
    overrides: list[str]
    fold: str = ""
    name: str = ""


def fold_points(
    recipe: Path,
    corpora: Mapping[str, Corpus],
    folds: str,
    planned: Sequence[PlannedPoint],
    initial: Settings,
) -> tuple[list[int], list[PlannedPoint]]:
    """Return the number of folds of each point, and a point per fold, grouped by seed.

    Args:
        recipe: Path of the recipe's run.py.
        corpora: Corpora that it declares.
        folds: Description of the folds, such as 'attack:2'.

    Raises:
        UsageError, AsdfError: the lists of a point cannot be read or divided, or a fold lacks data
            for its run.
    """
    run_configs = config_files(recipe.parent, config_folders(recipe))

    @cache
    def read(name: str, database: Path) -> TrialList:
        parts = set_parts(name, corpora)
        if len(parts) > 1:
            return join([read(part, database) for part in parts])
        corpus = find_corpus(name, corpora)
        if corpus.make is not None:
            corpus.make(database)
        return corpus.read(name, database)

    checked: set[tuple[str, Point, str]] = set()
    problems: list[Problem] = []
    counts = []
    points = []
    for entry in planned:
        name = entry.config.name
        settings = entry.config.sections()
        # A point may have another database folder.
        database = folders_of(settings.paths, recipe.parent).database
        training = [read(corpus, database) for corpus in settings.recipe.training_sets]
        divided = divide_into_folds(training, folds)
        requests = []
        for fold in divided:
            requests.append([*entry.overrides, *fold_overrides(fold, settings, corpora)])
        (configs,) = initial.read_points(run_configs, [name], requests)
        # Once for all seeds, which do not affect the problems of a fold.
        unseeded = tuple(override for override in entry.point if setting_of(override) != SEED)
        for config, fold, overrides in zip(configs, divided, requests, strict=True):
            if (name, unseeded, fold.name) not in checked:
                checked.add((name, unseeded, fold.name))
                chosen = config.sections().recipe
                names = [*chosen.training_sets, *chosen.validated_sets, *chosen.evaluation_sets]
                try:
                    used = [read(corpus, database) for corpus in dict.fromkeys(names)]
                    check_classes(used, config.sections())
                except AsdfError as error:
                    problems.append(Problem(config.name, error))
            points.append(PlannedPoint(config, entry.point, overrides, fold.name))
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
    corpora = corpora_of(recipe)
    if options.folds is not None:
        counts, planned = fold_points(recipe, corpora, options.folds, planned, initial)
        folds = tuple(counts)
    planned = [_in_own_folder(entry) for entry in planned]
    stages = read_stages(recipe)
    problems: list[Problem] = []
    for entry in planned:
        # Each by itself, since their numbers of processes may differ.
        problems += find_problems((entry.config,), recipe.parent, corpora, stages)
    raise_problems(problems, list(dict.fromkeys(entry.config.name for entry in planned)))
    jobs: dict[Path, Job] = {}
    for entry in planned:
        settings = entry.config.sections()
        folders = folders_of(settings.paths, recipe.parent)
        # Through a link, one folder may have two names.
        system = folders.system.resolve()
        words = (entry.name, entry.config.name, list(entry.overrides))
        job = Job(*words, system, settings, folders.output, recipe.parent)
        earlier = jobs.setdefault(job.system, job)
        if earlier is not job:
            raise UsageError(
                f"configs {earlier.name} and {job.name} have the same system folder, "
                f"{job.system}, and would overwrite each other: give one of them another "
                "paths.system_folder."
            )
    return Plan(list(jobs.values()), points, folds)


def _in_own_folder(planned: PlannedPoint) -> PlannedPoint:
    """Return the point with the system folder and the name that its values give it."""
    config = planned.config
    if not planned.point and not planned.fold:
        return replace(planned, name=config.name)
    values = {name: config.values[name] for name in map(setting_of, planned.point)}
    suffix = point_name(values, config.catalogue, planned.fold)
    system = f"{config.values[SYSTEM_FOLDER].rstrip('/')}-{suffix}"
    config = replace(config, values={**config.values, SYSTEM_FOLDER: system})
    # The folder for all runs is the beginning of this one.
    overrides = [word for word in planned.overrides if setting_of(word) != SYSTEM_FOLDER]
    overrides.append(f"{SYSTEM_FOLDER}={system!r}")
    return replace(planned, config=config, overrides=overrides, name=f"{config.name}-{suffix}")
