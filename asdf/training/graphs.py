"""The passes over a minibatch as CUDA graphs (`computing.cuda_graphs`): each one is one launch.

Invariants:
- Results equal those without. Dropout draws from the device's generator, which a replay seeds for
  its step; random numbers and plain attributes that a network changes on the host would stay the
  same in each replay, so this is refused. Modules that are not ASDF's or torch's are compared with
  a pass without graphs as soon as they are captured.
- A network's weights, buffers and gradients keep their addresses after the capture.
- On several processes all ranks capture, replay or give up together, and sum the same buckets in
  the same order as DistributedDataParallel: the gradient has the same bits.

The forward and the backward pass are two graphs, so that the loss is copied to the host while the
backward pass computes. If a step has several minibatches, two more graphs accumulate the gradient.
On several processes, one more writes the gradient into the buckets, which are summed after it: a
sum within a graph would be hidden from NCCL's watchdog. Sums of batch norm over all processes have
to be within, so there graphs are only used on request; the sum of the buckets waits for the replay,
so the watchdog notices a replay that hangs.

Shapes: B utterances.
"""

from __future__ import annotations

import copy
import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from asdf.data.training_plan import Window, minibatch_per_process
from asdf.distributed.gpus import start_counting_memory
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.functions import is_plain
from asdf.networks.output_check import left_unchanged
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.gradients import Precision
from asdf.training.losses import Loss, Targets
from asdf.training.losses.loss import Term
from asdf.training.objective import Objective, inputs_in_training
from asdf.training.passes import Passes, compile_network, exchange_gradients

# These steps create what a capture needs: library handles, the loss scale, the optimiser's moments.
EAGER_STEPS = 3
# Packages whose layers neither synchronise nor keep numbers on the host in training.
_KNOWN = {"asdf", "torch", "torchaudio"}
# DistributedDataParallel holds the ends of the backward pass, which began on another stream; newer
# versions of torch can move them to that of the capture.
_MOVE_ENDS: Callable[[bool], None] | None = getattr(
    torch.autograd.graph, "set_override_stale_capture_stream", None
)
# A replay may differ from a pass without graphs by what kernels that sum in any order differ.
_TOLERANCE = 0.01
_SETTING = "computing.cuda_graphs = True"
_ADVICE = "Set computing.cuda_graphs = False to train without."


def obstacle_to_graphs(
    network: nn.Module, settings: Sections, processes: int, loss: type[Loss], once: bool = True
) -> str:
    """Return why the passes over a minibatch are not captured on a GPU; '' if this can be tried.

    Args:
        once: Whether a step passes over each minibatch once.
    """
    computing, front_end = settings.computing, settings.front_end
    inputs = inputs_in_training(network, settings)
    norms = any(isinstance(module, _BatchNorm) for module in network.modules())
    exchanges = computing.sync_batch_norm and processes > 1 and norms
    reasons = {
        "computing.cuda_graphs = False": not computing.cuda_graphs,
        "computing.compile joins operations in another way": computing.compile,
        "computing.profile_steps shows the operations one by one": computing.profile_steps,
        "network.training_step passes over a minibatch in its own way": not once,
        f"the network takes {', '.join(inputs)} besides waveforms": inputs,
        "front_end.layer_drop draws on the host": front_end.layer_drop,
        "the masks of front_end draw on the host": front_end.time_mask_proportion
        or front_end.channel_mask_proportion,
        "this version of torch does not capture on several processes": processes > 1
        and _MOVE_ENDS is None,
        "the loss is that of a whole step": loss.is_joint,
        "the loss takes columns of the training list": loss.columns,
        "batch norm exchanges statistics between processes (computing.cuda_graphs = True captures "
        "that as well, computing.sync_batch_norm = False does not exchange)": exchanges
        and computing.cuda_graphs == "auto",
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


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
        once: Whether a step passes over each minibatch once.
    """
    computing = settings.computing
    whole_minibatch = minibatch_per_process(settings.network, world.size)
    model = network
    if computing.compile:
        LOG.info("the next step compiles the network, which takes a while")
        model = compile_network(model, computing.compile, whole_minibatch)
    model = exchange_gradients(model, world)
    passes = Passes(model, precision, scaler, objective)
    if world.device.type != "cuda":
        obstacle = "no GPU"
        is_told = computing.cuda_graphs is True
    else:
        obstacle = obstacle_to_graphs(network, settings, world.size, type(objective.loss), once)
        is_told = bool(obstacle and computing.cuda_graphs)
    if is_told:
        LOG.info("CUDA graphs not used: %s", obstacle)
    if obstacle:
        return passes, None
    return passes, GraphedPasses(passes, whole_minibatch, world, computing.cuda_graphs == "auto")


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


class Buckets:
    """The buckets of DistributedDataParallel, which sends gradients without its hooks.

    Args:
        model: Network whose first pass has been made; all ranks create this together.

    Attributes:
        views: Part of a bucket for the gradient of each parameter.
    """

    def __init__(self, model: DistributedDataParallel, world: World) -> None:
        self._world = world
        # It lays out the buckets for good, and leaves views of them as gradients.
        model(None).backward()
        gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
        self.views = {each: gradient for each, gradient in gradients if gradient is not None}
        whole = {view.untyped_storage().data_ptr(): view for view in self.views.values()}
        self._buckets = [view.new_empty(0).set_(view.untyped_storage()) for view in whole.values()]
        for parameter in self.views:
            parameter.grad = None

    def fill(self, gradients: Sequence[tuple[nn.Parameter, Tensor]]) -> None:
        """Write this rank's share of the mean gradient."""
        for parameter, gradient in gradients:
            torch.mul(gradient, 1 / self._world.size, out=self.views[parameter])

    def exchange(self) -> None:
        """Sum the buckets over the ranks, and make them the gradient of the parameters."""
        for bucket in self._buckets:
            self._world.sum_tensor(bucket)
        for parameter, view in self.views.items():
            parameter.grad = view


class GraphedPasses:
    """`Passes` with graphs for windows of whole minibatches.

    Args:
        whole: Number of utterances of a whole minibatch.
        gives_up: Whether passes that cannot be captured, or do not fit into memory, are computed
            without graphs.
    """

    def __init__(
        self, eager: Passes, whole: int, world: World | None = None, gives_up: bool = False
    ) -> None:
        self.eager = eager
        self.model = eager.model
        self._world = world or World()
        self._whole = whole * self._world.size
        self._gives_up = gives_up
        self._gave_up = False
        self._lacked_room = False
        self._steps = 0
        self._left = 0
        self._pairs: dict[bool, _Pair] = {}
        self._gradients: list[tuple[nn.Parameter, Tensor]] = []
        self._adds = False
        # The captured operations are those of this process alone.
        model = self.model
        self._bare = eager
        if isinstance(model, DistributedDataParallel):
            self._bare = replace(eager, model=model.module)
        self._buckets: Buckets | None = None
        self._fill: torch.cuda.CUDAGraph | None = None

    def for_window(self, window: Window) -> Passes | GraphedPasses:
        """Return these passes, or those without graphs for a shorter window or one of the first."""
        if len(window.utterances) < self._whole * len(window.shares):
            return self.eager
        if self._lacked_room and window.start == 0:
            # Others may have left the GPU since the last epoch.
            self._gave_up, self._steps = False, EAGER_STEPS - 1
        self._steps += 1
        self._adds = False
        self._left = len(window.shares)
        if self._steps == EAGER_STEPS and self._gives_up:
            # The peak is then that of a step, not of a validation before it.
            start_counting_memory(self._world.device)
        return self.eager if self._steps <= EAGER_STEPS or self._gave_up else self

    def forward(self, clips: Tensor, targets: Targets) -> Tensor:
        """Return the losses of a whole minibatch, as in `Passes.forward`.

        Raises:
            UsageError: the passes cannot be captured.
        """
        if not self._pairs and not self._gave_up:
            self._prepare(clips, targets)
        if self._adds not in self._pairs and not self._gave_up:
            self._capture_or_give_up(clips, targets)
        if self._gave_up:
            return self.eager.forward(clips, targets)
        pair = self._replay_forward(clips, targets)
        self.eager.objective.noted.update(pair.noted)
        # The next replay overwrites this tensor.
        return pair.losses_B.clone()

    def _replay_forward(self, clips: Tensor, targets: Targets) -> _Pair:
        self._clips.copy_(clips)
        for known, new in zip(tensors_of(self._targets), tensors_of(targets), strict=True):
            known.copy_(new)
        pair = self._pairs[self._adds]
        pair.forward.replay()
        return pair

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
        self._left -= 1
        if not self._left and self._buckets is not None and self._fill is not None:
            self._fill.replay()
            self._buckets.exchange()

    def _prepare(self, clips: Tensor, targets: Targets) -> None:
        self._lacked_room = False
        if self._gives_up and self._agreed(not _has_room(clips.device)):
            self._give_up("the GPU has too little memory left for them", lacks_room=True)
            return
        LOG.info("the passes over a minibatch are captured as CUDA graphs")
        if isinstance(self.model, DistributedDataParallel):
            self._buckets = Buckets(self.model, self._world)
        self._clips = torch.empty_like(clips)
        self._targets = copy.deepcopy(targets)
        self._factor = torch.empty((), device=clips.device)
        self._stream = _capturing_stream(clips.device)
        self._pool = torch.cuda.graph_pool_handle()

    def _agreed(self, obstructed: bool) -> bool:
        """Return whether any rank is obstructed."""
        return bool(self._world.sum([float(obstructed)])[0])

    def _capture_or_give_up(self, clips: Tensor, targets: Targets) -> None:
        reason, lacks_room, device = "", False, clips.device
        drawn = torch.cuda.get_rng_state(device) if clips.is_cuda else None
        try:
            # A capture that fails may have drawn numbers, which the passes without draw again.
            with left_unchanged(self.model):
                self._pairs[self._adds] = self._capture_checked()
            if not self._adds and not self._is_known():
                self._compare(clips, targets)
        except (UsageError, torch.OutOfMemoryError) as error:
            if drawn is not None:
                # After a failed capture, the generator of torch 2.11 refuses to draw.
                generator = torch.cuda.default_generators[device.index]
                generator.graphsafe_set_state(torch.Generator(device).graphsafe_get_state())
                generator.set_state(drawn)
            if not self._gives_up:
                raise
            reason = str(error).partition("\n")[0]
            lacks_room = isinstance(error, torch.OutOfMemoryError)
        if self._agreed(bool(reason)):
            self._give_up(reason or "another process cannot capture them", lacks_room)

    def _give_up(self, reason: str, lacks_room: bool) -> None:
        LOG.info("CUDA graphs not used: %s", reason)
        self._gave_up = True
        self._lacked_room = self._agreed(lacks_room)
        self._pairs.clear()
        self._gradients, self._buckets, self._fill = [], None, None
        # The memory of the graphs goes to the passes without them.
        torch.cuda.empty_cache()

    def _is_known(self) -> bool:
        """Return whether every part of the passes is ASDF's or torch's."""
        objective = self.eager.objective
        parts = [*self._bare.model.modules(), *objective.loss.modules(), *objective.terms]
        return {type(part).__module__.partition(".")[0] for part in parts} <= _KNOWN

    def _compare(self, clips: Tensor, targets: Targets) -> None:
        """Compare the pass that was captured first with the same one without graphs.

        Raises:
            UsageError: they differ, or a part sets numbers of its own before each step.
        """
        objective = self.eager.objective
        parts: list[Loss | Term] = [objective.loss, *objective.terms]
        for part in parts:
            if part.begin_step.__module__.partition(".")[0] not in _KNOWN:
                raise UsageError(
                    f"{_SETTING}: a graph would keep what {type(part).__name__}.begin_step sets on "
                    f"the host. {_ADVICE}"
                )
        model, parameters = self.model, [parameter for parameter, _ in self._gradients]
        for parameter in parameters:
            parameter.grad = None
        with left_unchanged(model):
            losses_B = self._bare.forward(clips, targets)
            self._bare.backward(losses_B, 1.0)
        expected = [each.grad for each in parameters if each.grad is not None]
        for parameter in parameters:
            parameter.grad = None
        self._factor.fill_(1.0)
        with left_unchanged(model):
            pair = self._replay_forward(clips, targets)
            pair.backward.replay()
        found = [gradient for _, gradient in self._gradients]
        is_same = is_near([pair.losses_B], [losses_B.detach()]) and is_near(found, expected)
        if not is_same:
            raise UsageError(
                f"{_SETTING}: a replay of the passes differs from passes without graphs, so the "
                f"network depends on more than its inputs and weights. {_ADVICE}"
            )

    def _capture_checked(self) -> _Pair:
        # No autograd graph of an earlier step may be alive.
        gc.collect()
        modules = [*self._bare.model.modules(), *self.eager.objective.loss.modules()]
        # Who requests graphs may know that a hook or an attribute does not matter.
        if self._gives_up and not all(is_plain(module) for module in modules):
            raise UsageError("a graph does not call the hooks of modules")
        draws, attributes = _host_draws(), _host_attributes(modules)
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
                f"{_SETTING}: the passes over a minibatch cannot be captured: {reason}. A network "
                "must not wait for the device in training, nor send it numbers from the host. "
                f"{_ADVICE}"
            ) from error
        if _host_draws() != draws:
            raise UsageError(
                f"{_SETTING}: in training the network draws random numbers on the host, not on the "
                f"device, and a graph would repeat them in each step. {_ADVICE}"
            )
        if self._gives_up and _host_attributes(modules) != attributes:
            raise UsageError(
                "in training the network changes attributes that are no buffers, which a graph "
                "would not"
            )
        return pair

    def _capture(self) -> _Pair:
        forward = torch.cuda.CUDAGraph()
        backward = torch.cuda.CUDAGraph()
        with self._capturing(forward):
            losses_B = self._bare.forward(self._clips, self._targets)
        with _ends_moved(), self._capturing(backward):
            self._bare.backward(losses_B, self._factor)
        if not self._adds:
            # Parameters had no gradient at the capture, so the graph writes it instead of adding to
            # it.
            pairs = [(parameter, parameter.grad) for parameter in self.model.parameters()]
            self._gradients = [(each, gradient) for each, gradient in pairs if gradient is not None]
            if self._buckets is not None:
                self._fill = torch.cuda.CUDAGraph()
                with self._capturing(self._fill):
                    self._buckets.fill(self._gradients)
        noted = dict(self.eager.objective.noted)
        return _Pair(forward, backward, losses_B.detach(), noted)

    def _capturing(self, graph: torch.cuda.CUDAGraph) -> torch.cuda.graph:
        # Capture only this thread's work, since the loader's threads use the device meanwhile.
        return torch.cuda.graph(
            graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
        )


@contextmanager
def _ends_moved() -> Iterator[None]:
    """Let a backward pass in the block end on the stream of its capture."""
    if _MOVE_ENDS is None:
        yield
        return
    _MOVE_ENDS(True)
    try:
        yield
    finally:
        _MOVE_ENDS(False)


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


def is_near(found: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    """Return whether tensors differ by at most a hundredth of their common 2-norm."""
    apart = [(a.float() - b.float()).norm() for a, b in zip(found, expected, strict=True)]
    size = [each.float().norm() for each in expected]
    return bool(torch.stack(apart).norm() <= _TOLERANCE * torch.stack(size).norm())


def _has_room(device: torch.device) -> bool:
    """Return whether graphs leave a quarter of the memory, which a scoring batch may need."""
    free, total = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_allocated(device)
    cached = torch.cuda.memory_reserved(device) - held
    # Graphs compute in memory of their own, as much as the step before has used.
    step = torch.cuda.max_memory_allocated(device) - held
    return free + cached - step >= total / 4


def _host_draws() -> tuple[object, ...]:
    """Return the random states of the host, for comparison."""
    # As text, since the state is a dictionary with an array, and comparing arrays gives an array.
    numpy_state = repr(np.random.get_state(legacy=False))
    return bytes(torch.get_rng_state().numpy()), numpy_state, random.getstate()


def _host_attributes(modules: Sequence[nn.Module]) -> list[tuple[str, object]]:
    """Return the attributes of modules that are numbers or texts, with their names."""
    attributes = [item for module in modules for item in vars(module).items()]
    return [item for item in attributes if isinstance(item[1], int | float | str)]
