"""Trials that are vocoded copies of others: rows of a list rather than files.

Invariant: a copy has its source's path but its own id; it is always a spoof; all columns except the
attack are those of its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from asdf.arrays import Integers
from asdf.trials.packed_names import Names
from asdf.trials.trial_list import Origin, TrialList, values_at

ATTACK = "attack"
# The value of protocols for bona fide trials.
_NO_ATTACK = "-"


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


def attack_of(vocoder: str) -> str:
    """Return the value of the column 'attack' for copies by `vocoder`."""
    return f"vocoded-{vocoder}"


def append_copies(trials: TrialList, copies: Copies) -> TrialList:
    """Return `trials` followed by their copies."""
    count = len(copies.sources)
    # Prefixes of the ids of copies: 'vocoded-lpc:', and then 'vocoded-lpc-2:' ...
    prefixes = []
    for position, vocoder in enumerate(copies.vocoders):
        earlier = copies.vocoders[:position].count(vocoder)
        number = f"-{earlier + 1}" if earlier else ""
        prefixes.append(f"{attack_of(vocoder)}{number}:")
    origins = trials.origins
    if trials.origin is None:
        origins = (Origin(trials.folder, 0, trials.name),)
    all_origins = list(origins)
    for vocoder, prefix in zip(copies.vocoders, prefixes, strict=True):
        for source in origins:
            moved = source._replace(prefix=len(prefix) + source.prefix, vocoder=vocoder)
            all_origins.append(moved)
    # A generator, since packed ids of millions of trials take a fraction of the memory of a list.
    pairs = zip(copies.sources.tolist(), copies.makers.tolist(), strict=True)
    ids_of_copies = (prefixes[maker] + trials.ids[source] for source, maker in pairs)
    origin = trials.origin
    if origin is None:
        origin = np.zeros(len(trials), np.int16)
    # The origins of each vocoder's copies come in the order of their sources' origins.
    origin_of_copy = origin[copies.sources] + (1 + copies.makers) * len(origins)
    return TrialList(
        Names(chain(trials.ids, ids_of_copies)),
        np.concatenate([trials.labels, np.zeros(count, np.int8)]),
        columns=_columns_with_copies(trials, copies),
        name=trials.name,
        folder=trials.folder,
        origins=tuple(all_origins),
        origin=np.concatenate([origin, origin_of_copy.astype(np.int16)]),
    )


def _columns_with_copies(trials: TrialList, copies: Copies) -> dict[str, list[str]]:
    columns = {}
    for name, values in trials.columns.items():
        columns[name] = [*values, *values_at(values, copies.sources)]
    if ATTACK not in columns:
        # Without a protocol, the attacks of the spoofs are not known.
        words = {1: _NO_ATTACK, 0: ""}
        columns[ATTACK] = [words[label] for label in trials.labels.tolist()]
    attacks = [attack_of(vocoder) for vocoder in copies.vocoders]
    columns[ATTACK][len(trials) :] = [attacks[maker] for maker in copies.makers.tolist()]
    return columns
