"""Lists whose trials name reference recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.recipe import Corpus
from asdf.trials.copied_trials import Copies, append_copies
from asdf.trials.lists import check_files, read_list
from asdf.trials.reference_files import check_references, distinct_references
from asdf.trials.references import read_models
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList, bare_name, join

PAIRS = """path,label,reference,asv_label
wav/a.flac,1,wav/r1.flac,target
wav/a.flac,0,wav/r2.flac,nontarget
wav/b.flac,0,wav/r1.flac;wav/r2.flac,spoof
"""


def _read(folder: Path, text: str, name: str = "pairs.csv") -> TrialList:
    path = folder / name
    path.write_text(text)
    return read_list(path, folder, "pairs")


def test_a_recording_may_be_tested_against_several_references(tmp_path: Path) -> None:
    trials = _read(tmp_path, PAIRS)
    assert list(trials.ids) == [
        "wav/a.flac|wav/r1.flac",
        "wav/a.flac|wav/r2.flac",
        "wav/b.flac|wav/r1.flac;wav/r2.flac",
    ]
    assert [trials.path(index) for index in range(3)] == [
        tmp_path / "wav/a.flac",
        tmp_path / "wav/a.flac",
        tmp_path / "wav/b.flac",
    ]
    assert trials.references is not None
    assert trials.references.of(2) == ["wav/r1.flac", "wav/r2.flac"]
    assert trials.references.lines.tolist() == [2, 3, 4]
    assert trials.columns["asv_label"] == ["target", "nontarget", "spoof"]


def test_names_stay_where_each_recording_is_tested_once(tmp_path: Path) -> None:
    trials = _read(tmp_path, "path,label,reference\na.flac,1,r.flac\nb.flac,0,r.flac\n")
    assert list(trials.ids) == ["a.flac", "b.flac"]
    assert trials.path(1) == tmp_path / "b.flac"


def test_the_same_pair_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    text = "path,label,reference\na.flac,1,r.flac\na.flac,0,s.flac\n./a.flac,1,r.flac\n"
    with pytest.raises(AsdfError, match=r"line 4: .*is already in line 2"):
        _read(tmp_path, text)


def test_references_are_recordings_of_the_list_models_or_paths(tmp_path: Path) -> None:
    text = "path,label,reference\nwav/a.flac,1,b\nwav/b.flac,0,spk1\nwav/c.flac,0,other/x.wav\n"
    (tmp_path / "list.csv").write_text(text)
    (tmp_path / "enrolment.txt").write_text("spk1 e/1.flac,e/2.flac\nspk2 e/3.flac\n")
    corpus = Corpus("list.csv", references="enrolment.txt")
    trials = corpus.read("mine", tmp_path)
    assert trials.references is not None
    of_trials = [trials.references.of(index) for index in range(3)]
    assert of_trials == [["wav/b.flac"], ["e/1.flac", "e/2.flac"], ["other/x.wav"]]
    # What the list says stays in the column.
    assert trials.columns["reference"] == ["b", "spk1", "other/x.wav"]


def test_models_of_a_list_that_names_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a.flac 1\n")
    (tmp_path / "enrolment.txt").write_text("spk1 e/1.flac\n")
    with pytest.raises(UsageError, match="the list has no column 'reference'"):
        Corpus("list.txt", references="enrolment.txt").read("mine", tmp_path)


def test_a_name_that_two_recordings_share_is_no_name(tmp_path: Path) -> None:
    text = "path,label,reference\nx/a.flac,1,a\ny/a.flac,0,x/a.flac\n"
    trials = _read(tmp_path, text)
    assert trials.references is not None
    assert trials.references.of(0) == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spk1 a.flac\nspk1 b.flac\n", "line 2: the model 'spk1' already has a line"),
        ("spk1 a.flac\nspk2\n", "line 2: 'spk2' is not 'MODEL RECORDING,RECORDING'"),
        ("spk1 a;b.flac\n", "line 1: .*without semicolons"),
    ],
)
def test_wrong_lines_of_models_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "models.txt"
    path.write_text(text)
    with pytest.raises(AsdfError, match=message):
        read_models(path)


def test_models_may_have_blanks_in_paths_behind_a_tab(tmp_path: Path) -> None:
    path = tmp_path / "models.txt"
    path.write_text("my speaker\tone call.wav,two.wav\nspk2 a.wav b.wav\n")
    assert read_models(path) == {"my speaker": "one call.wav;two.wav", "spk2": "a.wav;b.wav"}


def test_missing_references_are_named_by_list_and_line(tmp_path: Path) -> None:
    (tmp_path / "wav").mkdir()
    for name in ("a.flac", "b.flac", "r1.flac"):
        (tmp_path / "wav" / name).touch()
    trials = _read(tmp_path, PAIRS + "wav/b.flac,0,,spoof\n")
    check_files([trials])
    with pytest.raises(AsdfError) as raised:
        check_references([trials])
    text = str(raised.value)
    assert "1 of 4 trials of pairs have no reference:\n    line 5, wav/b.flac" in text
    assert "2 references of pairs are not in" in text
    assert "line 3, wav/a.flac: wav/r2.flac" in text
    assert "line 4, wav/b.flac: wav/r2.flac" in text
    (tmp_path / "wav/r2.flac").touch()
    check_references([_read(tmp_path, PAIRS)])


def test_a_list_without_references_is_refused_where_they_are_taken(tmp_path: Path) -> None:
    trials = TrialList(["a.flac"], [1], name="plain")  # type: ignore[arg-type]
    with pytest.raises(AsdfError, match="plain has no column 'reference'"):
        check_references([trials])


def test_distinct_references_of_joined_lists_with_copies(tmp_path: Path) -> None:
    first = _read(tmp_path, PAIRS)
    second_folder = tmp_path / "second"
    second_folder.mkdir()
    second = _read(second_folder, "path,label,reference\nc.flac,1,wav/r1.flac\n")
    plain = TrialList(["d.flac"], [0], name="plain", folder=tmp_path)  # type: ignore[arg-type]
    joined = join([first, second, plain])
    copied = append_copies(joined, Copies(np.array([3]), np.array([0]), ["lpc"]))
    assert copied.path(5) == second_folder / "c.flac"
    chosen = copied.select(np.array([5, 2, 0, 4])).packed()
    distinct = distinct_references(chosen)
    paths = [distinct.recordings.path(index) for index in range(len(distinct.recordings))]
    assert paths == [
        second_folder / "wav/r1.flac",
        tmp_path / "wav/r1.flac",
        tmp_path / "wav/r2.flac",
    ]
    assert [distinct.of(trial).tolist() for trial in range(4)] == [[0], [1, 2], [1], []]
    assert [chosen.path(trial) for trial in range(4)] == [
        second_folder / "c.flac",
        tmp_path / "wav/b.flac",
        tmp_path / "wav/a.flac",
        tmp_path / "d.flac",
    ]


def test_a_written_table_of_pairs_is_read_back(tmp_path: Path) -> None:
    trials = _read(tmp_path, PAIRS)
    write_trials(tmp_path / "trials.tsv", trials)
    again = read_list(tmp_path / "trials.tsv", tmp_path)
    assert list(again.ids) == list(trials.ids)
    assert [again.path(index) for index in range(3)] == [trials.path(index) for index in range(3)]


def test_bare_names_of_pairs_have_both_names() -> None:
    assert bare_name("flac/a.flac|enrol/r.wav") == "a|r"
