"""The minibatches of a step on this process, their selection for a pass, and losses of whole steps.

Invariants: each minibatch is read once, when it is first needed; a step that passes over them once
holds one at a time, any other keeps them. With a loss that depends on all utterances of the step,
the gradient is that of one big batch, however processes divide it: a first pass without gradients
computes the outputs for all utterances, every rank gathers them and computes the gradient of the
loss with respect to each output, and a second pass computes the same outputs again with the same
random numbers and starts its backward pass from these gradients. The running statistics of batch
norm include each clip once.

Shapes: N utterances of a step, B of a minibatch, E numbers in an embedding, 2 classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from asdf.arrays import AnyIntegers
from asdf.data.batches import Batch
from asdf.data.training_plan import Share, Window
from asdf.distributed.gpus import send
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.networks.interface import Outputs, as_outputs
from asdf.networks.output_check import numbers_unchanged
from asdf.training.captured_passes import GraphedPasses
from asdf.training.gradients import LastStep
from asdf.training.losses import Targets
from asdf.training.objective import Objective, StepWeights, TargetSource
from asdf.training.passes import Passes
from asdf.training.profile import DATA, FORWARD, StepClock
from asdf.trials.trial_list import TrialList

# A parameter of the loss, and the gradient with respect to it.
_Slope = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Minibatch:
    """A minibatch of this rank.

    Attributes:
        number: Number in the step, counted from 1.
        clips: Waveforms, (B, samples), or cached features.
    """

    number: int
    share: Share
    clips: Tensor
    targets: Targets

    @property
    def indices(self) -> np.ndarray:
        """Indices of its utterances in the training list, (B,)."""
        return self.share.utterances

    @property
    def counted(self) -> int:
        """Number of utterances that count, which precede the fillers for batch norm."""
        return self.share.counted


class JointPasses:
    """The second passes over the minibatches of a step, in order."""

    def __init__(
        self, passes: Passes, losses: list[Tensor], slopes: list[Tensor], parameters: list[_Slope]
    ) -> None:
        """Store values of the utterances that count in each minibatch.

        Args:
            losses: Losses, (B,).
            slopes: Gradients with respect to the embeddings and the logits, (B, E + 2).
            parameters: Parameters of the loss, with this rank's part of their gradients.
        """
        self._passes = passes
        self._left = list(zip(losses, slopes, strict=True))
        self._parameters = parameters

    def forward(self, clips: Tensor, targets: Targets) -> Tensor:
        """Return the losses of the utterances that count, (batch,).

        Their gradient with respect to the outputs is that of the whole step's loss.
        """
        known_B, slopes_BX = self._left.pop(0)
        counted = len(known_B)
        outputs = _outputs(self._passes, clips, targets.inputs)
        embeddings_BE, logits_B2 = _in_one_type(outputs)
        by_embeddings_B = (embeddings_BE[:counted] * slopes_BX[:, :-2]).sum(dim=1)
        by_logits_B = (logits_B2[:counted] * slopes_BX[:, -2:]).sum(dim=1)
        along_B = by_embeddings_B + by_logits_B
        # The value of the loss, with the gradient of its linear replacement.
        losses_B = known_B + (along_B - along_B.detach())
        if not self._passes.objective.terms:
            return losses_B
        # Further terms and their gradients concern each utterance separately.
        return self._passes.objective.with_terms(
            losses_B, outputs.first(counted), targets.first(counted)
        )

    def backward(self, losses_B: Tensor, factor: float | Tensor) -> None:
        """Add the gradient of a minibatch; the last one also adds that of the loss's parameters."""
        parts = [losses_B]
        if not self._left:
            for parameter, gradient in self._parameters:
                parts.append((parameter * gradient).sum().reshape(1))
        self._passes.backward(torch.cat(parts), factor)


def prepare_joint_passes(
    passes: Passes,
    minibatches: Sequence[Minibatch],
    window: Window,
    targets: Targets,
    world: World,
    seed: Callable[[int], None],
) -> JointPasses:
    """Compute the outputs of all utterances of a step, and the gradient of the loss at them.

    All ranks call this together.

    Args:
        passes: Passes of the network.
        targets: Targets of all utterances of `window`, in its order.
        seed: Function that seeds the random numbers for a minibatch number.
    """
    outputs = []
    with torch.no_grad(), numbers_unchanged(passes.model):
        for minibatch in minibatches:
            seed(minibatch.number)
            found = _outputs(passes, minibatch.clips, minibatch.targets.inputs)
            embeddings_BE, logits_B2 = _in_one_type(found)
            outputs.append(torch.cat([embeddings_BE, logits_B2], dim=1))
    # The positions in the window of the utterances that count.
    rows = []
    for minibatch in minibatches:
        positions = minibatch.share.positions[: minibatch.share.counted] - window.start
        rows.append(send(torch.from_numpy(positions), world.device))
    outputs_NX = outputs[0].new_zeros(len(window.utterances), outputs[0].shape[1])
    for output_BX, rows_B in zip(outputs, rows, strict=True):
        outputs_NX[rows_B] = output_BX[: len(rows_B)]
    # Each row comes from one rank, and adding zeros from the others is exact.
    world.sum_tensor(outputs_NX)
    losses_N, gradients_NX, parameters = differentiate(passes.objective, outputs_NX, targets)
    losses = [losses_N[rows_B] for rows_B in rows]
    slopes = [gradients_NX[rows_B] for rows_B in rows]
    # Every rank has computed all of it, and the step sums over the ranks.
    parts = [(parameter, gradient / world.size) for parameter, gradient in parameters]
    return JointPasses(passes, losses, slopes, parts)


def _outputs(passes: Passes, clips: Tensor, inputs: Mapping[str, Any]) -> Outputs:
    with passes.precision.autocast():
        outputs = as_outputs(passes.model(clips, **inputs))
    return passes.objective.with_clips(outputs, clips)


def _in_one_type(outputs: Outputs) -> tuple[Tensor, Tensor]:
    """Return embeddings (batch, E) and logits (batch, 2) in one type of at least 32 bits."""
    embeddings_BE, logits_B2 = outputs
    kind = torch.promote_types(embeddings_BE.dtype, logits_B2.dtype)
    kind = torch.promote_types(kind, torch.float32)
    return embeddings_BE.to(kind), logits_B2.to(kind)


def differentiate(
    objective: Objective, outputs_NX: Tensor, targets: Targets
) -> tuple[Tensor, Tensor, list[_Slope]]:
    """Return detection losses, and their sum's gradients for outputs and loss parameters."""
    outputs_NX.requires_grad_()
    outputs = Outputs(outputs_NX[:, :-2], outputs_NX[:, -2:])
    losses_N = objective.detection(outputs, targets)
    parameters = [parameter for parameter in objective.loss.parameters() if parameter.requires_grad]
    by_outputs_NX, *by_parameters = torch.autograd.grad(
        losses_N.sum(), [outputs_NX, *parameters], allow_unused=True, materialize_grads=True
    )
    slopes: list[_Slope] = list(zip(parameters, by_parameters, strict=True))
    return losses_N.detach(), by_outputs_NX, slopes


@dataclass(frozen=True)
class StepParts:
    """The parts of a step's passes that are the same in each step.

    Attributes:
        passes: Passes of the network.
        eager: Passes without CUDA graphs.
        network: Network that is trained, called on minibatches.
        parameters: Parameters that are trained.
        compiled: Value of `computing.compile`.
    """

    passes: Passes | GraphedPasses
    eager: Passes
    network: nn.Module
    parameters: Sequence[nn.Parameter]
    utterances: TrialList
    targets: TargetSource
    last: LastStep
    clock: StepClock
    world: World
    seed: int
    compiled: bool | str


class WindowMinibatches:
    """The minibatches of a window.

    Attributes:
        weights: Denominator of the mean over the whole window, and the factors of terms.

    Args:
        batches: Loader, whose next batches are this process's minibatches.
        keeps: Whether minibatches stay in memory for further passes.
    """

    def __init__(
        self, parts: StepParts, window: Window, batches: Iterator[Batch], keeps: bool
    ) -> None:
        # Every rank knows the labels of the whole window, so sums need no exchange.
        self.weights = parts.targets.weights(window.clip_keys())
        self._parts = parts
        self._window = window
        self._batches = batches
        self._keeps = keeps
        self._kept: list[Minibatch] = []
        self._is_read = False

    def all(self) -> Sequence[Minibatch]:
        """Return the minibatches, which stay in memory from now on."""
        if not self._kept:
            self._kept = list(self._read())
        return self._kept

    def of_pass(
        self, of: AnyIntegers | None, clips: Sequence[Tensor] | None, weights: StepWeights
    ) -> Iterable[Minibatch]:
        """Return the minibatches with the targets and the clips of a pass.

        Args:
            of, clips: Selection and clips as in `StepWindow.backward`.
            weights: Weights of the pass.
        """
        if not self._keeps and of is None and clips is None:
            return self._read()
        minibatches = list(self.all())
        for number, minibatch in enumerate(minibatches):
            if of is not None:
                targets = self._parts.targets.of_share(minibatch.share, weights)
                read = minibatch.targets
                targets = replace(targets, inputs=read.inputs, lengths_B=read.lengths_B)
                minibatches[number] = replace(minibatch, targets=targets)
            if clips is not None:
                minibatches[number] = replace(minibatches[number], clips=clips[number])
        return minibatches

    def weights_of(self, of: AnyIntegers | None) -> StepWeights:
        """Return the weights of the mean over the utterances that `of` selects; None for all.

        Raises:
            AsdfError: it selects none, or does not have one value for each.
        """
        if of is None:
            return self.weights
        chosen = np.flatnonzero(of)
        size = len(self._window.utterances)
        if len(of) != size or not len(chosen):
            raise AsdfError(
                f"a pass over a part of a step chooses {len(chosen)} utterances by {len(of)} "
                f"values, but the step has {size} utterances. Choose at least one, with one value "
                "per utterance."
            )
        keys = self._window.clip_keys()
        return self._parts.targets.weights([keys[index] for index in chosen])

    def chosen_of(self, values_B: Tensor, minibatch: Minibatch, of: AnyIntegers | None) -> Tensor:
        """Return the values of the utterances that `of` selects; None for all.

        Args:
            values_B: Values of the utterances that count.
        """
        if of is None:
            return values_B
        positions = minibatch.share.positions[: minibatch.counted] - self._window.start
        rows = np.flatnonzero(np.asarray(of)[positions])
        return values_B[send(torch.from_numpy(rows), self._parts.world.device)]

    def _read(self) -> Iterator[Minibatch]:
        """Read the minibatches of this rank, each on request."""
        parts = self._parts
        if self._is_read:
            raise AsdfError(
                "with keeps_minibatches = False the minibatches of a step are read only once. "
                "Remove that line from the class of the training step, which reads them again."
            )
        self._is_read = True
        for number, share in enumerate(self._window.shares, 1):
            with parts.clock.part(DATA):
                batch = next(self._batches)
            if batch.unboosted is None:
                waveforms = batch.boosted()
            else:
                # The device now computes RawBoost, which is not waiting for data.
                with parts.clock.part(FORWARD):
                    waveforms = batch.boosted()
            targets = parts.targets.of_share(share, self.weights, batch.further)
            yield Minibatch(number, share, waveforms, targets)
