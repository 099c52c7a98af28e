"""The project's samplers and vocoded copies: whose turns, how many, and in which epoch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.data.sampler_orders import add_vocoded_copies, build_sampler, describe_copies, draw_copies
from asdf.data.samplers import GroupedSampler, divide_turns, indices_by
from asdf.data.training_plan import TrainingPlan
from asdf.errors import AsdfError, UsageError
from asdf.settings.sections import Sections, Vocoding
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
    # A list without spoofs has one group.
    sampler = build("balanced_attacks", FIRST.select(np.arange(3)))
    assert sampler.describe() == "3 turns per epoch: 3 of the 3 of bona fide"


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
    # Among many groups, the log shows these.
    sampler = build("weighted_corpora", joined(), set_weights=(1, 1e-9))
    assert sampler.describe() == "13 turns per epoch: 0 of the 3 of second, 13 of the 10 of first"


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
    ("recipe", "part"),
    [
        ({}, r"each of recipe\.training_sets \(first, second\), .* recipe\.set_weights has 0"),
        ({"set_weights": (1.0,)}, r"recipe\.set_weights has 1, and"),
        (
            {"set_weights": (1.0, 2.0), "training_sets": ("first", "third")},
            r"\(first, third\), .* has 2, and the training list has utterances of first, second",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(recipe, part):
    with pytest.raises(UsageError, match=part):
        build("weighted_corpora", joined(), **recipe)


def test_attacks_that_are_not_known_cannot_be_balanced():
    plain = TrialList(["a", "b"], [1, 0], columns={"speaker": ["s", "t"]})
    with pytest.raises(UsageError, match=r"no column 'attack' \(its columns: speaker\)"):
        build("balanced_attacks", plain)


def test_groups_without_utterances_or_weight_are_refused():
    with pytest.raises(
        UsageError, match=r"the group 'bona fide' of .*BalancedClasses has 0 utterances"
    ):
        build("balanced_classes", TrialList(["a"], [0]))

    class Nobody(GroupedSampler):
        def groups(self):
            return []

    with pytest.raises(UsageError, match=r"Nobody has no group of utterances"):
        Nobody(Sections(), FIRST)


# 30 utterances, every third a spoof.
UTTERANCES = TrialList(
    [f"{number}.flac" for number in range(30)],
    np.array([1, 1, 0] * 10),
    columns={"attack": ["-", "-", "A01"] * 10},
    name="mine",
)
THREE = ("lpc", "phase", "griffin_lim")


def pairs(vocoding: Vocoding, seed: int = 0) -> Counter[tuple[int, str]]:
    """How many copies there are of each source by each vocoder."""
    copies = draw_copies(UTTERANCES, vocoding, seed)
    makers = [copies.vocoders[maker] for maker in copies.makers]
    return Counter(zip(copies.sources.tolist(), makers, strict=True))


def test_without_vocoders_the_list_is_the_same():
    utterances, rows = add_vocoded_copies(UTTERANCES, Vocoding(), 0)
    assert utterances is UTTERANCES
    assert_array_equal(rows, np.arange(30))
    assert describe_copies(utterances) == ""


def test_each_bona_fide_utterance_is_copied_by_one_of_the_vocoders():
    counted = pairs(Vocoding(THREE))
    sources = [source for source, _ in counted]
    assert sorted(sources) == np.flatnonzero(UTTERANCES.labels).tolist()
    assert sorted(Counter(vocoder for _, vocoder in counted).values()) == [6, 7, 7]
    # Not in the order of the list, in which speakers and corpora come one after the other.
    by_source = [vocoder for _, vocoder in sorted(counted)]
    assert by_source != [THREE[position % 3] for position in range(20)]


@pytest.mark.parametrize(
    ("copies", "of_each", "in_all"),
    [(0.5, {0, 1}, 10), (1.25, {1, 2}, 25), (3.0, {3}, 60), (4.0, {4}, 80), (0.001, {0, 1}, 1)],
)
def test_the_number_of_copies(copies, of_each, in_all):
    counted = pairs(Vocoding(THREE, copies))
    sources = Counter()
    for (source, _), number in counted.items():
        sources[source] += number
    assert {sources[source] for source in np.flatnonzero(UTTERANCES.labels)} == of_each
    assert sources.total() == in_all and not sources.keys() & {2, 5, 29}
    copied, _ = add_vocoded_copies(UTTERANCES, Vocoding(THREE, copies), 3)
    assert len(set(copied.ids)) == len(copied)
    # Another vocoder each time, until all have had their turn.
    assert set(counted.values()) == ({1, 2} if copies == 4 else {1})
    by_vocoder = Counter()
    for (_, vocoder), number in counted.items():
        by_vocoder[vocoder] += number
    counts = [by_vocoder[vocoder] for vocoder in THREE]
    assert max(counts) - min(counts) <= np.ceil(copies)


def test_the_copies_follow_from_the_seed():
    assert pairs(Vocoding(THREE, 0.5), 1) == pairs(Vocoding(THREE, 0.5), 1)
    assert pairs(Vocoding(THREE, 0.5), 1) != pairs(Vocoding(THREE, 0.5), 2)


def test_copies_come_after_the_utterances_that_they_are_added_to():
    utterances, rows = add_vocoded_copies(UTTERANCES, Vocoding(THREE), 3)
    assert list(utterances.ids)[:30] == UTTERANCES.ids and len(utterances) == 50
    assert_array_equal(rows[:30], np.arange(30))
    for index in range(30, 50):
        assert utterances.ids[index].endswith(f":{rows[index]}.flac")
        assert utterances.vocoder(index) in THREE and utterances.labels[index] == 0
    counts = utterances.count_vocoded()
    assert describe_copies(utterances) == (
        f"20 are vocoded copies ({counts['lpc']} lpc, {counts['phase']} phase, "
        f"{counts['griffin_lim']} griffin_lim)"
    )


def test_the_spoofs_of_the_corpus_can_be_left_out():
    utterances, rows = add_vocoded_copies(UTTERANCES, Vocoding(THREE, corpus_spoofs=False), 3)
    assert utterances.labels.tolist() == [1] * 20 + [0] * 20
    assert set(utterances.columns["attack"]) == {"-", *(f"vocoded-{name}" for name in THREE)}
    lengths = np.arange(100, 130)[rows]
    for index, length in enumerate(lengths):
        assert utterances.ids[index].split(":")[-1] == f"{length - 100}.flac"


def test_a_list_without_bona_fide_speech_has_nothing_to_copy():
    spoofs = UTTERANCES.select(np.flatnonzero(UTTERANCES.labels == 0))
    with pytest.raises(AsdfError, match="none of the 10 utterances of the list mine is bona fide"):
        add_vocoded_copies(spoofs, Vocoding(THREE), 0)
