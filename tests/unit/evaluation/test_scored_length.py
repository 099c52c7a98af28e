"""How much of a recording was scored stands next to every score file and in every result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asdf.errors import UsageError
from asdf.evaluation.scored_files import (
    read_scored_length,
    remove_scored_length,
    scored_length_of,
    write_scored_length,
)
from asdf.evaluation.scored_length import (
    PUBLISHED,
    WHOLE,
    ScoredLength,
    described,
    parse_scored_length,
)
from tests.unit.evaluation.report.folders import make_run

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
        with pytest.raises(UsageError, match=r"no scored length\. Give published"):
            parse_scored_length(text)


@pytest.mark.parametrize("scored", [PUBLISHED, DEFAULT, WHOLE])
def test_it_is_read_as_it_was_written(tmp_path, scored):
    path = tmp_path / "dev.txt"
    write_scored_length(path, scored)
    assert [one.name for one in tmp_path.iterdir()] == ["dev.scored.json"]
    assert read_scored_length(path) == scored
    remove_scored_length(path)
    remove_scored_length(path)
    assert read_scored_length(path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"min_samples": 1}', '{"min_samples": "a"}'])
def test_what_is_damaged_is_not_known(tmp_path, text):
    (tmp_path / "dev.scored.json").write_text(text)
    assert read_scored_length(tmp_path / "dev.txt") is None


def test_of_a_run_of_the_first_version_the_settings_say_it(tmp_path):
    run = make_run(tmp_path / "net")
    path, settings = run / "scores" / "epoch.2" / "dev.txt", run / "settings.py"
    assert scored_length_of(path) is None
    settings.write_text(LENGTHS.format(16000, 1000000))
    assert scored_length_of(path) == DEFAULT
    write_scored_length(path, PUBLISHED)
    assert scored_length_of(path) == PUBLISHED
    assert scored_length_of(path.with_name("eval.txt")) == DEFAULT
    settings.write_text(
        LENGTHS.format(16000, 1000000)
        + "network.network_class = 'asdf.networks.SSL_SLS'  # default\n"
        + "back_end.sls_samples = 64600  # default\n"
    )
    assert scored_length_of(path.with_name("eval.txt")) == PUBLISHED
    settings.write_text("((")
    assert scored_length_of(path.with_name("eval.txt")) is None
    assert scored_length_of(Path("/x.txt")) is None


def test_the_run_of_the_first_version():
    folder = Path(__file__).resolve().parents[3].parent / "shared/reference/v0.1/quickstart"
    if not folder.is_dir():
        pytest.skip("no run of the first version next to this checkout (shared/reference/v0.1)")
    assert scored_length_of(folder / "scores" / "epoch.1" / "demo-dev.txt") == DEFAULT


def test_the_score_file_has_only_two_numbers_next_to_it(tmp_path):
    write_scored_length(tmp_path / "x.txt", PUBLISHED)
    entry = json.loads((tmp_path / "x.scored.json").read_text())
    assert entry == {"min_samples": 64600, "max_samples": 64600}
