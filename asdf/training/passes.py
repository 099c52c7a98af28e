"""The forward and the backward pass over a minibatch: compiled, exchanged, counted.

Invariants:
- There is one computation. Whether its operations are launched one by one or captured in CUDA
  graphs (graphs.py), the two functions of `Passes` are run.
- After a forward pass, each batch norm's counter has the value that the norm itself would have set;
  adding to each counter separately would cost a launch per norm on a GPU.
- With `computing.compile`, only the calls in training are compiled: the names in the state dict
  stay, and scoring computes exactly as without. Clips and whole minibatches have one shape, so
  there is one graph; with 'layers', one of a single encoder layer, which takes seconds to compile.
- Every step sums the gradients of the ranks in the same order, including the first after a start:
  with three or more ranks the order affects the last bits. DistributedDataParallel rebuilds its
  buckets in the order in which the first backward pass's gradients arrived. That pass is therefore
  made before any real step, on the bare parameters, without the network or random numbers.
  `find_unused_parameters=True` would also fix the layout, but searches the graph in each step.

Shapes: B utterances.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torchaudio.models.wav2vec2.components import Transformer

from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.attached import completed
from asdf.networks.front_ends.encoder_layers import layers_compiled
from asdf.networks.interface import Outputs, as_outputs
from asdf.settings.sections import Computing, FrontEnd
from asdf.training.gradients import Precision
from asdf.training.losses import Targets
from asdf.training.objective import Objective

_EXPLAINS = "Explanation: "
_NEEDS = (
    "Compiling needs a C++ compiler (g++), on GPUs Triton as well, and a network that "
    "torch.compile supports."
)
_UNSUPPORTED = "The network's code has something that torch.compile does not support."

# Buffers, such as AASIST's 30 of batch norms, are sent by `World.broadcast_buffers` when a network
# is saved or scored, not in each step. torch 2.14 renamed the option, with a warning for the old
# name.
_OPTIONS = inspect.signature(DistributedDataParallel).parameters
_SENDS = "forward_sync_buffers" if "forward_sync_buffers" in _OPTIONS else "broadcast_buffers"
_NO_BUFFERS: dict[str, Any] = {_SENDS: False}
_COUNTER = "num_batches_tracked"
# Searching a network's modules takes longer than the additions that it saves.
_NORMS: WeakKeyDictionary[nn.Module, list[_BatchNorm]] = WeakKeyDictionary()


class Compiled(nn.Module):
    """A network with a compiled forward in training, which shares modules and parameters.

    Args:
        batch: Number of rows of a whole minibatch. Shorter ones at the end of an epoch are computed
            without compiling, since they are not worth a second graph.
    """

    def __init__(self, network: nn.Module, batch: int) -> None:
        super().__init__()
        self.network = network
        self.batch = batch
        # The method, not the module, since a compiled module would own every parameter a second
        # time.
        self._forward = torch.compile(network.forward, dynamic=False)

    def forward(self, waveforms_BT: Tensor, **inputs: Any) -> Any:
        """Return the network's embeddings and logits, or `Outputs`."""
        if len(waveforms_BT) != self.batch or inputs:
            return self.network(waveforms_BT, **inputs)
        return completed(self.network, self._forward(waveforms_BT))


class CompiledLayers(nn.Module):
    """A network with compiled encoder layers in training, one graph for all equal layers.

    Args: as in `Compiled`.
    """

    def __init__(self, network: nn.Module, batch: int) -> None:
        super().__init__()
        self.network = network
        self.batch = batch

    def forward(self, waveforms_BT: Tensor, **inputs: Any) -> Any:
        """Return the network's embeddings and logits, or `Outputs`."""
        with layers_compiled(len(waveforms_BT) == self.batch):
            return self.network(waveforms_BT, **inputs)


def compile_network(network: nn.Module, how: bool | str, batch: int) -> nn.Module:
    """Return the module that training calls for `network`, compiled according to `how`.

    Raises:
        UsageError: it has no layers that could be compiled separately.
    """
    if how != "layers":
        return Compiled(network, batch)
    if any(isinstance(module, Transformer) for module in network.modules()):
        return CompiledLayers(network, batch)
    raise UsageError(
        f"computing.compile = 'layers': {type(network).__name__} has no encoder layers of wav2vec "
        "2.0, HuBERT or WavLM. Set it to True to compile all of it, or to False."
    )


def check_compilable(computing: Computing, front_end: FrontEnd) -> None:
    """Refuse settings that would require compiling again in every step.

    Raises:
        UsageError: encoder layers are dropped at random, so the graph differs in each step.
    """
    if computing.compile is True and front_end.layer_drop:
        raise UsageError(
            "computing.compile = True cannot be combined with front_end.layer_drop = "
            f"{front_end.layer_drop}. Set layer_drop to 0, or compile to 'layers' or False."
        )


@contextmanager
def compile_errors_as_usage_errors(compiles: bool | str) -> Iterator[None]:
    """Raise one message for the compiler's own failures, most of which are a missing C++ compiler
    or Triton.

    Raises:
        UsageError: the network cannot be compiled here.
    """
    if not compiles:
        yield
        return
    from torch._dynamo.exc import TorchDynamoException

    try:
        yield
    except TorchDynamoException as error:
        cause = getattr(error, "inner_exception", error)
        advice = _UNSUPPORTED if cause is error else _NEEDS
        # One line of torch's report: its first line, explanations, and the line of the network.
        text, _, code = str(cause).partition("from user code:")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        first = lines[:1] or [type(cause).__name__]
        explained = [line.removeprefix(_EXPLAINS) for line in lines if line.startswith(_EXPLAINS)]
        # The outermost call comes first.
        places = [line.strip() for line in code.splitlines() if line.strip()[:5] == "File "]
        reason = ": ".join(part.rstrip(".") for part in (*first, *explained, *places[-1:]))
        raise UsageError(
            f"the network could not be compiled: {reason}. {advice} Set computing.compile = False "
            "to train without."
        ) from error


def exchange_gradients(network: nn.Module, world: World) -> nn.Module:
    """Return the network with gradients averaged over the ranks, ready for its first step.

    In a world of one, the network is returned unchanged.
    """
    if world.size == 1:
        return network
    ids = [world.device] if world.device.type == "cuda" else None
    model = DistributedDataParallel(
        _BareOrWhole(network),
        device_ids=ids,
        # Gradients are views of the buckets, so there is no second copy in memory.
        gradient_as_bucket_view=True,
        **_NO_BUFFERS,
    )
    model(None).backward()
    for parameter in network.parameters():
        parameter.grad = None
    return model


def exchange_now(model: nn.Module, now: bool) -> AbstractContextManager[Any]:
    """Return a block in which a backward pass sends its gradients (`now`) or only sums."""
    if now or not isinstance(model, DistributedDataParallel):
        return nullcontext()
    return model.no_sync()


class _BareOrWhole(nn.Module):
    """The network; a call with None returns 0, computed from every trained parameter."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, waveforms: Tensor | None, **inputs: Any) -> Any:
        if waveforms is not None:
            return self.network(waveforms, **inputs)
        learning = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return 0.0 * torch.stack([parameter.sum() for parameter in learning]).sum()


@dataclass(frozen=True)
class Passes:
    """The passes of a network; each `forward` is followed by its `backward`.

    Attributes:
        model: Network as it is called in training.
    """

    model: nn.Module
    precision: Precision
    scaler: torch.amp.GradScaler
    objective: Objective

    def forward(self, clips: Tensor, targets: Targets) -> Tensor:
        """Return the loss of each utterance, (batch,), in float32."""
        return self.objective.of_minibatch(self.outputs(clips, targets.inputs), targets)

    def outputs(self, clips: Tensor, inputs: Mapping[str, Any] | None = None) -> Outputs:
        """Return the outputs of the network, in the number format of training.

        Args:
            inputs: Further inputs of the network, by name.
        """
        with self.precision.autocast(), batches_counted_together(self.model):
            outputs = as_outputs(self.model(clips, **(inputs or {})))
        return self.objective.with_clips(outputs, clips)

    def backward(self, losses_B: Tensor, factor: float | Tensor) -> None:
        """Add the gradient of the sum of `losses_B` times `factor` to that of the parameters.

        Args:
            factor: Factor of the losses, a number or a 0-dimensional tensor.
        """
        # Gradients for each loss at once, since a sum takes four more operations for the same
        # result.
        losses_B.backward(self.scaler.scale(torch.ones_like(losses_B) * factor))


class _Noted:
    """A replacement for a norm's counter, which records increments."""

    def __init__(self, counter: Tensor, increased: dict[int, Tensor]) -> None:
        self._counter = counter
        self._increased = increased

    def add_(self, number: int) -> None:
        """Record an increment by `number`; a second one in the same pass is added at once."""
        if id(self._counter) in self._increased:
            self._counter.add_(number)
        else:
            self._increased[id(self._counter)] = self._counter


@contextmanager
def batches_counted_together(network: nn.Module) -> Iterator[None]:
    """Count the batch norms that `network` computes in the block together at its end."""
    if network not in _NORMS:
        _NORMS[network] = _find_norms(network)
    increased: dict[int, Tensor] = {}
    for norm in _NORMS[network]:
        # Python finds an attribute of the object before a buffer of the module.
        counter = norm._buffers[_COUNTER]
        assert counter is not None
        norm.__dict__[_COUNTER] = _Noted(counter, increased)
    try:
        yield
    finally:
        for norm in _NORMS[network]:
            del norm.__dict__[_COUNTER]
        if increased:
            torch._foreach_add_(list(increased.values()), 1)


def _find_norms(network: nn.Module) -> list[_BatchNorm]:
    norms: list[_BatchNorm] = []
    for module in network.modules():
        if isinstance(module, Compiled):
            # A compiler fuses the additions into its own kernels.
            return []
        # Without a momentum, a norm reads its counter.
        if not isinstance(module, _BatchNorm) or module.momentum is None:
            continue
        if module._buffers.get(_COUNTER) is not None:
            norms.append(module)
    return norms
