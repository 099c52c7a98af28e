"""What a recipe's corpora and paths mean, and which of them the chosen stages need."""

from pathlib import Path

import pytest

from asdf.errors import AsdfError, UsageError
from asdf.recipe.corpora import Corpus, check_classes, find_corpus, scores_only, sets_in_use
from asdf.recipe.folders import folders_of
from asdf.settings.sections import Paths, Sections


def settings(start: int = 0, end: int = 3, resume="auto", validation=("v",)) -> Sections:
    made = Sections()
    made.recipe.training_sets, made.recipe.evaluation_sets = ("t1", "t2"), ("v", "e")
    made.recipe.validation_sets = validation
    made.recipe.start_stage, made.recipe.end_stage = start, end
    made.network.resume_epoch = resume
    return made


@pytest.mark.parametrize(
    ("chosen", "sets"),
    [
        (settings(), "t1 t2 v e"),
        (settings(1, 1), "t1 t2 v"),
        (settings(1, 1, validation=None), "t1 t2 v e"),
        (settings(1, 1, validation=()), "t1 t2"),
        (settings(2, 3), "v e"),
        (settings(3, 3), ""),
        (settings(1, 1, resume=-4), "v"),  # only scores epoch 4
    ],
)
def test_the_sets_that_the_stages_read(chosen, sets):
    assert sets_in_use(chosen) == sets.split()
    assert scores_only(chosen) == (chosen.network.resume_epoch == -4)


def test_a_corpus_in_either_format(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "list.txt").write_text("x/a.wav 1\n")
    (tmp_path / "in" / "protocol.txt").write_text("S U1 - A01 spoof\n")
    own = Corpus("list.txt", "in").read("own", tmp_path)
    assert own.path(0) == tmp_path / "in" / "x" / "a.wav" and own.name == "own"
    la = Corpus("protocol.txt", "in", audio="flac").read("la", tmp_path)
    assert la.path(0) == tmp_path / "in" / "flac" / "U1.flac" and la.attacks == ["A01"]


def test_an_unknown_corpus_comes_with_the_nearest():
    corpora = {"asvspoof19": Corpus("x"), "demo": Corpus("y")}
    assert find_corpus("demo", corpora) is corpora["demo"]
    with pytest.raises(UsageError, match=r"no corpus 'asvspof19'\. Did you mean 'asvspoof19'\?"):
        find_corpus("asvspof19", corpora)
    with pytest.raises(UsageError, match=r"no corpus 'zzz'\. It knows asvspoof19, demo\."):
        find_corpus("zzz", corpora)


def read(tmp_path: Path, name: str, labels: str):
    (tmp_path / name).write_text("".join(f"{i}.wav {label}\n" for i, label in enumerate(labels)))
    return Corpus(name).read(name, tmp_path)


def test_both_classes_are_needed_over_all_training_sets_and_in_each_scored_one(tmp_path):
    t1, t2, v, e = (read(tmp_path, *row) for row in (("t1", "00"), ("t2", "11"), ("v", "01"), ("e", "00")))
    check_classes([t1, t2, v], settings(1, 1))
    with pytest.raises(AsdfError, match=r"the list t1 has 2 utterances, none of them bona fide: training needs both"):
        check_classes([t1, v], settings(1, 1))
    check_classes([t1, v], settings(0, 0))  # to be measured only
    with pytest.raises(AsdfError, match=r"the list e .* none of them bona fide: an EER needs both"):
        check_classes([v, e], settings(2, 3))


def test_folders_are_relative_to_the_recipe_and_each_other(tmp_path):
    folders = folders_of(Paths("../out", "/data", "a/b", "sad"), tmp_path / "recipe")
    assert folders.output == tmp_path / "out" and folders.database == Path("/data")
    assert folders.networks == tmp_path / "out" / "a" / "b" / "networks" and folders.sad == tmp_path / "out" / "sad"
    assert folders.scores("epoch.3.pt", "dev") == folders.system / "scores" / "epoch.3" / "dev.txt"
    assert folders.results == folders.system / "results"


def test_weights_are_relative_to_the_recipe_too(tmp_path):
    folders = folders_of(Paths("out", "data"), tmp_path)
    assert folders.weights("w/xlsr.pt") == str(tmp_path / "w" / "xlsr.pt")
    assert folders.weights("/w/xlsr.pt") == "/w/xlsr.pt" and folders.weights(None) is None
    assert folders.weights("torchaudio:WAV2VEC2_BASE") == "torchaudio:WAV2VEC2_BASE"


@pytest.mark.parametrize(("paths", "name"), [(Paths(None, "x"), "output"), (Paths("x", None), "database")])
def test_a_folder_that_is_not_set(tmp_path, paths, name):
    with pytest.raises(UsageError, match=rf"paths\.{name}_folder is not set.*paths\.{name}_folder=/your/folder"):
        folders_of(paths, tmp_path)
