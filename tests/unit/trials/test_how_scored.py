"""How much of a recording was scored stands next to every score file and in every result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asdf.errors import UsageError
from asdf.trials.how_scored import (
    PUBLISHED,
    WHOLE,
    HowScored,
    ScoredLength,
    described,
    different_precisions,
    parse_scored_length,
)
from asdf.trials.scored_files import (
    how_scored,
    read_how_scored,
    remove_how_scored,
    write_how_scored,
)
from tests.unit.report.folders import make_run

DEFAULT = ScoredLength(16000, 1_000_000)
LENGTHS = (
    "network.min_evaluation_utterance_length_in_samples = {}  # default\n"
    "network.max_evaluation_utterance_length_in_samples = {}  # default\n"
)


@pytest.mark.parametrize(
    ("scored", "words"),
    [
        (PUBLISHED, "first 64,600 samples"),
        (DEFAULT, "whole, up to 62.5 s"),
        (WHOLE, "whole"),
        (None, "not known"),
    ],
)
def test_words(scored, words):
    assert described(scored) == words


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
    assert [path.name for path in tmp_path.iterdir()] == ["dev.scored.json"]
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
    assert [way.describe().removeprefix("first 64,600 samples") for way in ways] == [
        "",
        "",
        ", in tf32",
        ", in bf16",
    ]
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
    settings.write_text(
        LENGTHS.format(16000, 1000000)
        + "network.network_class = 'asdf.networks.SSL_SLS'  # default\n"
        + "back_end.sls_samples = 64600  # default\n"
    )
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


def test_what_is_next_to_a_score_file(tmp_path):
    write_how_scored(tmp_path / "x.txt", HowScored(PUBLISHED, "tf32"))
    entry = json.loads((tmp_path / "x.scored.json").read_text())
    assert entry == {"min_samples": 64600, "max_samples": 64600, "precision": "tf32"}
