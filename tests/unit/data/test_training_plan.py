"""Orders, turns, windows and shares: what makes a run independent of how it is divided."""

from __future__ import annotations

import numpy as np
import pytest

from asdf.data.sampler_orders import (
    Orders,
    Turns,
    describe_groups,
    earlier_turns,
    find_groups,
    find_sampler,
    longest_clips,
)
from asdf.data.samplers import Sampler, Shuffled
from asdf.data.training_plan import TrainingPlan, minibatch_per_process
from asdf.errors import AsdfError, UsageError
from asdf.settings.sections import Network, Sections
from asdf.trials.trial_list import TrialList


def counted(plan: TrainingPlan, epoch: int, start: int = 0) -> list[list[int]]:
    """For each window: the utterances that count, of this rank."""
    return [
        [i for share in window.shares for i in share.utterances[: share.counted].tolist()]
        for window in plan.windows(epoch, start)
    ]


def test_the_order_follows_from_seed_and_epoch_alone():
    plan = TrainingPlan(50, 4, seed=1)
    assert sorted(plan.order(1)) == list(range(50))
    assert np.array_equal(plan.order(1), TrainingPlan(50, 7, 2, 3, 1, seed=1).order(1))
    assert not np.array_equal(plan.order(1), plan.order(2))
    assert not np.array_equal(plan.order(1), TrainingPlan(50, 4, seed=2).order(1))


@pytest.mark.parametrize(
    ("size", "minibatch", "interval", "ranks", "steps"),
    [(26, 4, 1, 1, 7), (26, 4, 2, 2, 2), (24, 4, 3, 2, 1), (25, 4, 3, 2, 2), (1, 4, 1, 3, 1)],
)
def test_every_utterance_has_one_turn(size, minibatch, interval, ranks, steps):
    plans = [TrainingPlan(size, minibatch, interval, ranks, rank, seed=3) for rank in range(ranks)]
    assert {plan.steps_per_epoch() for plan in plans} == {steps}
    windows = [counted(plan, 2) for plan in plans]
    assert {len(epoch) for epoch in windows} == {steps}
    turns = [i for epoch in windows for window in epoch for i in window]
    assert sorted(turns) == list(range(size))


def test_ranks_share_out_what_one_process_does_alone():
    """Two ranks of minibatch 4 take the windows of one rank of minibatch 8.

    So does one rank of minibatch 4 with two minibatches per step.
    """
    alone = [sorted(window) for window in counted(TrainingPlan(45, 8, seed=5), 1)]
    assert [sorted(window) for window in counted(TrainingPlan(45, 4, 2, seed=5), 1)] == alone
    two = [counted(TrainingPlan(45, 4, 1, 2, rank, seed=5), 1) for rank in (0, 1)]
    assert [sorted(a + b) for a, b in zip(*two, strict=True)] == alone


def test_the_last_step_before_a_position_began_where_its_window_does():
    plan = TrainingPlan(50, 4, step_interval=2, world_size=2)
    for epoch in (1, 2):
        for window in plan.windows(epoch):
            ends_epoch = window.end == plan.size
            position = 0 if ends_epoch else window.end
            begun = plan.begin_of_last_step(epoch if ends_epoch else epoch - 1, position)
            # As `Step` has it before it takes the window.
            assert begun == epoch - 1 + window.start / window.epoch_size


def test_the_windows_from_the_middle_are_the_rest_of_all():
    plan = TrainingPlan(45, 4, 2, 2, 1, seed=5)
    windows = list(plan.windows(3))
    assert [(window.start, window.end) for window in windows] == [(0, 16), (16, 32), (32, 45)]
    assert counted(plan, 3, start=16) == counted(plan, 3)[1:]
    assert np.array_equal(next(plan.windows(3, 16)).utterances, plan.order(3)[16:32])
    # From a position that another number of processes left behind.
    rest = [
        i
        for rank in range(3)
        for w in counted(TrainingPlan(45, 4, 1, 3, rank, seed=5), 3, 16)
        for i in w
    ]
    assert sorted(rest) == sorted(plan.order(3)[16:].tolist())
    windows = TrainingPlan(45, 4, 1, 3, seed=5).windows(3, 16)
    assert [len(window.utterances) for window in windows] == [12, 12, 5]


def test_shares_are_even_and_short_ones_are_filled_up_with_what_does_not_count():
    for ranks in (2, 3, 5):
        for size in range(1, 30):
            plans = [TrainingPlan(size, 4, 2, ranks, rank) for rank in range(ranks)]
            for windows in zip(*(plan.windows(1) for plan in plans), strict=True):
                assert len({len(window.shares) for window in windows}) == 1
                for shares in zip(*(window.shares for window in windows), strict=True):
                    counts = [share.counted for share in shares]
                    assert max(counts) - min(counts) <= 1 and max(counts) <= 4
                    for share in shares:
                        assert len(share.utterances) == max(2, share.counted)
                        if sum(counts) > 1:
                            known = set(windows[0].utterances.tolist())
                            assert set(share.utterances.tolist()) <= known


def test_a_minibatch_of_one_needs_no_filler():
    shares = [share for window in TrainingPlan(5, 1).windows(1) for share in window.shares]
    assert (
        [len(share.utterances) for share in shares]
        == [share.counted for share in shares]
        == [1] * 5
    )


def test_batch_norm_over_all_ranks_needs_no_second_utterance_per_rank():
    """5 utterances in minibatches of 2 x 2: the last is a single utterance, for one rank only."""
    plans = [TrainingPlan(5, 2, 1, 2, rank, synchronised=True) for rank in (0, 1)]
    last = [list(plan.windows(1))[-1].shares[0] for plan in plans]
    assert [(len(share.utterances), share.counted) for share in last] == [(1, 1), (1, 0)]
    alone = list(TrainingPlan(5, 4, synchronised=True).windows(1))[-1].shares[0]
    assert (len(alone.utterances), alone.counted) == (2, 1)
    # With the turn before, since two copies of one clip have no variance.
    both = np.concatenate([share.utterances for share in last])
    assert both.tolist() == alone.utterances.tolist() == plans[0].order(1)[[4, 3]].tolist()


@pytest.mark.parametrize(("interval", "windows"), [(1, 6), (2, 3)])
def test_a_global_minibatch_gives_the_same_steps_on_any_number_of_processes(interval, windows):
    network = Network(global_minibatch_size=8, minibatch_size=5)
    alone = list(TrainingPlan(45, 8, interval, seed=5).windows(1))
    assert len(alone) == windows
    for ranks in (1, 2, 4, 8):
        minibatch = minibatch_per_process(network, ranks)
        assert minibatch == 8 // ranks
        plans = [TrainingPlan(45, minibatch, interval, ranks, rank, 5) for rank in range(ranks)]
        for plan in plans:
            assert [window.utterances.tolist() for window in plan.windows(1)] == [
                window.utterances.tolist() for window in alone
            ]
        turns = [counted(plan, 1) for plan in plans]
        for number, window in enumerate(alone):
            shared_out = [i for own in turns for i in own[number]]
            assert sorted(shared_out) == sorted(window.utterances.tolist())


def test_without_a_global_minibatch_the_size_counts_per_process():
    assert [minibatch_per_process(Network(minibatch_size=5), ranks) for ranks in (1, 2, 8)] == [
        5,
        5,
        5,
    ]


@pytest.mark.parametrize(
    ("size", "ranks", "nearest"),
    [(10, 4, "8 and 12"), (25, 8, "24 and 32"), (3, 4, "4"), (7, 2, "6 and 8")],
)
def test_a_global_minibatch_that_does_not_divide_is_refused(size, ranks, nearest):
    with pytest.raises(UsageError) as caught:
        minibatch_per_process(Network(global_minibatch_size=size), ranks)
    assert str(caught.value) == (
        f"network.global_minibatch_size = {size} does not divide by the {ranks} processes of this "
        f"run, as {nearest} would. Set it, or start another number of processes."
    )


SIX = TrialList([str(i) for i in range(6)], [1, 0] * 3)


class Listed(Sampler):
    """Returns `orders[epoch]`, or what a function there returns."""

    def order(self, epoch):
        order = self.orders[epoch]
        return order() if callable(order) else order


def listed(**orders) -> Listed:
    sampler = Listed(Sections(), SIX)
    sampler.orders = {int(name[1:]): order for name, order in orders.items()}
    return sampler


def test_an_order_of_any_integers_becomes_a_copy_of_its_own():
    mine = np.array([5, 0, 0], np.uint8)
    orders = Orders(listed(e1=mine, e2=[1, 2, 3]))
    mine[0] = 1
    assert orders.size == 3 and orders.of(1).tolist() == [5, 0, 0]
    assert orders.of(2).dtype == np.int64 and orders.of(2).tolist() == [1, 2, 3]


def test_an_epoch_is_drawn_once_and_its_digest_names_it():
    orders = Orders(Shuffled(Sections(), SIX))
    assert orders.of(3) is orders.of(3)
    again = Orders(Shuffled(Sections(), SIX))
    assert orders.digest(3) == again.digest(3) != again.digest(4)
    # Whatever type of integers the sampler uses.
    narrow, wide = (Orders(listed(e1=np.array([3, 1], kind))) for kind in (np.int16, np.int64))
    assert narrow.digest(1) == wide.digest(1)


def clip_keys(plan: TrainingPlan, epoch: int) -> list[tuple[int, int]]:
    shares = [share for window in plan.windows(epoch) for share in window.shares]
    return [key for share in shares for key in share.clip_keys()]


def draw():
    return np.random.default_rng().permutation(6)


def fail():
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("order", "part"),
    [
        ([0, 6], "has the index 6, but the training list has the utterances 0 to 5"),
        ([0, -1], "has the index -1"),
        ([0.0, 1.0], r"returned an array of shape \(2,\) and type float64"),
        ([True, False], "type bool"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ([], r"shape \(0,\)"),
        (None, r"shape \(\) and type object"),
        (draw, "Draw an order with asdf.runs.seeds.generator"),
        (
            fail,
            r"Listed.order\(1\) failed: KeyError: 'no such thing' \(.*test_training_plan.py, line",
        ),
    ],
)
def test_what_is_no_order_is_refused_with_the_name_of_its_class(order, part):
    with pytest.raises(AsdfError, match=part) as caught:
        Orders(listed(e1=order))
    assert str(caught.value).startswith(
        "recipe.sampler: tests.unit.data.test_training_plan.Listed.order"
    )


def test_all_epochs_have_the_same_number_of_turns():
    orders = Orders(listed(e1=[0, 1, 2], e2=[0, 1]))
    with pytest.raises(AsdfError, match=r"order\(2\) has 2 turns, but order\(1\) has 3"):
        orders.of(2)


@pytest.mark.parametrize(
    ("base", "misspelt", "missing"),
    [("Sampler", "orders", "order"), ("GroupedSampler", "group", "groups")],
)
def test_a_sampler_that_lacks_its_method_is_refused(tmp_path, base, misspelt, missing):
    name = f"sampler_without_{missing}"
    (tmp_path / f"{name}.py").write_text(
        f"from asdf.data.samplers import {base}\n\n\n"
        f"class Mine({base}):\n    def {misspelt}(self, epoch=1):\n        return [0]\n"
    )
    settings = Sections()
    settings.recipe.sampler = f"{name}.Mine"
    with pytest.raises(UsageError, match=f"{name}.Mine does not implement {missing}, which Sa"):
        find_sampler(settings, tmp_path)


def test_the_turns_before_a_turn_are_counted_by_utterance():
    assert earlier_turns(np.array([4, 1, 4, 4, 1, 0])).tolist() == [0, 0, 1, 2, 1, 0]
    assert earlier_turns(np.arange(5)[::-1]).tolist() == [0] * 5


def test_a_second_turn_in_an_epoch_has_a_clip_of_its_own():
    orders = Orders(listed(e1=[4, 4, 1, 4, 1], e2=[0, 1, 2, 3, 4]))
    plan = TrainingPlan(orders.size, 2, orders=orders)
    keys = clip_keys(plan, 1)
    # The last, a single one, has a filler: the clip before it once more.
    assert len(set(keys[:5])) == 5 and keys[3] == keys[5]
    assert [key for key in keys if key[0] == 1] == [(1, 4), (1, 1)]
    assert all(draws > 10**9 for draws, _ in set(keys) - {(1, 4), (1, 1)})
    assert [window.epoch_size for window in plan.windows(2)] == [5, 5, 5]
    second = clip_keys(plan, 2)
    assert second[:5] == [(2, index) for index in range(5)]


def test_ranks_share_the_turns_of_a_sampler():
    orders = Orders(listed(e1=[5, 5, 3, 3, 3, 0, 5, 1]))
    alone = TrainingPlan(8, 4, orders=orders)
    expected = [share.clip_keys() for window in alone.windows(1) for share in window.shares]
    ranks = [TrainingPlan(8, 2, 1, 2, rank, orders=orders) for rank in (0, 1)]
    shared = [[s.clip_keys() for w in plan.windows(1) for s in w.shares] for plan in ranks]
    both = [first + second for first, second in zip(*shared, strict=True)]
    assert both == expected
    # From the middle: the same clips as without a stop.
    rest = [share.clip_keys() for window in alone.windows(1, 4) for share in window.shares]
    assert rest == expected[1:]


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


def padding_of(turns) -> float:
    padded = sum(len(rows) * turns.samples_N[rows].max() for rows in minibatches(turns))
    padding = 1 - turns.samples_N.sum() / padded
    said = describe_groups(turns, settings_of().lengths)
    assert f"{100 * padding:.1f} % of their samples are padding" in said
    return padding


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
