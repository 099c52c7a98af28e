"""The sampler of a run and its orders, checked before use.

Invariant: the order of an epoch is one array while that epoch is trained on, with `size` indices
into the list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asdf.data.data_sections import DataSections
from asdf.data.length_groups import LengthGroups
from asdf.data.samplers import SETTING, Indices, Sampler, name_of
from asdf.data.turns import Turns, earlier_turns
from asdf.data.vocoded_copies import join_with_copies
from asdf.errors import AsdfError
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, find_class
from asdf.trials.trial_list import TrialList


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


def find_sampler(settings: DataSections, folder: Path | None) -> type[Sampler]:
    """Return the class that `recipe.sampler` names.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: the class does not exist or does not derive from `Sampler`.
        AsdfError: importing its module fails.
    """
    path = class_path_of(SETTING, settings.recipe.sampler)
    return find_class(path, folder, SETTING, Sampler)  # type: ignore[type-abstract]


def build_sampler(settings: DataSections, utterances: TrialList, folder: Path | None) -> Sampler:
    """Return the sampler of `utterances` that `recipe.sampler` names.

    Raises:
        UsageError, AsdfError: as in `find_sampler`, or it is not suitable for the list, or its
            constructor fails.
    """
    kind = find_sampler(settings, folder)
    failed = f"{SETTING}: {name_of(kind)}(settings, utterances) failed"
    with UserErrors(failed, "Training has not begun. Fix the sampler, or choose another."):
        return kind(settings, utterances)


class CheckedOrders(NamedTuple):
    """Facts about the epochs of training sets that are known before any measuring.

    Attributes:
        turns: Number of turns of an epoch.
        orders: Orders of a sampler; None with 'shuffled', for which the list is not read.
    """

    turns: int
    orders: Orders | None = None


def check_sampler(
    settings: DataSections, parts: Sequence[TrialList], folder: Path | None
) -> CheckedOrders:
    """Return the epochs of these training sets, after checking that the sampler suits them.

    Raises:
        UsageError, AsdfError: as in `build_sampler`, or its order is invalid.
    """
    is_shuffled = settings.recipe.sampler == "shuffled"
    # Without the lists, since joining millions of trials takes seconds.
    if is_shuffled and not settings.vocoding.vocoders:
        return CheckedOrders(sum(map(len, parts)))
    utterances = join_with_copies(parts, settings)
    if is_shuffled:
        return CheckedOrders(len(utterances))
    orders = Orders(build_sampler(settings, utterances, folder))
    return CheckedOrders(orders.size, orders)
