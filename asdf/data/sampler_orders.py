"""From a training list to the turns of an epoch: vocoded copies, orders, and groups by length.

A list first gets its vocoded copies, which are rows rather than files: a copy has its source's path
but its own id, is always a spoof, and has all columns of its source except the attack. A sampler
then gives each epoch an order of the list (`Orders`), whose turns may be divided into minibatches
of recordings of similar length (`LengthGroups`).

Invariants:
- which utterances are copied by which vocoders depends only on the seed and the list, and is the
  same in every epoch; only a vocoder's random draws differ between epochs. All vocoders make equal
  numbers of copies, and none copies an utterance twice before all others have copied it;
- the order of an epoch is one array while that epoch is trained on, with `size` indices;
- an epoch's minibatches depend only on the seed, the order and the lengths, not on the number of
  processes. A minibatch has the length of its longest clip, and the number of its clips times that
  length is at most `lengths.minibatch_s`; but if `network.minibatch_size` allows two, a single clip
  is computed twice, for batch norm (`TrainingPlan`).

Shapes: N turns of an epoch, M minibatches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from asdf.arrays import AnyIntegers, Integers
from asdf.data.samplers import SETTING, Indices, Sampler, name_of
from asdf.errors import AsdfError
from asdf.runs.seeds import generator
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import Lengths, Sections, Vocoding
from asdf.trials.packed_names import Names
from asdf.trials.trial_list import Origin, TrialList, join, values_at


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
        settings: Settings with `lengths.minibatch_s`.
    """

    lengths: AnyIntegers
    settings: Sections

    def group(self, epoch: int, turns: Turns) -> Turns:
        """Return the turns of an epoch in minibatches, with the samples of their clips."""
        samples_N = self._clip_samples(epoch, turns)
        by_length_N = np.argsort(samples_N, kind="stable")
        minibatch_s = self.settings.lengths.minibatch_s
        assert minibatch_s is not None  # there are no groups without it
        room = int(minibatch_s * self.settings.audio.sample_rate)
        minibatches = []
        for bucket in np.array_split(by_length_N, self.settings.lengths.buckets):
            if len(bucket):
                # Equally many in each but the last.
                longest = max(1, int(samples_N[bucket].max()))
                count = max(1, min(self.settings.network.minibatch_size, room // longest))
                # In the sampler's random order rather than by length.
                minibatches += np.split(np.sort(bucket), range(count, len(bucket), count))
        shuffled = generator(self.settings.recipe.seed, "minibatches", epoch).permutation(
            len(minibatches)
        )
        chosen = [minibatches[number] for number in shuffled]
        taken_N = np.concatenate(chosen)
        return Turns(
            turns.utterances_N[taken_N],
            turns.earlier_N[taken_N],
            samples_N[taken_N],
            np.cumsum([len(minibatch) for minibatch in chosen]),
        )

    def _clip_samples(self, epoch: int, turns: Turns) -> AnyIntegers:
        """Return the number of samples of each turn's clip, (N,)."""
        section = self.settings.lengths
        least = round(section.min_crop_s * self.settings.audio.sample_rate)
        most = round(section.max_crop_s * self.settings.audio.sample_rate)
        samples_N = np.asarray(self.lengths, np.int64)[turns.utterances_N]
        cropped_N = samples_N > (most if section.crop == "longer" else least)
        # For each utterance at its first turn in the epoch, then at its second, and so on.
        draws_N = np.empty(len(samples_N))
        for turn in range(int(turns.earlier_N.max(initial=0)) + 1):
            rng = generator(self.settings.recipe.seed, "crop length", epoch, turn)
            rows = turns.earlier_N == turn
            # Drawn for the whole list, so that an utterance's draw does not depend on the order.
            draws_N[rows] = rng.random(len(self.lengths))[turns.utterances_N[rows]]
        longest_N = np.minimum(samples_N, most)
        drawn_N = least + np.floor(draws_N * (longest_N - least + 1)).astype(np.int64)
        return np.where(cropped_N, drawn_N, samples_N)


def describe_groups(turns: Turns, section: Lengths) -> str:
    """Describe an epoch's minibatches, and the proportion of padding in their samples."""
    assert turns.samples_N is not None
    assert turns.ends_M is not None
    counts_M = np.diff(turns.ends_M, prepend=0)
    longest_M = np.maximum.reduceat(turns.samples_N, turns.ends_M - counts_M)
    padding = 100 * (1 - float(turns.samples_N.sum() / (counts_M * longest_M).sum()))
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
    return LengthGroups(lengths, settings)


ATTACK = "attack"


@dataclass(frozen=True)
class Copies:
    """The trials to copy, and the vocoders of the copies.

    Attributes:
        sources: Indices of the copied trials, (copies,).
        makers: Indices into `vocoders`, (copies,).
        vocoders: Names of vocoders; one may occur several times, for several copies of a trial.
    """

    sources: Integers
    makers: Integers
    vocoders: Sequence[str]


def append_copies(trials: TrialList, copies: Copies) -> TrialList:
    """Return `trials` followed by their copies."""
    count = len(copies.sources)
    makers = copies.makers.tolist()
    columns = {
        name: [*values, *values_at(values, copies.sources)]
        for name, values in trials.columns.items()
    }
    if ATTACK not in columns:
        # Without a protocol, the attacks of the spoofs are not known.
        columns[ATTACK] = ["-" if label == 1 else "" for label in trials.labels.tolist()]
    columns[ATTACK][len(trials) :] = [f"vocoded-{copies.vocoders[maker]}" for maker in makers]
    # Prefixes of the ids of copies: 'vocoded-lpc:', and then 'vocoded-lpc-2:' ...
    prefixes = []
    for position, vocoder in enumerate(copies.vocoders):
        earlier = copies.vocoders[:position].count(vocoder)
        number = f"-{earlier + 1}" if earlier else ""
        prefixes.append(f"vocoded-{vocoder}{number}:")
    origins = trials.origins
    origin = trials.origin
    if origin is None:
        origins = (Origin(trials.folder, 0, trials.name),)
        origin = np.zeros(len(trials), np.int16)
    moved = [
        source._replace(prefix=len(prefix) + source.prefix, vocoder=vocoder)
        for vocoder, prefix in zip(copies.vocoders, prefixes, strict=True)
        for source in origins
    ]
    # A generator, since packed ids of millions of trials take a fraction of the memory of a list.
    pairs = zip(copies.sources.tolist(), makers, strict=True)
    ids_of_copies = (prefixes[maker] + trials.ids[source] for source, maker in pairs)
    # The origins of each vocoder's copies come in the order of their sources' origins.
    origin_of_copy = origin[copies.sources] + (1 + copies.makers) * len(origins)
    return TrialList(
        Names(chain(trials.ids, ids_of_copies)),
        np.concatenate([trials.labels, np.zeros(count, np.int8)]),
        columns=columns,
        name=trials.name,
        folder=trials.folder,
        origins=(*origins, *moved),
        origin=np.concatenate([origin, origin_of_copy.astype(np.int16)]),
    )


def add_vocoded_copies(
    utterances: TrialList, settings: Vocoding, seed: int
) -> tuple[TrialList, np.ndarray]:
    """Return the utterances to train on: bona fide ones, their copies, and optionally the spoofs.

    The index of each row's source in the original list follows, (utterances,). Without vocoders in
    the settings, the list is returned unchanged.

    Raises:
        AsdfError: nothing can be copied, since no utterance is bona fide.
    """
    rows = np.arange(len(utterances))
    if not settings.vocoders:
        return utterances, rows
    if not (utterances.labels == 1).any():
        raise AsdfError(
            f"none of the {len(utterances)} utterances of the list {utterances.name} is bona fide, "
            "and vocoding.vocoders makes spoofs of bona fide ones. Is it the right list?"
        )
    if not settings.corpus_spoofs:
        rows = np.flatnonzero(utterances.labels == 1)
        utterances = utterances.select(rows)
    copies = draw_copies(utterances, settings, seed)
    rows = np.concatenate([rows, rows[copies.sources]])
    return append_copies(utterances, copies), rows


def join_with_copies(parts: Sequence[TrialList], settings: Sections) -> TrialList:
    """Join training sets, and add the copies that the settings request; errors as above."""
    return add_vocoded_copies(join(parts), settings.vocoding, settings.recipe.seed)[0]


def draw_copies(utterances: TrialList, settings: Vocoding, seed: int) -> Copies:
    """Draw the vocoders of each bona fide utterance, and which utterances get one more copy."""
    bona_fide = np.flatnonzero(utterances.labels == 1)
    turns = generator(seed, "vocoded copies").permutation(bona_fide)
    whole_rounds = int(settings.copies)
    # At least one, since a small share of a short list is not zero.
    rest = settings.copies - whole_rounds
    in_last_round = max(1, round(rest * len(turns))) if rest else 0
    members = [turns] * whole_rounds + [turns[:in_last_round]] * bool(in_last_round)
    count = len(settings.vocoders)
    # Advance by one vocoder from round to round, and from turn to turn.
    makers = [
        (np.arange(len(sources)) + number) % count + number // count * count
        for number, sources in enumerate(members)
    ]
    repetitions = -(-len(members) // count)
    return Copies(
        np.concatenate(members), np.concatenate(makers), tuple(settings.vocoders) * repetitions
    )


def describe_copies(utterances: TrialList) -> str:
    """Describe the number of copies: '5 are vocoded copies (3 lpc, 2 phase)'; or ''."""
    counts = utterances.count_vocoded()
    if not counts:
        return ""
    parts = [f"{count} {vocoder}" for vocoder, count in counts.items()]
    return f"{sum(counts.values())} are vocoded copies ({', '.join(parts)})"


class Orders:
    """The orders of the epochs of `sampler`.

    Attributes:
        sampler: Sampler of the orders.
        size: Number of turns of an epoch.

    Args:
        groups: Groups by length, into whose minibatches the turns of an order are divided; None if
            clips have one length.

    Raises:
        AsdfError: the sampler fails, or its orders are invalid.
    """

    def __init__(self, sampler: Sampler, groups: LengthGroups | None = None) -> None:
        self.sampler = sampler
        self._groups = groups
        self._turns: tuple[int, Turns] | None = None
        self._name = f"{SETTING}: {name_of(type(sampler))}"
        self._epoch = 1
        self._order = self._request(1)
        self.size = len(self._order)
        # All ranks, and a resumed run, request it again, so it must not depend on earlier draws.
        if not np.array_equal(self._order, self._request(1)):
            raise AsdfError(
                f"{self._name}.order(1) returned two different orders. Draw an order with "
                "asdf.runs.seeds.generator(self.seed, 'a purpose of yours', epoch)."
            )

    def of(self, epoch: int) -> Indices:
        """Return the order of `epoch`, (size,), int64.

        Raises:
            AsdfError: the sampler fails, or its order is invalid or of another size.
        """
        if epoch == self._epoch:
            return self._order
        order = self._request(epoch)
        if len(order) != self.size:
            raise AsdfError(
                f"{self._name}.order({epoch}) has {len(order)} turns, but order(1) has "
                f"{self.size}. All epochs must have the same number."
            )
        self._epoch, self._order = epoch, order
        return order

    @property
    def grouped(self) -> bool:
        """Whether turns come in minibatches of recordings of similar length."""
        return self._groups is not None

    def turns(self, epoch: int) -> Turns:
        """Return the turns of `epoch`, in minibatches if recordings are grouped by length.

        Raises: as in `of`.
        """
        if self._turns is None or self._turns[0] != epoch:
            order = self.of(epoch)
            turns = Turns(order, earlier_turns(order))
            self._turns = (epoch, self._groups.group(epoch, turns) if self._groups else turns)
        return self._turns[1]

    def digest(self, epoch: int) -> str:
        """Return a digest of the turns of `epoch`."""
        name = hashlib.sha256(self.of(epoch).tobytes())
        if self._groups is not None:
            turns = self.turns(epoch)
            for numbers in (turns.utterances_N, turns.samples_N, turns.ends_M):
                name.update(np.asarray(numbers, np.int64).tobytes())
        return name.hexdigest()[:16]

    def describe(self) -> str:
        """Return the sampler's description of an epoch; '' if it has none."""
        return self.sampler.describe()

    def _request(self, epoch: int) -> Indices:
        called = f"{self._name}.order({epoch})"
        with UserErrors(f"{called} failed"):
            order = np.asarray(self.sampler.order(epoch))
        if order.ndim != 1 or not len(order) or not np.issubdtype(order.dtype, np.integer):
            raise AsdfError(
                f"{called} returned an array of shape {order.shape} and type {order.dtype}; it "
                "must be a vector of indices into the training list, at least one."
            )
        count = len(self.sampler.utterances)
        outside = order[(order < 0) | (order >= count)]
        if len(outside):
            raise AsdfError(
                f"{called} has the index {outside[0]}, but the training list has the utterances 0 "
                f"to {count - 1}."
            )
        # A copy, since a sampler may change its array later.
        return np.array(order, np.int64)


def find_sampler(settings: Sections, folder: Path | None) -> type[Sampler]:
    """Return the class that `recipe.sampler` names.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: the class does not exist or does not derive from `Sampler`.
        AsdfError: importing its module fails.
    """
    path = class_path_of(SETTING, settings.recipe.sampler)
    return find_class(path, folder, SETTING, Sampler)  # type: ignore[type-abstract]


def build_sampler(settings: Sections, utterances: TrialList, folder: Path | None) -> Sampler:
    """Return the sampler of `utterances` that `recipe.sampler` names.

    Raises:
        UsageError, AsdfError: as in `find_sampler`, or it is not suitable for the list, or its
            constructor fails.
    """
    kind = find_sampler(settings, folder)
    failed = f"{SETTING}: {name_of(kind)}(settings, utterances) failed"
    with UserErrors(failed, "Training has not begun. Fix the sampler, or choose another."):
        return kind(settings, utterances)


def check_sampler(settings: Sections, parts: Sequence[TrialList], folder: Path | None) -> int:
    """Return the turns of an epoch of these training sets, after checking that the sampler suits.

    Raises:
        UsageError, AsdfError: as in `build_sampler`, or its order is invalid.
    """
    is_shuffled = settings.recipe.sampler == "shuffled"
    # Without the lists, since joining millions of trials takes seconds.
    if is_shuffled and not settings.vocoding.vocoders:
        return sum(map(len, parts))
    utterances = join_with_copies(parts, settings)
    if is_shuffled:
        return len(utterances)
    return Orders(build_sampler(settings, utterances, folder)).size
