"""What is advised where a run does not fit: each change has the peak of the run that it makes."""

from dataclasses import replace

import pytest

from asdf.memory.advice import list_advice
from asdf.memory.case import GIB, OUTSIDE_ALLOCATOR, Case, Gpu, scoring_memory
from asdf.memory.training_step import TrainingMemory, scoring_peak, training_memory
from tests.unit.memory.test_training import settings_of


def case_of(minibatch: int, interval: int = 1, **front_end: object) -> Case:
    settings = settings_of("SSL_ASP", **front_end)
    settings.network.minibatch_size = minibatch
    settings.network.optimizer_step_interval = interval
    return Case(settings, "tiny")


def gpu_with(peak: int) -> Gpu:
    """Return a GPU that a run of `peak` bytes just fits."""
    return Gpu("Small GPU", "cpu", peak + OUTSIDE_ALLOCATOR)


def advice(case: Case, gpu: Gpu, training: TrainingMemory | None = None) -> list[str]:
    scoring = scoring_peak(case, scoring_memory(case), training)
    first, *lines = list_advice(case, gpu, training, scoring)
    assert first.startswith("warning: that does not fit.")
    return lines


def gibibytes(peak: int) -> str:
    return f"{(peak + OUTSIDE_ALLOCATOR) / GIB:.1f} GiB"


@pytest.mark.slow
def test_the_largest_part_of_the_minibatch_that_fits_is_advised():
    training = training_memory(case_of(4))
    peaks = {parts: training_memory(case_of(4 // parts, parts)).peak for parts in (2, 4)}
    assert training.peak > peaks[2] > peaks[4]
    for parts, size in ((2, 2), (4, 1)):
        lines = advice(case_of(4), gpu_with(peaks[parts]), training)
        words = f"network.minibatch_size={size} network.optimizer_step_interval={parts}"
        assert f"  {words}: {gibibytes(peaks[parts])}, which fits" in lines
    # Where nothing fits, the smallest says how much there would have to be.
    lines = advice(case_of(4), gpu_with(peaks[4] - 1), training)
    words = "network.minibatch_size=1 network.optimizer_step_interval=4"
    assert f"  {words}: {gibibytes(peaks[4])}" in lines


@pytest.mark.slow
def test_each_change_has_the_peak_of_a_run_with_it():
    training = training_memory(case_of(4))
    frozen = training_memory(case_of(4, frozen=True)).peak
    recomputed = training_memory(case_of(4, gradient_checkpointing=True)).peak
    assert frozen < recomputed < training.peak
    lines = advice(case_of(4), gpu_with(frozen), training)
    assert f"  front_end.frozen=True: {gibibytes(frozen)}, which fits" in lines
    assert f"  front_end.gradient_checkpointing=True: {gibibytes(recomputed)}" in lines
    fits = advice(case_of(4), gpu_with(recomputed), training)
    assert f"  front_end.gradient_checkpointing=True: {gibibytes(recomputed)}, which fits" in fits


def test_a_training_that_fits_gets_no_advice():
    training = training_memory(case_of(4))
    assert not [
        line
        for line in advice(case_of(4), gpu_with(training.peak), training)
        if "front_end" in line
    ]
    # Nor does one that does not take place.
    assert not [line for line in advice(case_of(4), gpu_with(0)) if "front_end" in line]


def test_the_longest_recording_or_the_batches_of_scoring_are_to_be_smaller():
    case = case_of(4)
    assert scoring_memory(case).worst.utterances == 1
    [line] = advice(case, gpu_with(0))
    assert line.startswith("a lower network.max_evaluation_utterance_length_in_samples")

    case.settings.network.max_evaluation_utterance_length_in_samples = 16000
    case.settings.network.eval_minibatch_size_factor = 16.0
    halved = replace(case, settings=settings_of("SSL_ASP"))
    halved.settings.network.max_evaluation_utterance_length_in_samples = 16000
    halved.settings.network.eval_minibatch_size_factor = 8.0
    peak = scoring_peak(halved, scoring_memory(halved), None)
    [line] = advice(case, gpu_with(peak))
    assert line == f"  network.eval_minibatch_size_factor=8.0: {gibibytes(peak)}, which fits"


def test_scoring_is_measured_in_the_precision_of_the_settings():
    case = case_of(4)
    plain = scoring_memory(case).worst.activations
    case.settings.computing.scoring_precision = "fp32"
    assert scoring_memory(case).worst.activations == plain
    case.settings.computing.scoring_precision = "bf16"
    # A network this small holds its norms in float32 beside what they are of in bf16.
    assert 1.1 < scoring_memory(case).worst.activations / plain < 1.4
