"""What files, folders and lists stand for."""

from pathlib import Path

import pytest

from asdf.commands.score_recordings import find_recordings
from asdf.errors import UsageError
from asdf.trials.lists import read_list


@pytest.fixture
def tree(tmp_path):
    names = "b/2.flac b/1.WAV a.mp3 a.M4A b/._1.WAV b/notes.txt b/c/3.opus cover.jpg"
    for name in names.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def names(recordings, base):
    return [str(recording.path.relative_to(base)) for recording in recordings]


def test_a_folder_is_searched_to_the_bottom(tree):
    expected = ["a.M4A", "a.mp3", "b/1.WAV", "b/2.flac", "b/c/3.opus"]
    assert names(find_recordings([str(tree)]), tree) == expected


def test_named_twice_is_scored_once(tree):
    recordings = find_recordings([str(tree / name) for name in ("b/2.flac", "b", "cover.jpg")])
    assert names(recordings, tree) == ["b/2.flac", "b/1.WAV", "b/c/3.opus", "cover.jpg"]


def test_lists_that_contradict_each_other_are_refused(tree):
    for name, label in (("one.txt", 1), ("same.txt", 1), ("other.txt", 0)):
        (tree / name).write_text(f"b/2.flac {label}\n")
    same = [str(tree / name) for name in ("one.txt", "same.txt", "b/2.flac")]
    [only] = find_recordings(same)
    assert only.label == 1
    with pytest.raises(UsageError, match=r"b/2\.flac has both labels"):
        find_recordings([str(tree / "one.txt"), str(tree / "other.txt")])


def test_lists_of_paths_and_lists_with_labels(tree):
    (tree / "plain.lst").write_text("b/2.flac\n\n/elsewhere/x 1.wav\n")
    (tree / "labelled.txt").write_text("b/1.WAV 1\nb/2.flac 0\n")
    plain = find_recordings([str(tree / "plain.lst")])
    assert [each.path for each in plain] == [tree / "b/2.flac", Path("/elsewhere/x 1.wav")]
    assert {recording.label for recording in plain} == {None}
    labelled = find_recordings([str(tree / "labelled.txt")])
    assert [(each.name, each.label) for each in labelled] == [("b/1.WAV", 1), ("b/2.flac", 0)]
    assert names(labelled, tree) == ["b/1.WAV", "b/2.flac"]
    table = "utterance\tlabel\tattack\nb/1.WAV\t1\t-\nb/2.flac\t0\tA01\n"
    (tree / "trials.tsv").write_text(table)
    of_table = find_recordings([str(tree / "trials.tsv")])
    assert [recording.label for recording in of_table] == [1, 0]
    moved = find_recordings([str(tree / "labelled.txt")], tree / "other")
    assert names(moved, tree) == ["other/b/1.WAV", "other/b/2.flac"]


@pytest.mark.parametrize(
    "content",
    [
        'path,label\n"b/1,x.WAV",bonafide\nb/2.flac,spoof\n',
        'file_name,transcription,label\n"b/1,x.WAV","a, b",real\nb/2.flac,c,fake\n',
        'Label,Path\n1,"b/1,x.WAV"\n0,b/2.flac\n',
        'path,label\n"b/1,x.WAV",Genuine\nb/2.flac,Spoof\n',
    ],
)
@pytest.mark.parametrize("name", ["list.csv", "metadata.txt"])
def test_a_csv_of_paths_and_labels_is_a_list(tree, content, name):
    (tree / name).write_text(content)
    recordings = find_recordings([str(tree / name)])
    assert [(each.name, each.label) for each in recordings] == [("b/1,x.WAV", 1), ("b/2.flac", 0)]
    assert names(recordings, tree) == ["b/1,x.WAV", "b/2.flac"]
    trials = read_list(tree / name, tree)
    assert (trials.ids, trials.labels.tolist()) == (["b/1,x.WAV", "b/2.flac"], [1, 0])


def test_only_a_relative_path_is_said_to_be_relative(tree, monkeypatch):
    monkeypatch.chdir(tree)
    with pytest.raises(UsageError) as relative:
        find_recordings(["x.wav"])
    assert str(relative.value) == f"there is no file or folder x.wav in {tree}."
    with pytest.raises(UsageError) as absolute:
        find_recordings([str(tree / "x.wav")])
    assert str(absolute.value) == f"there is no file or folder {tree / 'x.wav'}."


def test_an_address_is_not_taken_for_a_path():
    with pytest.raises(UsageError, match=r"ftp://example\.org/a\.mp3 is an address.*curl -L"):
        find_recordings(["ftp://example.org/a.mp3"])


def test_mistakes_are_found_before_anything_is_scored(tree):
    (tree / "empty.txt").touch()
    (tree / "bad.txt").write_text("a.wav 1\nb.wav 2\n")
    (tree / "image.txt").write_bytes(b"\xff\xfe\x00\xd8")
    (tree / "table.csv").write_text("name,sex\na.wav,f\n")
    (tree / "label.csv").write_text("path,label\na.wav,1\nb.wav,maybe\n")
    (tree / "nothing").mkdir()
    for name, message in {
        "empty.txt": "is empty",
        "bad.txt": "line 2",
        "image.txt": "a NUL character",
        "table.csv": r"no column holds labels.*name \(a.wav\), sex \(f\).*write one path per line",
        "label.csv": "line 3: expected path,label, found 'b.wav,maybe'. Labels are bonafide, .*1",
        "nothing": "has no audio files",
        "missing.wav": "there is no file or folder",
        "x" * 300: "cannot access .*x…xxx.*: File name too long",
    }.items():
        with pytest.raises(UsageError, match=message):
            find_recordings([str(tree / "a.mp3"), str(tree / name)])
