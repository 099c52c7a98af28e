"""The audio language models of transformers that are known: how each hears a recording.

Invariant: the tokens of a recording are those that transformers' own `forward` puts in the place of
the model's audio tokens, for the same features; so its pretrained weights mean what they meant.
Only classes of transformers are made, from plain values.

Source: Chu et al., "Qwen2-Audio technical report", 2024; Goel et al., "Audio Flamingo 3", 2025; Liu
et al., "Voxtral", 2025; the code of transformers.

Shapes: B parts of recordings, N bands, F frames of 10 ms, A tokens of a part, H numbers of a state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from asdf.errors import UsageError
from asdf.text import shorten

# Frames of 10 ms per position of a tower: its second convolution takes every other.
FRAMES_PER_POSITION = 2


class Family(ABC):
    """How models of one type hear.

    Attributes:
        model_type: Type in their configuration.
        class_name: Class of transformers that builds them.
    """

    model_type: ClassVar[str]
    class_name: ClassVar[str]

    @abstractmethod
    def count(self, model: Any, frames: int) -> int:
        """Return how many tokens a part of `frames` frames has."""

    @abstractmethod
    def hear(self, model: Any, bands_BNF: Tensor, frames_B: Tensor) -> Tensor:
        """Return what stands for parts before the language model, (B, A, H).

        Args:
            bands_BNF: Log-mel bands of whole parts, which silence fills up.
            frames_B: Frames of each part without that silence.
        """


class Pooled(Family):
    """Whisper's tower, whose states are averaged in pairs; padding is not heard."""

    def count(self, model: Any, frames: int) -> int:
        """Return the pairs of positions."""
        count: int = (_positions(frames) - 2) // 2 + 1
        return count

    def project(self, model: Any, states_BAD: Tensor) -> Tensor:
        """Return states of the tower as states of the language model."""
        projected_BAH: Tensor = model.model.multi_modal_projector(states_BAD)
        return projected_BAH


class Qwen2Audio(Pooled):
    """Qwen2-Audio, whose tower gets its mask from the model."""

    model_type = "qwen2_audio"
    class_name = "Qwen2AudioForConditionalGeneration"

    def hear(self, model: Any, bands_BNF: Tensor, frames_B: Tensor) -> Tensor:
        """Return what the tower and the projector make of parts."""
        from transformers.masking_utils import create_bidirectional_mask

        tower = model.model.audio_tower
        positions = _positions(bands_BNF.shape[2])
        mask = create_bidirectional_mask(
            config=tower.config,
            inputs_embeds=bands_BNF.new_zeros(len(bands_BNF), positions, 1),
            attention_mask=_heard(_positions(frames_B), positions).long(),
        )
        states = tower(bands_BNF, attention_mask=mask).last_hidden_state
        return self.project(model, states)


class AudioFlamingo3(Pooled):
    """Audio Flamingo 3, whose tower gets the frames that are heard."""

    model_type = "audioflamingo3"
    class_name = "AudioFlamingo3ForConditionalGeneration"

    def hear(self, model: Any, bands_BNF: Tensor, frames_B: Tensor) -> Tensor:
        """Return what the tower and the projector make of parts."""
        mask = _heard(frames_B, bands_BNF.shape[2])
        states = model.model.audio_tower(bands_BNF, input_features_mask=mask).last_hidden_state
        return self.project(model, states)


class Voxtral(Family):
    """Voxtral, which joins neighbouring states, and hears every part to its padded end."""

    model_type = "voxtral"
    class_name = "VoxtralForConditionalGeneration"

    def count(self, model: Any, frames: int) -> int:
        """Return the tokens of a whole part."""
        audio = model.config.audio_config
        return int(audio.max_source_positions * audio.hidden_size // audio.intermediate_size)

    def hear(self, model: Any, bands_BNF: Tensor, frames_B: Tensor) -> Tensor:
        """Return what the tower and the projector make of parts."""
        embeddings: Tensor = model.model.get_audio_features(bands_BNF).pooler_output
        parts_BAH: Tensor = embeddings.unflatten(0, (len(bands_BNF), -1))
        return parts_BAH


FAMILIES = {each.model_type: each() for each in (Qwen2Audio, AudioFlamingo3, Voxtral)}


def find_family(model_type: str) -> Family:
    """Return the family of a configuration.

    Raises:
        UsageError: it is of no audio language model that is known.
    """
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    raise UsageError(
        f"front_end.weights: a model of the type {shorten(model_type)!r} is no audio language "
        f"model that asdf.networks.AudioLanguageModel knows: {', '.join(FAMILIES)}. Others are a "
        "class of your own (docs/your_own.md)."
    )


def _positions(frames: Any) -> Any:
    """Return the positions of a tower for numbers of frames."""
    return (frames - 1) // FRAMES_PER_POSITION + 1


def _heard(counts_B: Tensor, whole: int) -> Tensor:
    """Return which of `whole` positions are heard, (B, whole) bool."""
    return torch.arange(whole, device=counts_B.device) < counts_B[:, None]
