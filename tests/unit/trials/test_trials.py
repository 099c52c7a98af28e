"""Trials: what is written is read back, and a trial is found by its id or its bare name."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.trials.trials import Trials, bare_name, is_trials_file, read_trials, write_trials

TABLE = "utterance\tlabel\tattack\tcodec\nflac/a b.flac\t1\t-\topus\nflac/c.flac\t0\tA01\t\n"


def test_a_table_is_written_and_read_back(tmp_path: Path) -> None:
    trials = Trials(
        ["flac/a b.flac", "flac/c.flac"],
        np.array([1, 0]),
        {"attack": ["-", "A01"], "codec": ["opus", ""]},
    )
    write_trials(tmp_path / "t.tsv", trials)
    assert (tmp_path / "t.tsv").read_text(encoding="utf-8") == TABLE
    again = read_trials(tmp_path / "t.tsv")
    assert again.ids == trials.ids and again.columns == trials.columns and len(again) == 2
    assert again.labels.tolist() == [1, 0] and again.labels.dtype == np.int64


def test_a_gzipped_table_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_bytes(gzip.compress(TABLE.encode()))
    assert read_trials(tmp_path / "t.tsv").columns["codec"] == ["opus", ""]


def test_no_columns_but_the_two(tmp_path: Path) -> None:
    write_trials(tmp_path / "t.tsv", Trials(["a"], np.array([0])))
    assert read_trials(tmp_path / "t.tsv").columns == {}


@pytest.mark.parametrize("value", ["a\tb", "a\nb", "a\rb"])
def test_what_would_not_be_read_back_is_not_written(tmp_path: Path, value: str) -> None:
    with pytest.raises(ValueError, match="TAB or a line break"):
        write_trials(tmp_path / "t.tsv", Trials(["a"], np.array([1]), {"codec": [value]}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("utterance\tlabel\tx\tx\n", "line 1: a table of trials begins with the names"),
        ("file\tlabel\n", "line 1: a table of trials begins with the names"),
        ("utterance\tlabel\tx\na\t1\n", "line 2: expected 3 values apart by TABs"),
        ("utterance\tlabel\tx\na\t1\ty\nb\tspoof\ty\n", "line 3: expected 3 values apart by TABs"),
        ("utterance\tlabel\na\t1\n\na\t1\n", "line 4: 'a' stands already in line 2"),
        ("utterance\tlabel\n", "no trial in it"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "t.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(AsdfError) as error:
        read_trials(tmp_path / "t.tsv")
    assert str(error.value).startswith(str(tmp_path / "t.tsv")) and told in str(error.value)


@pytest.mark.parametrize(
    ("utterance", "name"),
    [
        ("flac/LA_0001.flac", "LA_0001"),
        ("LA_0001", "LA_0001"),
        ("a/b c.WAV", "b c"),
        ("a/speech.v2", "speech.v2"),
        ("file1.wav_16k.wav", "file1.wav_16k"),
    ],
)
def test_only_suffixes_of_recordings_are_no_part_of_a_name(utterance: str, name: str) -> None:
    assert bare_name(utterance) == name


def test_a_trial_is_found_by_its_id_or_its_bare_name() -> None:
    trials = Trials(["flac/a.flac", "flac/b.flac", "x/c.wav", "y/c.wav"], np.array([1, 0, 1, 0]))
    assert [trials.index_of(name) for name in ("flac/b.flac", "b", "elsewhere/b.wav")] == [1, 1, 1]
    assert [trials.index_of(name) for name in ("x/c.wav", "y/c.wav", "c", "d")] == [
        2,
        3,
        None,
        None,
    ]


def test_a_bare_name_that_is_the_id_of_another_trial_means_that_one() -> None:
    assert Trials(["a.wav", "a"], np.array([1, 0])).index_of("a") == 1


def test_a_table_is_known_by_its_first_line() -> None:
    assert is_trials_file("utterance\tlabel\tcodec") and is_trials_file("utterance\tlabel")
    assert not is_trials_file("utterance label") and not is_trials_file("flac/a.flac 1")
