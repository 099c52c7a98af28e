"""A minibatch of a step, and the passes for losses of whole steps.

Invariant: with a loss that depends on all utterances of the step, the gradient is that of one big
batch, however processes divide it. A first pass without gradients computes the outputs for all
utterances, every rank gathers them and computes the gradient of the loss with respect to each
output, and a second pass computes the same outputs again with the same random numbers and starts
its backward pass from these gradients. The running statistics of batch norm include each clip once.

Shapes: N utterances of a step, B of a minibatch, E numbers in an embedding, 2 classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from asdf.data.training_plan import Share, Window
from asdf.distributed.gpus import send
from asdf.distributed.world import World
from asdf.networks.interface import Outputs
from asdf.networks.output_check import numbers_unchanged
from asdf.training.losses import Targets
from asdf.training.passes import Passes


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
        self,
        passes: Passes,
        minibatches: Sequence[Minibatch],
        window: Window,
        targets: Targets,
        world: World,
        seed: Callable[[int], None],
    ) -> None:
        """Compute the outputs of all utterances of a step, and the gradient of the loss at them.

        All ranks call this together.

        Args:
            targets: Targets of all utterances of `window`, in its order.
            seed: Function that seeds the random numbers for a minibatch number.
        """
        self._passes = passes
        # The positions in the window of the utterances that count.
        rows = []
        outputs = []
        with torch.no_grad(), numbers_unchanged(passes.model):
            for minibatch in minibatches:
                seed(minibatch.number)
                found = passes.outputs(minibatch.clips, minibatch.targets.inputs)
                outputs.append(torch.cat(_in_one_type(found), dim=1))
                positions = minibatch.share.positions[: minibatch.counted] - window.start
                rows.append(send(torch.from_numpy(positions), world.device))
        outputs_NX = outputs[0].new_zeros(len(window.utterances), outputs[0].shape[1])
        for output_BX, rows_B in zip(outputs, rows, strict=True):
            outputs_NX[rows_B] = output_BX[: len(rows_B)]
        # Each row comes from one rank, and adding zeros from the others is exact.
        world.sum_tensor(outputs_NX)
        outputs_NX.requires_grad_()
        joined = Outputs(outputs_NX[:, :-2], outputs_NX[:, -2:])
        losses_N = passes.objective.detection(joined, targets)
        parameters = [each for each in passes.objective.loss.parameters() if each.requires_grad]
        slopes_NX, *of_parameters = torch.autograd.grad(
            losses_N.sum(), [outputs_NX, *parameters], allow_unused=True, materialize_grads=True
        )
        self._left = [(losses_N.detach()[rows_B], slopes_NX[rows_B]) for rows_B in rows]
        # Every rank has computed all of it, and the step sums over the ranks.
        parts = [gradient / world.size for gradient in of_parameters]
        self._parameters = list(zip(parameters, parts, strict=True))

    def forward(self, clips: Tensor, targets: Targets) -> Tensor:
        """Return the losses of the utterances that count, (batch,).

        Their gradient with respect to the outputs is that of the whole step's loss.
        """
        known_B, slopes_BX = self._left.pop(0)
        counted = len(known_B)
        outputs = self._passes.outputs(clips, targets.inputs)
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


def _in_one_type(outputs: Outputs) -> tuple[Tensor, Tensor]:
    """Return embeddings (batch, E) and logits (batch, 2) in one type of at least 32 bits."""
    embeddings_BE, logits_B2 = outputs
    kind = torch.promote_types(embeddings_BE.dtype, logits_B2.dtype)
    kind = torch.promote_types(kind, torch.float32)
    return embeddings_BE.to(kind), logits_B2.to(kind)
