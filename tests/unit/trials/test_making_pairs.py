"""Pairs that are made of a list's columns."""

from __future__ import annotations

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.recipe import Corpus
from asdf.trials.making_pairs import make_pairs
from asdf.trials.trial_list import TrialList

IDS = [f"{name}.wav" for name in "abcdefgh"]
LABELS = np.array([1, 1, 0, 0, 0, 0, 0, 1], np.int8)
SPEAKERS = ["S1", "S1", "S1", "S2", "S1", "S1", "S1", "S3"]
ATTACKS = ["-", "-", "A1", "A1", "A2", "A2", "A3", "-"]


def mine() -> TrialList:
    columns = {"speaker": SPEAKERS, "attack": ATTACKS}
    return TrialList(IDS, LABELS, columns=columns, name="mine")


def test_recordings_are_paired_with_a_genuine_one_of_the_speaker() -> None:
    made = make_pairs(mine(), "genuine:speaker")
    # S2 has no genuine recording, and S3 no other one.
    assert list(made.trials.ids) == ["a.wav", "b.wav", "c.wav", "e.wav", "f.wav", "g.wav"]
    assert made.left_out == 2
    assert made.trials.labels.tolist() == [1, 1, 0, 0, 0, 0]
    references = made.trials.columns["reference"]
    assert references[:2] == ["b.wav", "a.wav"] and set(references) == {"a.wav", "b.wav"}
    assert made.trials.references is not None
    assert list(made.trials.references.paths) == references


def test_spoofs_are_paired_with_one_of_their_attack_and_one_of_another() -> None:
    made = make_pairs(mine(), "same:attack")
    attack_of = dict(zip(IDS, ATTACKS, strict=True))
    # The only recording of A3 has no other one of its attack.
    assert made.trials.labels.tolist() == [1, 0] * 4 and made.left_out == 4
    for index, label in enumerate(made.trials.labels.tolist()):
        tested = made.trials.recording(index)
        reference = made.trials.columns["reference"][index]
        assert made.trials.ids[index] == f"{tested}|{reference}"
        assert tested != reference
        assert (attack_of[tested] == attack_of[reference]) == bool(label)
        assert attack_of[reference] != "-"
    assert list(made.trials.recordings()) == [name for name in IDS[2:6] for _ in range(2)]


def test_the_same_list_has_the_same_pairs() -> None:
    first = make_pairs(mine(), "same:attack").trials
    assert list(first.ids) == list(make_pairs(mine(), "same:attack").trials.ids)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("same", "give 'genuine:COLUMN' or 'same:COLUMN'"),
        ("other:attack", "give 'genuine:COLUMN' or 'same:COLUMN'"),
        ("same:codec", "mine has no column 'codec'. It has speaker, attack"),
    ],
)
def test_what_is_no_way_of_making_pairs_says_so(how: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_pairs(mine(), how)


def test_a_list_without_two_of_a_kind_is_refused() -> None:
    trials = mine().select(np.array([2, 4, 6]))
    with pytest.raises(AsdfError, match="no recording of mine has a partner: check"):
        make_pairs(trials, "same:attack")


def test_a_corpus_makes_them_and_says_what_is_left_out(tmp_path) -> None:
    rows = zip(IDS, LABELS.tolist(), SPEAKERS, ATTACKS, strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,speaker,attack", *lines]))
    reading = Corpus("list.csv", pairs="same:attack").read_with_notes("mine", tmp_path)
    assert list(reading.utterances.ids) == list(make_pairs(mine(), "same:attack").trials.ids)
    assert reading.utterances.path(0) == tmp_path / "c.wav"
    assert "4 of 8 recordings have no other" in reading.notes[0]
