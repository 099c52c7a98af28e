"""Networks small enough for tests, as a user would write them in a file beside the recipe."""

import os
import signal

import torch
from torch import nn


def die_if_asked(network):
    """SIGKILL this process in the middle of a step: TEST_KILL='rank:forward passes in training before'."""
    rank, _, passes = os.environ.get("TEST_KILL", "").partition(":")
    if network.training and rank == os.environ.get("RANK", "0"):
        network.passes = getattr(network, "passes", 0) + 1
        if network.passes > int(passes):
            os.kill(os.getpid(), signal.SIGKILL)


class Plain(nn.Module):
    """A convolution, mean and deviation over time, a linear layer: no batch norm, no dropout."""

    def __init__(self, settings):
        super().__init__()
        self.convolution = nn.Conv1d(1, 24, 64, stride=32)
        self.output = nn.Linear(48, 2)

    def embed(self, waveforms_BT):
        die_if_asked(self)
        frames_BCT = torch.relu(self.convolution(waveforms_BT[:, None]))
        return torch.cat([frames_BCT.mean(2), frames_BCT.std(2)], 1)

    def forward(self, waveforms_BT):
        embeddings_BE = self.embed(waveforms_BT)
        return embeddings_BE, self.output(embeddings_BE)


class Normed(Plain):
    """With all that makes a resume hard: batch norm's running statistics and dropout."""

    def __init__(self, settings):
        super().__init__(settings)
        self.norm = nn.BatchNorm1d(48)
        self.dropout = nn.Dropout(0.3)

    def forward(self, waveforms_BT):
        embeddings_BE = self.dropout(self.norm(self.embed(waveforms_BT)))
        return embeddings_BE, self.output(embeddings_BE)


class Diverging(Plain):
    """Its loss is not a number for clips louder than the settings' target loss, so for some of them only."""

    def forward(self, waveforms_BT):
        embeddings_BE, logits_B2 = super().forward(waveforms_BT)
        return embeddings_BE, logits_B2 * torch.where(waveforms_BT.abs().amax(1, keepdim=True) > 0.9, torch.nan, 1.0)
