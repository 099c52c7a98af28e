"""The networks of the benchmarks, and training steps of ASDF and of a script on one minibatch.

All weights are random, which does not affect the time.
"""

from __future__ import annotations

from itertools import repeat

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.data.batches import Batch
from asdf.data.training_plan import Share, Window
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.networks import build_network
from asdf.networks.front_ends.architectures import Architecture, stem
from asdf.settings.sections import Sections
from asdf.training.gradients import LastStep
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from asdf.trials.trial_list import TrialList

SAMPLES = 64600
# Like XLS-R, with layer norms throughout, so that scoring lengths are known to a frame; but small.
SMALL_XLSR = Architecture(stem(64), "layer_norm", True, 256, 4, 4, 1024, True)


def make_settings(
    architecture: str, minibatch: int, samples: int = SAMPLES, precision: str = "fp32"
) -> Sections:
    """Return settings of a front end and AASIST, with Adam and a constant learning rate."""
    settings = Sections()
    settings.front_end.architecture = architecture
    settings.network.minibatch_size, settings.network.train_clip_size = minibatch, samples
    settings.network.optimizer, settings.network.initial_learning_rate = "adamw", 1e-6
    settings.network.weight_decay_skiplist, settings.network.schedule = (), "constant"
    settings.computing.precision = precision  # type: ignore[assignment]
    return settings


def make_network(settings: Sections, device: torch.device | str = "cpu") -> nn.Module:
    """Return the network of the settings, with the same weights each time."""
    torch.manual_seed(0)
    return build_network(settings).to(device)


def make_batch(
    size: int, samples: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Return waveforms (size, samples), and labels (size,), alternating between the classes."""
    waveforms = 0.1 * torch.randn(size, samples, generator=torch.Generator().manual_seed(0))
    return waveforms.to(device), (torch.arange(size) % 2).to(device)


class AsdfSteps:
    """ASDF's training step on one minibatch in memory; each call returns the loss of a step.

    Args:
        labels: Labels of this process's minibatch, the same on all processes.
    """

    def __init__(
        self,
        settings: Sections,
        network: nn.Module,
        waveforms: Tensor,
        labels: Tensor,
        world: World | None = None,
    ) -> None:
        world = world or World(device=waveforms.device)
        size, whole = len(labels), len(labels) * world.size
        names = [str(index) for index in range(whole)]
        utterances = TrialList(
            names, np.tile(labels.cpu().numpy(), world.size).astype(np.int8), name="benchmark"
        )
        self._step = Step(network.train(), utterances, settings, world)
        local = np.arange(size) + size * world.rank
        share = Share(local, size, np.ones(size, int), local)
        self._window = Window(0, np.arange(whole), [share], whole, np.ones(whole, int))
        self._clips, self._progress, self._stop = (
            repeat(Batch(waveforms)),
            Progress(),
            StopRequest(),
        )

    @property
    def last_step(self) -> LastStep:
        """State before the last step: fp16's loss scale and skipped steps."""
        return self._step.update.last

    @property
    def network(self) -> nn.Module:
        """The network that is trained."""
        return self._step.network

    def __call__(self) -> float:
        before = self._progress.loss_sum
        # As in the training loop: requests to stop and to save are exchanged with the step.
        self._step.take(self._window, self._clips, self._progress, [float(bool(self._stop)), 0.0])
        return (self._progress.loss_sum - before) / len(self._window.utterances)


class PlainSteps:
    """A training script's step: forward, cross-entropy, backward, step, the loss for the log."""

    def __init__(
        self,
        settings: Sections,
        network: nn.Module,
        waveforms: Tensor,
        labels: Tensor,
        dtype: torch.dtype | None = None,
    ) -> None:
        net = settings.network
        self._optimiser = torch.optim.AdamW(
            network.parameters(),
            net.initial_learning_rate,
            net.adam_betas,
            weight_decay=net.weight_decay,
        )
        self._network, self._waveforms, self._labels, self._dtype = (
            network.train(),
            waveforms,
            labels,
            dtype,
        )

    def __call__(self) -> float:
        with torch.autocast(
            self._waveforms.device.type, self._dtype, enabled=self._dtype is not None
        ):
            _, logits = self._network(self._waveforms)
        loss = F.cross_entropy(logits.float(), self._labels)
        loss.backward()
        self._optimiser.step()
        self._optimiser.zero_grad()
        return loss.item()
