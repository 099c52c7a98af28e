"""The metric by which networks are chosen in training: `network.validation_metric`.

Invariant: a metric is a finite number of the scores of one set, computed on the main rank from the
scores that are in the score file; what it is called and which way is better goes with it to
evaluations.json, so that whatever chooses a network later need not compute it again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from asdf.errors import AsdfError, UsageError
from asdf.metrics.costs import act_dcf, cllr, min_cllr, min_dcf
from asdf.metrics.detection import DetCurve, Floats, auc, eer
from asdf.metrics.sources import evaluate_sources
from asdf.metrics.thresholds import best_value
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, check_whole, find_named
from asdf.settings.sections import Sections
from asdf.trials.source_scores import SourceScores

SETTING = "network.validation_metric"
# Scores of a detector that makes a mistake of each kind, for a trial run of a metric.
_BONA_FIDE = np.array([2.0, 1.0, -1.0])
_SPOOF = np.array([-2.0, 0.5, -0.5, -3.0])


class ValidationMetric(ABC):
    """Base of the metrics; override `value`, and `lower_is_better` where it is not.

    Args:
        settings: Sections of the run's settings.

    Attributes:
        of_frames: the scores are those of frames, not of trials.
    """

    lower_is_better = True
    of_frames = False

    def __init__(self, settings: Sections) -> None:
        self.settings = settings

    @abstractmethod
    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        """Return the metric of the scores of a set: (bona fide trials,) and (spoof trials,)."""


class EER(ValidationMetric):
    """The equal error rate, as a fraction."""

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        return eer(bona_fide, spoof)[0]


class FrameEER(EER):
    """The equal error rate of the frames of all trials, of a network with a frame-level head."""

    of_frames = True


class MinDCF(ValidationMetric):
    """The minimum detection cost of ASVspoof 5, track 1."""

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        return min_dcf(bona_fide, spoof)


class ActDCF(ValidationMetric):
    """The detection cost of ASVspoof 5 at the Bayes threshold, of scores as likelihood ratios."""

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        return act_dcf(bona_fide, spoof)


class Cllr(ValidationMetric):
    """The cost of the scores as log-likelihood ratios, in bits."""

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        return cllr(bona_fide, spoof)


class MinCllr(ValidationMetric):
    """Cllr after the best rising map of the scores, in bits."""

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        return min_cllr(bona_fide, spoof)


class AUC(ValidationMetric):
    """The area under the ROC curve."""

    lower_is_better = False

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        return auc(bona_fide, spoof)


class BestMacroF1(ValidationMetric):
    """The highest macro-F1 of any threshold on the set itself.

    Like the minDCF it says how good decisions can be, not how good they are: it chooses among
    networks, and no result is reported with it.
    """

    lower_is_better = False

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        return best_value(DetCurve.of(bona_fide, spoof), "macro_f1")


class SourceMetric(ValidationMetric):
    """Base of the metrics of traced sources; override `of_sources`."""

    lower_is_better = False

    def value(self, bona_fide: Floats, spoof: Floats) -> float:
        """Raise: the scores of detection say nothing about sources."""
        raise UsageError(
            f"{SETTING} is of traced sources, and this network traces none: set source.column."
        )

    @abstractmethod
    def of_sources(self, traced: SourceScores) -> float:
        """Return the metric of the traced sources of a set."""


class SourceAccuracy(SourceMetric):
    """The proportion of trials of known sources that are called what they are."""

    def of_sources(self, traced: SourceScores) -> float:
        return evaluate_sources(traced).closed["accuracy"]


class SourceMacroF1(SourceMetric):
    """The macro-F1 of trials of known sources."""

    def of_sources(self, traced: SourceScores) -> float:
        return evaluate_sources(traced).closed["macro_f1"]


class ChosenMetric:
    """What `network.validation_metric` names, a class or a function, and its name there.

    Args:
        folder: the recipe's, where a user's own modules lie.

    Raises:
        UsageError: there is no such thing, or it is no metric.
        AsdfError: its module or its constructor fails.
    """

    def __init__(self, settings: Sections, folder: Path | None) -> None:
        self.name = settings.network.validation_metric
        path = class_path_of(SETTING, self.name)
        named = find_named(path, folder, SETTING, ValidationMetric)
        self._value: Callable[[Floats, Floats], Any]
        self._of_sources: Callable[[SourceScores], float] | None = None
        self.of_frames = False
        if isinstance(named, type):
            metric = self._build(named, settings)
            self._value = metric.value
            if isinstance(metric, SourceMetric):
                self._of_sources = metric.of_sources
            self.lower_is_better = bool(metric.lower_is_better)
            self.of_frames = bool(metric.of_frames)
        elif callable(named):
            self._value = named
            self.lower_is_better = bool(getattr(named, "lower_is_better", True))
        else:
            raise self._no_metric(named)

    @property
    def is_eer(self) -> bool:
        return self.name == "eer"

    @property
    def is_of_sources(self) -> bool:
        return self._of_sources is not None

    def of_set(
        self, bona_fide: Floats, spoof: Floats, traced: SourceScores | None, set_name: str
    ) -> float:
        """Return the metric of a set, of the scores of detection or of the traced sources.

        Raises:
            AsdfError: as `value`.
        """
        if self._of_sources is not None and traced is not None:
            return self._of_sources(traced)
        return self.value(bona_fide, spoof, set_name)

    def value(self, bona_fide: Floats, spoof: Floats, set_name: str) -> float:
        """Return the metric of the scores of the set called `set_name`.

        Raises:
            AsdfError: it fails, or is not a finite number.
        """
        failed = f"{SETTING} = {self.name!r} failed on the scores of {set_name}"
        with UserErrors(failed, "Fix it, or choose another."):
            number = float(self._value(bona_fide, spoof))
        if not math.isfinite(number):
            raise AsdfError(
                f"{SETTING} = {self.name!r} is {number} on {set_name}; networks are chosen by a "
                "finite number. Fix it, or choose another."
            )
        return number

    def _build(self, kind: type, settings: Sections) -> ValidationMetric:
        if not issubclass(kind, ValidationMetric):
            raise self._no_metric(kind)
        path = class_path_of(SETTING, self.name)
        check_whole(kind, path, SETTING, ValidationMetric)
        with UserErrors(f"{SETTING}: {self.name}(settings) failed"):
            return kind(settings)

    def _no_metric(self, named: object) -> UsageError:
        return UsageError(
            f"{SETTING}: {self.name} is {named!r}. It must be a function of the scores of both "
            f"classes, f(bona_fide, spoof), or a class derived from {__name__}.ValidationMetric."
        )


def check_metric(settings: Sections, folder: Path | None) -> None:
    """Find the metric, and compute it of a few scores: errors surface before training.

    Raises:
        UsageError, AsdfError: as of `ChosenMetric` and its `value`.
    """
    metric = ChosenMetric(settings, folder)
    if metric.of_frames and not settings.localisation.enabled:
        raise UsageError(
            f"{SETTING} = {metric.name!r} is of the scores of frames, which only a network with "
            "localisation.enabled = True gives."
        )
    if not (metric.is_of_sources and settings.source.column):
        metric.value(_BONA_FIDE, _SPOOF, "a trial run")
