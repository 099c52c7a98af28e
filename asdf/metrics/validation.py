"""The metric by which networks are chosen in training: `network.validation_metric`.

Invariant: a metric is a finite number of the scores of one set, computed on the main rank from the
scores in the score file; its name and direction are saved with it in evaluations.json, so that a
later choice of a network need not compute it again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError, UsageError
from asdf.metrics.decisions import best_value
from asdf.metrics.detection import DetCurve, auc, eer
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, check_whole, find_named
from asdf.settings.sections import Sections

SETTING = "network.validation_metric"
# Scores of a detector with one error of each kind, for a test of a metric.
_BONA_FIDE = np.array([2.0, 1.0, -1.0])
_SPOOF = np.array([-2.0, 0.5, -0.5, -3.0])


class ValidationMetric(ABC):
    """Base class of validation metrics; override `value`, and `lower_is_better` if it is not.

    Args:
        settings: Sections of the run's settings.

    Examples:
        >>> import numpy as np
        >>> from asdf.metrics.validation import ValidationMetric
        >>> from asdf.settings import Sections
        >>> class Passed(ValidationMetric):
        ...     lower_is_better = False
        ...
        ...     def value(self, bona_fide, spoof):
        ...         return float(np.mean(bona_fide > spoof.max()))
        >>> Passed(Sections()).value(np.array([2.0, 1.0]), np.array([-1.0, 1.5]))
        0.5
    """

    lower_is_better = True

    def __init__(self, settings: Sections) -> None:
        self.settings = settings

    @abstractmethod
    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        """Return the metric for the scores of a set: (bona fide trials,) and (spoof trials,)."""


class EER(ValidationMetric):
    """The equal error rate, as a fraction."""

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        return eer(bona_fide, spoof)[0]


class AUC(ValidationMetric):
    """The area under the ROC curve."""

    lower_is_better = False

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        return auc(bona_fide, spoof)


class BestMacroF1(ValidationMetric):
    """The highest macro-F1 over all thresholds on the set itself.

    Like the minDCF, it shows how good decisions can be, not how good they are: it serves to choose
    networks, and no result is reported with it.
    """

    lower_is_better = False

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        return best_value(DetCurve.of(bona_fide, spoof), "macro_f1")


class TaskMetric(ValidationMetric):
    """Base of the metrics of a task's scores; override `of_scores`.

    Attributes:
        task: Key of the task.
        advice: Advice on how to get such scores, for the message if a network has none.
    """

    task: ClassVar[str]
    advice: ClassVar[str] = "name the task in network.tasks"

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        """Raise an error, since detection scores are not those of the task."""
        raise UsageError(
            f"{SETTING} belongs to the task {self.task!r}, which this network does not have: "
            f"{self.advice}."
        )

    @abstractmethod
    def of_scores(self, scores: Any) -> float:
        """Return the metric of a set from the result of `Task.write`."""


class ChosenMetric:
    """The class or function that `network.validation_metric` names, with its name there.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: the name does not exist or is not a metric.
        AsdfError: its module or its constructor fails.
    """

    def __init__(self, settings: Sections, folder: Path | None) -> None:
        self.name = settings.network.validation_metric
        path = class_path_of(SETTING, self.name)
        named = find_named(path, folder, SETTING, ValidationMetric)
        self._value: Callable[[Floats, Floats], Any]
        self.task: str | None = None
        self._of_scores: Callable[[Any], float] | None = None
        if isinstance(named, type):
            if not issubclass(named, ValidationMetric):
                raise self._no_metric(named)
            check_whole(named, path, SETTING, ValidationMetric)
            build: Callable[[Any], ValidationMetric] = named
            with UserErrors(f"{SETTING}: {self.name}(settings) failed"):
                metric = build(settings)
            self._value = metric.value
            if isinstance(metric, TaskMetric):
                self.task = metric.task
                self._of_scores = metric.of_scores
            self.lower_is_better = bool(metric.lower_is_better)
        elif callable(named):
            self._value = named
            self.lower_is_better = bool(getattr(named, "lower_is_better", True))
        else:
            raise self._no_metric(named)

    @property
    def is_eer(self) -> bool:
        return self.name == "eer"

    def of_set(
        self, bona_fide: Floats, spoof: Floats, of_tasks: Mapping[str, Any], set_name: str
    ) -> float:
        """Return the metric of a set, from detection scores or those of a task.

        Args:
            of_tasks: Scores of the tasks, by key.

        Raises:
            AsdfError: as in `value`.
        """
        if self._of_scores is not None and self.task is not None and self.task in of_tasks:
            return self._of_scores(of_tasks[self.task])
        return self.value(bona_fide, spoof, set_name)

    def value(self, bona_fide: Floats, spoof: Floats, set_name: str) -> float:
        """Return the metric of the scores of the set called `set_name`.

        Raises:
            AsdfError: the metric fails, or is not a finite number.
        """
        failed = f"{SETTING} = {self.name!r} failed on the scores of {set_name}"
        with UserErrors(failed, "Fix it, or choose another."):
            number = float(self._value(bona_fide, spoof))
        if not math.isfinite(number):
            raise AsdfError(
                f"{SETTING} = {self.name!r} is {number} on {set_name}, but networks are chosen by "
                "a finite number. Fix it, or choose another."
            )
        return number

    def _no_metric(self, named: object) -> UsageError:
        return UsageError(
            f"{SETTING}: {self.name} is {named!r}. It must be a function of the scores of both "
            f"classes, f(bona_fide, spoof), or a class derived from {__name__}.ValidationMetric."
        )


def check_metric(settings: Sections, folder: Path | None, tasks: Collection[str] = ()) -> None:
    """Find the metric and compute it for a few scores, so that errors surface before training.

    Args:
        tasks: Keys of the tasks in the settings, whose scores are not known yet.

    Raises:
        UsageError, AsdfError: as in `ChosenMetric` and its `value`.
    """
    metric = ChosenMetric(settings, folder)
    if metric.task not in tasks:
        metric.value(_BONA_FIDE, _SPOOF, "a trial run")
