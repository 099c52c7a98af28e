"""How a set was scored, and what it was to the network, next to score files and in results."""

import json
from pathlib import Path

import pytest

from asdf.errors import UsageError
from asdf.runs.evaluations import Evaluation, write_evaluations
from asdf.runs.layout import Layout, NetworkName
from asdf.trials.how_scored import (
    PUBLISHED,
    WHOLE,
    HowScored,
    ScoredLength,
    SetRole,
    described,
    described_set,
    different_precisions,
    parse_scored_length,
    role_notes,
    role_words,
)
from asdf.trials.scored_files import (
    how_scored,
    read_how_scored,
    read_shared,
    remove_how_scored,
    role_of,
    write_how_scored,
    write_shared,
)
from tests.unit.report.folders import make_run

DEFAULT = ScoredLength(16000, 1_000_000)
LENGTHS = (
    "network.min_evaluation_utterance_length_in_samples = {}  # default\n"
    "network.max_evaluation_utterance_length_in_samples = {}  # default\n"
)


def test_words():
    words = ["first 64,600 samples", "whole, up to 62.5 s", "whole", "not known"]
    assert list(map(described, (PUBLISHED, DEFAULT, WHOLE, None))) == words


def test_what_may_be_compared():
    assert PUBLISHED.agrees_with(ScoredLength(64600, 64600))
    assert WHOLE.agrees_with(DEFAULT)
    assert DEFAULT.agrees_with(WHOLE)
    assert not PUBLISHED.agrees_with(ScoredLength(66800, 66800))
    assert not DEFAULT.agrees_with(PUBLISHED)
    assert not ScoredLength(64600, 1_000_000).agrees_with(WHOLE)
    assert not ScoredLength(16000, 160_000).agrees_with(DEFAULT)


def test_what_is_said_of_files_of_others():
    assert parse_scored_length("published") == PUBLISHED
    assert parse_scored_length("whole") == WHOLE
    assert parse_scored_length("66800") == ScoredLength(66800, 66800)
    for text in ("", "0", "-5", "4s", "1e5", "²"):
        with pytest.raises(UsageError, match=r"not a scored length\. Give published"):
            parse_scored_length(text)


@pytest.mark.parametrize("scored", [PUBLISHED, DEFAULT, WHOLE])
@pytest.mark.parametrize("precision", ["fp32", "bf16", None])
def test_it_is_read_as_it_was_written(tmp_path, scored, precision):
    path, way = tmp_path / "dev.txt", HowScored(scored, precision)
    write_how_scored(path, way)
    [record] = tmp_path.iterdir()
    assert record.name == "dev.scored.json"
    assert json.loads(record.read_text()) == {**scored.record(), "precision": precision}
    assert read_how_scored(path) == way
    remove_how_scored(path)
    remove_how_scored(path)
    assert read_how_scored(path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"min_samples": 1}', '{"min_samples": "a"}'])
def test_what_is_damaged_is_not_known(tmp_path, text):
    (tmp_path / "dev.scored.json").write_text(text)
    assert read_how_scored(tmp_path / "dev.txt") is None


def test_the_second_version_wrote_no_precision(tmp_path):
    (tmp_path / "dev.scored.json").write_text('{"min_samples": 64600, "max_samples": 64600}\n')
    assert read_how_scored(tmp_path / "dev.txt") == HowScored(PUBLISHED)


def test_the_precision_is_named_where_it_is_not_fp32():
    ways = [HowScored(PUBLISHED, name) for name in ("fp32", None, "tf32", "bf16")]
    first = "first 64,600 samples"
    described_ways = [first, first, f"{first}, in tf32", f"{first}, in bf16"]
    assert [way.describe() for way in ways] == described_ways
    assert HowScored(None, "bf16").describe() == "not known, in bf16"


@pytest.mark.parametrize(
    ("precisions", "named"),
    [
        (["fp32", "fp32"], ""),
        (["fp32", None], ""),
        (["bf16", "bf16"], ""),
        (["bf16", "fp32", "bf16"], "bf16, fp32"),
        ([None, "tf32"], "not known, tf32"),
    ],
)
def test_precisions_that_differ_are_named(precisions, named):
    assert different_precisions(HowScored(None, precision) for precision in precisions) == named


def test_of_a_run_of_the_first_version_the_settings_say_it(tmp_path):
    run = make_run(tmp_path / "net")
    path, settings = run / "scores" / "epoch.2" / "dev.txt", run / "settings.py"
    assert how_scored(path) == HowScored()
    settings.write_text(LENGTHS.format(16000, 1000000))
    assert how_scored(path) == HowScored(DEFAULT)
    write_how_scored(path, HowScored(PUBLISHED, "bf16"))
    assert how_scored(path) == HowScored(PUBLISHED, "bf16")
    assert how_scored(path.with_name("eval.txt")) == HowScored(DEFAULT)
    fixed = "network.network_class = 'asdf.networks.SSL_SLS'\nback_end.sls_samples = 64600\n"
    settings.write_text(LENGTHS.format(16000, 1000000) + fixed)
    assert how_scored(path.with_name("eval.txt")) == HowScored(PUBLISHED)
    settings.write_text("((")
    assert how_scored(path.with_name("eval.txt")) == HowScored()
    assert how_scored(Path("/x.txt")) == HowScored()


def test_the_run_of_the_first_version():
    folder = Path(__file__).resolve().parents[3].parent / "shared/reference/v0.1/quickstart"
    if not folder.is_dir():
        pytest.skip("no run of the first version next to this checkout (shared/reference/v0.1)")
    path = folder / "scores" / "epoch.1" / "demo-dev.txt"
    assert how_scored(path) == HowScored(DEFAULT)


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
def test_words_for_a_role(role, words):
    assert role_words(role) == words
    described_role = HowScored(PUBLISHED, "bf16", role=role).describe()
    assert described_role == f"first 64,600 samples, in bf16{words}"


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
