"""What `network.validation_metric` names is computed of the scores of a set, and checked."""

import sys

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.metrics.decisions import best_value
from asdf.metrics.detection import DetCurve, act_dcf, auc, cllr, eer, min_cllr, min_dcf
from asdf.metrics.validation import ChosenMetric, check_metric
from asdf.settings.sections import Sections
from asdf.settings.sections.training import VALIDATION_METRICS

RNG = np.random.default_rng(3)
BONA_FIDE = RNG.normal(1, 1, 60)
SPOOF = RNG.normal(-1, 1, 90)

METRICS = """
import numpy as np
from asdf.metrics.validation import ValidationMetric


def gap(bona_fide, spoof):
    return np.float32(bona_fide.mean() - spoof.mean())


gap.lower_is_better = False


def missed(bona_fide, spoof):
    return (bona_fide < 0).mean()


class Weighted(ValidationMetric):
    lower_is_better = False

    def value(self, bona_fide, spoof):
        return self.settings.recipe.seed + len(spoof)


class Plain:
    pass


class Valueless(ValidationMetric):
    def values(self, bona_fide, spoof):
        return 0.0


class Broken(Weighted):
    def __init__(self, settings):
        raise KeyError("nothing there")


def fails(bona_fide, spoof):
    return bona_fide[1000]


def lost(bona_fide, spoof):
    return float("nan")


def word(bona_fide, spoof):
    return "low"


number = 3
"""


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    # Another test's module of that name.
    monkeypatch.delitem(sys.modules, "my_metrics", raising=False)
    (tmp_path / "my_metrics.py").write_text(METRICS)

    def build(name: str) -> ChosenMetric:
        settings = Sections()
        settings.network.validation_metric = name
        settings.recipe.seed = 7
        return ChosenMetric(settings, tmp_path)

    return build


def test_the_projects_metrics_are_those_of_the_reports(chosen):
    expected = {
        "eer": eer(BONA_FIDE, SPOOF)[0],
        "min_dcf": min_dcf(BONA_FIDE, SPOOF),
        "act_dcf": act_dcf(BONA_FIDE, SPOOF),
        "cllr": cllr(BONA_FIDE, SPOOF),
        "min_cllr": min_cllr(BONA_FIDE, SPOOF),
        "auc": auc(BONA_FIDE, SPOOF),
        "best_macro_f1": best_value(DetCurve.of(BONA_FIDE, SPOOF), "macro_f1"),
    }
    of_other_scores = {"frame_eer", "source_accuracy", "source_macro_f1"}
    assert set(VALIDATION_METRICS) == {*expected, *of_other_scores}
    for name, value in expected.items():
        metric = chosen(name)
        assert metric.value(BONA_FIDE, SPOOF, "dev") == value
        assert metric.lower_is_better == (name not in ("auc", "best_macro_f1"))
        assert metric.is_eer == (name == "eer")


def test_a_function_or_a_class_of_ones_own_by_its_path(chosen):
    gap = chosen("my_metrics.gap")
    assert gap.name == "my_metrics.gap" and not gap.lower_is_better
    expected = BONA_FIDE.mean() - SPOOF.mean()
    assert gap.value(BONA_FIDE, SPOOF, "dev") == pytest.approx(expected, rel=1e-6)
    assert type(gap.value(BONA_FIDE, SPOOF, "dev")) is float
    missed = chosen("my_metrics.missed")
    assert missed.lower_is_better
    assert missed.value(BONA_FIDE, SPOOF, "dev") == np.mean(BONA_FIDE < 0)
    weighted = chosen("my_metrics.Weighted")
    assert weighted.value(BONA_FIDE, SPOOF, "dev") == 97 and not weighted.lower_is_better


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("Plain", UsageError, "must be a function of the scores of both classes"),
        ("number", UsageError, r"my_metrics.number is 3\. It must be a function"),
        ("Wieghted", UsageError, r"no class 'Wieghted'\. Did you mean 'Weighted'"),
        ("Broken", AsdfError, r"my_metrics.Broken\(settings\) failed: KeyError: 'nothing there'"),
        ("fails", AsdfError, "failed on the scores of a trial run: IndexError: .*my_metrics.py"),
        ("lost", AsdfError, "is nan on a trial run, but networks are chosen by a finite number"),
        ("Valueless", UsageError, "Valueless does not implement value, which ValidationMetr"),
        ("word", AsdfError, "failed on the scores of a trial run: ValueError"),
    ],
)
def test_what_is_no_metric_is_refused_before_training(chosen, tmp_path, name, kind, message):
    settings = Sections()
    settings.network.validation_metric = f"my_metrics.{name}"
    chosen("eer")
    with pytest.raises(kind, match=message) as caught:
        check_metric(settings, tmp_path)
    assert str(caught.value).startswith("network.validation_metric")
