"""Packed names are the names."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from asdf.trials import names as room
from asdf.trials.lists import UtteranceList, join
from asdf.trials.names import Names

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


def test_a_packed_list_names_the_same_recordings(tmp_path):
    one = UtteranceList(
        "one",
        tmp_path / "1",
        ["a.wav", "b.wav"],
        np.array([1, 0], np.int8),
        {"speaker": ["x", "y"]},
    )
    two = UtteranceList("two", tmp_path / "2", ["c.wav"], np.array([1], np.int8))
    for whole in (one, join([one, two]), join([one, two]).select(np.array([2, 0]))):
        packed = whole.packed()
        assert [packed.path(i) for i in range(len(packed))] == [
            whole.path(i) for i in range(len(whole))
        ]
        assert packed.ids == whole.ids and packed.labels is whole.labels


def test_joined_lists_can_be_joined(tmp_path):
    one, two = (
        UtteranceList(name, tmp_path / name, ["a.wav"], np.zeros(1, np.int8))
        for name in ("a", "b:c")
    )
    both = join([join([one, two]), one])
    assert both.ids == ["a+b:c:a:a.wav", "a+b:c:b:c:a.wav", "a:a.wav"]
    assert [both.path(i) for i in range(3)] == [
        tmp_path / name / "a.wav" for name in ("a", "b:c", "a")
    ]
