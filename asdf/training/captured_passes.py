"""The passes over a minibatch as CUDA graphs (`computing.cuda_graphs`), with one launch each.

Invariants: results equal those of the same passes without graphs. Dropout draws from the device's
generator, which a replay seeds for its step. Random numbers that a network draws on the host would
be the same in each replay, so this is refused. A network's weights, buffers and gradients keep
their addresses after the capture.

The forward and the backward pass are two graphs, so that the loss is copied to the host while the
backward pass computes. If a step has several minibatches, two more graphs accumulate the gradient.

Only a single process is supported. DistributedDataParallel's exchange during the backward pass
could be captured, too, but NCCL's watchdog does not see the communication of a replay: if one
process failed, the others would wait for ever.
"""

from __future__ import annotations

import copy
import gc
import random
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from asdf.data.training_plan import Window, minibatch_per_process
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.functions import is_plain
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.gradients import Precision
from asdf.training.losses import Targets
from asdf.training.objective import Objective, inputs_in_training
from asdf.training.passes import Passes, compile_network, exchange_gradients

# These steps create what a capture needs: library handles, the loss scale, the optimiser's moments.
EAGER_STEPS = 3
# Packages whose layers neither synchronise nor draw random numbers on the host in training.
_KNOWN = ("asdf", "torch", "torchaudio")


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
        for share in window.shares:
            if not len(share.utterances) == share.counted == self._whole:
                return self.eager
        self._steps += 1
        self._adds = False
        if self._steps <= EAGER_STEPS or self._gave_up:
            return self.eager
        return self

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
                "host (of torch, numpy or Python), which a graph would repeat in each step. Draw "
                "them on the device, or set computing.cuda_graphs = False."
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
            self._gradients = []
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    self._gradients.append((parameter, parameter.grad))
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
    computing, front_end = settings.computing, settings.front_end
    if world.size > 1 or computing.compile or computing.profile_steps:
        return False
    masks = (front_end.time_mask_proportion, front_end.channel_mask_proportion)
    if any(masks) or front_end.layer_drop:
        return False
    if front_end.gradient_checkpointing and front_end.dropout:
        return False
    loss = type(objective.loss)
    if loss.is_joint or loss.columns:
        return False
    if not all(path.startswith("asdf.") for path in settings.network.callbacks):
        return False
    parts = [*network.modules(), *objective.loss.modules(), *objective.terms]
    return all(_is_known(part) for part in parts)


def _is_known(part: object) -> bool:
    known = type(part).__module__.partition(".")[0] in _KNOWN
    return known and (not isinstance(part, nn.Module) or is_plain(part))
