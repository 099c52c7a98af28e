"""How much of a GPU's memory training takes: one step taken on a fake GPU.

Invariant: the step does what `Step` does as far as memory goes: forward and backward pass of a
minibatch under autocast, the optimiser's moments, the buckets in which processes exchange
gradients. What it makes lives as long as in a real step, since torch's autograd holds it; nothing
is estimated from sizes of layers. `computing.compile` may take another way, which is not followed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from asdf.data.length_groups import longest_clips
from asdf.data.training_plan import minibatch_per_process
from asdf.memory.case import Case, ScoringMemory
from asdf.memory.fake_gpu import block_bytes, fake_gpu
from asdf.networks import fixed_samples, summary
from asdf.networks.autocast import norms_shortened
from asdf.networks.interface import Outputs, as_outputs, inputs_on_noise, waveform_shape
from asdf.networks.split import FromFeatures
from asdf.networks.trained_loss import loss_of
from asdf.networks.units import check_divisible, encoder_units
from asdf.settings.sections import FrontEnd, Network
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


def training_memory(case: Case) -> TrainingMemory:
    """Compute what training takes on each GPU, for any step but the first, which takes less.

    Raises:
        UsageError: the global minibatch does not divide by the number of processes.
        AsdfError: the network cannot be built.
        Exception: whatever a network raises that looks at its numbers.
    """
    network_settings = case.settings.network
    minibatch = minibatch_per_process(network_settings, case.processes)
    samples = network_settings.train_clip_size
    if case.settings.lengths.minibatch_s is not None:
        minibatch, samples = longest_clips(case.settings)
    # Before the fake GPU, on which nothing can be tried out.
    moments_each = moments_per_parameter(case)
    with fake_gpu() as counted:
        network = case.outline_network()
        loss = _outline_loss(network, case)
        sizes = summary(network)
        parts = divide(network, case.sharing, case.dtype) if case.divides else Parts()
        # Gathered parts count later; what a loss holds besides its parameters is a few numbers.
        others = parts.whole
        if loss_of(network) is None:
            others += sum(block_bytes(buffer.untyped_storage()) for buffer in loss.buffers())
        weights = counted.now - others
        learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
        sharing = case.sharing
        moments = _make_moments(learning, network_settings, moments_each, sharing)
        with_moments = counted.now - others
        # Held to the end so that they count: DistributedDataParallel makes them once and for all.
        buckets = []
        if case.processes > 1 and not case.divides:
            buckets = [torch.empty_like(parameter) for parameter in learning]
        between = counted.now - others
        model, inputs = _make_model_and_inputs(network, case.settings.front_end, minibatch, samples)
        counted.peak = counted.now
        shortens_norms = case.settings.computing.norms == "bf16" and case.dtype is torch.bfloat16
        with norms_shortened(shortens_norms):
            _run_step(model, loss, inputs, case)
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


def scoring_peak(case: Case, scoring: ScoringMemory, training: TrainingMemory | None) -> int:
    """Return the peak of scoring: its largest batch, and what training holds meanwhile."""
    activations = scoring.worst.activations + WORKSPACE
    if training is None:
        return scoring.weights + activations
    # What graphs compute in is theirs alone: it is held between two steps as well. By themselves
    # they are used only where that leaves room.
    held = training.between
    if case.settings.computing.cuda_graphs is True:
        held = training.peak
    if case.divides:
        # Scoring has a whole copy of a divided network.
        held += scoring.weights
    return held + activations


def moments_per_parameter(case: Case) -> int:
    """Return how many numbers training holds for each parameter: moments, and an average.

    Raises:
        UsageError: the optimiser's class does not exist, or cannot be trained with.
    """
    network = case.settings.network
    averages = int(network.ema_decay is not None)
    if network.optimizer == "sgd":
        return averages + int(network.momentum > 0)
    named = check_named_optimiser(case.settings, case.folder)
    return averages + (named.moments if named else 2)


def _outline_loss(network: nn.Module, case: Case) -> Loss:
    """Return the loss of the settings, which becomes a part of the network as in training."""
    samples = fixed_samples(network) or case.settings.network.train_clip_size
    network.eval()
    loss = outline_loss(
        network, torch.empty(waveform_shape(network, 2, samples)), case.settings, case.folder
    )
    network.train()
    return loss


def _make_moments(
    learning: list[nn.Parameter],
    network: Network,
    count: int,
    processes: int,
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


def _make_model_and_inputs(
    network: nn.Module,
    front_end: FrontEnd,
    minibatch: int,
    samples: int,
) -> tuple[nn.Module, Tensor]:
    """Return what is trained, and a minibatch for it: waveforms, or features cached in float16."""
    waveforms_BT = torch.empty(waveform_shape(network, minibatch, samples))
    if not front_end.cache_features:
        return network, waveforms_BT
    model = FromFeatures(network)
    with torch.no_grad():
        features = model.network.front_end_features(waveforms_BT)
        stacked = features if isinstance(features, Tensor) else torch.stack(features, dim=1)
    return model, stacked.half()


def _run_step(model: nn.Module, loss: Loss, inputs: Tensor, case: Case) -> None:
    """Run as many minibatches as the peak of a step needs."""
    processes = case.processes
    interval = case.settings.network.optimizer_step_interval
    # Gradients are sent with the last minibatch of a step; where they are divided, with each.
    first_sent = 0 if case.divides else min(1, interval - 1)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # More than two minibatches hold no more than two.
    for number in range(min(2, interval)):
        if processes > 1 and number == first_sent:
            _send_gradients(learning, case.sharing if case.divides else 0)
        _run_minibatch(model, loss, inputs, case.dtype, len(inputs) * interval * processes)


def _run_minibatch(
    model: nn.Module,
    loss: Loss,
    inputs: Tensor,
    dtype: torch.dtype | None,
    window: int,
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
        return as_outputs(model(inputs, **inputs_on_noise(model, inputs)))


def _differentiate_window(
    model: nn.Module,
    loss: Loss,
    inputs: Tensor,
    dtype: torch.dtype | None,
    window: int,
) -> Tensor:
    """Return the gradient with respect to all outputs of a step, (utterances, outputs).

    A function of its own: what it holds ends with it, before the pass that needs the gradient.
    """
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


# One unit is computed while the next one is gathered.
_GATHERED_AT_ONCE = 2


@dataclass(frozen=True)
class Parts:
    """The parameters of a network that a process holds, in bytes.

    Attributes:
        own: the process's part of each parameter, in float32.
        whole: bytes of all parameters, as they are computed with.
        gathered: Number of these that a step holds at once.
    """

    own: list[Tensor] = field(default_factory=list)
    whole: int = 0
    gathered: int = 0


def divide(network: nn.Module, processes: int, dtype: torch.dtype | None) -> Parts:
    """Divide `network` as `ShardedNetwork` does; its encoder's layers become ones of `dtype`.

    Raises:
        UsageError: it cannot be divided.
    """
    check_divisible(network, type(network).__name__)
    units = encoder_units(network)
    if dtype is not None:
        for unit in units:
            # torch's `to` would change the tensors themselves, which the caller may still use.
            for module in unit.modules():
                for name, parameter in list(module.named_parameters(recurse=False)):
                    with torch.no_grad():
                        cast = parameter.to(dtype)
                    setattr(module, name, nn.Parameter(cast, parameter.requires_grad))
    parts = [torch.empty(part_of(parameter, processes)) for parameter in network.parameters()]
    unit_bytes = [_bytes_of(unit.parameters()) for unit in units]
    whole = _bytes_of(network.parameters())
    # What is in no unit is gathered from the start of a pass to its end.
    outside = whole - sum(unit_bytes)
    gathered = outside + _GATHERED_AT_ONCE * max(unit_bytes, default=0)
    return Parts(parts, whole, gathered)


def part_of(tensor: Tensor, processes: int) -> int:
    """Return how many of a tensor's numbers a process holds at most: rows are divided."""
    rows = len(tensor) if tensor.dim() else 1
    numbers_per_row = tensor.numel() // max(1, rows)
    rows_per_process = -(-rows // processes)
    return rows_per_process * numbers_per_row


def _bytes_of(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in parameters)
