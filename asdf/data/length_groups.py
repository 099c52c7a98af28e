"""The turns of an epoch, and their division into minibatches of recordings of similar length.

Invariants: an epoch's minibatches depend only on the seed, the sampler's order and the lengths of
the recordings, not on the number of processes: a step of N processes is that of one process with N
times `network.optimizer_step_interval`. A minibatch has the length of its longest clip, and the
number of its clips times that length is at most `lengths.minibatch_s`; but if
`network.minibatch_size` allows two, a single clip is computed twice, for batch norm
(`TrainingPlan`).

Shapes: N turns of an epoch, M minibatches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.arrays import AnyIntegers, Integers
from asdf.facts import SAMPLE_RATE
from asdf.runs.seeds import generator
from asdf.settings.sections import Lengths, Sections


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


@dataclass(frozen=True, eq=False)
class LengthGroups:
    """The minibatches of a list of recordings.

    Attributes:
        lengths: Lengths of the recordings, in samples.
        most: Maximum number of clips of a minibatch (`network.minibatch_size`).
        rate: Sampling rate of the recordings, in Hz.
    """

    lengths: AnyIntegers
    section: Lengths
    most: int
    seed: int
    rate: int = SAMPLE_RATE

    def group(self, epoch: int, turns: Turns) -> Turns:
        """Return the turns of an epoch in minibatches, with the samples of their clips."""
        samples_N = self._clip_samples(epoch, turns)
        by_length_N = np.argsort(samples_N, kind="stable")
        minibatches = []
        for bucket in np.array_split(by_length_N, self.section.buckets):
            if len(bucket):
                # In the sampler's random order rather than by length.
                minibatches += self._divide(np.sort(bucket), samples_N)
        shuffled = generator(self.seed, "minibatches", epoch).permutation(len(minibatches))
        chosen = [minibatches[number] for number in shuffled]
        taken_N = np.concatenate(chosen)
        return Turns(
            turns.utterances_N[taken_N],
            turns.earlier_N[taken_N],
            samples_N[taken_N],
            np.cumsum([len(minibatch) for minibatch in chosen]),
        )

    def _divide(self, bucket: AnyIntegers, samples_N: AnyIntegers) -> list[AnyIntegers]:
        """Return the minibatches of a bucket's turns, equally many in each except the last."""
        longest = max(1, int(samples_N[bucket].max()))
        assert self.section.minibatch_s is not None  # there are no groups without it
        room = int(self.section.minibatch_s * self.rate) // longest
        count = max(1, min(self.most, room))
        return np.split(bucket, range(count, len(bucket), count))

    def _clip_samples(self, epoch: int, turns: Turns) -> AnyIntegers:
        """Return the number of samples of each turn's clip, (N,)."""
        least = round(self.section.min_crop_s * self.rate)
        most = round(self.section.max_crop_s * self.rate)
        samples_N = np.asarray(self.lengths, np.int64)[turns.utterances_N]
        cropped_N = samples_N > (most if self.section.crop == "longer" else least)
        # For each utterance at its first turn in the epoch, then at its second, and so on.
        draws_N = np.empty(len(samples_N))
        for turn in range(int(turns.earlier_N.max(initial=0)) + 1):
            rng = generator(self.seed, "crop length", epoch, turn)
            rows = turns.earlier_N == turn
            # Drawn for the whole list, so that an utterance's draw does not depend on the order.
            draws_N[rows] = rng.random(len(self.lengths))[turns.utterances_N[rows]]
        longest_N = np.minimum(samples_N, most)
        drawn_N = least + np.floor(draws_N * (longest_N - least + 1)).astype(np.int64)
        return np.where(cropped_N, drawn_N, samples_N)


def padding_of(turns: Turns) -> float:
    """Return the proportion of padding in the samples of an epoch's minibatches."""
    assert turns.samples_N is not None
    assert turns.ends_M is not None
    counts_M = np.diff(turns.ends_M, prepend=0)
    longest_M = np.maximum.reduceat(turns.samples_N, turns.ends_M - counts_M)
    return 1 - float(turns.samples_N.sum() / (counts_M * longest_M).sum())


def describe_groups(turns: Turns, section: Lengths) -> str:
    """Describe an epoch's minibatches, and their proportion of padding."""
    assert turns.ends_M is not None
    counts_M = np.diff(turns.ends_M, prepend=0)
    padding = 100 * padding_of(turns)
    return (
        f"minibatches of up to {section.minibatch_s:g} s: {counts_M.min()} to {counts_M.max()} "
        f"utterances, {len(counts_M):,} in epoch 1, {padding:.1f} % of their samples are padding"
    )


def longest_clips(settings: Sections) -> tuple[int, int]:
    """Return the number of clips in a minibatch of the longest recordings, and their samples."""
    lengths = settings.lengths
    assert lengths.minibatch_s is not None
    # A single clip is computed twice.
    fitting = max(2, int(lengths.minibatch_s / lengths.max_crop_s))
    count = min(settings.network.minibatch_size, fitting)
    return count, round(lengths.max_crop_s * settings.audio.sample_rate)


def find_groups(settings: Sections, lengths: AnyIntegers) -> LengthGroups | None:
    """Return the length groups of a list of recordings; None if clips have one length."""
    if settings.lengths.minibatch_s is None:
        return None
    return LengthGroups(
        lengths,
        settings.lengths,
        settings.network.minibatch_size,
        settings.recipe.seed,
        settings.audio.sample_rate,
    )
