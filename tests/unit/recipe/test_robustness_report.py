"""Robustness as a part of a recipe's report: trials, files, the page, and mistakes."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from asdf.errors import UsageError
from asdf.recipe.problems import check_robustness
from asdf.recipe.robustness_report import draw_trials, measure_robustness
from asdf.report.robustness_tables import robustness_tables
from asdf.runs.layout import Layout
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList
from tests.unit.robustness.conftest import LevelDetector, trials  # noqa: F401 (a fixture)


def list_of(bona_fide: int, spoof: int) -> TrialList:
    labels = np.array([1] * bona_fide + [0] * spoof, np.int8)
    return TrialList([f"r{number}" for number in range(len(labels))], labels, name="dev")


@pytest.mark.parametrize(
    ("classes", "count", "expected"),
    [
        ((100, 300), 50, (25, 25)),
        ((10, 300), 50, (10, 40)),
        ((300, 5), 51, (46, 5)),
        ((20, 20), 40, (20, 20)),
        ((20, 20), None, (20, 20)),
    ],
)
def test_trials_are_drawn_as_many_of_each_class(classes, count, expected):
    drawn = draw_trials(list_of(*classes), count, 0)
    assert ((drawn.labels == 1).sum(), (drawn.labels == 0).sum()) == expected
    numbers = [int(each[1:]) for each in drawn.ids]
    assert numbers == sorted(set(numbers))
    assert drawn.ids == draw_trials(list_of(*classes), count, 0).ids


def test_other_seeds_draw_other_trials():
    drawn = [draw_trials(list_of(100, 100), 20, seed).ids for seed in (0, 1)]
    assert drawn[0] != drawn[1]


@pytest.fixture
def run(trials, tmp_path, monkeypatch):  # noqa: F811
    import asdf.scoring.detector
    import asdf.scoring.made_by

    opened = []

    def make(network, *arguments, **options):
        opened.append(LevelDetector())
        return opened[-1]

    monkeypatch.setattr(asdf.scoring.detector, "Detector", make)
    monkeypatch.setattr(asdf.scoring.made_by, "network_digest", str)
    settings = Sections()
    settings.robustness.sets = ("dev",)
    settings.robustness.only = ("white_10", "gain_-20")
    settings.robustness.workers = 0
    settings.robustness.max_trials = 20
    layout = Layout(tmp_path / "system")
    folders = SimpleNamespace(
        layout=layout, networks=layout.networks, weights=lambda weights: weights
    )
    return SimpleNamespace(
        config="mine",
        settings=settings,
        folders=folders,
        recipe_folder=tmp_path,
        world=SimpleNamespace(size=1, device="cpu"),
        evaluation_utterances=lambda name: (trials, None),
        evaluated_name=lambda name: name,
        opened=opened,
    )


def test_the_study_of_a_set_lies_among_the_results_of_the_run(run):
    measure_robustness(run, ["epoch.3.pt"])
    folder = run.folders.layout.system / "results" / "robustness" / "dev"
    for name in ("report.html", "results.csv", "results.tex", "results.txt"):
        assert (folder / name).stat().st_size > 100
    record = json.loads((folder / "results.json").read_text())
    assert record["bona_fide"] == record["spoof"] == 10
    assert [row["condition"] for row in record["results"]] == ["clean", "white_10", "gain_-20"]
    assert record["made_by"]["config"] == "mine"
    # A second start scores nothing again.
    assert len(run.opened[0].heard) == 3 * 20
    measure_robustness(run, ["epoch.3.pt"])
    assert run.opened[1].heard == []


def test_without_sets_nothing_is_measured(run):
    run.settings.robustness.sets = ()
    measure_robustness(run, ["epoch.3.pt"])
    assert not run.folders.layout.system.exists()


def test_several_processes_measure_nothing_and_say_how(run, caplog):
    run.world.size = 2
    with caplog.at_level("INFO"):
        measure_robustness(run, ["epoch.3.pt"])
    assert "recipe.start_stage=3" in caplog.text and not run.opened


def test_the_page_of_the_run_has_the_numbers_of_the_study(run):
    measure_robustness(run, ["epoch.3.pt"])
    folder = SimpleNamespace(layout=run.folders.layout)
    [table], findings = robustness_tables("mine", folder, None)
    assert robustness_tables("mine", folder, ["epoch.4"]) == ([], [])
    assert findings == []
    assert "mine epoch.3 on 20 degraded recordings of dev" in table.caption
    record = json.loads(run.folders.layout.robustness_records()[0].read_text())
    shown = str(table)
    for row in record["results"]:
        assert f"{100 * row['eer']:.2f}" in shown
    assert "white 10 dB SNR" in shown
    run.folders.layout.robustness_records()[0].write_text("{}")
    tables, [finding] = robustness_tables("mine", folder, None)
    assert tables == [] and "dev/results.json is damaged" in finding.message


def test_mistakes_are_found_before_the_run():
    settings = Sections()
    check_robustness(settings)
    settings.robustness.sets = ("dev",)
    with pytest.raises(UsageError, match=r"'dev', which is not among recipe.evaluation_sets"):
        check_robustness(settings)
    settings.recipe.evaluation_sets = ("dev",)
    check_robustness(settings)
    settings.robustness.only = ("whit",)
    with pytest.raises(UsageError, match="there is no degradation whit"):
        check_robustness(settings)
