"""Packed names are the names."""

from __future__ import annotations

import pickle

import pytest

from asdf.trials import packed_names as room
from asdf.trials.packed_names import Names

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
