"""Shards that the paths of a list name, and orders that read few of them at a time."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from asdf.data.shards import count_open, find_shards, order_by_shards
from asdf.trials.copied_trials import Copies, append_copies
from asdf.trials.packed_names import Names
from asdf.trials.trial_list import TrialList, join


def list_of(ids, name="mine", folder="data") -> TrialList:
    return TrialList(ids, np.arange(len(ids)) % 2, name=name, folder=Path(folder))


def test_a_shard_is_the_archive_of_a_path_or_its_folder():
    ids = ["b.tar/x/1.flac", "b.tar/y/2.flac", "a.PARQUET/7", "s/1/3.flac", "s/2/4.flac", "5.flac"]
    shards = find_shards(list_of([*ids, "b.tar/z.flac", "s/1/6.flac", "b.tarts/7.flac"]))
    assert shards.numbers_N.tolist() == [0, 0, 1, 2, 3, 4, 0, 2, 5]
    assert list(map(str, shards.paths)) == [
        *("data/b.tar", "data/a.PARQUET", "data/s/1", "data/s/2", "data", "data/b.tarts"),
    ]
    assert shards.archived == 2
    assert find_shards(list_of(Names(ids))).numbers_N.tolist() == [0, 0, 1, 2, 3, 4]


def test_corpora_have_shards_of_their_own_and_copies_those_of_their_sources():
    first = list_of(["0.tar/a.flac", "1.tar/b.flac"], "first", "one")
    second = list_of(["0.tar/a.flac", "0.tar/c.flac"], "second", "two")
    utterances = join([first, second])
    assert find_shards(utterances).numbers_N.tolist() == [0, 1, 2, 2]
    # Of one folder under two names it is the same file.
    same = join([first, list_of(first.ids, "again", "one")])
    assert find_shards(same).numbers_N.tolist() == [0, 1, 0, 1]
    copies = Copies(np.array([3, 1]), np.array([0, 0]), ["lpc"])
    assert find_shards(append_copies(utterances, copies)).numbers_N.tolist() == [0, 1, 2, 2, 2, 1]


def test_sizes_are_those_of_the_archives_that_exist(tmp_path):
    (tmp_path / "a.flac").write_bytes(b"1234")
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        tar.add(tmp_path / "a.flac", "a.flac")
    utterances = list_of(["0.tar/a.flac", "1.tar/a.flac", "folder/a.flac"], folder=str(tmp_path))
    tar = tmp_path / "0.tar"
    assert find_shards(utterances).sizes() == {tar: tar.stat().st_size}


def brute_open(shards_N) -> list[int]:
    """How many shards have turns both up to and from each turn on."""
    listed = shards_N.tolist()
    return [len(set(listed[: turn + 1]) & set(listed[turn:])) for turn in range(len(listed))]


@pytest.mark.parametrize(
    ("shards", "window"), [(1, 1), (1, 64), (5, 64), (40, 1), (40, 2), (40, 7), (40, 39), (40, 40)]
)
def test_every_turn_comes_once_and_no_more_shards_are_open_than_the_window_has(shards, window):
    sizes = np.random.default_rng(shards).integers(1, 30, shards)
    # Not in order, and with numbers that no turn has.
    shards_N = np.random.default_rng(0).permutation(np.repeat(3 * np.arange(shards), sizes))
    order = order_by_shards(shards_N, window, np.random.default_rng(window))
    assert sorted(order.tolist()) == list(range(len(shards_N)))
    open_N = count_open(shards_N[order])
    assert open_N.tolist() == brute_open(shards_N[order])
    assert open_N.max() <= window
    # Shards of a few turns may be over before the window is full.
    assert open_N.max() >= 0.8 * min(window, shards)


def test_a_window_over_all_shards_is_a_global_shuffle():
    # Each turn is as likely at each position: 16 turns, 20,000 draws, 1,250 expected.
    counts = np.zeros((16, 16), np.int64)
    draws = np.random.default_rng(5)
    for _ in range(20_000):
        counts[np.arange(16), order_by_shards(np.repeat(np.arange(4), 4), 4, draws)] += 1
    assert abs(counts - 1250).max() < 5 * np.sqrt(1250)


def test_a_window_of_one_shard_is_shard_after_shard():
    shards_N = np.repeat(np.arange(30), 4)
    read = shards_N[order_by_shards(shards_N, 1, np.random.default_rng(3))]
    assert (read.reshape(30, 4) == read[::4, None]).all()
    assert sorted(read[::4].tolist()) == list(range(30))
    assert read[::4].tolist() != list(range(30))
