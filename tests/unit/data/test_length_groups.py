"""Minibatches of recordings of similar length: which share one, on any number of processes."""

from __future__ import annotations

import numpy as np
import pytest

from asdf.data.sampler_orders import (
    Orders,
    Turns,
    describe_groups,
    earlier_turns,
    find_groups,
    longest_clips,
    padding_of,
)
from asdf.data.samplers import Shuffled
from asdf.data.training_plan import TrainingPlan
from asdf.settings import Sections
from asdf.trials.trial_list import TrialList

RATE = 16_000
COUNT = 203
LENGTHS = np.random.default_rng(1).integers(RATE // 2, 8 * RATE, COUNT)
UTTERANCES = TrialList([f"{i}.wav" for i in range(COUNT)], np.arange(COUNT, dtype=np.int8) % 2)
TIMES_4 = np.random.default_rng(2).permutation(np.repeat(np.arange(COUNT), 2))


def settings_of(**lengths):
    settings = Sections()
    settings.network.minibatch_size = 24
    chosen = {"minibatch_s": 20.0, "min_crop_s": 2.0, "max_crop_s": 4.0, "buckets": 5, **lengths}
    for name, value in chosen.items():
        setattr(settings.lengths, name, value)
    return settings


def plan_of(world_size=1, rank=0, interval=1, **lengths):
    settings = settings_of(**lengths)
    orders = Orders(Shuffled(settings, UTTERANCES), find_groups(settings, LENGTHS))
    return TrainingPlan(COUNT, 24, interval, world_size, rank, orders=orders)


def minibatches(turns):
    return np.split(np.arange(len(turns.utterances_N)), turns.ends_M[:-1])


def test_without_the_setting_nothing_is_grouped():
    assert find_groups(Sections(), LENGTHS) is None


def test_each_utterance_has_its_turn_and_no_minibatch_is_too_long():
    turns = plan_of().turns(1)
    assert sorted(turns.utterances_N) == list(range(COUNT))
    for rows in minibatches(turns):
        assert len(rows) * turns.samples_N[rows].max() <= 20 * RATE
        assert 1 <= len(rows) <= 24


def test_long_recordings_alone_are_cropped():
    turns = plan_of().turns(1)
    lengths = LENGTHS[turns.utterances_N]
    is_long = lengths > 4 * RATE
    assert np.array_equal(turns.samples_N[~is_long], lengths[~is_long])
    cropped = turns.samples_N[is_long]
    assert 2 * RATE <= cropped.min() < 2.2 * RATE and 3.8 * RATE < cropped.max() <= 4 * RATE


def test_all_recordings_above_the_shortest_crop_are_cropped_on_request():
    turns = plan_of(crop="all").turns(1)
    lengths = LENGTHS[turns.utterances_N]
    assert np.array_equal(turns.samples_N[lengths <= 2 * RATE], lengths[lengths <= 2 * RATE])
    between = (lengths > 2 * RATE) & (lengths <= 4 * RATE)
    samples = turns.samples_N[between]
    assert (samples >= 2 * RATE).all() and (samples <= lengths[between]).all()
    assert (samples < lengths[between]).mean() > 0.9


def test_minibatches_are_of_one_bucket_each():
    """Of five buckets of 41, 41, 41, 40 and 40 recordings by the lengths of their clips."""
    turns = plan_of().turns(1)
    ranks = np.empty(COUNT, int)
    ranks[np.argsort(turns.samples_N, kind="stable")] = np.arange(COUNT)
    bucket = np.digitize(ranks, [41, 82, 123, 163])
    spans = []
    for rows in minibatches(turns):
        # Equal lengths at a bound may stand on either side of it.
        spans.append(bucket[rows].max() - bucket[rows].min())
    assert np.mean(np.array(spans) == 0) > 0.9
    assert padding_of(turns) < padding_of(plan_of(buckets=1).turns(1)) / 2


def test_padding_is_what_a_loop_counts():
    turns = plan_of(buckets=1).turns(1)
    padded = sum(len(rows) * turns.samples_N[rows].max() for rows in minibatches(turns))
    assert padding_of(turns) == pytest.approx(1 - turns.samples_N.sum() / padded)
    said = describe_groups(turns, settings_of().lengths)
    assert f"{100 * padding_of(turns):.1f} % of their samples are padding" in said


def test_each_epoch_has_other_minibatches_and_crops_and_a_seed_the_same():
    first, again, second = plan_of().turns(1), plan_of().turns(1), plan_of().turns(2)
    for name in ("utterances_N", "samples_N", "ends_M"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    by_utterance = [np.sort(turns.samples_N) for turns in (first, second)]
    assert not np.array_equal(first.utterances_N, second.utterances_N)
    assert not np.array_equal(*by_utterance)


def test_a_second_turn_has_a_crop_of_its_own():
    settings = settings_of()
    turns = Turns(TIMES_4, earlier_turns(TIMES_4))
    grouped = find_groups(settings, LENGTHS).group(1, turns)
    long = int(np.argmax(LENGTHS))
    rows = np.flatnonzero(grouped.utterances_N == long)
    assert sorted(grouped.earlier_N[rows]) == [0, 1]
    assert grouped.samples_N[rows[0]] != grouped.samples_N[rows[1]]


@pytest.mark.parametrize("interval", [1, 3])
def test_processes_take_the_minibatches_that_one_takes(interval):
    """Two processes those of one with twice the interval, each minibatch whole on one of them."""
    alone = list(plan_of(interval=2 * interval).windows(1))
    ranks = [list(plan_of(2, rank, interval).windows(1)) for rank in (0, 1)]
    assert [len(each) for each in ranks] == [len(alone)] * 2
    for window, *parts in zip(alone, *ranks, strict=True):
        assert all(np.array_equal(window.utterances, part.utterances) for part in parts)
        assert all(part.start == window.start and part.end == window.end for part in parts)
        taken = {}
        for number, pair in enumerate(zip(parts[0].shares, parts[1].shares, strict=True)):
            for rank, share in enumerate(pair):
                if share.counted:
                    counted = share.loader_keys()[: share.counted]
                    taken[2 * number + rank] = counted
                else:
                    assert len(share.utterances) >= 1
        expected = [share.loader_keys()[: share.counted] for share in window.shares]
        assert [taken[number] for number in sorted(taken)] == expected


def test_an_epoch_goes_on_where_it_stopped():
    plan = plan_of(interval=2)
    whole = list(plan.windows(3))
    for done in (1, 4):
        rest = list(plan.windows(3, whole[done].start))
        assert [w.start for w in rest] == [w.start for w in whole[done:]]
        keys = [[share.loader_keys() for share in window.shares] for window in rest]
        assert keys == [[share.loader_keys() for share in w.shares] for w in whole[done:]]
        assert plan.steps_before(3, whole[done].start) == done
        begun = plan.begin_of_last_step(2, whole[done].start)
        assert begun == 2 + whole[done - 1].start / COUNT
    assert plan.steps_per_epoch(3) == len(whole)


def test_other_settings_begin_the_epoch_anew():
    """The digest, which a checkpoint holds, is that of the minibatches."""
    digests = set()
    for lengths in ({}, {"minibatch_s": 21.0}, {"buckets": 6}, {"max_crop_s": 4.5}):
        orders = plan_of(**lengths).orders
        digests.add(orders.digest(1))
        assert orders.digest(1) == plan_of(**lengths).orders.digest(1)
    digests.add(Orders(Shuffled(settings_of(), UTTERANCES)).digest(1))
    assert len(digests) == 5


def test_the_longest_clips_of_a_minibatch_are_as_many_as_fit():
    assert longest_clips(settings_of()) == (5, 4 * RATE)
    settings = settings_of()
    settings.network.minibatch_size = 3
    assert longest_clips(settings) == (3, 4 * RATE)
    # A clip that is alone is computed twice, unless a minibatch is of one.
    assert longest_clips(settings_of(minibatch_s=4.0)) == (2, 4 * RATE)
    settings.network.minibatch_size = 1
    assert longest_clips(settings) == (1, 4 * RATE)
