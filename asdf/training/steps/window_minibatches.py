"""The minibatches of a step on this process, and their selection for a pass.

Invariant: each minibatch is read once, when it is first needed. A step that passes over them once
holds one at a time; any other step keeps them.

Shapes: N utterances of a step, B of a minibatch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from asdf.arrays import AnyIntegers
from asdf.data.batches import Batch
from asdf.data.training_plan import Window
from asdf.distributed.gpus import send
from asdf.errors import AsdfError
from asdf.training.instruments.clock import DATA, FORWARD
from asdf.training.joint import Minibatch
from asdf.training.objective import StepWeights
from asdf.training.steps.step_parts import StepParts


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
