"""Points of a launch with the folds of each: `--folds attack:2`.

Invariant: the folds of a point are those of its training sets, read as its runs will read them. All
folds have the data for their runs, or the launch ends before any run starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from asdf.launcher.points import SEED, Point
from asdf.recipe.command_line import corpora_of
from asdf.recipe.declared_corpora import Corpus
from asdf.recipe.left_out_folds import (
    CorpusLists,
    Fold,
    FoldRequest,
    check_fold,
    divide_into_folds,
    fold_overrides,
)
from asdf.recipe.problems import Problem, failures, raise_problems
from asdf.recipe.run_folders import folders_of
from asdf.settings import Settings
from asdf.settings.config_layers import Config
from asdf.text import count_of


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


@dataclass(frozen=True)
class FoldCounts:
    """Numbers of configs, and of folds of each point."""

    configs: int
    counts: tuple[int, ...]

    def describe(self) -> str:
        """Return '4 folds', or '3 to 4 folds'."""
        low = min(self.counts)
        high = max(self.counts)
        return count_of(low, "fold") if low == high else f"{low} to {high} folds"


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
    maker = _FoldMaker(recipe, request, initial, corpora_of(recipe))
    counts = []
    folded = []
    for point in planned:
        points = maker.fold(point)
        counts.append(len(points))
        folded += points
    raise_problems(maker.problems, list(dict.fromkeys(point.config.name for point in planned)))
    return counts, folded


@dataclass(frozen=True)
class _FoldMaker:
    """Makes the folds of points, and collects their problems."""

    recipe: Path
    request: FoldRequest
    initial: Settings
    corpora: Mapping[str, Corpus]
    problems: list[Problem] = field(default_factory=list)
    _lists: dict[Path, CorpusLists] = field(default_factory=dict)
    _checked: set[tuple[str, Point, str]] = field(default_factory=set)

    def fold(self, planned: PlannedPoint) -> list[PlannedPoint]:
        """Return the folds of a point."""
        config = planned.config
        settings = config.sections()
        database = folders_of(settings.paths, self.recipe.parent).database
        # A point may have another database folder.
        lists = self._lists.setdefault(database, CorpusLists(self.corpora, database))
        training = [lists.read(name) for name in settings.recipe.training_sets]
        folds = divide_into_folds(training, self.request)
        requests = []
        for fold in folds:
            overrides = fold_overrides(fold, settings, self.corpora)
            requests.append([*planned.overrides, *overrides])
        run_configs = self.recipe.parent / "configs" / "run_configs.py"
        (configs,) = self.initial.read_points(run_configs, [config.name], requests)
        points = []
        for folded, fold, overrides in zip(configs, folds, requests, strict=True):
            self._check(folded, planned.point, fold, lists)
            points.append(PlannedPoint(folded, planned.point, overrides, fold.name))
        return points

    def _check(self, config: Config, point: Point, fold: Fold, lists: CorpusLists) -> None:
        """Note the problems of a fold, once for all seeds, which do not affect it."""
        unseeded = tuple(choice for choice in point if choice.setting != SEED)
        key = (config.name, unseeded, fold.name)
        if key in self._checked:
            return
        self._checked.add(key)
        for error in failures([partial(check_fold, config.sections(), lists)]):
            self.problems.append(Problem(config.name, error))
