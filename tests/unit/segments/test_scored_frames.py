"""Files of scores per frame, and references of spoofed parts."""

import json
from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.segments import (
    Segment,
    Timed,
    read_frame_scores,
    read_reference,
    spoofed_parts_of,
    write_rttm,
)
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList

ENTRY = {"name": "a.flac", "hop_s": 0.02, "duration_s": 0.05, "scores": [1.5, -2, 0]}


def written(path: Path, *entries: object) -> Path:
    path.write_text(json.dumps({"recordings": entries}))
    return path


def test_json_states_everything(tmp_path):
    (recording,) = read_frame_scores(written(tmp_path / "f.json", ENTRY))
    assert (recording.name, recording.hop_s, recording.duration_s) == ("a.flac", 0.02, 0.05)
    assert recording.scores.tolist() == [1.5, -2, 0]


def test_text_has_a_frame_per_line(tmp_path):
    path = tmp_path / "frames.txt"
    # WeDefense writes the score of spoof and a label behind that of bona fide.
    path.write_text("a 0 1.5 -1.5 1\na 1 -2 2 0\nb 0 0.25\n")
    first, second = read_frame_scores(path, 0.02)
    assert (first.name, first.scores.tolist(), first.hop_s) == ("a", [1.5, -2], 0.02)
    assert (second.name, second.scores.tolist(), second.duration_s) == ("b", [0.25], None)
    with pytest.raises(UsageError, match="give --hop"):
        read_frame_scores(path)
    with pytest.raises(UsageError, match="longer than 0 s"):
        read_frame_scores(path, 0)


@pytest.mark.parametrize(
    "line", ["a 2 1", "a 0 1", "a x 1", "a 1 nan", "a 1 x", "a 1", "b 1 0.5"], ids=str
)
def test_frames_that_do_not_follow_each_other_are_named(tmp_path, line):
    (tmp_path / "frames.txt").write_text(f"a 0 1.5\n{line}\n")
    with pytest.raises(AsdfError, match=r"frames\.txt, line 2"):
        read_frame_scores(tmp_path / "frames.txt", 0.02)


@pytest.mark.parametrize(
    "change",
    [
        {"scores": [float("nan")]},
        {"scores": [[1]]},
        {"scores": "x"},
        {"hop_s": 0},
        {"duration_s": -1},
        {"duration_s": None},
    ],
    ids=str,
)
def test_entries_that_do_not_fit_are_refused(tmp_path, change):
    with pytest.raises(AsdfError, match="not frame scores"):
        read_frame_scores(written(tmp_path / "f.json", {**ENTRY, **change}))


def test_other_json_is_refused(tmp_path):
    path = tmp_path / "f.json"
    for text in ("[]", "{", '{"recordings": [1]}', "[" * 100_000):
        path.write_text(text)
        with pytest.raises(AsdfError, match="not frame scores"):
            read_frame_scores(path)
    with pytest.raises(AsdfError, match="is repeated"):
        read_frame_scores(written(path, ENTRY, ENTRY))
    with pytest.raises(AsdfError, match="Check the path"):
        read_frame_scores(tmp_path / "none.json")


def test_every_file_of_spoofed_parts_is_a_reference(tmp_path):
    parts = (Segment(0.16, 0.48),)
    table = TrialList(
        ["x/a.flac", "b"], np.array([0, 1]), columns={"spoofed_s": ["0.16-0.48", "-"]}
    )
    write_trials(tmp_path / "trials.tsv", table)
    write_rttm(tmp_path / "rttm", {"a": Timed(parts, 0.64), "b": Timed((), 1.0)})
    (tmp_path / "had.txt").write_text("a 0-0.16-T/0.16-0.48-F/0.48-0.64-T 0\nb 0-1-T 1\n")
    arrays = {"a": np.array(["1", "0", "0", "1"]), "b": np.array(["1"] * 7)}
    np.save(tmp_path / "x_seglab_0.16.npy", arrays, allow_pickle=True)
    durations_s = {}
    for name in ("trials.tsv", "rttm", "had.txt", "x_seglab_0.16.npy"):
        reference = read_reference(tmp_path / name)
        assert spoofed_parts_of(reference.trials) == [parts, ()]
        assert reference.trials.index_of("other/a.flac") == 0
        durations_s[name] = dict(reference.durations_s)
    assert durations_s == {
        "trials.tsv": {},
        "rttm": {"a": 0.64, "b": 1.0},
        "had.txt": {"a": 0.64, "b": 1.0},
        "x_seglab_0.16.npy": {"a": 0.64, "b": 1.12},
    }


def test_numbers_with_underscores_are_refused(tmp_path):
    text = tmp_path / "frames.txt"
    text.write_text("a 0 0.5\na 1 1_0.5\n")
    with pytest.raises(AsdfError, match="line 2: expected 'RECORDING FRAME SCORE'"):
        read_frame_scores(text, 0.02)
    saved = tmp_path / "frames.json"
    entry = {"name": "a", "hop_s": 0.02, "duration_s": 0.04, "scores": [0.5, "1_0.5"]}
    saved.write_text(json.dumps({"recordings": [entry]}))
    with pytest.raises(AsdfError, match="are not a row of finite numbers"):
        read_frame_scores(saved)
