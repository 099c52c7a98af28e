"""Turns, windows and shares: the arithmetic that makes a run independent of how it is divided."""

import numpy as np
import pytest

from asdf.data.training_plan import TrainingPlan, minibatch_per_process
from asdf.errors import UsageError
from asdf.settings.sections import Network


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
                        assert set(share.utterances.tolist()) <= set(windows[0].utterances.tolist())


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
    assert last[0].utterances.tolist() == last[1].utterances.tolist()
    alone = list(TrainingPlan(5, 4, synchronised=True).windows(1))[-1].shares[0]
    assert (len(alone.utterances), alone.counted) == (2, 1)


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
    [(10, 4, "do: 8 and 12"), (25, 8, "do: 24 and 32"), (3, 4, "does: 4"), (7, 2, "do: 6 and 8")],
)
def test_a_global_minibatch_that_does_not_divide_is_refused(size, ranks, nearest):
    with pytest.raises(UsageError) as caught:
        minibatch_per_process(Network(global_minibatch_size=size), ranks)
    assert str(caught.value) == (
        f"network.global_minibatch_size = {size} does not divide by the {ranks} processes of this "
        f"run. The nearest that {nearest}. Or start another number of processes."
    )
