"""How much of a GPU's memory training takes: one step taken on a fake GPU.

Invariant: the step does what `Step` does as far as memory goes: forward and backward pass of a
minibatch under autocast, the optimiser's moments, the buckets in which processes exchange
gradients. What it makes lives as long as in a real step, since torch's autograd holds it; nothing
is estimated from sizes of layers. `computing.compile` may take another way, which is not followed.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from asdf.data.training_plan import minibatch_per_process
from asdf.memory.division import Parts, divide, part_of
from asdf.memory.fake_gpu import fake_gpu
from asdf.memory.live_bytes import block_bytes
from asdf.memory.outline import outlined_network
from asdf.networks import fixed_samples, summary
from asdf.networks.casting import norms_shortened
from asdf.networks.outputs import Outputs, as_outputs
from asdf.networks.split import FromFeatures
from asdf.networks.trained_loss import loss_of
from asdf.settings.sections import Network, Sections
from asdf.training.joint import differentiate
from asdf.training.losses import Loss
from asdf.training.losses.loss_building import outline_loss, targets_without_list
from asdf.training.objective import Objective
from asdf.training.optimisers import check_named_optimiser

# What cuBLAS takes from torch's allocator for each thread that multiplies matrices, of which
# training has two: a GPU of compute capability 9.0's 32 MiB, of earlier ones 8. Scoring has one
# thread.
WORKSPACE = 32 * 2**20


@dataclass(frozen=True)
class TrainingMemory:
    """What one process of a training takes, memory in bytes of torch's allocator.

    Attributes:
        parameters, trained: their numbers.
        weights: the network's parameters and buffers.
        moments: the optimiser's, and the averages of the weights.
        buckets: Buckets for the exchange of gradients between processes; 0 with one process.
        peak: the most that a step holds, all of the above included.
    """

    parameters: int
    trained: int
    weights: int
    moments: int
    buckets: int
    peak: int

    @property
    def between(self) -> int:
        """What is held between two steps, and while the network is scored."""
        return self.weights + self.moments + self.buckets


def training_memory(
    settings: Sections,
    architecture: str,
    processes: int = 1,
    dtype: torch.dtype | None = None,
    folder: Path | None = None,
) -> TrainingMemory:
    """Compute what training takes on each GPU, for any step but the first, which takes less.

    Args:
        architecture: Architecture of the front end, that of the weights, if any.
        processes: Processes of the run.
        dtype: Number format of autocast; None: float32 throughout.
        folder: the recipe's folder, where a user's own modules lie.

    Raises:
        UsageError: the global minibatch does not divide by the number of processes.
        AsdfError: the network cannot be built.
        Exception: whatever a network raises that looks at its numbers.
    """
    minibatch = minibatch_per_process(settings.network, processes)
    # Before the fake GPU, on which nothing can be tried out.
    moments_each = moments_per_parameter(settings, folder)
    divided = settings.computing.shard_network and processes > 1
    with fake_gpu() as counted:
        network = outlined_network(settings, architecture, folder)
        loss = _outline_loss(network, settings, folder)
        sizes = summary(network)
        parts = divide(network, processes, dtype) if divided else Parts()
        # Gathered parts count later; what a loss holds besides its parameters is a few numbers.
        others = parts.whole + _bytes_outside(loss, network)
        weights = counted.now - others
        learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
        moments = _make_moments(
            learning, settings.network, moments_each, processes if divided else 1
        )
        with_moments = counted.now - others
        # Held to the end so that they count: DistributedDataParallel makes them once and for all.
        buckets = _make_buckets(learning) if processes > 1 and not divided else []
        between = counted.now - others
        model, inputs = _make_model_and_inputs(network, settings, minibatch)
        counted.peak = counted.now
        with norms_shortened(settings.computing.norms == "bf16" and dtype is torch.bfloat16):
            _run_step(model, loss, inputs, dtype, settings, processes)
        peak = counted.peak - parts.whole + parts.gathered + 2 * WORKSPACE
        del moments, buckets
    return TrainingMemory(
        sizes.total,
        sizes.trainable,
        weights,
        with_moments - weights,
        between - with_moments,
        peak,
    )


def moments_per_parameter(settings: Sections, folder: Path | None = None) -> int:
    """Return how many numbers training holds for each parameter: moments, and an average.

    Args:
        folder: the recipe's folder, where a user's own modules lie.

    Raises:
        UsageError: the optimiser's class does not exist, or cannot be trained with.
    """
    network = settings.network
    averages = int(network.ema_decay is not None)
    if network.optimizer == "sgd":
        return averages + int(network.momentum > 0)
    named = check_named_optimiser(settings, folder)
    return averages + (named.moments if named else 2)


def _make_moments(
    learning: list[nn.Parameter], network: Network, count: int, processes: int
) -> list[Tensor]:
    """Make `count` moments per parameter, of one of `processes` that divide them."""
    moments = []
    for parameter in learning:
        size = part_of(parameter, processes)
        moments += [torch.empty(size) for _ in range(count)]
    if network.optimizer in ("adam", "adamw"):
        # Fused Adam counts its steps on the GPU, for each parameter.
        moments += [torch.empty(()) for _ in learning]
    return moments


def _make_buckets(learning: list[nn.Parameter]) -> list[Tensor]:
    return [torch.empty_like(parameter) for parameter in learning]


def _make_model_and_inputs(
    network: nn.Module, settings: Sections, minibatch: int
) -> tuple[nn.Module, Tensor]:
    """Return what is trained, and a minibatch for it: waveforms, or features cached in float16."""
    waveforms_BT = torch.empty(minibatch, settings.network.train_clip_size)
    if not settings.front_end.cache_features:
        return network, waveforms_BT
    model = FromFeatures(network)
    with torch.no_grad():
        features = model.network.front_end_features(waveforms_BT)
        stacked = features if isinstance(features, Tensor) else torch.stack(features, dim=1)
    return model, stacked.half()


def _outline_loss(network: nn.Module, settings: Sections, folder: Path | None) -> Loss:
    """Return the loss of the settings, which becomes a part of the network as in training."""
    samples = fixed_samples(network) or settings.network.train_clip_size
    network.eval()
    loss = outline_loss(network, torch.empty(2, samples), settings, folder)
    network.train()
    return loss


def _bytes_outside(loss: Loss, network: nn.Module) -> int:
    """Return the bytes of a loss that is not a part of the network."""
    if loss_of(network) is not None:
        return 0
    return sum(block_bytes(buffer.untyped_storage()) for buffer in loss.buffers())


def _run_step(
    model: nn.Module,
    loss: Loss,
    inputs: Tensor,
    dtype: torch.dtype | None,
    settings: Sections,
    processes: int,
) -> None:
    """Run as many minibatches as the peak of a step needs."""
    interval = settings.network.optimizer_step_interval
    divided = settings.computing.shard_network and processes > 1
    # Gradients are sent with the last minibatch of a step; where they are divided, with each.
    first_sent = 0 if divided else min(1, interval - 1)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # More than two minibatches hold no more than two.
    for number in range(min(2, interval)):
        if processes > 1 and number == first_sent:
            _send_gradients(learning, processes if divided else 0)
        _run_minibatch(model, loss, inputs, dtype, len(inputs) * interval * processes)


def _run_minibatch(
    model: nn.Module, loss: Loss, inputs: Tensor, dtype: torch.dtype | None, window: int
) -> None:
    """Run the forward and backward pass of a minibatch.

    Args:
        window: utterances of a step, of all processes.
    """
    gradients = None
    if loss.is_joint:
        gradients = _differentiate_window(model, loss, inputs, dtype, window)
    outputs = _run_forward(model, inputs, dtype)
    if gradients is None:
        targets = targets_without_list(loss, len(inputs))
        loss.of_minibatch(outputs, targets).sum().backward()
        return
    embeddings_BE, logits_B2 = outputs
    outputs_BX = torch.cat([embeddings_BE.float(), logits_B2.float()], dim=1)
    (outputs_BX * gradients[: len(inputs)]).sum().backward()


def _run_forward(model: nn.Module, inputs: Tensor, dtype: torch.dtype | None) -> Outputs:
    with torch.autocast("cpu", dtype) if dtype else nullcontext():
        return as_outputs(model(inputs))


def _differentiate_window(
    model: nn.Module, loss: Loss, inputs: Tensor, dtype: torch.dtype | None, window: int
) -> Tensor:
    """Return the gradient with respect to all outputs of a step, (utterances, outputs)."""
    with torch.no_grad():
        embeddings_BE, logits_B2 = _run_forward(model, inputs, dtype)
    size = embeddings_BE.shape[1] + logits_B2.shape[1]
    outputs_NX = torch.empty(window, size)
    targets = targets_without_list(loss, window)
    return differentiate(Objective(loss), outputs_NX, targets)[1]


def _send_gradients(learning: list[nn.Parameter], processes: int) -> None:
    """Let a gradient end as soon as it is whole, which is when it goes into its bucket.

    Args:
        processes: Number of processes that divide it, and each retain a part; 0: it is not divided.
    """
    retained: list[Tensor] = []

    def send(parameter: Tensor) -> None:
        parameter.grad = None
        if processes:
            retained.append(torch.empty(part_of(parameter, processes)))

    for parameter in learning:
        parameter.register_post_accumulate_grad_hook(send)
