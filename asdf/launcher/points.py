"""Points of a launch: the settings in which its runs differ, and their values.

    --seeds 0-4,7                                     a run per seed
    --sweep network.initial_learning_rate=1e-5,1e-6   a run per value; with others: the full grid
    --random 20                                       20 points of the grid

Invariant: the drawn points depend on the seed of the draw and on the points themselves. The same
command draws the same points, and a grid with additional values draws many of them again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import product
from math import prod

from asdf.recipe.left_out_folds import FOLD_SETTINGS
from asdf.runs.seeds import derived_seed
from asdf.settings.literals import parse_literal, split_values
from asdf.settings.mistakes import COMMAND_LINE, Collector, Complaint, shortened

SEED = "recipe.seed"
SYSTEM_FOLDER = "paths.system_folder"
MAX_RUNS = 10_000
# Drawing takes a second per hundred thousand points.
_MAX_GRID = 1_000_000
_SEEDS = re.compile(r"(\d{1,10})(?:\s*-\s*(\d{1,10}))?")


@dataclass(frozen=True)
class Choice:
    """One value of a setting, as typed after `section.name=`."""

    setting: str
    text: str

    @property
    def override(self) -> str:
        """The choice in the form that `run.py` takes."""
        return f"{self.setting}={self.text}"


Point = tuple[Choice, ...]
"""Settings of one run on top of its config; () for an unchanged config."""


@dataclass(frozen=True)
class PointOptions:
    """The command-line options that define the points.

    Attributes:
        sweeps: Texts of the form 'section.name=value,value'.
        draws: Number of points to draw from the grid; None for all.
        draw_seed: Seed of the draw.
        folds: Description such as 'attack:2'; each point then has a run per fold (see
            `asdf.recipe.left_out_folds`).
    """

    seeds: str | None = None
    sweeps: Sequence[str] = ()
    draws: int | None = None
    draw_seed: int = 0
    folds: str | None = None


@dataclass(frozen=True)
class Points:
    """The points of a launch, each of which is a run of every config.

    Attributes:
        swept: Points without seeds, in the order of the grid; a single () if nothing is swept.
        grid_size: Number of points from which `swept` were drawn.
        seeds: Choices of the seed, the last one of each point; () if no seeds are given.
    """

    swept: tuple[Point, ...] = ((),)
    grid_size: int = 1
    seeds: tuple[Choice, ...] = ()

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
    grid = _Grid(collector, typed)
    for override in overrides:
        grid.taken[override.partition("=")[0].strip()] = "set for all runs"
    if options.folds is not None:
        grid.reserve(FOLD_SETTINGS, "--folds")
    if options.seeds is not None:
        grid.add(SEED, "--seeds", _read_seeds(options.seeds, collector))
    for sweep in options.sweeps:
        grid.add_sweep(sweep)
    seeds = tuple(grid.axes.pop(SEED, ()))
    size = prod(map(len, grid.axes.values()))
    if options.draws is None:
        _check_size(size * max(len(seeds), 1), collector)
        return Points(_all_points(grid.axes, size), size, seeds)
    swept = _draw(grid.axes, size, options, collector)
    _check_size(len(swept) * max(len(seeds), 1), collector)
    return Points(swept, size, seeds)


class _Grid:
    """The axes of the grid while they are read: the choices of each setting."""

    def __init__(self, collector: Collector, typed: Callable[[str], str]) -> None:
        self.axes: dict[str, list[Choice]] = {}
        self.taken: dict[str, str] = {}
        self._collector = collector
        self._typed = typed

    def reserve(self, settings: Iterable[str], option: str) -> None:
        """Reserve the settings that an option determines."""
        for setting in settings:
            if setting in self.taken:
                self._refuse(setting, option)
            self.taken[setting] = f"named by {option}"

    def _refuse(self, setting: str, option: str) -> None:
        problem = f"{setting} is {self.taken[setting]} and named by {option}: remove one"
        self._collector.add(COMMAND_LINE, problem)

    def add_sweep(self, sweep: str) -> None:
        """Add the setting of a --sweep; note its errors."""
        setting, equals, text = (part.strip() for part in sweep.partition("="))
        problem = ""
        if not equals or not setting:
            problem = f"--sweep {shortened(sweep)}: write section.name=value,value"
        elif setting == SYSTEM_FOLDER:
            problem = (
                f"--sweep {SYSTEM_FOLDER}: each point already has its own system folder, named "
                "after its values"
            )
        if problem:
            self._collector.add(COMMAND_LINE, problem)
            return
        try:
            values = split_values(text)
            spellings: dict[str, str] = {}
            for value in values:
                earlier = spellings.setdefault(_plain(value), value)
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
        if not values:
            return
        if setting in self.taken:
            self._refuse(setting, option)
            return
        self.taken[setting] = f"named by {option}"
        choices = []
        for value in values:
            # Only the text after the name changes.
            text = self._typed(f"{setting}={value}").partition("=")[2]
            choices.append(Choice(setting, text))
        self.axes[setting] = choices


def _plain(text: str) -> str:
    """Return the canonical spelling of a value; a text without quotes is a string."""
    try:
        return repr(parse_literal(text))
    except Complaint:
        return repr(text)


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


def _all_points(axes: dict[str, list[Choice]], size: int) -> tuple[Point, ...]:
    """Return the full grid; nothing if it is refused for its size."""
    return tuple(product(*axes.values())) if size <= MAX_RUNS else ((),)


def _draw(
    axes: dict[str, list[Choice]], size: int, options: PointOptions, collector: Collector
) -> tuple[Point, ...]:
    """Return points of the grid without repetition, in the order of the grid."""
    draws = options.draws or 0
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
        words = sorted(choice.override for choice in point)
        ranked.append((derived_seed(options.draw_seed, "launch --random", *words), index, point))
    lowest = nsmallest(draws, ranked, key=lambda entry: entry[:2])
    return tuple(entry[2] for entry in sorted(lowest, key=lambda entry: entry[1]))
