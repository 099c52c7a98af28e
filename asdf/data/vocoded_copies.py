"""The choice of bona fide training utterances and vocoders for vocoded copies.

Invariant: the choice depends only on the seed and the list, and is the same in every epoch; only a
vocoder's random draws for a copy differ between epochs. All vocoders make equal numbers of copies,
up to one per utterance, and no vocoder copies an utterance twice before all others have copied it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asdf.data.data_sections import DataSections
from asdf.errors import AsdfError
from asdf.runs.seeds import generator
from asdf.settings.sections import Vocoding
from asdf.trials.copied_trials import Copies, append_copies
from asdf.trials.trial_list import TrialList, join


class WithCopies(NamedTuple):
    """A training list with copies, and the index of each row in the original list.

    Attributes:
        rows: Index of each row's source in the original list, (utterances,).
    """

    utterances: TrialList
    rows: np.ndarray


def add_vocoded_copies(utterances: TrialList, settings: Vocoding, seed: int) -> WithCopies:
    """Return the utterances to train on: bona fide ones, their copies, and optionally the spoofs.

    Without vocoders in the settings, the list is returned unchanged.

    Raises:
        AsdfError: nothing can be copied, since no utterance is bona fide.
    """
    rows = np.arange(len(utterances))
    if not settings.vocoders:
        return WithCopies(utterances, rows)
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
    return WithCopies(
        append_copies(utterances, copies), np.concatenate([rows, rows[copies.sources]])
    )


def join_with_copies(parts: Sequence[TrialList], settings: DataSections) -> TrialList:
    """Join training sets, and add the copies that the settings request; errors as above."""
    return add_vocoded_copies(join(parts), settings.vocoding, settings.recipe.seed).utterances


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
