"""The sampler of a run and its orders, checked before use; and vocoded copies in its list.

Invariants: the order of an epoch is one array while that epoch is trained on, with `size` indices
into the list. The choice of utterances and vocoders for copies depends only on the seed and the
list, and is the same in every epoch; only a vocoder's random draws differ between epochs. All
vocoders make equal numbers of copies, up to one per utterance, and no vocoder copies an utterance
twice before all others have copied it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asdf.data.length_groups import LengthGroups, Turns, earlier_turns
from asdf.data.samplers import SETTING, Indices, Sampler, name_of
from asdf.errors import AsdfError
from asdf.runs.seeds import generator
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import Sections, Vocoding
from asdf.trials.copied_trials import Copies, append_copies
from asdf.trials.trial_list import TrialList, join


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
            f"the list {utterances.name} has {len(utterances)} utterances, none of them bona fide: "
            "vocoding.vocoders makes spoofs of bona fide ones. Is it the right list? 1 is bona "
            "fide, 0 is spoof."
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
    members = [turns] * whole_rounds
    if in_last_round:
        members.append(turns[:in_last_round])
    count = len(settings.vocoders)
    makers = []
    for number, sources in enumerate(members):
        # Advance by one vocoder from round to round, and from turn to turn.
        vocoders = (np.arange(len(sources)) + number) % count
        makers.append(vocoders + number // count * count)
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
                f"{self._name}.order(1) returned two different orders. An order must follow from "
                "self.seed and the epoch alone: draw it with "
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
                f"{self.size}. All epochs must have the same number: schedules and the progress of "
                "a run rely on it."
            )
        self._epoch = epoch
        self._order = order
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
                "must be a vector of whole numbers, at least one: indices into the training list."
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
