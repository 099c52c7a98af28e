"""The utterances of an optimiser step, and passes over them, for training steps.

Invariants: the gradient of a pass is that of a mean over utterances of the whole step, however
processes divide it. Passes with the same `draw` use the same random numbers, so two passes at the
same weights give the same results. The first pass gives the recorded losses. Each minibatch is read
once, when it is first needed; a step that passes over them once holds one at a time, any other
keeps them. Directions are in units of the loss, independent of fp16's loss scale.

Shapes: N utterances of a step, B of a minibatch, T samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

from asdf.arrays import AnyIntegers
from asdf.data.batches import Batch
from asdf.data.training_plan import Window
from asdf.distributed.gpus import fetch_later, send
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.networks.interface import Outputs, as_outputs, further_inputs
from asdf.networks.output_check import numbers_unchanged
from asdf.runs.seeds import derived_seed, generator
from asdf.training.gradients import LastStep
from asdf.training.graphs import GraphedPasses
from asdf.training.objective import StepWeights, TargetSource
from asdf.training.passes import Passes, compile_errors_as_usage_errors, exchange_now
from asdf.training.profile import BACKWARD, DATA, FORWARD, StepClock
from asdf.training.steps.window_parts import Direction, JointPasses, Minibatch, second_derivative
from asdf.training.training_progress import seed_step
from asdf.trials.trial_list import TrialList, values_at

AnyPasses = Passes | GraphedPasses | JointPasses
OwnLoss = Callable[[Outputs, Minibatch], Tensor]
"""A function of a minibatch's outputs and the minibatch that returns a value per utterance, (B,),
its contribution to the step's loss, which is the sum over the utterances of all processes.
"""


@dataclass(frozen=True)
class WindowLosses:
    """The losses of a window.

    Attributes:
        counted: Losses of this rank's utterances that count, on the device.
        fetch: Function that returns their sum, the numbers of the previous step, and the sums of
            the terms, in float64 on the host.
        of_step_before: Number of values from the previous step.
        terms: Names of the terms that were computed.
    """

    counted: Tensor
    fetch: Callable[[], Tensor]
    of_step_before: int
    terms: Sequence[str]


@dataclass(frozen=True)
class StepParts:
    """The parts of a step's passes that are the same in each step.

    Attributes:
        eager: Passes without CUDA graphs.
        graphed: Passes with them; None if the settings want none.
        network: Network that is trained, called on minibatches.
        parameters: Parameters that are trained.
        compiled: Value of `computing.compile`.
    """

    eager: Passes
    graphed: GraphedPasses | None
    network: nn.Module
    parameters: Sequence[nn.Parameter]
    utterances: TrialList
    targets: TargetSource
    last: LastStep
    clock: StepClock
    world: World
    seed: int
    compiled: bool | str


class StepWindow:
    """The utterances of an optimiser step, and passes over them.

    Attributes:
        step: Number of steps taken before this one.
        epochs: Epochs done before it, including the part of the current one, such as 2.25.
        losses: Losses of the first pass; None before it.

    Args:
        clips: Loader, whose next batches are this process's minibatches.
        keeps: Whether minibatches stay in memory for further passes.
    """

    def __init__(
        self,
        parts: StepParts,
        window: Window,
        clips: Iterator[Batch],
        *,
        step: int,
        epochs: float,
        keeps: bool,
    ) -> None:
        self.step = step
        self.epochs = epochs
        self.losses: WindowLosses | None = None
        self._parts = parts
        self._window = window
        self._batches = clips
        self._keeps = keeps
        self._kept: list[Minibatch] = []
        self._is_read = False
        # Every rank knows the labels of the whole window, so sums need no exchange.
        self._whole = parts.targets.weights(window.clip_keys())
        # Of the current pass, which may be over a part of the window.
        self._normaliser = self._whole.normaliser
        self._term_sums: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self._window.utterances)

    @property
    def network(self) -> nn.Module:
        """The network that is trained."""
        return self._parts.network

    @property
    def utterances(self) -> TrialList:
        """The training list."""
        return self._parts.utterances

    @property
    def indices(self) -> AnyIntegers:
        """Indices of the utterances of all processes into the training list, (N,)."""
        return self._window.utterances

    @property
    def labels(self) -> AnyIntegers:
        """Labels of the utterances of all processes, (N,): 1 bona fide, 0 spoof, -1 none."""
        labels: AnyIntegers = self._parts.targets.labels_of(self._window.clip_keys()).numpy()
        return labels

    def counts_of(self, terms: Sequence[str]) -> dict[str, float]:
        """Return the denominators of the terms' means."""
        return {name: self._whole.counts[name] for name in terms}

    def column(self, name: str) -> list[str]:
        """Return a column of the training list for the utterances of all processes.

        Raises:
            AsdfError: the list has no such column.
        """
        columns = self._parts.utterances.columns
        if name not in columns:
            names = ", ".join(columns) or "none"
            raise AsdfError(f"the training list has no column {name!r}; it has: {names}.")
        return list(values_at(columns[name], self.indices))

    def generator(self, *purpose: int | str) -> np.random.Generator:
        """Return a random generator for a purpose in this step, the same on all processes."""
        return generator(self._parts.seed, "training step", self.step, *purpose)

    def clip_generators(
        self, minibatch: Minibatch, *purpose: int | str
    ) -> list[np.random.Generator]:
        """Return a random generator for a purpose and each clip of a minibatch, (B,).

        They are the same on whichever process the clip is.
        """
        seed = self._parts.seed
        keys = minibatch.share.clip_keys()
        return [generator(seed, "training step", *purpose, *key) for key in keys]

    @property
    def minibatches(self) -> Sequence[Minibatch]:
        """The minibatches of this process."""
        if not self._kept:
            self._kept = list(self._read())
        return self._kept

    @property
    def normaliser(self) -> float:
        """The denominator of the step's mean."""
        return self._whole.normaliser

    def backward(
        self,
        *,
        of: AnyIntegers | None = None,
        loss: OwnLoss | None = None,
        clips: Sequence[Tensor] | None = None,
        moves_statistics: bool = True,
        draw: int = 0,
    ) -> None:
        """Pass over the minibatches, and leave the gradient of all processes in the weights.

        Args:
            of: Mask of the utterances whose mean loss is computed, (N,) bool; None for all of the
                window. The others are computed for batch norm with weight zero.
            loss: Function for a custom loss; None for `network.loss` and the terms of tasks.
            clips: Clips that replace those of the minibatches.
            moves_statistics: Whether the pass updates batch norm's running statistics.
            draw: Number that selects the random numbers of dropout and the like; passes with the
                same number draw the same.

        Raises:
            AsdfError: the weights have the gradient of another pass, or `of` selects nothing.
        """
        parts = self._parts
        self._check_free()
        if of is not None or loss is not None:
            self._check_divisible()
        weights = self._weights_of(of)
        self._normaliser = weights.normaliser
        minibatches = self._of_pass(of, clips, weights)
        passes, minibatches = self._passes(minibatches, draw)
        # DistributedDataParallel takes the mean over the ranks, but the loss is a sum.
        factor = parts.world.size / (weights.normaliser if loss is None else 1.0)
        noted: list[Tensor] | None = [] if self.losses is None else None
        with nullcontext() if moves_statistics else numbers_unchanged(parts.network):
            for minibatch in minibatches:
                is_last = minibatch.number == len(self._window.shares)
                # After reading, so that draws of a loader do not change those of the network.
                self._seed(minibatch.number, draw)
                sends = exchange_now(parts.eager.model, is_last)
                with sends, compile_errors_as_usage_errors(parts.compiled):
                    with parts.clock.part(FORWARD):
                        losses_B = self._forward(passes, minibatch, loss, noted)
                        if is_last and noted is not None:
                            self._send(noted)
                        losses_B = self._chosen_of(losses_B, minibatch, of)
                    with parts.clock.part(BACKWARD):
                        passes.backward(losses_B, factor)

    def gradient(
        self,
        *,
        of: AnyIntegers | None = None,
        loss: OwnLoss | None = None,
        clips: Sequence[Tensor] | None = None,
        moves_statistics: bool = True,
        draw: int = 0,
    ) -> Direction:
        """Return the gradient of a pass, without leaving one in the weights.

        Args: as in `backward`. Raises as it does.
        """
        self.backward(of=of, loss=loss, clips=clips, moves_statistics=moves_statistics, draw=draw)
        parts = self._parts
        is_shared = isinstance(parts.eager.model, DistributedDataParallel)
        values = [parameter.grad for parameter in parts.parameters]
        if is_shared:
            # The next pass overwrites the buckets that these gradients are views of.
            values = [None if value is None else value.clone() for value in values]
        for parameter in parts.parameters:
            parameter.grad = None
        scale = self._scale()
        found = Direction(parts.parameters, values)
        return found if scale is None else found * scale.reciprocal()

    def set_gradient(self, direction: Direction) -> None:
        """Set `direction` as the gradient of the step.

        Raises:
            AsdfError: the weights have the gradient of a pass.
        """
        self._check_free()
        scale = self._scale()
        if scale is not None:
            direction = direction * scale
        for parameter, value in zip(direction.parameters, direction.values, strict=True):
            if value is not None:
                parameter.grad = value

    def weights(self) -> Direction:
        """Return a copy of the trained weights."""
        values = [parameter.detach().clone() for parameter in self._parts.parameters]
        return Direction(self._parts.parameters, values)

    @contextmanager
    def moved(self, direction: Direction) -> Iterator[None]:
        """Compute at the weights plus `direction` in the block, and restore the weights exactly."""
        before = self.weights()
        try:
            with torch.no_grad():
                for parameter, value in zip(direction.parameters, direction.values, strict=True):
                    if value is not None:
                        parameter.add_(value)
            yield
        finally:
            for parameter, value in zip(before.parameters, before.values, strict=True):
                assert value is not None
                parameter.detach().copy_(value)

    def curvature(
        self,
        direction: Direction,
        *,
        of: AnyIntegers | None = None,
        loss: OwnLoss | None = None,
        draw: int = 0,
    ) -> Direction:
        """Return the loss's second derivative times `direction`, at the current weights.

        The step's class must set `needs_curvature = True`.

        Args: as in `backward`.

        Source: Pearlmutter, "Fast exact multiplication by the Hessian", Neural Computation 1994.
        """
        parts = self._parts
        weights = self._weights_of(of)
        sums = [torch.zeros_like(parameter) for parameter in parts.parameters]
        for minibatch in self._of_pass(of, None, weights):
            # Fused attention has no second derivative.
            with numbers_unchanged(parts.network), sdpa_kernel(SDPBackend.MATH):
                values_B = self._values(minibatch, minibatch.clips, loss, draw, weights.normaliser)
                values_B = self._chosen_of(values_B, minibatch, of)
                products = second_derivative(values_B.sum(), direction)
            torch._foreach_add_(sums, products)
        for value in sums:
            parts.world.sum_tensor(value)
        return Direction(parts.parameters, sums)

    def clip_gradient(
        self, minibatch: Minibatch, clips: Tensor, *, loss: OwnLoss | None = None, draw: int = 0
    ) -> Tensor:
        """Return the gradient of the loss with respect to the clips of a minibatch, (B, T).

        The weights get no gradient, and batch norm's running statistics are not updated.

        Args:
            clips: Clips at which the gradient is computed, (B, T).
            loss, draw: Loss and draw as in `backward`.
        """
        with numbers_unchanged(self._parts.network):
            leaves = clips.detach().requires_grad_()
            values_B = self._values(minibatch, leaves, loss, draw, self._normaliser)
            scale = self._scale()
            loss_sum = values_B.sum() if scale is None else values_B.sum() * scale
            (slopes,) = torch.autograd.grad(loss_sum, leaves)
        return slopes if scale is None else slopes / scale

    def losses_of(self, outputs: Outputs, minibatch: Minibatch) -> Tensor:
        """Return the contributions of `network.loss` and the terms to the step's loss, (B,).

        A custom loss may add to them.
        """
        values_B = self._parts.eager.objective.of_minibatch(outputs, minibatch.targets)
        return values_B / self._normaliser

    def outputs(
        self, network: nn.Module, minibatch: Minibatch, clips: Tensor | None = None, draw: int = 0
    ) -> Outputs:
        """Return the outputs of another network, such as a teacher, in the precision of training.

        Args:
            clips: Clips that replace those of the minibatch.
            draw: Draw as in `backward`. The random numbers of the current pass are not affected.
        """
        devices = [self._parts.world.device] if self._parts.world.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            self._seed(minibatch.number, draw)
            with self._parts.eager.precision.autocast():
                known, wanted = minibatch.targets.inputs, further_inputs(network)
                inputs = {name: value for name, value in known.items() if name in wanted}
                return as_outputs(network(minibatch.clips if clips is None else clips, **inputs))

    def _values(
        self,
        minibatch: Minibatch,
        clips: Tensor,
        loss: OwnLoss | None,
        draw: int,
        normaliser: float,
    ) -> Tensor:
        """Return the contributions of the utterances that count to the step's loss."""
        self._check_divisible()
        # Without DistributedDataParallel, so that no gradient is sent.
        passes = replace(self._parts.eager, model=self._parts.network)
        self._seed(minibatch.number, draw)
        if loss is None:
            values_B = passes.forward(clips, minibatch.targets) / normaliser
        else:
            outputs = passes.outputs(clips, minibatch.targets.inputs)
            values_B = loss(outputs, replace(minibatch, clips=clips))
        return values_B[: minibatch.counted]

    def _forward(
        self,
        passes: AnyPasses,
        minibatch: Minibatch,
        loss: OwnLoss | None,
        noted: list[Tensor] | None,
    ) -> Tensor:
        """Return the values of the utterances that count, and add their losses to `noted`."""
        eager = self._parts.eager
        eager.objective.noted.clear()
        if loss is None:
            losses_B = values_B = passes.forward(minibatch.clips, minibatch.targets)
        else:
            values_B = loss(eager.outputs(minibatch.clips, minibatch.targets.inputs), minibatch)
            # Multiplied here, since the result is divided by the denominator of the step's mean.
            losses_B = values_B * self.normaliser
        if noted is not None:
            noted.append(_counted(losses_B.detach(), minibatch))
            for name, values in eager.objective.noted.items():
                total = _counted(values, minibatch).double().sum()
                so_far = self._term_sums.get(name)
                self._term_sums[name] = total if so_far is None else so_far + total
        return _counted(values_B, minibatch)

    def _send(self, noted: Sequence[Tensor]) -> None:
        """Send the sum of the losses to the host.

        The copy starts before the last backward pass, so the ranks agree on the step and the host
        prepares the next one while the GPU is still working.
        """
        counted = torch.cat(list(noted)) if len(noted) > 1 else noted[0]
        before = self._parts.last.numbers()
        sums = torch.stack([counted.double().sum(), *before, *self._term_sums.values()])
        names = list(self._term_sums)
        self.losses = WindowLosses(counted, fetch_later(sums), len(before), names)

    def _passes(
        self, minibatches: Iterable[Minibatch], draw: int
    ) -> tuple[AnyPasses, Iterable[Minibatch]]:
        """Return the passes over these minibatches, and what is left of them to be read."""
        parts = self._parts
        if parts.graphed is not None:
            return parts.graphed.for_window(self._window), minibatches
        if not parts.eager.objective.loss.is_joint:
            return parts.eager, minibatches
        minibatches = list(minibatches)
        targets = parts.targets.of_window(self._window)
        seed = partial(self._seed, draw=draw)
        with parts.clock.part(FORWARD):
            joint = JointPasses(parts.eager, minibatches, self._window, targets, parts.world, seed)
        return joint, minibatches

    def _read(self) -> Iterator[Minibatch]:
        """Read the minibatches of this rank, each on request."""
        parts = self._parts
        if self._is_read:
            raise AsdfError(
                "with keeps_minibatches = False, a training step may read its minibatches only "
                "once. Remove that line from its class."
            )
        self._is_read = True
        for number, share in enumerate(self._window.shares, 1):
            with parts.clock.part(DATA):
                batch = next(self._batches)
            # The device computes RawBoost, if it is to, which is not waiting for data.
            with parts.clock.part(FORWARD) if batch.unboosted else nullcontext():
                waveforms = batch.boosted()
            targets = parts.targets.of_share(share, self._whole, batch.further)
            yield Minibatch(number, share, waveforms, targets)

    def _of_pass(
        self, of: AnyIntegers | None, clips: Sequence[Tensor] | None, weights: StepWeights
    ) -> Iterable[Minibatch]:
        """Return the minibatches with the targets and the clips of a pass.

        Args:
            of, clips: Selection and clips as in `backward`.
            weights: Weights of the pass.
        """
        if not self._keeps and of is None and clips is None:
            return self._read()
        minibatches = list(self.minibatches)
        for number, minibatch in enumerate(minibatches):
            if of is not None:
                read = minibatch.targets
                targets = self._parts.targets.of_share(minibatch.share, weights)
                targets = replace(targets, inputs=read.inputs, lengths_B=read.lengths_B)
                minibatch = replace(minibatch, targets=targets)
            if clips is not None:
                minibatch = replace(minibatch, clips=clips[number])
            minibatches[number] = minibatch
        return minibatches

    def _weights_of(self, of: AnyIntegers | None) -> StepWeights:
        """Return the weights of the mean over the utterances that `of` selects; None for all.

        Raises:
            AsdfError: it selects none, or does not have one value for each.
        """
        if of is None:
            return self._whole
        chosen = np.flatnonzero(of)
        size = len(self._window.utterances)
        if len(of) != size or not len(chosen):
            raise AsdfError(
                f"a pass over a part of a step chooses {len(chosen)} utterances by {len(of)} "
                f"values. Choose at least one, with a value for each of its {size} utterances."
            )
        keys = self._window.clip_keys()
        return self._parts.targets.weights([keys[index] for index in chosen])

    def _chosen_of(self, values_B: Tensor, minibatch: Minibatch, of: AnyIntegers | None) -> Tensor:
        """Return the values of the utterances that `of` selects; None for all.

        Args:
            values_B: Values of the utterances that count.
        """
        if of is None:
            return values_B
        positions = minibatch.share.positions[: minibatch.counted] - self._window.start
        rows = np.flatnonzero(np.asarray(of)[positions])
        return values_B[send(torch.from_numpy(rows), self._parts.world.device)]

    def _seed(self, minibatch: int, draw: int = 0) -> None:
        parts = self._parts
        seed = derived_seed(parts.seed, "draw", draw) if draw else parts.seed
        seed_step(seed, self.step, minibatch, rank=parts.world.rank)

    def _check_divisible(self) -> None:
        if self._parts.eager.objective.loss.is_joint:
            raise AsdfError(
                "network.loss is computed on whole steps, but the training step computes it on "
                "parts. Set divides_window = True in its class."
            )

    def _check_free(self) -> None:
        has_gradient = any(each.grad is not None for each in self._parts.parameters)
        if self.losses is not None and has_gradient:
            raise AsdfError(
                "the weights still have the gradient of an earlier pass. Use window.gradient(...), "
                "which returns and clears it; window.backward(...) is for the last pass."
            )

    def _scale(self) -> Tensor | None:
        """Return fp16's loss scale, on the device; None without one."""
        scaler = self._parts.eager.scaler
        if not scaler.is_enabled():
            return None
        return scaler.scale(torch.ones((), device=self._parts.world.device))


def _counted(values_B: Tensor, minibatch: Minibatch) -> Tensor:
    """Return the values of the utterances that count, without the fillers at the end."""
    return values_B[: minibatch.counted] if len(values_B) > minibatch.counted else values_B
