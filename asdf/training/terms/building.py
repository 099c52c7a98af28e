"""The further terms of the loss that the settings ask for, built for a network.

Invariant: nothing of the run changes by it but what is logged: no random state, mode or buffer.
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from asdf.data.clip_frames import ClipFrames
from asdf.settings.sections import Sections
from asdf.training.task import find_tasks
from asdf.training.terms.base import Term
from asdf.trials.trial_list import TrialList


def build_terms(
    network: nn.Module,
    utterances: TrialList,
    settings: Sections,
    folder: Path | None = None,
    frames: ClipFrames | None = None,
) -> tuple[Term, ...]:
    """Build the terms, in a fixed order; heads that they need become parts of `network`.

    Args:
        utterances: the training list.
        folder: the recipe's, where a user's own modules lie.
        frames: the labels of the frames of training clips, for a network with a frame-level head.

    Raises:
        UsageError: the training list lacks what a term needs, or nothing trains a frame-level head.
        AsdfError: a head cannot be built.
    """
    tasks = find_tasks(settings, folder)
    return tasks.build_terms(network, utterances, frames, settings.recipe.seed)
