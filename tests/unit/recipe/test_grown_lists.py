"""Which rows of a list that grew are those that an epoch began with."""

import json
from pathlib import Path

import numpy as np
import pytest

from asdf.recipe.grown_lists import _first_rows, _parts
from asdf.trials.trial_list import TrialList, join


def part(name: str, count: int) -> TrialList:
    return TrialList([f"{i}.flac" for i in range(count)], np.arange(count) % 2, name=name)


def test_they_are_the_first_of_each_part():
    before = join([part("one", 3), part("two", 2)])
    parts = json.loads(json.dumps(_parts(before)))
    assert parts == [["one", 3], ["two", 2]]
    grown = join([part("one", 5), part("two", 4)])
    rows = _first_rows(grown, parts)
    assert rows.tolist() == [0, 1, 2, 5, 6]
    assert grown.select(rows).digest() == before.digest()
    # Rows that were left out for their length are left out of both.
    fewer = grown.select(np.array([1, 2, 4, 5, 6, 7]))
    assert _first_rows(fewer, [["one", 2], ["two", 2]]).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize(
    "parts",
    [
        [["one", 3]],
        [["one", 3], ["three", 2]],
        [["two", 2], ["one", 3]],
        [["one", 6], ["two", 2]],
        [["one", -1], ["two", 2]],
        [["one", True], ["two", 2]],
        [["one", 1.5], ["two", 2]],
        ["one", "two"],
        [["one"], ["two"]],
    ],
)
def test_a_list_that_shrank_or_has_other_parts_and_a_damaged_record_have_none(parts):
    assert _first_rows(join([part("one", 5), part("two", 4)]), parts) is None


def test_the_paths_of_the_rows_are_the_same():
    grown = join([part("one", 5), part("two", 4)])
    rows = _first_rows(grown, [["one", 1], ["two", 1]])
    assert [grown.select(rows).path(index) for index in (0, 1)] == [Path("0.flac"), Path("0.flac")]
