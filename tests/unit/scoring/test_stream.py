"""A recording that comes in chunks has the scores of the whole recording, however it is divided."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import asdf
from asdf.audio.sample_rates import StreamResampler, resample
from asdf.errors import UsageError
from asdf.scoring.pipeline import Stream
from asdf.scoring.scored import WindowScore
from tests.unit.conftest import network_settings, sound, write_small_network

TESTS = Path(__file__).parents[2]
SECOND = 16000


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> asdf.Detector:
    """Hears up to 8,000 samples; its network is small, and quick."""
    settings = network_settings(
        network_class="small_networks.Plain",
        min_evaluation_utterance_length_in_samples=4000,
        max_evaluation_utterance_length_in_samples=8000,
    )
    path = tmp_path_factory.mktemp("network") / "plain.pt"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TESTS))
        write_small_network(path, settings)
        return asdf.Detector(path, "cpu", network_folder=TESTS, threshold=0.0)


def chunks(samples: np.ndarray, sizes: Iterable[int]) -> list[np.ndarray]:
    """Cut samples into chunks of the sizes, in turns."""
    parts = []
    start = 0
    sizes = list(sizes)
    while start < len(samples):
        size = sizes[len(parts) % len(sizes)]
        parts.append(samples[start : start + size])
        start += size
    return parts


def run(stream: Stream, parts: Iterable[np.ndarray]) -> list[WindowScore]:
    scores = []
    for part in parts:
        scores += stream.add(part)
    return scores + stream.finish()


@pytest.mark.parametrize("rate", [8000, 16000, 44100, 48000, 7999])
def test_the_samples_are_those_of_the_whole_in_any_chunks(rate: int) -> None:
    waveform = sound(2 * rate + 77).astype(np.float32)
    outputs = []
    for sizes in ([10**6], [1], [160, 0, 5000]):
        resampler = StreamResampler(rate)
        blocks = []
        for part in chunks(waveform, sizes):
            resampler.add(part)
            while (block := resampler.read(3000)) is not None:
                assert len(block) == 3000
                blocks.append(block)
        outputs.append(np.concatenate([*blocks, resampler.read_rest()]))
    assert_allclose(outputs[0], resample(waveform, rate), rtol=0, atol=1e-6)
    for output in outputs[1:]:
        assert_array_equal(output, outputs[0])


def test_a_resampler_holds_what_the_next_block_needs() -> None:
    resampler = StreamResampler(48000)
    for part in chunks(np.zeros(10 * 48000, np.float32), [960]):
        resampler.add(part)
        while resampler.read(1600) is not None:
            pass
        held = sum(map(len, resampler._chunks))
        assert held < 1600 * 3 + 960 + 100


@pytest.mark.parametrize(
    ("samples", "window_s", "hop_s"),
    [
        (5 * SECOND + 123, 0.5, 0.5),
        (2 * SECOND, 0.5, 0.25),
        (2 * SECOND + 1, 0.5, 0.2),
        (8000, 0.5, 0.5),
        (3000, 0.5, 0.25),
    ],
)
def test_the_windows_are_those_of_the_whole_recording(detector, samples, window_s, hop_s):
    waveform = sound(samples).astype(np.float32)
    expected = detector.score_over_time(waveform, window_s, hop_s, sample_rate=SECOND)
    first: list[WindowScore] = []
    for sizes in ([160], [10**6], [1, 7000, 3]):
        stream = detector.stream(SECOND, window_s, hop_s)
        scores = run(stream, chunks(waveform, sizes))
        first = first or scores
        assert scores == first
    spans = [(window.start_s, window.end_s) for window in expected]
    assert [(window.start_s, window.end_s) for window in first] == spans
    scores = [[window.score for window in windows] for windows in (first, expected)]
    assert_allclose(*scores, atol=1e-6)


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_at_its_end_the_score_is_that_of_the_whole_recording(detector, rate):
    waveform = np.concatenate([sound(2 * rate, 1), np.zeros(2 * rate), sound(rate + 99, 2)])
    whole = detector.score_whole(waveform, rate)
    stream = detector.stream(rate, 0.5, 0.5)
    assert stream.score is None
    run(stream, chunks(waveform, [rate // 50]))
    score = stream.score
    assert score is not None and whole.lowest is not None and score.lowest is not None
    assert score == pytest.approx(whole.score, abs=1e-6)
    assert score.lowest.score == pytest.approx(whole.lowest.score, abs=1e-6)
    assert score.lowest.start_s == whole.lowest.start_s
    for name in ("verdict", "threshold", "seconds", "seconds_scored", "windows", "remark"):
        assert getattr(score, name) == getattr(whole, name), name
    assert whole.windows < 11 and "digital silence and do not count" in whole.remark


def test_a_window_is_scored_when_its_samples_are_there(detector: asdf.Detector) -> None:
    waveform = sound(2 * SECOND).astype(np.float32)
    stream = detector.stream(SECOND, 0.5, 0.25)
    assert stream.add(waveform[:7999]) == []
    (first,) = stream.add(waveform[7999:8000])
    assert (first.start_s, first.end_s) == (0.0, 0.5)
    assert stream.score == first.score and stream.score.verdict in ("bona fide", "spoof")
    (second,) = stream.add(waveform[8000:12000])
    assert stream.score == pytest.approx((first.score + second.score) / 2)
    assert (stream.score.seconds, stream.score.seconds_scored) == (0.75, 0.75)
    # At another rate, those that the filter reaches: 7 samples at 8 kHz.
    stream = detector.stream(8000, 0.5, 0.25)
    assert stream.add(waveform[:4007]) == []
    assert len(stream.add(waveform[4007:4009])) == 1


def test_chunks_come_in_all_types_and_are_copied(detector: asdf.Detector) -> None:
    integers = (sound(SECOND) * 32767).astype(np.int16)
    floats = (integers / 32768).astype(np.float32)
    stereo = np.stack([floats, floats], axis=1)
    buffer = floats.copy()
    expected = run(detector.stream(SECOND, 0.5, 0.5), [floats])
    for parts in ([integers], [torch.from_numpy(floats)], [stereo], list(stereo[:, None])):
        assert run(detector.stream(SECOND, 0.5, 0.5), parts) == expected
    stream = detector.stream(SECOND, 0.5, 0.5)
    scores = stream.add(buffer[:5000])
    buffer[:] = 0.5
    assert scores + run(stream, [floats[5000:]]) == expected


def test_mistakes(detector: asdf.Detector) -> None:
    stream = detector.stream(SECOND, 0.5, 0.5)
    for chunk, message in (
        (np.zeros((3, 2, 2)), "is no chunk"),
        (np.zeros((3, 200)), "is no chunk"),
        (np.array([np.nan]), "not finite"),
        (np.array([30000.0]), "full scale of floats is 1"),
        (np.zeros(3, np.uint8), "type uint8"),
    ):
        with pytest.raises(UsageError, match=message):
            stream.add(chunk)
    assert stream.add(np.zeros(0)) == [] and stream.finish() == [] and stream.score is None
    assert stream.finish() == []
    with pytest.raises(UsageError, match="this stream is finished"):
        stream.add(np.zeros(3))
    for arguments in ((None,), (16000, 0.6, 0.5), (16000, 0.25, 0.5), (16000, -1, 0.5), (10,)):
        with pytest.raises(UsageError, match=r"sample_rate|windows of"):
            detector.stream(*arguments)


def test_memory_is_bounded(detector: asdf.Detector) -> None:
    stream = detector.stream(48000, 0.5, 0.25)
    chunk = (0.1 * np.random.default_rng(0).normal(size=4800)).astype(np.float32)
    count = 0
    for _ in range(200):
        count += len(stream.add(chunk))
        held = sum(map(len, stream._resampler._chunks)) + len(stream._cutter._held)
        assert held < 3 * 8000 + 4800 + 8000 + 200
    # The filter reaches beyond the end of the last one.
    assert (count, len(stream.finish())) == ((200 * 1600 - 8000) // 4000, 1)
    assert stream.score is not None and stream.score.windows == count + 1
