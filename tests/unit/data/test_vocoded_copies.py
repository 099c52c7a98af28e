"""Which bona fide utterances are copied: evenly, by the seed, and none of the spoofs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.data.sampler_orders import add_vocoded_copies, describe_copies, draw_copies
from asdf.errors import AsdfError
from asdf.settings.sections import Vocoding
from asdf.trials.trial_list import TrialList

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
    with pytest.raises(AsdfError, match="mine has 10 utterances, none of them bona fide: voc"):
        add_vocoded_copies(spoofs, Vocoding(THREE), 0)
