"""Turns of speakers from an RTTM, and the stretches in which each speaks alone."""

from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.segments import MIN_STRETCH_S, Segment, read_speakers, speakers_alone


def write(path: Path, *turns) -> Path:
    lines = [
        f"SPEAKER {name} 1 {start} {duration} <NA> <NA> {speaker} <NA> <NA>\n"
        for name, start, duration, speaker in turns
    ]
    path.write_text("".join(lines))
    return path


def test_speakers_by_recording_in_the_order_of_their_first_turns(tmp_path):
    path = write(
        tmp_path / "a.rttm",
        ("call", 0.0, 3.0, "bob"),
        ("call", 2.5, 2.0, "ann"),
        ("other", 0.0, 1.0, "bob"),
        ("call", 6.0, 1.0, "bob"),
    )
    speakers = read_speakers(path)
    assert list(speakers) == ["call", "other"]
    bob, ann = speakers["call"]
    assert bob.name == "bob" and bob.alone == (Segment(0.0, 2.5), Segment(6.0, 7.0))
    assert bob.overlapped_s == pytest.approx(0.5)
    assert ann.alone == (Segment(3.0, 4.5),) and ann.end_s == 4.5


def test_nobody_else_speaks_in_a_stretch():
    """Against frames of 10 ms that are counted one by one."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        turns = {}
        frames = {}
        for speaker in "abc"[: rng.integers(1, 4)]:
            starts = rng.integers(0, 900, 6)
            ends = starts + rng.integers(1, 120, 6)
            spans = np.stack([starts, ends], axis=1) / 100
            turns[speaker] = [Segment(*span) for span in spans.tolist()]
            frames[speaker] = np.zeros(1100, bool)
            for start, end in zip(starts, ends, strict=True):
                frames[speaker][start:end] = True
        for known in speakers_alone(turns):
            others = [own for name, own in frames.items() if name != known.name]
            busy = np.any(others, axis=0) if others else np.zeros(1100, bool)
            alone = frames[known.name] & ~busy
            edges = np.flatnonzero(np.diff(np.r_[0, alone.astype(int), 0]))
            runs = edges.reshape(-1, 2)
            long = runs[runs[:, 1] - runs[:, 0] >= 100 * MIN_STRETCH_S] / 100
            assert len(known.alone) == len(long)
            found = np.reshape(known.alone, (-1, 2))
            np.testing.assert_allclose(found, long, atol=1e-9)
            overlapped = (frames[known.name] & busy).sum() / 100
            assert known.overlapped_s == pytest.approx(overlapped)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("SPEAKER call 1 0.0 1.0 <NA> <NA>", "line 2: expected 'SPEAKER NAME CHANNEL"),
        ("LEXEME call 1 0.0 1.0 <NA> <NA> bob <NA> <NA>", "line 2: expected 'SPEAKER"),
        ("SPEAKER call 1 x 1.0 <NA> <NA> bob <NA> <NA>", "line 2: a turn from nan s"),
        ("SPEAKER call 1 1.0 0 <NA> <NA> bob <NA> <NA>", "line 2: a turn from 1 s to 1 s"),
        ("SPEAKER call 1 -1 2 <NA> <NA> bob <NA> <NA>", "line 2: a turn from -1 s"),
        ("SPEAKER call 1 1 2 <NA> <NA> <NA> <NA> <NA>", "line 2: column 8"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path, line, message):
    path = tmp_path / "a.rttm"
    path.write_text(f"SPEAKER call 1 0.0 1.0 <NA> <NA> ann <NA> <NA>\n{line}\n")
    with pytest.raises(AsdfError, match=message):
        read_speakers(path)


def test_an_rttm_without_turns(tmp_path):
    (tmp_path / "a.rttm").write_text(";; nothing\n")
    with pytest.raises(AsdfError, match="no speaker turns found"):
        read_speakers(tmp_path / "a.rttm")
