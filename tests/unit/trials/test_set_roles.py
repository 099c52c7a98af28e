"""What a set was to a network, in words and in records; and what is read of damaged folders."""

import json

import pytest

from asdf.runs.evaluations import Evaluation, write_evaluations
from asdf.runs.layout import Layout, NetworkName
from asdf.trials.how_scored import (
    PUBLISHED,
    HowScored,
    SetRole,
    described_set,
    role_notes,
    role_words,
)
from asdf.trials.scored_files import read_shared, role_of, write_shared


@pytest.mark.parametrize(
    ("role", "words"),
    [
        (None, ""),
        (SetRole(80), ""),
        (SetRole(80, trained_on=80), ", trained on"),
        (SetRole(80, trained_on=3), ", 3 of 80 trained on"),
        (SetRole(80, chose_network=80), ", chose the network"),
        (SetRole(1200, 1200, 1100), ", trained on and 1,100 of 1,200 chose the network"),
    ],
)
def test_words(role, words):
    assert role_words(role) == words
    assert HowScored(PUBLISHED, "bf16", role=role).describe() == (
        f"first 64,600 samples, in bf16{words}"
    )


def test_rows_and_notes():
    row = {"set": "dev", "bona_fide": 30, "spoof": 50, "trained_on": 80, "chose_network": 0}
    assert described_set(row) == "dev, trained on"
    assert described_set({"set": "dev", "bona_fide": 30, "spoof": 50}) == "dev"
    role = SetRole(80, trained_on=3)
    assert role_notes([("dev", role), ("dev", role), ("eval", SetRole(9)), ("x", None)]) == [
        "dev: 3 of the 80 recordings of this set were trained on: the results are not a test."
    ]


@pytest.fixture
def layout(tmp_path) -> Layout:
    """A run of two epochs that selects the best, the second, on dev."""
    layout = Layout(tmp_path)
    evaluations = []
    for epoch, eer in ((1, 0.2), (2, 0.1)):
        name = NetworkName.after_epoch(epoch)
        evaluations.append(Evaluation(7 * epoch, float(epoch), name, {"dev": eer, "other": 0.3}))
        folder = layout.score_file(name, "dev").parent
        folder.mkdir(parents=True)
        (folder / "dev.txt").write_text("a 1 0.5\nb 0 -0.5\n")
    layout.networks.mkdir()
    write_evaluations(layout, evaluations)
    layout.metrics.write_text("")
    layout.settings.write_text(
        "recipe.training_sets = ('train', 'dev')\nrecipe.selected_epochs = ('best',)\n"
    )
    return layout


def test_by_the_settings_of_an_earlier_version(layout):
    roles = [role_of(layout.scores / f"epoch.{epoch}" / "dev.txt") for epoch in (1, 2)]
    assert roles == [SetRole(2, trained_on=2), SetRole(2, trained_on=2, chose_network=2)]
    # Networks that came from elsewhere were not trained on what the settings name.
    layout.metrics.unlink()
    assert role_of(layout.scores / "epoch.1" / "dev.txt") == SetRole(2)


def test_the_best_of_a_report_was_chosen_whatever_the_settings_select(layout):
    layout.settings.write_text("recipe.selected_epochs = (2,)\n")
    path = layout.scores / "epoch.2" / "dev.txt"
    assert role_of(path) == SetRole(2)
    assert role_of(path, picked_best=True) == SetRole(2, chose_network=2)


def test_what_was_recorded_counts_and_grows(layout):
    record = {"trials": 2, "trained_on": {"train": 1}, "validated_on": {"dev": 2}}
    write_shared(layout, {"dev": record}, afresh=False)
    path = layout.scores / "epoch.2" / "dev.txt"
    assert role_of(path) == SetRole(2, trained_on=1, chose_network=2)
    more = {"trials": 2, "trained_on": {"more": 1}, "validated_on": {}}
    write_shared(layout, {"dev": more}, afresh=False)
    assert read_shared(layout)["dev"]["trained_on"] == {"train": 1, "more": 1}
    write_shared(layout, {"dev": more}, afresh=True)
    assert read_shared(layout)["dev"]["trained_on"] == {"more": 1}


@pytest.mark.parametrize("text", ["{", "[]", '{"dev": 3}', '{"dev": {"trials": 2}}', "[" * 5000])
def test_a_damaged_record_is_none(layout, text):
    layout.sets.write_text(text)
    assert read_shared(layout) == {}
    assert role_of(layout.scores / "epoch.1" / "dev.txt") == SetRole(2, trained_on=2)
    layout.settings.write_text("recipe.training_sets = ((\n")
    layout.evaluations.write_text(json.dumps([{"step": "x"}]))
    role_of(layout.scores / "epoch.1" / "dev.txt")


def test_a_file_in_no_run_has_no_role(tmp_path):
    (tmp_path / "scores.txt").write_text("a 1 0.5\n")
    assert role_of(tmp_path / "scores.txt") is None
