"""A network of one length scores recordings cut or repeated to it, in full batches."""

import numpy as np
import pytest
import torch
from torch import nn

from asdf.audio import read_audio
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.scoring.score_list import build_list_scorer, score_list
from asdf.settings.sections import Sections
from tests.recordings import noise_waveforms, write_recordings

LENGTHS = np.array([6000, 2500, 5000, 4001, 9000, 700])


class Fixed(nn.Module):
    """Its linear layer takes 5000 samples and nothing else."""

    fixed_samples = 5000

    def __init__(self):
        super().__init__()
        self.output, self.batches = nn.Linear(5000, 2), []

    def forward(self, waveforms_BT):
        self.batches.append(tuple(waveforms_BT.shape))
        return waveforms_BT, self.output(waveforms_BT)


@pytest.mark.parametrize("cut", [0.0, 0.3])
def test_recordings_are_cut_or_repeated(tmp_path, cut):
    utterances = write_recordings(tmp_path, noise_waveforms(LENGTHS))
    settings = Sections()
    settings.computing.network_dataloader_workers = 0
    settings.network.minibatch_size, settings.network.train_clip_size = 2, 5000
    settings.network.max_cut_proportion = cut
    torch.manual_seed(0)
    network = Fixed()
    scores = score_list(
        build_list_scorer(network, settings, World()),
        utterances,
        LENGTHS,
        settings,
        World(),
        StopRequest(),
    )
    assert network.batches == [(4, 5000), (2, 5000)]
    for index in range(len(LENGTHS)):
        waveform = torch.from_numpy(
            np.resize(read_audio(utterances.path(index)), max(LENGTHS[index], 5000))[:5000]
        )
        with torch.no_grad():
            expected = float(network.output(waveform)[1])
        assert scores[index] == pytest.approx(expected, abs=1e-5)
