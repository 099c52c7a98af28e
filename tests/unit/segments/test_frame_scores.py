"""Scores of frames: the table that a run writes, and files in JSON and text."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.segments import frame_table, read_frame_scores, read_frame_table, write_frame_table

ENTRY = {"name": "a.flac", "hop_s": 0.02, "duration_s": 0.05, "scores": [1.5, -2, 0]}
ARRAYS = {
    "ids": np.array(["a"]),
    "offsets": np.array([0, 2]),
    "scores": np.zeros(2, np.float32),
    "hop_s": np.float64(0.02),
    "durations_s": np.array([0.04]),
}


@pytest.fixture
def table():
    scores = [np.array([1.5, -2], np.float32), np.array([0.25], np.float32)]
    return frame_table(["flac/a.flac", "ä b"], scores, 0.02, np.array([0.03, 0.02]))


def test_a_table_is_read_as_it_was_written(table, tmp_path):
    path = tmp_path / "demo.frames.npz"
    write_frame_table(path, table)
    first = path.read_bytes()
    read = read_frame_table(path)
    assert read.ids == ["flac/a.flac", "ä b"]
    assert read.offsets.tolist() == [0, 2, 3]
    assert [read.of_trial(index).tolist() for index in range(2)] == [[1.5, -2], [0.25]]
    assert (read.hop_s, read.durations_s.tolist()) == (0.02, [0.03, 0.02])
    write_frame_table(path, read)
    assert path.read_bytes() == first
    one, two = read_frame_scores(path)
    assert (one.name, one.scores.tolist(), one.hop_s) == ("flac/a.flac", [1.5, -2], 0.02)
    assert (two.name, two.duration_s) == ("ä b", 0.02)


def test_scores_that_are_not_finite_are_not_written(table, tmp_path):
    table.scores[2] = np.nan
    with pytest.raises(AsdfError, match=r"1 of the 3 scores of frames .* first: of ä b"):
        write_frame_table(tmp_path / "demo.npz", table)
    assert not (tmp_path / "demo.npz").exists()


def test_json_states_everything(tmp_path):
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"recordings": [ENTRY]}))
    (recording,) = read_frame_scores(path)
    assert (recording.name, recording.hop_s, recording.duration_s) == ("a.flac", 0.02, 0.05)
    assert recording.scores.tolist() == [1.5, -2, 0]


def test_text_has_a_frame_per_line(tmp_path):
    path = tmp_path / "frames.txt"
    # WeDefense writes the score of spoof and a label behind that of bona fide.
    path.write_text("a 0 1.5 -1.5 1\na 1 -2 2 0\nb 0 0.25\n")
    first, second = read_frame_scores(path, 0.02)
    assert (first.name, first.scores.tolist(), first.hop_s) == ("a", [1.5, -2], 0.02)
    assert (second.name, second.scores.tolist(), second.duration_s) == ("b", [0.25], None)
    for hop_s in (None, 0):
        with pytest.raises(UsageError, match="give --hop"):
            read_frame_scores(path, hop_s)


@pytest.mark.parametrize(
    "line", ["a 2 1", "a 0 1", "a x 1", "a 1 nan", "a 1 x", "a 1 1_0.5", "a 1", "b 1 0.5"], ids=str
)
def test_frames_that_do_not_follow_each_other_are_named(tmp_path, line):
    (tmp_path / "frames.txt").write_text(f"a 0 1.5\n{line}\n")
    with pytest.raises(AsdfError, match=r"frames\.txt, line 2: expected 'RECORDING FRAME SCORE'"):
        read_frame_scores(tmp_path / "frames.txt", 0.02)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ({"scores": [float("nan")]}, "not finite"),
        ({"scores": [[1]]}, "not finite"),
        ({"scores": "x"}, "not finite"),
        ({"scores": [0.5, "1_0.5"]}, "not finite"),
        ({"hop_s": 0}, "not finite"),
        ({"duration_s": -1}, "not finite"),
        ({"duration_s": None}, "ValueError"),
        ("[]", "TypeError"),
        ("{", "JSONDecodeError"),
        ('{"recordings": [1]}', "TypeError"),
        ("[" * 100_000, "RecursionError"),
        (json.dumps({"recordings": [ENTRY, ENTRY]}), "is repeated"),
        (None, "No such file"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_other_json_is_refused(tmp_path, text, reason):
    path = tmp_path / "f.json"
    if isinstance(text, dict):
        text = json.dumps({"recordings": [{**ENTRY, **text}]})
    if text is not None:
        path.write_text(text)
    with pytest.raises(AsdfError, match=reason):
        read_frame_scores(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": np.array([0, 3])},
        {"offsets": np.array([2, 0])},
        {"scores": np.array([0, np.inf])},
        {"hop_s": np.float64(0)},
        {"ids": np.array([["a"]], object)},
        {"durations_s": np.zeros(2)},
    ],
)
def test_tables_that_do_not_fit_are_refused(changes, tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, **ARRAYS)
    assert read_frame_table(path).ids == ["a"]
    np.savez(path, **{**ARRAYS, **changes})
    with pytest.raises(AsdfError, match=r"a\.npz as frame scores of a run \(ValueError"):
        read_frame_table(path)


def damaged(path: Path, save) -> None:
    save(path, ids=np.array(["a"] * 100))
    content = bytearray(path.read_bytes())
    # The method of compression, in the directory at the end.
    place = content.rindex(b"PK\x01\x02") + 10
    if save is np.savez_compressed:
        # The first byte of the compressed array, behind its name and an extra field.
        place = 30 + sum(struct.unpack("<HH", content[26:30]))
    content[place] = 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.write_bytes(b"PK nothing"), "BadZipFile"),
        (lambda path: damaged(path, np.savez), "NotImplementedError"),
        (lambda path: damaged(path, np.savez_compressed), "error: Error -3"),
    ],
)
def test_other_archives_are_refused(tmp_path, make, reason):
    make(tmp_path / "bad.npz")
    with pytest.raises(AsdfError, match=rf"frame scores of a run \({reason}"):
        read_frame_table(tmp_path / "bad.npz")
