"""A recording in pieces gets the result of the Detector, whoever forms the batches."""

from __future__ import annotations

import numpy as np
import pytest

import asdf
from asdf.errors import AsdfError, UsageError
from asdf.scoring.whole_recording import Outcome
from tests.unit.conftest import small_settings, sound, write_small_network


def make_detector(folder, mode: str) -> asdf.Detector:
    settings = small_settings(max_evaluation_utterance_length_in_samples=6000)
    settings.sad.mode = mode
    return asdf.Detector(write_small_network(folder / "network.pt", settings), "cpu", threads=1)


def waveform(samples: int) -> np.ndarray:
    """A recording with pauses, which are no digital silence."""
    made = sound(samples).astype(np.float32)
    made[samples // 3 : samples // 2] *= 1e-3
    return made


def score_in_pieces(detector, recording, **options):
    scoring = detector.pipeline
    pieces = scoring.cut(recording, **options)
    # Backwards, and one at a time: batches are the caller's.
    scores = [scoring.score([piece])[0] for piece in reversed(pieces.all)][::-1]
    return scoring.conclude(pieces, scores, "a name")


def same(result, expected) -> None:
    for name in ("seconds", "seconds_scored", "windows", "remark", "judged", "verdict"):
        assert getattr(result, name) == getattr(expected, name), name
    assert result.raw == pytest.approx(expected.raw, abs=3e-6)
    assert (result.lowest is None) == (expected.lowest is None)
    if result.lowest:
        assert result.lowest.start_s == expected.lowest.start_s
        assert result.lowest.score == pytest.approx(expected.lowest.score, abs=3e-6)


@pytest.mark.parametrize("mode", ["off", "on"])
@pytest.mark.parametrize("samples", [1000, 6000, 20001])
def test_whole_recordings_trials_and_windows(tmp_path, mode, samples):
    detector = make_detector(tmp_path, mode)
    recording = waveform(samples)
    result, windows = score_in_pieces(detector, recording, window=(0.25, 0.1))
    same(result, detector.score_whole(recording, 16000))
    assert result.name == "a name"
    expected = detector.score_over_time(recording, 0.25, 0.1, sample_rate=16000)
    assert [(w.start_s, w.end_s) for w in windows] == [(w.start_s, w.end_s) for w in expected]
    assert [w.score for w in windows] == pytest.approx([w.score for w in expected], abs=3e-6)
    trial, none = score_in_pieces(detector, recording, whole=False)
    same(trial, detector.score_trial(recording, 16000))
    assert none == []


def test_pieces_of_one_length_fill_a_batch(tmp_path):
    scoring = make_detector(tmp_path, "off").pipeline
    pieces = scoring.cut(waveform(20001))
    assert [(piece.start, piece.end) for piece in pieces.scored] == [
        (0, 6000),
        (6000, 12000),
        (12000, 18000),
        (14001, 20001),
    ]
    lengths = {scoring.batch_length(piece) for piece in pieces.scored}
    assert len(lengths) == 1
    # A short one is repeated up to the minimum of 4,000 samples.
    short = scoring.cut(waveform(1000)).scored[0]
    assert scoring.batch_length(short) <= 4000 < scoring.batch_length(pieces.scored[0])
    size = scoring.scorer.batch_size(lengths.pop())
    assert [
        len(batch.trials) for batch in scoring.scorer.plan_batches(np.full(2 * size, 6000))
    ] == [size, size]


def test_a_recording_in_memory_is_not_copied(tmp_path):
    recording = waveform(20001)
    pieces = make_detector(tmp_path, "off").pipeline.cut(recording, window=(0.25, 0.1))
    assert all(np.shares_memory(piece.waveform, recording) for piece in pieces.all)


def test_what_has_no_score_is_refused(tmp_path):
    scoring = make_detector(tmp_path, "off").pipeline
    pieces = scoring.cut(waveform(5000))
    with pytest.raises(AsdfError, match="not a finite number"):
        scoring.conclude(pieces, [Outcome(float("nan"))], "a name")
    with pytest.raises(UsageError, match="this network hears the first 6,000 samples"):
        scoring.cut(waveform(5000), window=(1.0, 0.5))
