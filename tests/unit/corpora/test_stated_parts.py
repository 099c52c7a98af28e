"""A part of a corpus by its name."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from asdf.corpora import parse_part
from asdf.corpora.corpus_names import StatedPart
from asdf.errors import UsageError
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.trials.trial_list import TrialList

ATTACKS = ["-"] * 200 + ["A"] * 600 + ["B"] * 100 + ["C"] * 3
TRIALS = TrialList(
    [f"{index}.wav" for index in range(903)],
    np.array([1] * 200 + [0] * 703),
    columns={"attack": ATTACKS},
    name="x",
)


def test_each_class_and_attack_keeps_its_share():
    part = StatedPart(0.1).of(TRIALS)
    assert Counter(part.columns["attack"]) == {"-": 20, "A": 60, "B": 10, "C": 1}
    assert part.labels.sum() == 20 and part.name == "x"
    # In the order of the list.
    assert [int(name[:-4]) for name in part.ids] == sorted(int(name[:-4]) for name in part.ids)
    assert len(StatedPart(301.0).of(TRIALS)) == 67 + 200 + 33 + 1


def test_the_seed_decides_and_smaller_parts_lie_in_larger_ones():
    small, large = StatedPart(0.1, 3).of(TRIALS), StatedPart(0.3, 3).of(TRIALS)
    assert set(small.ids) < set(large.ids)
    assert set(small.ids) != set(StatedPart(0.1, 4).of(TRIALS).ids)
    # The order of the list does not matter.
    turned = TRIALS.select(np.arange(903)[::-1])
    assert set(StatedPart(0.1, 3).of(turned).ids) == set(small.ids)


def test_names():
    assert parse_part("asvspoof19") == ("asvspoof19", None)
    assert parse_part("asvspoof19~0.1") == ("asvspoof19", StatedPart(0.1))
    assert parse_part("mlaad:de~2000~7") == ("mlaad:de", StatedPart(2000.0, 7))
    for name in ("x~", "x~0", "x~1.5", "x~-1", "x~a", "~0.1", "x~0.1~"):
        with pytest.raises(UsageError, match="how much of the corpus to take"):
            parse_part(name)
    with pytest.raises(UsageError, match="2000 trials were requested of 903"):
        StatedPart(2000.0).of(TRIALS)


def test_a_recipe_knows_parts_of_all_its_corpora(tmp_path):
    lines = [f"{index}.wav {index % 2}\n" for index in range(20)]
    (tmp_path / "train.txt").write_text("".join(lines))
    corpora = {"mine": Corpus("train.txt")}
    corpus = find_corpus("mine~0.5", corpora)
    reading = corpus.read_with_notes("mine~0.5", tmp_path)
    assert reading.utterances.labels.tolist().count(1) == 5 and len(reading.utterances) == 10
    assert reading.utterances.name == "mine~0.5"
    assert reading.notes == ["mine~0.5: 10 of 20 utterances, as its name says"]
    assert find_corpus("asvspoof19~0.1", {}).part == StatedPart(0.1)
    assert set_parts("mine~0.5+mlaad~100", corpora) == ["mine~0.5", "mlaad~100"]
    # A corpus that is called so hides the part.
    corpora["mine~0.5"] = Corpus("other.txt")
    assert find_corpus("mine~0.5", corpora).list == "other.txt"
