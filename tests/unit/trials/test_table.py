"""The table of trials: what is written is read back."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.trials.table import is_trials_file, read_trials, write_trials
from asdf.trials.trial_list import TrialList

TABLE = "utterance\tlabel\tattack\tcodec\nflac/a b.flac\t1\t-\topus\nflac/c.flac\t0\tA01\t\n"


def test_a_table_is_written_and_read_back(tmp_path):
    trials = TrialList(
        ["flac/a b.flac", "flac/c.flac"],
        np.array([1, 0]),
        columns={"attack": ["-", "A01"], "codec": ["opus", ""]},
    )
    write_trials(tmp_path / "t.tsv", trials)
    assert (tmp_path / "t.tsv").read_text(encoding="utf-8") == TABLE
    again = read_trials(tmp_path / "t.tsv")
    assert again.ids == trials.ids and again.columns == trials.columns and len(again) == 2
    assert again.labels.tolist() == [1, 0] and again.labels.dtype == np.int8


def test_a_gzipped_table_is_the_same(tmp_path):
    (tmp_path / "t.tsv").write_bytes(gzip.compress(TABLE.encode()))
    assert read_trials(tmp_path / "t.tsv").columns["codec"] == ["opus", ""]


def test_no_columns_but_the_two(tmp_path):
    write_trials(tmp_path / "t.tsv", TrialList(["a"], np.array([0])))
    assert read_trials(tmp_path / "t.tsv").columns == {}


@pytest.mark.parametrize("value", ["a\tb", "a\nb", "a\rb"])
def test_what_would_not_be_read_back_is_not_written(tmp_path, value):
    with pytest.raises(ValueError, match="TAB or a line break"):
        write_trials(
            tmp_path / "t.tsv", TrialList(["a"], np.array([1]), columns={"codec": [value]})
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("utterance\tlabel\tx\tx\n", "line 1: a table of trials begins with the names"),
        ("file\tlabel\n", "line 1: a table of trials begins with the names"),
        ("utterance\tlabel\tx\na\t1\n", "line 2: expected 3 values separated by TABs"),
        (
            "utterance\tlabel\tx\na\t1\ty\nb\tspoof\ty\n",
            "line 3: expected 3 values separated by TABs",
        ),
        ("utterance\tlabel\na\t1\n\na\t1\n", "line 4: 'a' is already in line 2"),
        ("utterance\tlabel\n", "no trials found"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, text, message):
    (tmp_path / "t.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(AsdfError) as caught:
        read_trials(tmp_path / "t.tsv")
    assert str(caught.value).startswith(str(tmp_path / "t.tsv")) and message in str(caught.value)


def test_a_table_is_known_by_its_first_line():
    assert is_trials_file("utterance\tlabel\tcodec") and is_trials_file("utterance\tlabel")
    assert not is_trials_file("utterance label") and not is_trials_file("flac/a.flac 1")
