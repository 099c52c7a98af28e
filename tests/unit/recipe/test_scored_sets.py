"""The metric that networks are chosen by, on a set that none was chosen on."""

import logging

import numpy as np

from asdf.metrics.results import MetricValue
from asdf.metrics.validation import ChosenMetric
from asdf.recipe.scoring_stage import value_of
from asdf.settings.sections import Sections
from asdf.trials.score_file import Scores

METRIC = """
def fussy(bona_fide, spoof):
    if len(spoof) < 3:
        raise ValueError("too few spoofs")
    return float(len(bona_fide))
"""


def scores(labels: list[int]) -> Scores:
    return Scores([f"{i}" for i in labels], np.array(labels), np.array(labels, float))


def test_what_fails_on_a_set_is_a_warning_and_the_eer_is_no_second_value(tmp_path, caplog) -> None:
    (tmp_path / "my_fussy_metric.py").write_text(METRIC)
    settings = Sections()
    assert value_of(ChosenMetric(settings, tmp_path), scores([1, 0]), "dev", {}) is None
    settings.network.validation_metric = "my_fussy_metric.fussy"
    metric = ChosenMetric(settings, tmp_path)
    with caplog.at_level(logging.WARNING, "asdf"):
        assert value_of(metric, scores([1, 1, 0, 0]), "dev", {}) is None
    assert "failed on the scores of dev: ValueError: too few spoofs" in caplog.text
    expected = MetricValue("my_fussy_metric.fussy", 2.0, lower_is_better=True)
    assert value_of(metric, scores([1, 1, 0, 0, 0]), "dev", {}) == expected
