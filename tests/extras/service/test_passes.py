"""Recordings that wait share forward passes, in turns; a failure is that of its pass alone."""

import threading
import time

import numpy as np
import pytest

import asdf
from asdf.errors import AsdfError
from asdf.extras.service.counts import Counts
from asdf.extras.service.passes import SharedPasses
from asdf.scoring.pipeline import Pipeline
from tests.conftest import PATIENCE_S
from tests.extras.service.conftest import wait_for
from tests.unit.conftest import sound
from tests.unit.scoring.test_score_list import threads_of


class Gate:
    """The scoring of a detector, whose passes wait until they are let through.

    Attributes:
        passes: the lengths of the recordings that each pass held a piece of, in order.
    """

    def __init__(self, detector: asdf.Detector) -> None:
        self._pipeline: Pipeline = detector.pipeline
        self._open = threading.Semaphore(0)
        self.passes: list[list[int]] = []
        self.failing = False

    def __getattr__(self, name):
        return getattr(self._pipeline, name)

    def score(self, pieces):
        self.passes.append([piece.start for piece in pieces])
        assert self._open.acquire(timeout=PATIENCE_S)
        if self.failing:
            raise AsdfError("the device is gone")
        return self._pipeline.score(pieces)

    def let_through(self, count: int = 1) -> None:
        self._open.release(count)


@pytest.fixture
def gate(detector):
    return Gate(detector)


@pytest.fixture
def counts():
    return Counts()


@pytest.fixture
def passes(gate, counts):
    shared = SharedPasses(gate, counts)
    yield shared
    shared.close()
    gate.let_through(100)


def waveform(samples: int, seed: int = 0) -> np.ndarray:
    return sound(samples, seed).astype(np.float32)


def occupy(gate, passes):
    """Put a recording into a pass that does not end, so that others gather behind it."""
    first = passes.submit(gate.cut(waveform(4000)))
    wait_for(lambda: len(gate.passes) == 1)
    return first


def test_the_time_left_is_that_of_what_waits(gate, passes):
    """A pass of one recording is known; three recordings of the same length take three times it."""
    assert passes.seconds_left is None
    first = passes.submit(gate.cut(waveform(16000)))
    gate.let_through()
    first.result(PATIENCE_S)
    wait_for(lambda: passes.seconds_left == 0)
    took_s = passes._took_s
    assert passes._scored == 16000 and took_s > 0
    waiting = [passes.submit(gate.cut(waveform(16000, seed))) for seed in range(3)]
    wait_for(lambda: passes.seconds_left == pytest.approx(3 * took_s))
    gate.let_through(3)
    for future in waiting:
        future.result(PATIENCE_S)
    wait_for(lambda: passes.seconds_left == 0)


def test_all_that_wait_with_one_length_are_in_one_pass(gate, passes, detector):
    first = occupy(gate, passes)
    waiting = [passes.submit(gate.cut(waveform(9000, seed)), f"{seed}") for seed in range(5)]
    other = passes.submit(gate.cut(waveform(7000, 9)))
    gate.let_through(3)
    results = [future.result(PATIENCE_S)[0] for future in waiting]
    assert gate.passes == [[0], [0] * 5, [0]]
    assert [result.name for result in results] == ["0", "1", "2", "3", "4"]
    for seed, result in enumerate(results):
        alone = detector.score_whole(waveform(9000, seed), 16000)
        assert result.score == pytest.approx(alone.score, abs=1e-6)
    assert first.result(PATIENCE_S)
    assert other.result(PATIENCE_S)


def test_a_long_recording_does_not_hold_up_a_short_one(gate, passes):
    size = gate.scorer.batch_size(16000)
    occupy(gate, passes)
    # Twice as many windows of a second as a pass holds, and one that comes later.
    long = passes.submit(gate.cut(waveform(2 * size * 16000, 1)))
    short = passes.submit(gate.cut(waveform(16000, 2)))
    gate.let_through(2)
    short.result(PATIENCE_S)
    assert not long.done()
    assert len(gate.passes[1]) == size
    gate.let_through(2)
    assert long.result(PATIENCE_S)[0].windows == 2 * size


def test_a_pass_holds_no_more_than_a_batch(gate, passes):
    size = gate.scorer.batch_size(16000)
    occupy(gate, passes)
    futures = [passes.submit(gate.cut(waveform(16000, seed))) for seed in range(2 * size + 1)]
    gate.let_through(4)
    for future in futures:
        future.result(PATIENCE_S)
    assert [len(starts) for starts in gate.passes] == [1, size, size, 1]


def test_whoever_has_gone_costs_no_pass(gate, passes):
    occupy(gate, passes)
    gone = passes.submit(gate.cut(waveform(9000)))
    there = passes.submit(gate.cut(waveform(16000)))
    assert gone.cancel()
    gate.let_through(2)
    there.result(PATIENCE_S)
    assert len(gate.passes) == 2


def test_a_failure_is_that_of_its_pass_and_the_next_ones_work(gate, passes):
    gate.failing = True
    first = occupy(gate, passes)
    later = passes.submit(gate.cut(waveform(9000)))
    gate.let_through()
    with pytest.raises(AsdfError, match="the device is gone"):
        first.result(PATIENCE_S)
    assert not passes.is_working
    gate.failing = False
    gate.let_through()
    assert later.result(PATIENCE_S)[0].windows == 1
    assert passes.is_working


def test_what_waits_is_counted(gate, passes, counts):
    def number(name: str) -> float:
        lines = counts.as_text().decode().splitlines()
        return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])

    assert (number("asdf_ready"), passes.pass_s) == (0, 0)
    first = occupy(gate, passes)
    second = passes.submit(gate.cut(waveform(2 * 16000)))
    assert number("asdf_pieces_waiting") == 3
    time.sleep(0.05)
    assert 0.05 <= passes.pass_s < PATIENCE_S
    gate.let_through()
    first.result(PATIENCE_S)
    wait_for(lambda: len(gate.passes) == 2)
    assert number("asdf_ready") == 1
    assert 0.05 <= number("asdf_queue_age_seconds") < PATIENCE_S
    gate.let_through()
    second.result(PATIENCE_S)
    wait_for(lambda: number("asdf_pieces_waiting") == 0)


def test_what_waits_at_the_end_is_cancelled(gate, passes):
    occupy(gate, passes)
    waiting = passes.submit(gate.cut(waveform(9000)))
    passes.close()
    assert waiting.cancelled()
    late = passes.submit(gate.cut(waveform(9000)))
    assert late.cancelled()
    before = threading.active_count()
    gate.let_through()
    until = time.monotonic() + PATIENCE_S
    while threading.active_count() >= before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() < before


def test_passes_are_computed_in_one_thread(network_file):
    """In which torch caches what cuDNN has chosen for a shape."""
    detector = asdf.Detector(network_file, device="cpu", engine="plain")
    threads = threads_of(detector._scorer._network)
    pieces = detector.pipeline
    passes = SharedPasses(pieces, Counts())
    for length in (5000, 7000, 5000, 6000):
        passes.submit(pieces.cut(waveform(length))).result(PATIENCE_S)
    passes.close()
    assert len(threads) == 4 and len(set(threads)) == 1
    assert threads[0] != threading.get_ident()
