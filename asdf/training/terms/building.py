"""The further terms of the loss that the settings ask for, built for a network.

Invariant: nothing of the run changes by it but what is logged: no random state, mode or buffer.
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from asdf.settings.sections import Sections
from asdf.training.terms.base import Term
from asdf.training.terms.sources import build_source_term
from asdf.trials.trial_list import TrialList


def build_terms(
    network: nn.Module, utterances: TrialList, settings: Sections, folder: Path | None = None
) -> tuple[Term, ...]:
    """Build the terms, in a fixed order; heads that they need become parts of `network`.

    Args:
        utterances: the training list.
        folder: the recipe's, where a user's own modules lie.

    Raises:
        UsageError: the training list lacks what a term needs.
        AsdfError: a head cannot be built.
    """
    terms: list[Term] = []
    if settings.source.column is not None:
        terms.append(build_source_term(network, utterances, settings, folder))
    return tuple(terms)
