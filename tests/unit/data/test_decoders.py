"""The count of recordings that FFmpeg decoded: right whoever decodes, and said once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from asdf.audio import fallbacks, read_audio
from asdf.data.lengths import measure_lengths
from asdf.data.loaders import BatchLoader, log_fallbacks
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.runs.log import LOG
from asdf.scoring.score_list import build_list_scorer, score_list
from asdf.settings.sections import RawBoost, Sections, SpeechActivity
from asdf.trials.trial_list import TrialList
from tests.recordings import write_recordings
from tests.unit.audio.test_flac import damage

pytest.importorskip("av")

OFF = SpeechActivity()
LENGTHS = np.full(6, 6000)
BY_FFMPEG = (1, 4)


@pytest.fixture
def utterances(tmp_path: Path) -> TrialList:
    """Six recordings; libsndfile refuses two of them."""
    rng = np.random.default_rng(1)
    waveforms = [rng.integers(-3000, 3000, length, dtype=np.int16) for length in LENGTHS]
    utterances = write_recordings(tmp_path, waveforms, suffix="flac")
    for index in BY_FFMPEG:
        damage(utterances.path(index), back=1)
    return utterances


@pytest.fixture
def log() -> Iterator[list[str]]:
    """The lines of the log about FFmpeg."""
    lines: list[str] = []
    handler, level = logging.Handler(), LOG.level
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    handler.addFilter(lambda record: "FFmpeg" in record.getMessage())
    yield lines
    LOG.removeHandler(handler)
    LOG.setLevel(level)


def clips(utterances: TrialList):
    from asdf.data.datasets import TrainingClips

    return TrainingClips(utterances, LENGTHS, 6000, RawBoost(), OFF, 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_counts_each_recording_once(utterances, monkeypatch, workers: int) -> None:
    monkeypatch.setattr("asdf.data.loaders.usable_cores", lambda: 2)
    read_audio(utterances.path(1))  # noted before the workers are forked: not theirs to log
    loader = BatchLoader(clips(utterances), workers, World())
    expected = {str(utterances.path(index)) for index in BY_FFMPEG}
    for _ in range(2):
        list(loader.batches([[(1, 0), (1, 1)], [(1, 4), (1, 3)], [(1, 1)]]))
        assert loader.decoded_by_ffmpeg == expected
    list(loader.batches([[(1, 0), (1, 3)]]))
    assert loader.decoded_by_ffmpeg == set()


def test_lengths_log_what_they_decoded(utterances, tmp_path, log) -> None:
    measure_lengths(utterances, OFF, tmp_path, World())
    assert log == []  # the headers of FLACs suffice
    measure_lengths(utterances, SpeechActivity(mode="on"), tmp_path, World())
    message = (
        "measuring mine: 2 of 6 recordings were decoded by FFmpeg (PyAV), because libsndfile cannot"
    )
    assert log == [message]
    measure_lengths(utterances, SpeechActivity(mode="on"), tmp_path, World())
    assert log == [message]


class Mean(nn.Module):
    def forward(self, waveforms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean = waveforms.mean(1, keepdim=True)
        return mean, torch.cat([-mean, mean], 1)


@pytest.mark.parametrize("workers", [0, 2])
def test_scoring_logs_what_it_decoded(utterances, log, monkeypatch, workers: int) -> None:
    monkeypatch.setattr("asdf.data.loaders.usable_cores", lambda: 2)
    settings = Sections()
    settings.network.min_evaluation_utterance_length_in_samples = 6000
    settings.computing.network_dataloader_workers = workers
    scores = score_list(
        build_list_scorer(Mean(), settings, World()),
        utterances,
        LENGTHS,
        settings,
        World(),
        StopRequest(),
    )
    assert scores is not None and len(scores) == 6
    assert log == [
        "scoring mine: 2 of 6 recordings were decoded by FFmpeg (PyAV), because libsndfile cannot"
    ]


def test_the_line_counts_the_recordings_of_the_list_alone(utterances, log) -> None:
    log_fallbacks("scoring mine", {"/noise/of/another.m4a"}, utterances, 6, World())
    log_fallbacks("scoring mine", set(), utterances, 6, World())
    assert log == []
    log_fallbacks(
        "training", {"/noise/of/another.m4a", str(utterances.path(0))}, utterances, 593253, World()
    )
    assert log == [
        "training: 1 of 593,253 recordings was decoded by FFmpeg (PyAV), because libsndfile cannot"
    ]


def test_what_was_taken_is_not_logged_again(utterances) -> None:
    fallbacks.take()
    read_audio(utterances.path(0))
    assert fallbacks.take() == set()
    read_audio(utterances.path(4), 5000, 1000)
    assert fallbacks.take() == {str(utterances.path(4))} and fallbacks.take() == set()
