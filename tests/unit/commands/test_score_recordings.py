"""What files, folders and lists stand for."""

import pytest

from asdf.commands.score_recordings import find_recordings
from asdf.errors import UsageError


@pytest.fixture
def tree(tmp_path):
    for name in (
        "b/2.flac",
        "b/1.WAV",
        "a.mp3",
        "a.M4A",
        "b/._1.WAV",
        "b/notes.txt",
        "b/c/3.opus",
        "cover.jpg",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def names(recordings, base):
    return [str(recording.path.relative_to(base)) for recording in recordings]


def test_a_folder_is_searched_to_the_bottom(tree):
    assert names(find_recordings([str(tree)]), tree) == [
        "a.M4A",
        "a.mp3",
        "b/1.WAV",
        "b/2.flac",
        "b/c/3.opus",
    ]


def test_named_twice_is_scored_once(tree):
    recordings = find_recordings(
        [str(tree / "b" / "2.flac"), str(tree / "b"), str(tree / "cover.jpg")]
    )
    assert names(recordings, tree) == ["b/2.flac", "b/1.WAV", "b/c/3.opus", "cover.jpg"]


def test_lists_of_paths_and_lists_with_labels(tree):
    (tree / "plain.lst").write_text("b/2.flac\n\n/elsewhere/x 1.wav\n")
    (tree / "labelled.txt").write_text("b/1.WAV 1\nb/2.flac 0\n")
    plain = find_recordings([str(tree / "plain.lst")])
    assert [str(recording.path) for recording in plain] == [
        str(tree / "b/2.flac"),
        "/elsewhere/x 1.wav",
    ]
    assert {recording.label for recording in plain} == {None}
    labelled = find_recordings([str(tree / "labelled.txt")])
    assert [(recording.name, recording.label) for recording in labelled] == [
        ("b/1.WAV", 1),
        ("b/2.flac", 0),
    ]
    assert names(labelled, tree) == ["b/1.WAV", "b/2.flac"]
    moved = find_recordings([str(tree / "labelled.txt")], tree / "other")
    assert names(moved, tree) == ["other/b/1.WAV", "other/b/2.flac"]


def test_mistakes_are_found_before_anything_is_scored(tree):
    (tree / "empty.txt").touch()
    (tree / "bad.txt").write_text("a.wav 1\nb.wav 2\n")
    (tree / "image.txt").write_bytes(b"\xff\xfe\x00\xd8")
    (tree / "nothing").mkdir()
    for name, message in {
        "empty.txt": "is empty",
        "bad.txt": "line 2",
        "image.txt": "a NUL character",
        "nothing": "no audio in the folder",
        "missing.wav": "there is no file or folder",
        "x" * 300: "cannot look for .*x…xxx.*: File name too long. Check the path.",
    }.items():
        with pytest.raises(UsageError, match=message):
            find_recordings([str(tree / "a.mp3"), str(tree / name)])
