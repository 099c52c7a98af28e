"""Division of a corpus into training, development and evaluation lists by speaker.

Invariant: all recordings of a speaker are in one list, and the lists depend only on the seed, the
trials and the shares, not on the order in which a file system lists recordings.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add

import numpy as np

from asdf.arrays import Indices
from asdf.errors import AsdfError, UsageError
from asdf.runs.seeds import generator
from asdf.text import quoted_and_more
from asdf.trials.trial_list import TrialList, bare_name

_FIELD = re.compile(r"\{(\w*)\}")
_SHOWN = 5


_Stratum = tuple[int, str]


class _List:
    """A list that is being filled.

    Attributes:
        indices: Indices of its trials.
    """

    def __init__(self, name: str, share: float, totals: Mapping[_Stratum, int]) -> None:
        self.name = name
        self.indices: list[int] = []
        self._wanted = {stratum: share * total for stratum, total in totals.items()}
        self._lacking = dict(self._wanted)

    def need(self, counts: Mapping[_Stratum, int]) -> float:
        """Return the missing proportion of the list's share of some strata, 1 at first."""
        needs = (
            count * self._lacking[stratum] / self._wanted[stratum]
            for stratum, count in counts.items()
        )
        # One after another, since `sum` rounds otherwise from Python 3.12 on, and lists must not
        # depend on the version.
        return reduce(add, needs) / sum(counts.values())

    def add(self, indices: Sequence[int], counts: Mapping[_Stratum, int]) -> None:
        """Add the trials of a speaker."""
        self.indices += indices
        for stratum, count in counts.items():
            self._lacking[stratum] -= count


def split_trials(
    trials: TrialList, shares: Mapping[str, float], seed: int = 0
) -> dict[str, Indices]:
    """Return the indices of the trials of each list.

    Speakers, if there is a column of them, are not divided; a trial without a known speaker is
    assigned by itself. The largest speakers are assigned first, each to the list in which its
    classes and attacks are missing most.

    Args:
        shares: Share of each list, by name; they sum to 1.

    Raises:
        AsdfError: a list would have no trial.
    """
    # The trials of each speaker, and single trials without one, sorted by name.
    speakers = trials.columns.get("speaker") or [""] * len(trials)
    by_speaker: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, speaker in enumerate(speakers):
        is_known = speaker not in ("", "-")
        by_speaker[(speaker, "") if is_known else ("", trials.ids[index])].append(index)
    groups = [by_speaker[key] for key in sorted(by_speaker)]
    attacks = trials.columns.get("attack") or [""] * len(trials)
    strata: list[_Stratum] = list(zip(trials.labels.tolist(), attacks, strict=True))
    lists = [_List(name, share, Counter(strata)) for name, share in shares.items()]
    rng = generator(seed, "lists")
    order = rng.permutation(len(groups)).tolist()
    # Shuffled, then sorted by size: the stable sort keeps equal sizes in random order.
    order.sort(key=lambda index: -len(groups[index]))
    for index in order:
        counts = Counter(map(strata.__getitem__, groups[index]))
        # If the need is equal, the first list gets the speaker.
        needs = [part.need(counts) for part in lists]
        lists[needs.index(max(needs))].add(groups[index], counts)
    chosen: dict[str, Indices] = {}
    for part in lists:
        if not part.indices:
            raise AsdfError(
                f"{trials.name}: {len(groups)} speakers or recordings are too few for "
                f"{len(shares)} lists; nothing is left for {part.name}. Request fewer lists."
            )
        chosen[part.name] = np.array(sorted(part.indices))
    return chosen


def columns_from_names(ids: Sequence[str], patterns: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns that patterns extract from paths, '' if a pattern lacks a field.

    A pattern is the end of a path without its suffix: `{speaker}_{}` or `{speaker}/{}/{text}`; `{}`
    matches anything. The first pattern that matches a path is used.

    Raises:
        UsageError: a pattern has no field, or repeats one.
        AsdfError: no pattern matches a path; an unknown speaker could be in several lists.
    """
    compiled = list(map(_compile, patterns))
    columns: dict[str, list[str]] = {name: [] for known in compiled for name in known.groupindex}
    unmatched = []
    for utterance in ids:
        path = f"{utterance.rpartition('/')[0]}/{bare_name(utterance)}"
        match = next(filter(None, (known.fullmatch(path) for known in compiled)), None)
        if match is None:
            unmatched.append(utterance)
            continue
        for name, values in columns.items():
            values.append(match.groupdict().get(name, ""))
    if unmatched:
        raise AsdfError(
            f"--names {' '.join(patterns)}: {len(unmatched)} of {len(ids)} paths do not match, "
            f"such as {quoted_and_more(unmatched, _SHOWN)}. A pattern is the end of a path without "
            "suffix, such as '{speaker}_{}'; give another --names for the others."
        )
    return columns


def _compile(pattern: str) -> re.Pattern[str]:
    expression = r"(?:.*/)?"
    end = 0
    fields = []
    for match in _FIELD.finditer(pattern):
        expression += re.escape(pattern[end : match.start()])
        fields.append(match.group(1))
        # Reluctant: '{speaker}_{}' matches the speaker up to the first underscore.
        expression += f"(?P<{match.group(1)}>[^/]+?)" if match.group(1) else "[^/]+"
        end = match.end()
    expression += re.escape(pattern[end:])
    named = [name for name in fields if name]
    are_names = all(map(str.isidentifier, named))
    is_repeated = len(set(named)) < len(named)
    # Every list has columns of these names.
    is_taken = {"utterance", "label"}.intersection(named)
    if not named or not are_names or is_repeated or is_taken:
        raise UsageError(
            f"--names {pattern}: name the parts of a path, each once: '{{speaker}}_{{}}' or "
            "'{speaker}/{}/{text}'; {} matches anything."
        )
    return re.compile(expression)
