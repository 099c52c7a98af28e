"""Three recordings of noise, longer and shorter than the clips of 4,000 samples."""

import numpy as np
import pytest
import torch

from asdf.data.datasets import TrainingClips
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.settings.sections import RawBoost, SpeechActivity
from asdf.trials.trial_list import TrialList
from tests.recordings import noise_waveforms, write_recordings

LENGTHS = np.array([6000, 1500, 4000])
OFF = SpeechActivity()
BOOST = RawBoost(enabled=True, algo=4, applyingRatio=0.7)


@pytest.fixture
def utterances(tmp_path) -> TrialList:
    return write_recordings(tmp_path, noise_waveforms(LENGTHS), labels=(1, 0, 0))


def clips(utterances, seed=0, rawboost=None) -> TrainingClips:
    return TrainingClips(utterances, LENGTHS, 4000, rawboost or RawBoost(), OFF, seed)


def assert_workers_change_no_sample(data: TrainingClips, keys, workers: int = 1) -> None:
    alone = list(BatchLoader(data, 0, World()).batches(keys))
    read = list(BatchLoader(data, workers, World()).batches(keys))
    assert len(read) == len(keys)
    for ours, theirs in zip(alone, read, strict=True):
        assert torch.equal(ours, theirs)
