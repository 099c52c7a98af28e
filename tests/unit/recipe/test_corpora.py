"""What a recipe's corpora and paths mean, and which of them the chosen stages need."""

import re
import shutil
import tarfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.recipe.declared_corpora import Corpus, find_corpus
from asdf.recipe.used_sets import check_classes, sets_in_use
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.trials.lists import check_files
from asdf.trials.trial_list import TrialList

# training_sets and evaluation_sets of the original framework's wav2vec_aasist recipe
ORIGINAL = """
asvspoof19 mlaad m-ailabs wavefake itw for
asvspoof19-dev asvspoof19-eval asvspoof21-df-progress asvspoof21-df-eval asvspoof21-la-progress
asvspoof21-la-eval for-validation for-testing
"""


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
    assert chosen.network.scores_only == (chosen.network.resume_epoch == -4)


def test_a_corpus_in_either_format(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "list.txt").write_text("x/a.wav 1\n")
    (tmp_path / "in" / "protocol.txt").write_text("S U1 - A01 spoof\n")
    own = Corpus("list.txt", "in").read("own", tmp_path)
    assert own.path(0) == tmp_path / "in" / "x" / "a.wav" and own.name == "own"
    la = Corpus("protocol.txt", "in", audio="flac").read("la", tmp_path)
    assert la.path(0) == tmp_path / "in" / "flac" / "U1.flac" and la.columns["attack"] == ["A01"]


def test_the_corpora_of_the_field_are_known_but_a_recipes_own_come_first():
    own = {"asvspoof19": Corpus("my_list.txt")}
    assert find_corpus("asvspoof19", own) is own["asvspoof19"]
    for name in ORIGINAL.split():
        assert find_corpus(name, {}) == Corpus(reader=name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my-corpsu", "no corpus 'my-corpsu'. Did you mean 'my-corpus'?"),
        ("asvspof19", "no corpus 'asvspof19'. Did you mean 'asvspoof19'?"),
        ("zzz", "no corpus 'zzz'. Known corpora: my-corpus, wild, add22, add23, "),
        ("asvspoof21-df", "published numbers are of asvspoof21-df:eval"),
        ("wild", "no corpus 'in-the-wlid'. Did you mean 'in-the-wild'"),
    ],
)
def test_an_unknown_corpus_comes_with_the_nearest_of_both_kinds(name, message):
    corpora = {"my-corpus": Corpus("x"), "wild": Corpus(reader="in-the-wlid")}
    with pytest.raises(UsageError, match=re.escape(message)):
        find_corpus(name, corpora)


def test_a_corpus_has_a_list_or_a_reader():
    for wrong in ({}, {"list": "x.txt", "reader": "in-the-wild"}):
        with pytest.raises(UsageError, match="either a list or a reader"):
            Corpus(**wrong)


WILD = "file,speaker,label\n0.wav,A B,spoof\n1.wav,C,bona-fide\n"


@pytest.mark.parametrize("folder", ["", "downloads/itw"])
def test_a_corpus_of_the_field_in_its_usual_folder_or_in_ones_own(
    tmp_path, caplog, monkeypatch, folder
):
    path = tmp_path / (folder or "In-the-Wild") / "release_in_the_wild"
    path.mkdir(parents=True)
    (path / "meta.csv").write_text(WILD)
    # A run that another test did may have taken it away.
    monkeypatch.setattr(LOG, "propagate", True)
    caplog.set_level("INFO", LOG.name)
    utterances = Corpus(reader="in-the-wild", folder=folder).read("my-itw", tmp_path)
    assert utterances.name == "my-itw" and utterances.path(1) == path / "1.wav"
    assert utterances.columns == {"speaker": ["A B", "C"]}
    missing = "19,962 bona fide missing, 11,815 spoof missing"
    message = f"warning: in-the-wild has 2 trials, published 31,779: {missing}"
    assert set(caplog.messages) == {message}


def test_of_many_notes_a_few_are_shown(tmp_path):
    for system in "abcdefg":
        (tmp_path / f"MLAAD/fake/de/{system}").mkdir(parents=True)
        (tmp_path / f"MLAAD/fake/de/{system}/1.wav").touch()
    utterances, notes = Corpus(reader="mlaad:de").read_with_notes("mlaad:de", tmp_path)
    assert len(utterances) == 7 and len(notes) == 6
    assert notes[4] == "fake/de/e has no meta.csv, so no columns from it; recordings: 1"
    assert notes[5] == "and 2 more of the kind: 'python -m asdf corpora mlaad:de FOLDER' lists all"


PROTOCOL = "S1 a - - bonafide\nS2 b - A01 spoof\n"


def test_a_list_gets_columns_from_a_protocol_where_there_is_one(tmp_path):
    (tmp_path / "list.txt").write_text("flac/b.flac 0\nflac/a.flac 1\nflac/c.flac 0\n")
    corpus = Corpus("list.txt", protocol="protocol.txt")
    assert corpus.read("x", tmp_path).columns == {}
    (tmp_path / "protocol.txt").write_text(PROTOCOL)
    trials = corpus.read("x", tmp_path)
    assert trials.ids == ["flac/b.flac", "flac/a.flac", "flac/c.flac"]
    assert trials.columns == {"speaker": ["S2", "S1", ""], "attack": ["A01", "-", ""]}
    (tmp_path / "protocol.txt").write_text(PROTOCOL.replace("- bonafide", "A02 spoof"))
    message = r"flac/a\.flac is bona fide in the list x, and spoof in .*protocol\.txt"
    with pytest.raises(AsdfError, match=message):
        corpus.read("x", tmp_path)


def test_a_protocol_in_a_tar_gives_columns_too(tmp_path):
    (tmp_path / "LA" / "protocols").mkdir(parents=True)
    (tmp_path / "LA" / "protocols" / "p.txt").write_text(PROTOCOL)
    (tmp_path / "list.txt").write_text("LA/flac/b.flac 0\nLA/flac/a.flac 1\n")
    corpus = Corpus("list.txt", protocol="LA/protocols/p.txt")
    unpacked = corpus.read("x", tmp_path).columns
    with tarfile.open(tmp_path / "LA.tar", "w") as tar:
        tar.add(tmp_path / "LA", "LA")
    shutil.rmtree(tmp_path / "LA")
    columns = {"speaker": ["S2", "S1"], "attack": ["A01", "-"]}
    assert corpus.read("x", tmp_path).columns == unpacked == columns
    # What lies there compressed is not there, as for a list without a protocol.
    (tmp_path / "LA.tar").rename(tmp_path / "LA.tar.gz")
    assert corpus.read("x", tmp_path).columns == {}


def read(tmp_path: Path, name: str, labels: str):
    (tmp_path / name).write_text("".join(f"{i}.wav {label}\n" for i, label in enumerate(labels)))
    return Corpus(name).read(name, tmp_path)


def test_both_classes_are_needed_over_all_training_sets_and_in_each_scored_one(tmp_path):
    lists = (("t1", "00"), ("t2", "11"), ("v", "01"), ("e", "00"))
    t1, t2, v, e = (read(tmp_path, *row) for row in lists)
    check_classes([t1, replace(t2, folder=tmp_path / "other"), v], settings(1, 1))
    message = "the list t1 has 2 utterances, none of them bona fide: training needs both"
    with pytest.raises(AsdfError, match=message):
        check_classes([t1, v], settings(1, 1))
    check_classes([t1, v], settings(0, 0))  # to be measured only
    with pytest.raises(AsdfError, match=r"the list e .* none of them bona fide: an EER needs both"):
        check_classes([v, e], settings(2, 3))


def test_what_is_in_two_training_sets_would_be_trained_on_twice(tmp_path):
    t1, t2 = (read(tmp_path, name, labels) for name, labels in (("t1", "01"), ("t2", "010")))
    message = "2 utterances are both in t1 and in t2, and would be trained on twice"
    with pytest.raises(AsdfError, match=message):
        check_classes([t1, t2], settings(1, 1))
    check_classes([t1, replace(t2, folder=tmp_path / "elsewhere")], settings(1, 1))
    check_classes([t1, replace(t2, name="v")], settings(1, 1))  # trained on and scored


@pytest.mark.parametrize(
    ("ids", "folder"),
    [
        (["LA/b.flac", "c"], ""),
        (["../LA/a.flac", "x"], "DF"),
        ([".//b.flac", "y/../a.flac2"], "LA"),
    ],
)
def test_a_recording_in_two_training_sets_is_found_however_it_is_spelled(tmp_path, ids, folder):
    labels = np.array([0, 1], np.int8)
    inner = TrialList(["a.flac", "b.flac"], labels, name="t1", folder=tmp_path / "LA")
    other = TrialList(ids, labels, name="t2", folder=tmp_path / folder)
    with pytest.raises(AsdfError, match="1 utterances are both in t1 and in t2"):
        check_classes([inner, other], settings(1, 1))


def test_lists_of_different_folders_are_not_spelled_out_to_be_compared(tmp_path):
    labels = np.arange(100_000, dtype=np.int8) % 2
    ids = [f"{index}.flac" for index in range(100_000)]
    lists = [TrialList(ids, labels, name=name, folder=tmp_path / name) for name in ("t1", "t2")]
    tracemalloc.start()
    try:
        check_classes(lists, settings(1, 1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 150 * 100_000


def test_where_the_recordings_of_an_absolute_list_are_looked_for_is_said(tmp_path):
    (tmp_path / "lists").mkdir()
    path = tmp_path / "lists" / "mine.txt"
    path.write_text("a.wav 1\nb.wav 0\n")
    listed = Corpus(str(path)).read("mine", tmp_path / "database")
    where = "including those of a list with an absolute path; folder= changes both"
    with pytest.raises(
        AsdfError, match=rf"below paths\.database_folder, {where}\. Nothing has been"
    ):
        check_files([listed])
