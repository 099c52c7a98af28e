"""The project's samplers: whose turns, how many, and in which epoch."""

from collections import Counter

import numpy as np
import pytest

from asdf.data.sampler_orders import build_sampler
from asdf.data.samplers import GroupedSampler, divide_turns, indices_by
from asdf.data.training_plan import TrainingPlan
from asdf.errors import UsageError
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList, join

A = ("-", "-", "-", "A01", "A01", "A01", "A01", "A02", "A02", "A03")
FIRST = TrialList([f"{i}.flac" for i in range(10)], [a == "-" for a in A], columns={"attack": A})
SECOND = TrialList(["x", "y", "z"], [1, 0, 0], columns={"attack": ["-", "A01", ""]})


def joined() -> TrialList:
    return join([named(FIRST, "first"), named(SECOND, "second")])


def named(part: TrialList, name: str) -> TrialList:
    return TrialList(part.ids, part.labels, columns=part.columns, name=name)


def build(sampler: str, utterances: TrialList, seed: int = 0, **recipe):
    settings = Sections()
    settings.recipe.training_sets = ("first", "second")
    for name, value in {"sampler": sampler, "seed": seed, **recipe}.items():
        setattr(settings.recipe, name, value)
    return build_sampler(settings, utterances, None)


def turns(sampler, values, epochs=(1,)) -> Counter:
    """How many turns each of the trials' `values` has."""
    return Counter(values[i] for epoch in epochs for i in sampler.order(epoch).tolist())


def test_by_default_an_epoch_is_the_permutation_that_it_always_was():
    sampler = build("shuffled", joined(), seed=5)
    for epoch in (1, 2, 70):
        assert np.array_equal(sampler.order(epoch), TrainingPlan(13, 4, seed=5).order(epoch))
    # Written down: a run of an earlier version goes on in this order.
    expected = [10, 6, 1, 8, 11, 2, 9, 0, 5, 12, 4, 7, 3]
    assert build("shuffled", joined()).order(1).tolist() == expected


@pytest.mark.parametrize("epoch", [1, 2, 9])
def test_both_classes_have_as_many_turns(epoch):
    # Ten utterances: five turns for the three bona fide ones, and five for the seven spoofs.
    sampler = build("balanced_classes", FIRST)
    assert turns(sampler, FIRST.labels.tolist(), [epoch]) == {1: 5, 0: 5}
    assert len(sampler.order(epoch)) == 10
    assert sampler.describe() == (
        "10 turns per epoch: 5 of the 3 of bona fide, 5 of the 7 of spoof"
    )


def test_half_of_the_turns_are_bona_fide_and_attacks_share_the_rest():
    utterances = joined()
    sampler = build("balanced_attacks", utterances)
    corpora = utterances.corpora()
    groups = [f"{a} {c}" for a, c in zip(utterances.columns["attack"], corpora, strict=True)]
    counted = turns(sampler, groups, range(1, 11))
    assert counted["- first"] + counted["- second"] == pytest.approx(65, abs=5)
    spoofs = {name: count for name, count in counted.items() if name[0] != "-"}
    # A01 of one corpus is not that of the other; a spoof of no known attack is a group as well.
    assert set(spoofs) == {"A01 first", "A02 first", "A03 first", "A01 second", " second"}
    assert max(spoofs.values()) - min(spoofs.values()) <= 10
    assert sum(spoofs.values()) == 130 - counted["- first"] - counted["- second"]


def test_corpora_have_as_many_turns_or_as_their_weights_say():
    utterances = joined()
    even = turns(build("balanced_corpora", utterances), utterances.corpora())
    assert even == {"first": 7, "second": 6}
    sampler = build("weighted_corpora", utterances, set_weights=(0.2, 0.8))
    assert turns(sampler, utterances.corpora()) == {"first": 3, "second": 10}


def test_within_a_group_everyone_has_a_turn_before_anyone_has_another():
    sampler = build("balanced_classes", FIRST, seed=3)
    seen = Counter(dict.fromkeys(range(3, 10), 0))
    for epoch in range(1, 30):
        for index in sampler.order(epoch).tolist():
            if index >= 3:
                seen[index] += 1
        assert max(seen.values()) - min(seen.values()) <= 1
    # In an epoch of its own right: the five spoofs' turns of the second are the rest of the first
    # permutation, and the beginning of the next one.
    first, second = ({i for i in sampler.order(e).tolist() if i >= 3} for e in (1, 2))
    assert len(first) == len(second) == 5 and set(range(3, 10)) - first <= second


@pytest.mark.parametrize(
    "name", ["shuffled", "balanced_classes", "balanced_attacks", "balanced_corpora"]
)
def test_an_epoch_follows_from_seed_and_epoch_alone(name):
    sampler = build(name, joined(), seed=1)
    later = sampler.order(7)
    sampler.order(2)
    assert np.array_equal(sampler.order(7), later)
    assert np.array_equal(build(name, joined(), seed=1).order(7), later)
    assert not np.array_equal(sampler.order(8), later)
    assert not np.array_equal(build(name, joined(), seed=2).order(7), later)


def test_turns_are_divided_by_the_largest_remainders():
    assert divide_turns(10, [1, 1, 1]) == [4, 3, 3]
    assert divide_turns(100, [0.5, 0.25, 0.25]) == [50, 25, 25]
    assert divide_turns(7, [5, 3, 1]) == [4, 2, 1]  # 3.89, 2.33, 0.78
    assert divide_turns(1, [1, 3]) == [0, 1]
    for size in range(1, 40):
        assert sum(divide_turns(size, [0.1] * 7)) == size


def test_a_group_of_no_turns_leaves_the_others_theirs():
    sampler = build("weighted_corpora", joined(), set_weights=(1e-9, 1))
    assert set(turns(sampler, joined().corpora())) == {"second"}


def test_indices_by_value_are_in_the_order_of_the_values():
    by_value = indices_by(["b", "a", "b", "c", "a"])
    assert {name: part.tolist() for name, part in by_value.items()} == {
        "b": [0, 2],
        "a": [1, 4],
        "c": [3],
    }
    assert list(by_value) == ["b", "a", "c"]
    some = indices_by(["b", "a", "b", "c", "a"], np.array([3, 4, 1]))
    assert {name: part.tolist() for name, part in some.items()} == {"c": [3], "a": [4, 1]}


def test_a_joined_list_knows_the_corpus_of_each_trial():
    inner = join([named(FIRST, "a:b"), named(SECOND, "c")])
    assert inner.corpora() == ["a:b"] * 10 + ["c"] * 3
    both = join([named(SECOND, "x"), inner])
    assert both.corpora() == ["x"] * 3 + ["a:b+c"] * 13
    assert both.select(np.array([14, 0])).corpora() == ["a:b+c", "x"]
    assert named(SECOND, "own").corpora() == ["own"] * 3


@pytest.mark.parametrize(
    ("sampler", "recipe", "part"),
    [
        ("weighted_corpora", {}, "a weight for each of the 2 recipe.training_sets; .* has 0"),
        ("weighted_corpora", {"set_weights": (1.0,)}, r"recipe\.set_weights has 1\."),
        (
            "weighted_corpora",
            {"set_weights": (1.0, 2.0), "training_sets": ("first", "third")},
            "has utterances of first, second, and recipe.training_sets names first, third",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(sampler, recipe, part):
    with pytest.raises(UsageError, match=part):
        build(sampler, joined(), **recipe)


def test_attacks_that_are_not_known_cannot_be_balanced():
    plain = TrialList(["a", "b"], [1, 0], columns={"speaker": ["s", "t"]})
    with pytest.raises(UsageError, match=r"no column 'attack' \(its columns: speaker\)"):
        build("balanced_attacks", plain)


def test_groups_without_utterances_or_weight_are_refused():
    with pytest.raises(UsageError, match="no utterance of the group 'bona fide'"):
        build("balanced_classes", TrialList(["a"], [0]))

    class Nobody(GroupedSampler):
        def groups(self):
            return []

    with pytest.raises(UsageError, match=r"Nobody has no group of utterances"):
        Nobody(Sections(), FIRST)
