"""Which networks are selected, and by what; checks of classes before anything is measured."""

import logging
from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.metrics.results import MetricValue
from asdf.metrics.validation import ChosenMetric
from asdf.recipe.problems import check_choices, failures
from asdf.recipe.requirements import class_checks
from asdf.recipe.run_folders import select_networks
from asdf.recipe.scoring_stage import value_of
from asdf.recipe.training_stage import find_starting_point
from asdf.runs.evaluations import Evaluation, write_evaluations
from asdf.runs.layout import RESUME, Layout, NetworkName
from asdf.settings.sections import Sections
from asdf.trials.score_file import Scores


def settings(selected=None, resume="auto") -> Sections:
    made = Sections()
    made.recipe.selected_epochs, made.network.resume_epoch = selected, resume
    return made


@pytest.fixture
def networks(tmp_path):
    layout = Layout(tmp_path)
    layout.networks.mkdir()
    for name in ("epoch.2.pt", "epoch.9.pt", "epoch.10.pt", "epoch.10.step.95.pt", "average.pt"):
        (layout.networks / name).touch()
    eers = {"1": 0.01, "2": 0.3, "9": 0.2, "10.step.95": 0.1, "10": 0.15}
    evaluations = [
        Evaluation(step, None, NetworkName(f"epoch.{name}"), {"dev": eer})
        for step, (name, eer) in enumerate(eers.items())
    ]
    write_evaluations(layout, evaluations)
    return layout


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (settings(), ["epoch.10.pt"]),
        (settings(("last",)), ["epoch.10.pt"]),
        (settings((9, 2)), ["epoch.9.pt", "epoch.2.pt"]),
        (settings(("best",)), ["epoch.10.step.95.pt"]),  # epoch 1 was better, and was not retained
        (settings(("average", "last", 10)), ["average.pt", "epoch.10.pt"]),
        (settings(resume=-9), ["epoch.9.pt"]),
        (settings((2,), resume=-9), ["epoch.2.pt"]),
    ],
)
def test_names(networks, chosen, names):
    assert select_networks(chosen, networks) == names


def test_networks_that_do_not_exist(networks, tmp_path):
    message = r"holds no epoch\.3\.pt, epoch\.4\.pt\. There are epoch\.2\.pt, .*selected_epochs"
    with pytest.raises(AsdfError, match=message):
        select_networks(settings((3, 2, 4)), networks)
    empty = Layout(tmp_path / "empty")
    empty.networks.mkdir(parents=True)
    for chosen, said in ((None, "there are no networks in .*run stage 1 first"),
                         (("best",), "no network in .* has been evaluated"),
                         ((1,), "There are no networks: run stage 1 first")):  # fmt: skip
        with pytest.raises(AsdfError, match=said):
            select_networks(settings(chosen), empty)


@pytest.mark.parametrize(
    ("selected", "averaged", "validation", "said"),
    [
        (("average",), 0, ("v",), "'average', but network.average_best_networks is 0"),
        (("average",), 2, (), "network.average_best_networks needs validation results"),
        (("best",), 0, (), "'best' needs validation results, but recipe.validation_sets is empty"),
        (("average",), 2, ("v",), ""),
    ],
)
def test_what_training_will_not_make_is_found_before_it(selected, averaged, validation, said):
    chosen = settings(selected)
    chosen.network.average_best_networks = averaged
    chosen.recipe.validation_sets = validation
    if said:
        with pytest.raises(UsageError, match=said):
            check_choices(chosen)
        # Networks of an earlier training may well be chosen so.
        chosen.recipe.start_stage = 2
    check_choices(chosen)


@pytest.mark.parametrize("sampler", ["shuffled", "balanced_corpora"])
def test_weights_that_no_sampler_reads_are_refused(sampler):
    chosen = settings(None)
    chosen.recipe.sampler = sampler
    check_choices(chosen)
    chosen.recipe.set_weights = (0.5, 0.5)
    message = rf"set_weights = \(0\.5, 0\.5\) has no effect with recipe\.sampler = '{sampler}': set"
    with pytest.raises(UsageError, match=message):
        check_choices(chosen)
    # A sampler of the user's own may read them.
    for other in ("weighted_corpora", "mine.Sampler"):
        chosen.recipe.sampler = other
        check_choices(chosen)
    # Nothing is trained.
    chosen.recipe.sampler = sampler
    chosen.recipe.start_stage = 2
    check_choices(chosen)


def test_a_start_from_0_never_overwrites_what_it_would_resume(tmp_path):
    layout = Layout(tmp_path)
    layout.networks.mkdir()
    assert find_starting_point(0, layout) is None
    layout.network_file(RESUME).touch()
    with pytest.raises(AsdfError, match=r"resume_epoch = 0 would overwrite resume\.pt in"):
        find_starting_point(0, layout)


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


def test_every_missing_class_is_reported(tmp_path: Path) -> None:
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_AASITS"
    settings.front_end.front_end_class = "my_front_end.Filters"
    settings.back_end.back_end_class = "my_back_end.Pooling"
    settings.network.validation_metric = "my_metrics.Rate"
    settings.network.loss = "my_losses.Margin"
    settings.network.tasks = ("my_tasks.Speakers",)
    found = dict.fromkeys(str(error) for error in failures(class_checks(settings, tmp_path)))
    names = "network.network_class front_end.front_end_class back_end.back_end_class"
    names += " network.validation_metric network.loss network.tasks"
    assert [message.partition(":")[0] for message in found] == names.split()
    assert failures(class_checks(Sections(), tmp_path)) == []
