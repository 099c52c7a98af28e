"""Lists and names in blocks of memory equal those that were packed."""

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest

from asdf.trials import packed_names as room
from asdf.trials.packed_names import CodedColumn, Names
from asdf.trials.trial_list import TrialList, join, pack_list, unpack_list


def assert_equal(one: TrialList, other: TrialList) -> None:
    assert list(one.ids) == list(other.ids) and one.digest() == other.digest()
    assert one.labels.tolist() == other.labels.tolist() and one.labels.dtype == other.labels.dtype
    assert {name: list(values) for name, values in one.columns.items()} == {
        name: list(values) for name, values in other.columns.items()
    }
    assert list(one.columns) == list(other.columns)
    assert (one.name, one.folder, one.origins) == (other.name, other.folder, other.origins)
    assert one.corpora() == other.corpora()
    assert list(map(one.path, range(len(one)))) == list(map(other.path, range(len(other))))


def list_of(count: int, name: str, columns=None) -> TrialList:
    labels = np.arange(count) % 3 - 1
    ids = [f"ä/{i}\udcff.flac" for i in range(count)]
    return TrialList(ids, labels, columns=columns or {}, name=name, folder=Path(name))


MANY = {"attack": ["-", "A01", ""] * 100, "text": [f"text {i}" for i in range(300)]}


@pytest.mark.parametrize(
    "trials",
    [
        list_of(300, "plain"),
        list_of(300, "columns", MANY),
        join([list_of(300, "one", MANY), list_of(5, "two"), list_of(3, "3", {"codec": ["a"] * 3})]),
        list_of(1, "single", {"attack": ["-"]}),
    ],
)
def test_a_list_of_arrays_is_the_list_that_they_were_made_of(trials):
    arrays, rest = pack_list(trials)
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    again = unpack_list(arrays, rest)
    assert_equal(again, trials)
    rows = np.arange(0, len(trials), 2)
    assert_equal(again.select(rows), trials.select(rows))
    assert_equal(join([again, again]), join([trials, trials]))


def test_repeated_values_are_numbers_and_different_ones_names():
    arrays, rest = pack_list(list_of(300, "columns", MANY))
    assert rest.values == {"attack": ["-", "A01", ""], "text": None}
    assert arrays["column 0"].dtype == np.uint8 and arrays["column 0"].shape == (300,)
    assert len(rest.frame) == 0


def test_a_column_is_a_sequence_of_its_values():
    column = CodedColumn(["a", "b"], np.array([1, 0, 1], np.uint8))
    assert list(column) == ["b", "a", "b"] and column[-1] == "b" and column[:2] == ["b", "a"]
    assert column == ["b", "a", "b"] and column != ["b", "a"] and column != "bab" + "b"
    assert len(column) == 3 and column.index("a") == 1
    with pytest.raises(IndexError):
        column[3]


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_a_digest_is_of_the_whole_text_however_it_is_put_together(monkeypatch, at_once):
    monkeypatch.setattr("asdf.trials.trial_list._AT_ONCE", at_once)
    for count in (0, 1, 2, 3, 7):
        trials = list_of(count, "mine")
        text = "\n".join(trials.ids).encode("utf-8", "surrogateescape")
        assert trials.digest() == hashlib.sha256(text).hexdigest()[:16]


SOME = ["a.flac", "", "ä/б.flac", "with space.wav", "\udcff.wav", "a.flac"]


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_they_are_the_same_strings_in_the_same_order(monkeypatch, at_once):
    monkeypatch.setattr(room, "_AT_ONCE", at_once)
    packed = Names(SOME)
    assert list(packed) == SOME and len(packed) == 6
    assert packed[-2] == "\udcff.wav" and packed[1:4] == SOME[1:4] and packed[::-1] == SOME[::-1]
    assert list(pickle.loads(pickle.dumps(packed))) == SOME
    assert list(Names([])) == [] and Names([]) == []
    assert packed == SOME and packed == Names(iter(SOME))
    assert packed != SOME[:5] and packed != [*SOME[:5], "b.flac"] and packed != "a.flac"
    with pytest.raises(IndexError):
        packed[6]
