"""The turns of an epoch: utterances, their order and repetitions, and minibatches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.arrays import AnyIntegers, Integers


@dataclass(frozen=True)
class Turns:
    """The turns of an epoch, in order.

    Attributes:
        utterances_N: Indices into the list.
        earlier_N: Number of earlier turns of each turn's utterance in the epoch.
        samples_N: Number of samples of each clip; None if all have one length.
        ends_M: Number of turns up to the end of each minibatch; None if all minibatches except the
            last have one size.
    """

    utterances_N: AnyIntegers
    earlier_N: AnyIntegers
    samples_N: AnyIntegers | None = None
    ends_M: AnyIntegers | None = None


def earlier_turns(order: AnyIntegers) -> Integers:
    """Return the number of earlier turns of the same utterance, for each turn, (turns,)."""
    by_utterance = np.argsort(order, kind="stable")
    ordered = order[by_utterance]
    # The position at which the utterance's turns begin, with all turns sorted by utterance.
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    positions = np.arange(len(order))
    begins = np.maximum.accumulate(np.where(is_first, positions, 0))
    earlier = np.empty(len(order), np.int64)
    earlier[by_utterance] = positions - begins
    return earlier
