"""Orders of epochs by shards: few archives are read at a time, however large the corpora are.

Invariant: as with all samplers, an order depends only on the seed, the epoch and the list. At most
`recipe.shuffle_shards` shards are open at a time: each group of utterances has its part of that
window, and its turns continue from epoch to epoch, also in the middle of a shard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from asdf.data.data_sections import DataSections
from asdf.data.sampler_orders import Orders
from asdf.data.samplers import (
    SETTING,
    BalancedAttacks,
    BalancedClasses,
    Group,
    GroupedSampler,
    Indices,
    divide_turns,
    weighted_corpora,
)
from asdf.data.shards import find_shards, order_by_shards
from asdf.data.shuffling import measure_shuffling
from asdf.errors import UsageError
from asdf.remote import is_remote
from asdf.trials.trial_list import TrialList

WINDOW = "recipe.shuffle_shards"
_GB = 10**9


class ShardedGroups(GroupedSampler):
    """Gives groups of utterances their shares of the turns, shard after shard; override `groups`.

    Attributes:
        shards: Shards of the list.
        windows: Maximum number of open shards of each group, by name.

    Examples:
        >>> import numpy as np
        >>> from asdf.data.samplers import Group
        >>> from asdf.data.sharded_samplers import ShardedGroups
        >>> from asdf.evaluation import TrialList
        >>> from asdf.settings import Sections
        >>> class Halves(ShardedGroups):
        ...     def groups(self):
        ...         labels = self.utterances.labels
        ...         return [Group(str(n), np.flatnonzero(labels == n)) for n in (0, 1)]
        >>> ids = ["a.tar/1.flac", "a.tar/2.flac", "b.tar/1.flac", "b.tar/2.flac"]
        >>> sampler = Halves(Sections(), TrialList(ids, [1, 0, 0, 1]))
        >>> sampler.describe()
        '4 turns per epoch: 2 of the 2 of 0, 2 of the 2 of 1; 2 shards, at most 2 open at a time'
    """

    def __init__(self, settings: DataSections, utterances: TrialList) -> None:
        super().__init__(settings, utterances)
        window = settings.recipe.shuffle_shards
        _check(settings, window, len(self._groups))
        self.shards = find_shards(utterances)
        # In proportion to their turns, with at least one shard for each.
        turns = [max(1, count) for count in self._turns]
        shares = divide_turns(window - len(turns), turns)
        names = [group.name for group in self._groups]
        self.windows = {name: 1 + share for name, share in zip(names, shares, strict=True)}

    @property
    def window(self) -> int:
        """The maximum number of shards that are open at the same time."""
        return min(len(self.shards), sum(self.windows.values()))

    def describe(self) -> str:
        """Return the turns of each group, and the shards."""
        return f"{super().describe()}; {self.describe_shards()}"

    def describe_shards(self) -> str:
        """Return the number of shards, and of those open at a time."""
        return f"{len(self.shards):,} shards, at most {self.window:,} open at a time"

    def largest_together(self, sizes: Iterable[int]) -> int:
        """Return the maximum total size of the shards that are open at a time."""
        return sum(sorted(sizes)[-self.window :])

    def _permute(self, group: Group, draws: np.random.Generator) -> Indices:
        shards_N = self.shards.numbers_N[group.utterances]
        return group.utterances[order_by_shards(shards_N, self.windows[group.name], draws)]

    def _mix(self, parts: Sequence[Indices], draws: np.random.Generator) -> Indices:
        """Return the turns of the groups randomly interleaved, each group's in order."""
        sizes = [len(part) for part in parts]
        group_N = draws.permutation(np.repeat(np.arange(len(parts)), sizes))
        order = np.empty(len(group_N), np.int64)
        for number, part in enumerate(parts):
            order[group_N == number] = part
        return order


class Sharded(ShardedGroups):
    """Every utterance once per epoch, or by `recipe.set_weights` of the training sets.

    With weights, the turns of a training set continue from epoch to epoch, as in `WeightedCorpora`.
    """

    def groups(self) -> list[Group]:
        """Return the whole list as one group, or the weighted corpora."""
        if self.settings.recipe.set_weights is None:
            return [Group("all", np.arange(len(self.utterances)))]
        return weighted_corpora(self.settings, self.utterances, "sharded")

    def describe(self) -> str:
        """Return the turns of each group, if there are several, and the shards."""
        return super().describe() if len(self._groups) > 1 else self.describe_shards()


class ShardedClasses(ShardedGroups, BalancedClasses):
    """Equal numbers of turns for bona fide and spoofed utterances, shard after shard."""


class ShardedAttacks(ShardedGroups, BalancedAttacks):
    """Half of the turns for bona fide utterances, the rest shared by attacks; by shards."""


def describe_shards(orders: Orders, minibatch: int, cache_gb: float | None = None) -> list[str]:
    """Return lines on the shards of a sampler, and on its shuffling in epoch 1.

    Args:
        minibatch: Number of turns of an optimiser step.
        cache_gb: Gigabytes of a node's disk for copies of shards from stores; None if they are read
            by ranges.

    Returns:
        Lines; empty for samplers without shards.
    """
    sampler = orders.sampler
    if not isinstance(sampler, ShardedGroups):
        return []
    sizes = sampler.shards.sizes()
    lines = [sampler.describe_shards()]
    if sizes:
        largest = sampler.largest_together(sizes.values())
        lines.append(
            f"{len(sizes):,} archives of {_describe_bytes(sum(sizes.values()))}; those that are "
            f"open have up to {_describe_bytes(largest)}, which a cache must hold"
        )
        # The processes of a node read the same shards and share the copies.
        needed = sampler.largest_together(sizes[path] for path in sizes if is_remote(path))
        if cache_gb is not None and needed > cache_gb * _GB:
            lines.append(
                f"warning: computing.cache_gb = {cache_gb:g} is too small for the "
                f"{_describe_bytes(needed)} of shards that may be open at a time: what does not "
                f"fit is read by ranges. Set computing.cache_gb = {math.ceil(needed / _GB)}, or "
                f"{WINDOW} to fewer than {sampler.window}"
            )
    order = orders.of(1)
    shards_N = sampler.shards.numbers_N[order]
    shuffling = measure_shuffling(shards_N, sampler.utterances.labels[order], minibatch)
    if shuffling is not None:
        lines.append(f"shuffling of {minibatch} turns per step: {shuffling.describe()}")
    return lines


def _describe_bytes(count: int) -> str:
    for unit, name in ((_GB, "GB"), (10**6, "MB")):
        if count >= unit:
            return f"{count / unit:,.2f} {name}"
    return f"{count / 1000:,.2f} kB"


def _check(settings: DataSections, window: int, groups: int) -> None:
    """Refuse settings that would read other shards than the open ones.

    Raises:
        UsageError: there are such settings; the message names all of them.
    """
    problems = []
    if settings.lengths.minibatch_s is not None:
        problems.append(
            "lengths.minibatch_s puts recordings of similar length from the whole epoch into a "
            "minibatch: set it to None"
        )
    if settings.augmentation.mixup_probability:
        problems.append(
            "augmentation.mixup_probability mixes with recordings of the whole list: set it to 0"
        )
    if window < groups:
        problems.append(
            f"{WINDOW} = {window} shards cannot be divided among {groups} groups of utterances: "
            f"set it to {groups} or more"
        )
    if problems:
        raise UsageError(
            f"{SETTING} = {settings.recipe.sampler!r} reads few shards at a time. "
            f"{'; '.join(problems)}; or choose a sampler that is not sharded."
        )
