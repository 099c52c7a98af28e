"""The forward and the backward pass over a minibatch: compiled, exchanged, counted, captured.

Invariants:
- There is one computation. Whether its operations are launched one by one or captured in CUDA
  graphs, the two functions of `Passes` are run.
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
- With CUDA graphs (`computing.cuda_graphs`), each pass is one launch. Results equal those without:
  dropout draws from the device's generator, which a replay seeds for its step; random numbers that
  a network draws on the host would be the same in each replay, so this is refused. A network's
  weights, buffers and gradients keep their addresses after the capture.

The forward and the backward pass are two graphs, so that the loss is copied to the host while the
backward pass computes. If a step has several minibatches, two more graphs accumulate the gradient.
Only a single process is supported. DistributedDataParallel's exchange during the backward pass
could be captured, too, but NCCL's watchdog does not see the communication of a replay: if one
process failed, the others would wait for ever.

Shapes: B utterances.
"""

from __future__ import annotations

import copy
import gc
import inspect
import random
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torchaudio.models.wav2vec2.components import Transformer

from asdf.data.training_plan import Window, minibatch_per_process
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.attached import completed
from asdf.networks.front_ends.encoder_layers import layers_compiled
from asdf.networks.functions import is_plain
from asdf.networks.interface import Outputs, as_outputs
from asdf.runs.log import LOG
from asdf.settings.sections import Computing, FrontEnd, Sections
from asdf.training.gradients import Precision
from asdf.training.losses import Targets
from asdf.training.objective import Objective, inputs_in_training

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
# These steps create what a capture needs: library handles, the loss scale, the optimiser's moments.
EAGER_STEPS = 3
# Packages whose layers neither synchronise nor draw random numbers on the host in training.
_KNOWN = {"asdf", "torch", "torchaudio"}


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


@dataclass(frozen=True)
class _Pair:
    """The captured passes over a minibatch.

    Attributes:
        losses_B, noted: Losses, and values of the terms, to which the forward pass writes.
    """

    forward: torch.cuda.CUDAGraph
    backward: torch.cuda.CUDAGraph
    losses_B: Tensor
    noted: dict[str, Tensor]


class GraphedPasses:
    """`Passes` with graphs for windows of whole minibatches.

    Args:
        whole: Number of utterances of a whole minibatch.
        gives_up: Whether passes that cannot be captured, or do not fit into memory, are computed
            without graphs.
    """

    def __init__(self, eager: Passes, whole: int, gives_up: bool = False) -> None:
        self.eager = eager
        self.model = eager.model
        self._whole = whole
        self._gives_up = gives_up
        self._gave_up = False
        self._steps = 0
        self._pairs: dict[bool, _Pair] = {}
        self._gradients: list[tuple[nn.Parameter, Tensor]] = []
        self._adds = False

    def for_window(self, window: Window) -> Passes | GraphedPasses:
        """Return these passes, or those without graphs for a shorter window or one of the first."""
        if any(not len(each.utterances) == each.counted == self._whole for each in window.shares):
            return self.eager
        self._steps += 1
        self._adds = False
        return self.eager if self._steps <= EAGER_STEPS or self._gave_up else self

    def forward(self, clips: Tensor, targets: Targets) -> Tensor:
        """Return the losses of a whole minibatch, as in `Passes.forward`.

        Raises:
            UsageError: the passes cannot be captured.
        """
        if not self._pairs and not self._gave_up:
            self._prepare(clips, targets)
        if self._adds not in self._pairs and not self._gave_up:
            self._capture_or_give_up()
        if self._gave_up:
            return self.eager.forward(clips, targets)
        self._clips.copy_(clips)
        for known, new in zip(tensors_of(self._targets), tensors_of(targets), strict=True):
            known.copy_(new)
        pair = self._pairs[self._adds]
        pair.forward.replay()
        self.eager.objective.noted.update(pair.noted)
        # The next replay overwrites this tensor.
        return pair.losses_B.clone()

    def backward(self, losses_B: Tensor, factor: float) -> None:
        """Add the gradient of the last minibatch, as in `Passes.backward`."""
        if self._gave_up:
            self.eager.backward(losses_B, factor)
            return
        self._factor.fill_(factor)
        self._pairs[self._adds].backward.replay()
        if not self._adds:
            # The previous step has detached the gradients from the parameters; the tensors still
            # exist, and each replay writes to them.
            for parameter, gradient in self._gradients:
                parameter.grad = gradient
        self._adds = True

    def _prepare(self, clips: Tensor, targets: Targets) -> None:
        if self._gives_up and not _has_room(clips.device):
            self._give_up("the GPU has too little memory left for them")
            return
        LOG.info("the passes over a minibatch are captured as CUDA graphs")
        self._clips = torch.empty_like(clips)
        self._targets = copy.deepcopy(targets)
        self._factor = torch.empty((), device=clips.device)
        self._stream = _capturing_stream(clips.device)
        self._pool = torch.cuda.graph_pool_handle()

    def _capture_or_give_up(self) -> None:
        if not self._gives_up:
            self._pairs[self._adds] = self._capture_checked()
            return
        # A capture that fails may have drawn numbers, which the passes without graphs draw again.
        of_torch = torch.get_rng_state()
        of_numpy = np.random.get_state()
        of_python = random.getstate()
        try:
            self._pairs[self._adds] = self._capture_checked()
        except (UsageError, torch.OutOfMemoryError) as error:
            torch.set_rng_state(of_torch)
            np.random.set_state(of_numpy)
            random.setstate(of_python)
            self._give_up(str(error).partition("\n")[0])

    def _give_up(self, reason: str) -> None:
        LOG.info("CUDA graphs not used: %s", reason)
        self._gave_up = True
        self._pairs.clear()
        # The memory of the graphs goes to the passes without them.
        torch.cuda.empty_cache()

    def _capture_checked(self) -> _Pair:
        # No autograd graph of an earlier step may be alive.
        gc.collect()
        before = _host_draws()
        try:
            pair = self._capture()
        except RuntimeError as error:
            # This error broke the capture, whose end then fails as well, without the reason.
            cause = error
            while isinstance(cause.__context__, RuntimeError):
                cause = cause.__context__
            if isinstance(cause, torch.OutOfMemoryError):
                # The network is not at fault, and the advice would mislead.
                raise cause from None
            reason = str(cause).partition("\n")[0].rstrip(".")
            raise UsageError(
                "computing.cuda_graphs = True: the passes over a minibatch cannot be captured: "
                f"{reason}. A network must not wait for the device in training, nor send it "
                "numbers from the host. Set computing.cuda_graphs = False to train without."
            ) from error
        if _host_draws() != before:
            raise UsageError(
                "computing.cuda_graphs = True: in training the network draws random numbers on the "
                "host, which a graph would repeat in each step. Draw them on the device, or set "
                "computing.cuda_graphs = False."
            )
        return pair

    def _capture(self) -> _Pair:
        forward = torch.cuda.CUDAGraph()
        backward = torch.cuda.CUDAGraph()
        with self._capturing(forward):
            losses_B = self.eager.forward(self._clips, self._targets)
        with self._capturing(backward):
            self.eager.backward(losses_B, self._factor)
        if not self._adds:
            # Parameters had no gradient at the capture, so the graph writes it instead of adding to
            # it.
            pairs = [(parameter, parameter.grad) for parameter in self.model.parameters()]
            self._gradients = [(each, gradient) for each, gradient in pairs if gradient is not None]
        noted = dict(self.eager.objective.noted)
        return _Pair(forward, backward, losses_B.detach(), noted)

    def _capturing(self, graph: torch.cuda.CUDAGraph) -> torch.cuda.graph:
        # Capture only this thread's work, since the loader's threads use the device meanwhile.
        return torch.cuda.graph(
            graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
        )


@cache
def _capturing_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream of all captures, since cuBLAS allocates 64 MiB for each stream."""
    return torch.cuda.Stream(device)


def tensors_of(targets: Targets) -> list[Tensor]:
    """Return the tensors of targets without further inputs, in an order that is always the same."""
    tensors = [targets.labels_B]
    for term in targets.terms.values():
        tensors += [term.values, term.factor]
    if targets.weights_B is not None:
        tensors.append(targets.weights_B)
    return tensors if targets.partners is None else [*tensors, *tensors_of(targets.partners)]


def _has_room(device: torch.device) -> bool:
    """Return whether graphs leave a quarter of the memory, which a scoring batch may need."""
    free, total = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_allocated(device)
    cached = torch.cuda.memory_reserved(device) - held
    # Graphs compute in memory of their own, as much as a step has used so far.
    step = torch.cuda.max_memory_allocated(device) - held
    return free + cached - step >= total / 4


def _host_draws() -> tuple[object, ...]:
    """Return the random states of the host, for comparison."""
    # As text, since the state is a dictionary with an array, and comparing arrays gives an array.
    numpy_state = repr(np.random.get_state(legacy=False))
    return bytes(torch.get_rng_state().numpy()), numpy_state, random.getstate()


def prepare_passes(
    network: nn.Module,
    settings: Sections,
    world: World,
    objective: Objective,
    precision: Precision,
    scaler: torch.amp.GradScaler,
    once: bool = True,
) -> tuple[Passes, GraphedPasses | None]:
    """Return the passes over a minibatch of this rank, without and with CUDA graphs.

    All ranks call this together.

    Args:
        once: Whether a step passes over each minibatch once, for a network that takes only
            waveforms; other passes are not captured.
    """
    whole_minibatch = minibatch_per_process(settings.network, world.size)
    model = network
    if settings.computing.compile:
        LOG.info("the next step compiles the network, which takes a while")
        model = compile_network(model, settings.computing.compile, whole_minibatch)
    model = exchange_gradients(model, world)
    passes = Passes(model, precision, scaler, objective)
    wanted = settings.computing.cuda_graphs
    if wanted is True and world.device.type != "cuda":
        LOG.info("CUDA graphs not used: no GPU")
    if not wanted or world.device.type != "cuda":
        return passes, None
    once = once and not inputs_in_training(network, settings)
    if not once or (wanted == "auto" and not _suits_graphs(network, settings, world, objective)):
        return passes, None
    return passes, GraphedPasses(passes, whole_minibatch, gives_up=wanted == "auto")


def _suits_graphs(
    network: nn.Module, settings: Sections, world: World, objective: Objective
) -> bool:
    """Return whether a run that does not request graphs satisfies all their requirements.

    Code outside ASDF may do anything in a pass, and a graph repeats only operations of the device.
    """
    computing, front_end, loss = settings.computing, settings.front_end, type(objective.loss)
    obstacles = (
        *(world.size > 1, computing.compile, computing.profile_steps),
        *(front_end.time_mask_proportion, front_end.channel_mask_proportion, front_end.layer_drop),
        front_end.gradient_checkpointing and front_end.dropout,
        *(loss.is_joint, loss.columns),
        not all(path.startswith("asdf.") for path in settings.network.callbacks),
    )
    parts = [*network.modules(), *objective.loss.modules(), *objective.terms]
    packages = {type(part).__module__.partition(".")[0] for part in parts}
    are_plain = all(is_plain(part) for part in parts if isinstance(part, nn.Module))
    return not any(obstacles) and packages <= _KNOWN and are_plain
