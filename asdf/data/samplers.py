"""The utterances with turns in an epoch, and their order: the samplers of `recipe.sampler`.

Invariant: an epoch's order depends only on the seed and the epoch's number, and every epoch has the
same number of turns. A run can therefore continue in the middle of an epoch, on any number of
processes, with the remaining turns, and schedules and progress bars know the length of an epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import AnyIntegers
from asdf.errors import UsageError
from asdf.runs.seeds import generator
from asdf.settings.sections import Sections
from asdf.text import and_more
from asdf.trials.trial_list import TrialList

SETTING = "recipe.sampler"
Indices = AnyIntegers
_SHOWN = 12


class Sampler(ABC):
    """Base class of samplers, which give each epoch an order of turns; override `order`.

    An epoch may give an utterance several turns, which crop and augment it differently, or none.

    Args:
        settings: Sections of the run's settings.
        utterances: Training list with its columns; `utterances.corpora()` returns its corpora.

    Examples:
        >>> import numpy as np
        >>> from asdf.data.samplers import Sampler
        >>> from asdf.evaluation import TrialList
        >>> from asdf.runs.seeds import generator
        >>> from asdf.settings import Sections
        >>> class BonaFideTwice(Sampler):
        ...     def order(self, epoch):
        ...         labels = self.utterances.labels
        ...         turns = np.repeat(np.arange(len(labels)), 1 + labels)
        ...         return generator(self.seed, "bona fide twice", epoch).permutation(turns)
        >>> sampler = BonaFideTwice(Sections(), TrialList(list("abc"), [1, 0, 0]))
        >>> sorted(sampler.order(1).tolist())
        [0, 0, 1, 2]
    """

    def __init__(self, settings: Sections, utterances: TrialList) -> None:
        self.settings = settings
        self.utterances = utterances
        self.seed = settings.recipe.seed

    @abstractmethod
    def order(self, epoch: int) -> Indices:
        """Return the turns of `epoch` (1, 2, ...): indices into the list, (turns,).

        They must depend only on `self.seed` and `epoch`: draw them with
        `asdf.runs.seeds.generator(self.seed, "a purpose of yours", epoch)`. Every epoch has the
        same number of turns.
        """

    def describe(self) -> str:
        """Return a description of an epoch for the log; '' for none."""
        return ""


class Shuffled(Sampler):
    """Every utterance once per epoch, in random order."""

    def order(self, epoch: int) -> Indices:
        """Return a permutation of the list."""
        return generator(self.seed, "order", epoch).permutation(len(self.utterances))


@dataclass(frozen=True)
class Group:
    """A group of utterances with a common share of the turns.

    Attributes:
        name: Name in the log, and for the group's draws.
        utterances: Indices into the list, at least one.
        weight: Weight of the group; turns are in proportion to the weights.
    """

    name: str
    utterances: Indices
    weight: float = 1.0


class GroupedSampler(Sampler):
    """Base class of samplers that give groups their shares of the turns; override `groups`.

    An epoch has as many turns as the list has utterances. Within a group, the turns continue from
    epoch to epoch: no utterance gets its next turn before all others of the group have had theirs.

    Examples:
        >>> import numpy as np
        >>> from asdf.data.samplers import Group, GroupedSampler
        >>> from asdf.evaluation import TrialList
        >>> from asdf.settings import Sections
        >>> class Thirds(GroupedSampler):
        ...     def groups(self):
        ...         labels = self.utterances.labels
        ...         bona_fide = Group("bona fide", np.flatnonzero(labels == 1), weight=1)
        ...         return [bona_fide, Group("spoof", np.flatnonzero(labels == 0), weight=2)]
        >>> sampler = Thirds(Sections(), TrialList(list("abcdef"), [1, 1, 1, 1, 0, 0]))
        >>> sampler.describe()
        '6 turns per epoch: 2 of the 4 of bona fide, 4 of the 2 of spoof'
    """

    def __init__(self, settings: Sections, utterances: TrialList) -> None:
        super().__init__(settings, utterances)
        self._groups = self.groups()
        sampler = name_of(type(self))
        if not self._groups:
            raise UsageError(f"{SETTING}: {sampler} has no group of utterances.")
        for group in self._groups:
            if not len(group.utterances) or not group.weight > 0:
                raise UsageError(
                    f"{SETTING}: the group {group.name!r} of {sampler} has "
                    f"{len(group.utterances)} utterances of the training list and the weight "
                    f"{group.weight}. It needs at least one, and a positive weight."
                )
        self._turns = divide_turns(len(utterances), [group.weight for group in self._groups])

    @abstractmethod
    def groups(self) -> list[Group]:
        """Return the groups, which have different names."""

    def order(self, epoch: int) -> Indices:
        """Return the turns of all groups, in random order."""
        pairs = zip(self._groups, self._turns, strict=True)
        parts = [self._turns_of(group, turns, epoch) for group, turns in pairs]
        return generator(self.seed, "order", epoch).permutation(np.concatenate(parts))

    def describe(self) -> str:
        """Return the turns of each group in an epoch, first the groups that have none."""
        rows = sorted(zip(self._groups, self._turns, strict=True), key=lambda row: row[1] > 0)
        parts = [f"{turns} of the {len(group.utterances)} of {group.name}" for group, turns in rows]
        return f"{sum(self._turns)} turns per epoch: {and_more(parts, _SHOWN)}"

    def _turns_of(self, group: Group, count: int, epoch: int) -> Indices:
        """Return the turns of a group from number (epoch - 1) * count on, (count,).

        The turns of a group are an endless sequence of permutations of it.
        """
        size = len(group.utterances)
        first = (epoch - 1) * count
        # Whole permutations that cover the epoch's part; at least one, for an epoch without turns.
        start = first // size
        end = max(start + 1, -(-(first + count) // size))
        draws = [generator(self.seed, "turns", group.name, number) for number in range(start, end)]
        passes = [each.permutation(group.utterances) for each in draws]
        skipped = first - start * size
        return np.concatenate(passes)[skipped : skipped + count]


def _check_labels(utterances: TrialList, kind: type[Sampler]) -> None:
    """Refuse recordings without labels, which a sampler of classes would silently leave out.

    Raises:
        UsageError: there are some.
    """
    count = utterances.count_unlabelled
    if count:
        raise UsageError(
            f"{SETTING}: {kind.__name__} would leave out the {count} recordings without labels. "
            "Choose 'shuffled', or a sampler of your own."
        )


class BalancedClasses(GroupedSampler):
    """Equal numbers of turns for bona fide and spoofed utterances."""

    def groups(self) -> list[Group]:
        """Return the two classes."""
        labels = self.utterances.labels
        _check_labels(self.utterances, type(self))
        return [
            Group("bona fide", np.flatnonzero(labels == 1)),
            Group("spoof", np.flatnonzero(labels == 0)),
        ]


class BalancedAttacks(GroupedSampler):
    """Half of the turns for bona fide utterances, and equally many for each attack.

    Attacks of the same name in different corpora are different attacks. Spoofs of a corpus without
    known attacks count as one attack.
    """

    def groups(self) -> list[Group]:
        """Return the bona fide utterances, and the spoofs of each attack.

        Raises:
            UsageError: no utterance has a known attack.
        """
        utterances = self.utterances
        _check_labels(utterances, type(self))
        attacks = utterances.columns.get("attack", ())
        if not any(attacks):
            names = ", ".join(utterances.columns) or "none"
            raise UsageError(
                f"{SETTING} = 'balanced_attacks': the training list has no column 'attack' (its "
                f"columns: {names}). A list of your own gets it from Corpus(protocol=...), or as a "
                "column of the list."
            )
        pairs = zip(attacks, utterances.corpora(), strict=True)
        keys = [f"{attack or 'unknown attack'} ({corpus})" for attack, corpus in pairs]
        by_attack = indices_by(keys, np.flatnonzero(utterances.labels == 0))
        return [
            Group("bona fide", np.flatnonzero(utterances.labels == 1)),
            *(Group(name, indices, 1 / len(by_attack)) for name, indices in by_attack.items()),
        ]


class BalancedCorpora(GroupedSampler):
    """Equal numbers of turns for each training set."""

    def groups(self) -> list[Group]:
        """Return the corpora of the list."""
        by_corpus = indices_by(self.utterances.corpora())
        return [Group(name, indices) for name, indices in by_corpus.items()]


class WeightedCorpora(GroupedSampler):
    """Turns for each training set in proportion to its weight in `recipe.set_weights`."""

    def groups(self) -> list[Group]:
        """Return the corpora of the list, with their weights.

        Raises:
            UsageError: the number of weights differs from that of the corpora.
        """
        recipe = self.settings.recipe
        weights = recipe.set_weights or ()
        by_corpus = indices_by(self.utterances.corpora())
        if len(weights) != len(recipe.training_sets) or set(by_corpus) != set(recipe.training_sets):
            raise UsageError(
                f"{SETTING} = 'weighted_corpora' needs a weight for each of recipe.training_sets "
                f"({', '.join(recipe.training_sets)}), and utterances of each; recipe.set_weights "
                f"has {len(weights)}, and the training list has utterances of "
                f"{', '.join(by_corpus)}."
            )
        pairs = zip(recipe.training_sets, weights, strict=True)
        return [Group(name, by_corpus[name], weight) for name, weight in pairs]


def indices_by(values: Sequence[Hashable], among: Indices | None = None) -> dict[str, Indices]:
    """Return the indices of each value, in the order of first appearance.

    Args:
        values: Value of each trial.
        among: Indices of the trials to include; None for all.
    """
    trials = np.arange(len(values)) if among is None else among
    number_of: dict[Hashable, int] = {}
    numbers = np.empty(len(trials), np.int64)
    for position, trial in enumerate(trials.tolist()):
        numbers[position] = number_of.setdefault(values[trial], len(number_of))
    ordered = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(number_of)))
    parts = np.split(trials[ordered], ends[:-1])
    # Not strict: np.split makes one part of no trials, too.
    return {str(value): part for value, part in zip(number_of, parts, strict=False)}


def divide_turns(turns: int, weights: Sequence[float]) -> list[int]:
    """Divide `turns` in proportion to `weights`, by the largest remainders (Hamilton's method)."""
    exact = np.asarray(weights, np.float64) * turns / sum(weights)
    whole = np.floor(exact).astype(int)
    # For equal remainders, the first one.
    by_remainder = np.argsort(whole - exact, kind="stable")
    whole[by_remainder[: turns - int(whole.sum())]] += 1
    return [int(count) for count in whole]


def name_of(kind: type) -> str:
    """Return the name of a class for messages."""
    return f"{kind.__module__}.{kind.__qualname__}"
