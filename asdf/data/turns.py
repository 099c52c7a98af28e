"""The turns of an epoch: which utterances, in which order, how often, and in which minibatches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.arrays import AnyIntegers, Integers


@dataclass(frozen=True)
class Turns:
    """The turns of an epoch, in the order in which they are taken.

    Attributes:
        utterances_N: Indices into the list.
        earlier_N: Turns that the utterance of each has had before in the epoch.
        samples_N: Samples of their clips; None: all have one length.
        ends_M: Numbers of turns up to the end of each minibatch; None: all minibatches are of one
            size, but for the last.
    """

    utterances_N: AnyIntegers
    earlier_N: AnyIntegers
    samples_N: AnyIntegers | None = None
    ends_M: AnyIntegers | None = None


def earlier_turns(order: AnyIntegers) -> Integers:
    """Return for each turn of an epoch how many the same utterance has had before, (turns,)."""
    by_utterance = np.argsort(order, kind="stable")
    ordered = order[by_utterance]
    # The position at which the utterance's turns begin among all, ordered by utterance.
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    positions = np.arange(len(order))
    begins = np.maximum.accumulate(np.where(is_first, positions, 0))
    earlier = np.empty(len(order), np.int64)
    earlier[by_utterance] = positions - begins
    return earlier
