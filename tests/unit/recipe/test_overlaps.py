"""What evaluation sets share with training sets is a warning."""

from pathlib import Path

import numpy as np

from asdf.recipe.declared_corpora import Corpus
from asdf.recipe.used_sets import find_overlaps
from asdf.settings.sections import Recipe
from asdf.trials.trial_list import TrialList


def recipe_of(training: tuple[str, ...], evaluation: tuple[str, ...]) -> Recipe:
    return Recipe(training_sets=training, evaluation_sets=evaluation, validation_sets=("v",))


def trials(name: str, ids: list[str], folder: Path) -> TrialList:
    return TrialList(ids, np.zeros(len(ids), np.int8), name=name, folder=folder)


def test_recordings_in_both(tmp_path: Path) -> None:
    lists = [
        trials("t", ["a.wav", "b.wav", "c.wav"], tmp_path),
        trials("e", ["./b.wav", "c.wav", "d.wav"], tmp_path),
        trials("v", ["a.wav"], tmp_path),
        trials("other", ["a.wav"], tmp_path / "elsewhere"),
    ]
    chosen = recipe_of(("t",), ("e", "other"))
    assert find_overlaps(lists, chosen, {}) == [
        "e shares 2 recordings with the training set t: results on them are not test results",
        "v shares 1 recording with the training set t: results on them are not test results",
    ]
    # Then a validation set may be the rest of a training set.
    chosen.leave_out = ("attack", "A01")
    assert len(find_overlaps(lists, chosen, {})) == 1


def test_corpora_that_share_speech(tmp_path: Path) -> None:
    """Also where a recipe has a name of its own for one, and although no list was read."""
    corpora = {"mine": Corpus(reader="wavefake", folder="x"), "v": Corpus("v.txt")}
    chosen = recipe_of(("mine", "asvspoof19"), ("in-the-wild+diffssd:test", "asvspoof21-la:eval"))
    (sentence,) = find_overlaps([], chosen, corpora)
    shared = "shares speech with the training set wavefake: both have speech of LJSpeech (accord"
    assert sentence.startswith(f"diffssd:test {shared}")
