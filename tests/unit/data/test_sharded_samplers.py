"""Epochs by shards: every turn once, few shards open, the same on any number of processes."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from asdf.data.sampler_orders import Orders, build_sampler, check_sampler
from asdf.data.sharded_samplers import describe_shards
from asdf.data.shards import count_open
from asdf.data.training_plan import TrainingPlan
from asdf.errors import UsageError
from asdf.remote import as_path
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList, join


def corpus(name: str, shards: int, size: int, first: int = 0) -> TrialList:
    numbers = range(first, first + shards)
    ids = [f"{number}.tar/{i}.flac" for number in numbers for i in range(size)]
    attacks = ["A01" if i % 4 else "-" for i in range(len(ids))]
    labels = [attack == "-" for attack in attacks]
    columns = {"attack": attacks}
    return TrialList(ids, labels, columns=columns, name=name, folder=Path(name))


WHOLE = join([corpus("first", 20, 12), corpus("second", 10, 6)])


TINY = [7, 1, 6, 8, 2, 4, 5, 3, 0]


def build(sampler="sharded", utterances=WHOLE, seed=0, window=8, **recipe):
    settings = Sections()
    settings.recipe.training_sets = ("first", "second")
    values = {"sampler": sampler, "seed": seed, "shuffle_shards": window, **recipe}
    for name, value in values.items():
        setattr(settings.recipe, name, value)
    return build_sampler(settings, utterances, None)


def read_shards(sampler, epoch=1):
    return sampler.shards.numbers_N[sampler.order(epoch)]


def test_each_utterance_has_a_turn_and_every_epoch_and_seed_another_order():
    orders = [build().order(1), build().order(2), build(seed=1).order(1)]
    for order in orders:
        assert sorted(order.tolist()) == list(range(len(WHOLE)))
    assert np.array_equal(orders[0], build().order(1))
    assert len({order.tobytes() for order in orders}) == 3
    # Written down: a run goes on in this order after an update.
    assert build(utterances=corpus("tiny", 3, 3), window=2).order(1).tolist() == TINY


@pytest.mark.parametrize("epoch", [1, 2, 9])
@pytest.mark.parametrize(
    ("sampler", "recipe"),
    [
        ("sharded", {}),
        ("sharded", {"set_weights": (0.7, 0.3)}),
        ("sharded_classes", {}),
        ("sharded_attacks", {}),
    ],
)
def test_no_more_shards_are_open_than_the_window_has(sampler, recipe, epoch):
    built = build(sampler, **recipe)
    assert sum(built.windows.values()) == 8
    # Within a pass over a group; an epoch of weighted corpora may have the ends of two.
    for name, size in built.windows.items():
        group = next(group for group in built.groups() if group.name == name)
        passed = built._permute(group, np.random.default_rng(epoch))
        assert sorted(passed.tolist()) == sorted(group.utterances.tolist())
        assert count_open(built.shards.numbers_N[passed]).max() <= size
    # What a cache of shards meets: a minibatch reaches over one end of the window at most.
    read = read_shards(built, epoch)
    most = max(len(set(read[start : start + 4].tolist())) for start in range(len(read) - 3))
    assert most <= 4


def test_an_epoch_of_all_utterances_never_opens_a_shard_twice():
    for window in (1, 3, 8, 30, 100):
        read = read_shards(build(window=window))
        assert count_open(read).max() <= min(window, 30)


def test_corpora_are_mixed_by_weight_exactly_and_go_on_from_epoch_to_epoch():
    sampler = build(set_weights=(1.0, 4.0))
    names = np.array(WHOLE.corpora())
    for epoch in (1, 2, 3):
        # 300 turns, in proportion 1 to 4.
        assert Counter(names[sampler.order(epoch)]) == {"first": 60, "second": 240}
    assert sampler.describe() == (
        "300 turns per epoch: 60 of the 240 of first, 240 of the 60 of second; 30 shards, at most "
        "8 open at a time"
    )
    # None has its next turn before all others have had theirs.
    turns = np.concatenate([sampler.order(epoch) for epoch in range(1, 5)])
    first = turns[names[turns] == "first"]
    assert sorted(first.tolist()) == list(range(240))
    second = turns[names[turns] == "second"]
    assert (np.bincount(second)[240:] == 16).all()
    # Mixed throughout: every tenth of the epoch has some of both.
    for part in np.split(names[sampler.order(1)], 10):
        assert 0 < (part == "first").sum() < 15


def test_classes_and_attacks_are_balanced_by_shards():
    labels = WHOLE.labels
    for sampler in ("sharded_classes", "sharded_attacks"):
        assert Counter(labels[build(sampler).order(1)].tolist()) == {0: 150, 1: 150}


def test_any_number_of_processes_takes_the_same_turns_in_the_same_steps():
    def steps(world_size: int, epoch: int, start: int = 0) -> list[list[int]]:
        plans = []
        for rank in range(world_size):
            orders = Orders(build())
            minibatch = 8 // world_size
            plans.append(TrainingPlan(orders.size, minibatch, 1, world_size, rank, orders=orders))
        taken = []
        for windows in zip(*(plan.windows(epoch, start) for plan in plans), strict=True):
            taken.append([])
            for window in windows:
                for share in window.shares:
                    taken[-1] += share.utterances[: share.counted].tolist()
        return taken

    alone = steps(1, 2)
    assert [turn for step in alone for turn in step] == build().order(2).tolist()
    assert [sorted(step) for step in steps(2, 2)] == [sorted(step) for step in alone]
    assert [sorted(step) for step in steps(4, 2)] == [sorted(step) for step in alone]
    # In the middle of an epoch, on two processes: the rest of the steps, as if uninterrupted.
    assert steps(2, 2, start=80) == steps(2, 2)[10:]


def test_what_cannot_be_read_by_shards_is_refused_in_one_message():
    settings = Sections()
    settings.recipe.sampler = "sharded_classes"
    settings.recipe.shuffle_shards = 1
    settings.lengths.minibatch_s = 60.0
    settings.augmentation.mixup_probability = 0.5
    with pytest.raises(UsageError) as raised:
        build_sampler(settings, WHOLE, None)
    message = str(raised.value)
    for name in ("lengths.minibatch_s", "augmentation.mixup_probability", "shuffle_shards = 1 "):
        assert name in message
    assert "divided among 2 groups" in message


def test_weights_that_do_not_fit_are_refused_by_the_samplers_name():
    with pytest.raises(UsageError, match="'sharded' needs a weight for each of the 2"):
        build(set_weights=(1.0,))


def test_the_plan_states_shards_sizes_and_the_quality_of_shuffling(tmp_path):
    utterances = corpus("first", 20, 12)
    utterances = TrialList(utterances.ids, utterances.labels, name="first", folder=tmp_path)
    for number in range(20):
        (tmp_path / f"{number}.tar").write_bytes(b"\0" * 10240 * (1 + number))
    settings = Sections()
    settings.recipe.training_sets = ("first",)
    settings.recipe.sampler = "sharded"
    settings.recipe.shuffle_shards = 4
    checked = check_sampler(settings, [utterances], None)
    assert checked.turns == 240
    shards, sizes, shuffling = describe_shards(checked.orders, 24)
    assert shards == "20 shards, at most 4 open at a time"
    # 10,240 bytes times 1 + ... + 20 = 210, of which the four largest have 74.
    assert sizes.startswith("20 archives of 2.15 MB; those that are open have up to 757.76 kB")
    assert shuffling.startswith("shuffling of 24 turns per step: ")
    # A disk needs no cache.
    assert len(describe_shards(checked.orders, 24, 1e-6)) == 3
    settings.recipe.sampler = "balanced_classes"
    assert describe_shards(check_sampler(settings, [utterances], None).orders, 24) == []


def test_a_cache_that_does_not_hold_the_open_shards_is_said():
    fsspec = pytest.importorskip("fsspec")
    from tests.stores import memory_store

    utterances = corpus("first", 20, 12)
    settings = Sections()
    settings.recipe.training_sets = ("first",)
    settings.recipe.sampler = "sharded"
    settings.recipe.shuffle_shards = 4
    with memory_store() as store:
        system = fsspec.filesystem("memory")
        for number in range(20):
            system.pipe_file(f"{store}/{number}.tar", bytes(10240 * (1 + number)))
        folder = as_path(store)
        utterances = TrialList(utterances.ids, utterances.labels, name="first", folder=folder)
        checked = check_sampler(settings, [utterances], None)
        # The four largest have 74 times 10,240 bytes.
        for cache_gb in (None, 757.76e-6):
            assert len(describe_shards(checked.orders, 24, cache_gb)) == 3
        warning = describe_shards(checked.orders, 24, 757e-6)[2]
    assert warning == (
        "warning: computing.cache_gb = 0.000757 is too small for the 757.76 kB of shards that may "
        "be open at a time: what does not fit is read by ranges. Set computing.cache_gb = 1, or "
        "recipe.shuffle_shards to fewer than 4"
    )
