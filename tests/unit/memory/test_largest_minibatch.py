"""The largest minibatch for a GPU, against a search through all sizes."""

from dataclasses import replace

import pytest

from asdf.memory.case import OUTSIDE_ALLOCATOR
from asdf.memory.largest_minibatch import describe_largest, largest_minibatch
from asdf.memory.training_step import training_memory
from tests.unit.memory.test_advice import case_of


def peak(size: int) -> int:
    return training_memory(case_of(size)).peak + OUTSIDE_ALLOCATOR


@pytest.mark.slow_but("1")
@pytest.mark.parametrize("size", [1, 3, 6])
def test_it_is_the_largest_that_fits(size):
    total = peak(size)
    assert peak(size + 1) > total
    # Whatever the config's own minibatch is.
    for configured in (2, 16):
        found = largest_minibatch(case_of(configured), total)
        assert (found.size, found.peak) == (size, total)
    assert largest_minibatch(case_of(2), total - 1).size == size - 1


def test_in_words():
    total = peak(3)
    words = describe_largest(case_of(8), total)
    assert "3 utterances per process" in words and "network.minibatch_size=3" in words
    none = describe_largest(case_of(8), peak(1) - 1)
    assert none.startswith("no minibatch fits") and "gradient_checkpointing" in none


def test_a_global_minibatch_does_not_matter():
    case = case_of(2)
    case.settings.network.global_minibatch_size = 64
    assert largest_minibatch(replace(case, processes=2), peak(2)).size >= 1
