"""Networks small enough for tests, as a user would write them in a file of the recipe."""

import os
import signal
import time
from pathlib import Path

import torch
from torch import nn

from asdf.errors import AsdfError
from asdf.networks import Wav2Vec2FrontEnd
from asdf.networks.interface import Outputs


def fail_on_request(network):
    """Fail in the middle of a step, as one of `FAILURES` says in the environment.

    The value is 'rank:forward passes in training before', or 'any:passes'. With TEST_KILL_ONCE, a
    path, only the first time.
    """
    if not network.training:
        return
    network.passes = getattr(network, "passes", 0) + 1
    for name, fail in FAILURES.items():
        rank, _, passes = os.environ.get(name, "").partition(":")
        if rank in ("any", os.environ.get("RANK", "0")) and network.passes == int(passes) + 1:
            fail()


def kill():
    once = os.environ.get("TEST_KILL_ONCE")
    if once:
        mark = Path(once)
        if mark.exists():
            return
        mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)


def kill_node():
    """Leave nothing of this node: neither the process nor torchrun's agent, which started it."""
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def fail_with(error):
    raise error


def hang():
    """Compute no further, but end when the launcher says so, which otherwise waits for 30 s."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(1000)


def take_all_memory():
    torch.empty(2**50)


FAILURES = {
    "TEST_KILL": kill,
    "TEST_KILL_NODE": kill_node,
    "TEST_RAISE": lambda: fail_with(ValueError("broken on purpose")),
    "TEST_RAISE_ASDF": lambda: fail_with(AsdfError("no more disk")),
    "TEST_MEMORY": take_all_memory,
    "TEST_HANG": hang,
}


class Plain(nn.Module):
    """A convolution, mean and deviation over time, a linear layer: no batch norm, no dropout."""

    def __init__(self, settings):
        super().__init__()
        self.convolution = nn.Conv1d(1, 24, 64, stride=32)
        self.output = nn.Linear(48, 2)

    def embed(self, waveforms_BT):
        fail_on_request(self)
        convolved_BCT = self.convolution(waveforms_BT.unsqueeze(1))
        frames_BCT = torch.relu(convolved_BCT)
        return torch.cat([frames_BCT.mean(2), frames_BCT.std(2)], 1)

    def forward(self, waveforms_BT):
        embeddings_BE = self.embed(waveforms_BT)
        return embeddings_BE, self.output(embeddings_BE)


class Normed(Plain):
    """`Plain` with all that makes a resume hard: batch norm's statistics and dropout."""

    def __init__(self, settings):
        super().__init__(settings)
        self.norm = nn.BatchNorm1d(48)
        self.dropout = nn.Dropout(0.3)

    def forward(self, waveforms_BT):
        normed_BE = self.norm(self.embed(waveforms_BT))
        embeddings_BE = self.dropout(normed_BE)
        return embeddings_BE, self.output(embeddings_BE)


class Undropped(Normed):
    """`Normed` without dropout, whose draws depend on the rank."""

    def __init__(self, settings):
        super().__init__(settings)
        self.dropout = nn.Identity()


class Framed(Normed):
    """`Normed` with logits of frames of 320 samples, as a network of a user's own has them."""

    frame_hop = 320

    def __init__(self, settings):
        super().__init__(settings)
        self.frame_output = nn.Linear(24, 2)

    def forward(self, waveforms_BT):
        outputs = super().forward(waveforms_BT)
        frames_BCT = torch.relu(self.convolution(waveforms_BT.unsqueeze(1)))
        pooled_BCF = nn.functional.avg_pool1d(frames_BCT, 10, 10, ceil_mode=True)
        return Outputs(*outputs, self.frame_output(pooled_BCF.transpose(1, 2)))


class FrontEnded(Undropped):
    """A user's own network on a front end of the project's, with batch norm behind it."""

    def __init__(self, settings):
        super().__init__(settings)
        del self.convolution
        self.front_end = Wav2Vec2FrontEnd(settings.front_end)
        self.norm = nn.BatchNorm1d(2 * self.front_end.dimension)
        self.output = nn.Linear(2 * self.front_end.dimension, 2)
        # Fewer numbers than processes.
        self.level = nn.Parameter(torch.zeros(1))

    def embed(self, waveforms_BT):
        fail_on_request(self)
        frames_BLC = self.front_end(waveforms_BT)
        return torch.cat([frames_BLC.mean(1), frames_BLC.std(1)], 1) + self.level

    def front_end_parameters(self):
        return self.front_end.parameters()


class Heavy(Plain):
    """`Plain` with a file far larger than any other file of a run."""

    def __init__(self, settings):
        super().__init__(settings)
        self.register_buffer("ballast", torch.zeros(500_000))


class Diverging(Plain):
    """Its loss is not a number for clips louder than the settings' target loss, for those only."""

    def forward(self, waveforms_BT):
        embeddings_BE, logits_B2 = super().forward(waveforms_BT)
        peaks_B1 = waveforms_BT.abs().amax(1, keepdim=True)
        factors_B1 = torch.where(peaks_B1 > 0.9, torch.nan, 1.0)
        return embeddings_BE, logits_B2 * factors_B1


class Exploding(Plain):
    """`Plain` whose gradient is infinite in the third step, while its loss is not."""

    def forward(self, waveforms_BT):
        embeddings_BE, logits_B2 = super().forward(waveforms_BT)
        if self.training and self.passes == 3:
            logits_B2.register_hook(lambda gradient: gradient * torch.inf)
        return embeddings_BE, logits_B2
