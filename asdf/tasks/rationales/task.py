"""Rationales as a task: the network learns texts of a column besides the answer.

    language_model.text_column = 'rationale'

Invariant: the network computes the loss of a text in the forward pass of the score, but the text
does not affect the score, and an utterance without a text learns its answer alone.

Shapes: B utterances.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from asdf.data.clip_frames import ClipFrames
from asdf.errors import UsageError
from asdf.networks.interface import Outputs
from asdf.networks.language_models.audio_language_model import TEXT_LOSS, AudioLanguageModel
from asdf.networks.language_models.rationale import KEY
from asdf.training.task import Task
from asdf.training.terms import ClipKey, Term
from asdf.trials.trial_list import TrialList


class Rationales(Task):
    """The task of texts; the network itself contains the head, which generates on request."""

    key = KEY

    @property
    def is_requested(self) -> bool:
        return self.settings.language_model.text_column is not None

    def build_term(
        self, network: nn.Module, utterances: TrialList, frames: ClipFrames | None
    ) -> TextTerm | None:
        """Return the term of the texts of the training list.

        Raises:
            UsageError: the network is not an audio language model, or the list lacks the column or
                has no text in it.
        """
        column = self.settings.language_model.text_column
        if column is None:
            return None
        self.try_on_noise(network)
        setting = f"language_model.text_column = {column!r}"
        if column not in utterances.columns:
            known = ", ".join(utterances.columns) or "none"
            raise UsageError(f"{setting}: the training list has no such column. It has: {known}.")
        texts = [str(text) for text in utterances.columns[column]]
        if not any(texts):
            raise UsageError(f"{setting}: no utterance of the training list has a text there.")
        return TextTerm(self.settings.language_model.text_weight, texts)

    def try_on_noise(self, network: nn.Module) -> None:
        """Refuse networks that generate no text.

        Raises:
            UsageError: the network is not an audio language model.
        """
        if not isinstance(network, AudioLanguageModel):
            raise UsageError(
                f"language_model.text_column: {self.settings.network.network_class} is not an "
                "audio language model and cannot learn texts. Set network.network_class = "
                "'asdf.networks.AudioLanguageModel', or leave language_model.text_column at None."
            )


class TextTerm(Term):
    """The mean cross-entropy of the tokens of texts, for the utterances that have one.

    Args:
        weight: Weight of the term.
        texts: Texts of the training list; '' for an utterance without one.
    """

    name = KEY

    def __init__(self, weight: float, texts: Sequence[str]) -> None:
        self.weight = weight
        self._has_text = torch.tensor([bool(text) for text in texts])

    def targets_of(self, keys: Sequence[ClipKey]) -> Tensor:
        """Return whether the utterances have texts, (clips,) bool; the network gets the texts."""
        return self._has_text[[index for _, index in keys]]

    def counts(self, targets: Tensor) -> Tensor:
        """Return 1 for each utterance with a text."""
        return targets.double()

    def per_utterance(self, outputs: Outputs, targets: Tensor) -> Tensor:
        """Return the losses of the texts, (B,)."""
        return outputs.extras[TEXT_LOSS] * targets
