"""The table of trials, and trials that are collected line by line, each of them once."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.trials.table import TrialCollector, is_trials_file, read_trials, write_trials
from asdf.trials.trial_list import TrialList, find_repeats

TABLE = "utterance\tlabel\tattack\tcodec\nflac/a b.flac\t1\t-\topus\nflac/c.flac\t0\tA01\t\n"


def test_a_table_is_written_and_read_back(tmp_path):
    columns = {"attack": ["-", "A01"], "codec": ["opus", ""]}
    trials = TrialList(["flac/a b.flac", "flac/c.flac"], np.array([1, 0]), columns=columns)
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
    trials = TrialList(["a"], np.array([1]), columns={"codec": [value]})
    with pytest.raises(ValueError, match="TAB or a line break"):
        write_trials(tmp_path / "t.tsv", trials)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("utterance\tlabel\tx\tx\n", "line 1: a table of trials begins with names"),
        ("file\tlabel\n", "line 1: a table of trials begins with names"),
        ("utterance\tlabel\tx\na\t1\n", "line 2: expected 3 values separated by TABs"),
        ("utterance\tlabel\tx\na\t1\ty\nb\tspoof\ty\n", "line 3: expected 3 values separated by"),
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


def test_what_was_added_is_what_is_returned():
    collector = TrialCollector(Path("list.txt"), ["codec"])
    collector.add(1, "b.flac", 1, ["opus"])
    collector.add(3, "a.flac", 0, [""])
    trials = collector.trials()
    assert trials.ids == ["b.flac", "a.flac"] and trials.columns == {"codec": ["opus", ""]}
    assert trials.labels.tolist() == [1, 0] and trials.labels.dtype == np.int8


def test_equal_values_share_one_string():
    collector = TrialCollector(Path("list.txt"), ["codec"])
    collector.add(1, "a", 1, ["op" + "us".lower()])
    collector.add(2, "b", 1, ["".join(["op", "us"])])
    values = collector.trials().columns["codec"]
    assert values[0] is values[1]


def test_a_repeated_trial_is_named_by_its_lines_not_by_its_index():
    collector = TrialCollector(Path("list.txt"))
    for line, utterance, label in ((2, "a", 1), (5, "b", 0), (9, "./a", 0), (11, "b", 0)):
        collector.add(line, utterance, label)
    with pytest.raises(AsdfError) as caught:
        collector.trials()
    assert str(caught.value) == (
        "list.txt, line 9: './a' is already in line 2 as 'a' (2 lines repeat an utterance). Every "
        "trial counts once: remove the repeated lines. Some of them have both labels."
    )


def test_every_repeat_has_the_first_of_its_name():
    assert find_repeats(["a", "b", "c"]) == find_repeats([]) == []
    assert find_repeats(["a", "b", "a", "a", "b"]) == [(2, 0), (3, 0), (4, 1)]


def test_a_repeated_recording_in_another_spelling_far_below(tmp_path):
    path = tmp_path / "list.tsv"
    rows = [f"a/{number}\t{number % 2}" for number in range(2000)]
    path.write_text("\n".join(["utterance\tlabel", *rows, "a//7\t1"]) + "\n")
    with pytest.raises(AsdfError, match=r"line 2002: 'a//7' is already in line 9 as 'a/7'"):
        read_trials(path)


def test_a_bad_row_far_below_has_its_line(tmp_path):
    path = tmp_path / "list.tsv"
    rows = [f"{number}\t{number % 2}" for number in range(2000)]
    rows[1500] = "1500\t2"
    path.write_text("\n\n".join(["utterance\tlabel", *rows]) + "\n")
    with pytest.raises(AsdfError, match=r"line 3003: expected 2 values .* found '1500.2'"):
        read_trials(path)
