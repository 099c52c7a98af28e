"""GPU memory of training, from one step on a fake GPU.

Invariant: in terms of memory, the step does what `Step` does: forward and backward pass of a
minibatch under autocast, the optimiser's moments, the buckets for exchanging gradients. Tensors
live as long as in a real step, because torch's autograd holds them; nothing is estimated from sizes
of layers. The effect of `computing.compile` is not modelled.
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

# Memory that cuBLAS takes from torch's allocator for each thread that multiplies matrices: 32 MiB
# on a GPU of compute capability 9.0, 8 MiB on earlier ones. Training has two such threads, scoring
# one.
WORKSPACE = 32 * 2**20


@dataclass(frozen=True)
class TrainingMemory:
    """The memory of one process in training, in bytes of torch's allocator.

    Attributes:
        parameters, trained: Number of parameters, and of trained ones.
        weights: Size of the network's parameters and buffers.
        moments: Size of the optimiser's moments, and of the averages of the weights.
        buckets: Size of the buckets for exchanging gradients between processes; 0 with one process.
        peak: Maximum memory during a step, including all of the above.
    """

    parameters: int
    trained: int
    weights: int
    moments: int
    buckets: int
    peak: int

    @property
    def between(self) -> int:
        """Memory held between two steps, and while the network is scored."""
        return self.weights + self.moments + self.buckets


def training_memory(case: Case) -> TrainingMemory:
    """Compute the memory of training on each GPU, for any step but the first, which needs less.

    Raises:
        UsageError: the number of processes does not divide the global minibatch.
        AsdfError: the network cannot be built.
        Exception: any error of a network that reads values of tensors.
    """
    network_settings = case.settings.network
    minibatch = minibatch_per_process(network_settings, case.processes)
    samples = network_settings.train_clip_size
    if case.settings.lengths.minibatch_s is not None:
        minibatch, samples = longest_clips(case.settings)
    # Before the fake GPU, on which nothing can be tested.
    moments_each = moments_per_parameter(case)
    with fake_gpu() as counted:
        network = case.outline_network()
        loss = _outline_loss(network, case)
        sizes = summary(network)
        parts = divide(network, case.sharing, case.dtype) if case.divides else Parts()
        # Gathered parts count later; a loss holds only a few numbers besides its parameters.
        others = parts.whole
        if loss_of(network) is None:
            others += sum(block_bytes(buffer.untyped_storage()) for buffer in loss.buffers())
        weights = counted.now - others
        learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
        sharing = case.sharing
        moments = _make_moments(learning, network_settings, moments_each, sharing)
        with_moments = counted.now - others
        # Held until the end so that they count: DistributedDataParallel allocates them once.
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
    # The memory of CUDA graphs is reserved between two steps too. By themselves, graphs are used
    # only if there is room for it.
    held = training.between
    if case.settings.computing.cuda_graphs is True:
        held = training.peak
    if case.divides:
        # Scoring has a whole copy of a divided network.
        held += scoring.weights
    return held + activations


def moments_per_parameter(case: Case) -> int:
    """Return how many numbers training holds per parameter: moments, and an average.

    Raises:
        UsageError: the optimiser's class does not exist, or cannot be used for training.
    """
    network = case.settings.network
    averages = int(network.ema_decay is not None)
    if network.optimizer == "sgd":
        return averages + int(network.momentum > 0)
    named = check_named_optimiser(case.settings, case.folder)
    return averages + (named.moments if named else 2)


def _outline_loss(network: nn.Module, case: Case) -> Loss:
    """Return the loss of the settings, which becomes part of the network as in training."""
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
    """Create `count` moments per parameter for one of `processes` that share them."""
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
    """Return the trained model, and its minibatch: waveforms, or features cached in float16."""
    waveforms_BT = torch.empty(waveform_shape(network, minibatch, samples))
    if not front_end.cache_features:
        return network, waveforms_BT
    model = FromFeatures(network)
    with torch.no_grad():
        features = model.network.front_end_features(waveforms_BT)
        stacked = features if isinstance(features, Tensor) else torch.stack(features, dim=1)
    return model, stacked.half()


def _run_step(model: nn.Module, loss: Loss, inputs: Tensor, case: Case) -> None:
    """Run as many minibatches as the peak of a step requires."""
    processes = case.processes
    interval = case.settings.network.optimizer_step_interval
    # Gradients are sent with the last minibatch of a step; divided ones with each minibatch.
    first_sent = 0 if case.divides else min(1, interval - 1)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # More than two minibatches do not increase the peak.
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
        window: Number of utterances in a step, for all processes.
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

    A separate function, so that its tensors are freed before the pass that needs the gradient.
    """
    with torch.no_grad():
        embeddings_BE, logits_B2 = _run_forward(model, inputs, dtype)
    size = embeddings_BE.shape[1] + logits_B2.shape[1]
    outputs_NX = torch.empty(window, size)
    targets = targets_without_list(loss, window)
    return differentiate(Objective(loss), outputs_NX, targets)[1]


def _send_gradients(learning: list[nn.Parameter], processes: int) -> None:
    """Free a gradient as soon as it is complete, when it is copied to its bucket.

    Args:
        processes: Number of processes among which it is divided; 0: it is not divided.
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
    """Sizes of the parameters of a network in a process, in bytes.

    Attributes:
        own: Size of the process's part of each parameter, in float32.
        whole: Size of all parameters, in the format for computing.
        gathered: Size of the parameters that a step holds at once.
    """

    own: list[Tensor] = field(default_factory=list)
    whole: int = 0
    gathered: int = 0


def divide(network: nn.Module, processes: int, dtype: torch.dtype | None) -> Parts:
    """Divide `network` as `ShardedNetwork` does, converting its encoder's layers to `dtype`.

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
    # Parameters outside of any unit are gathered during the whole pass.
    outside = whole - sum(unit_bytes)
    gathered = outside + _GATHERED_AT_ONCE * max(unit_bytes, default=0)
    return Parts(parts, whole, gathered)


def part_of(tensor: Tensor, processes: int) -> int:
    """Return the maximum number of a tensor's elements in a process: rows are divided."""
    rows = len(tensor) if tensor.dim() else 1
    numbers_per_row = tensor.numel() // max(1, rows)
    rows_per_process = -(-rows // processes)
    return rows_per_process * numbers_per_row


def _bytes_of(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in parameters)
