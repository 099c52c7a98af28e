"""The supported audio language models of transformers, and how each encodes a recording.

Invariant: the tokens of a recording equal those that transformers' own `forward` inserts for the
model's audio tokens, for the same features, so pretrained weights keep their meaning. Only classes
of transformers are created, from plain values.

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

# Frames of 10 ms per position of a tower, whose second convolution has a stride of 2.
FRAMES_PER_POSITION = 2


class Family(ABC):
    """The audio encoding of models of one type.

    Attributes:
        model_type: Type in the models' configuration.
        class_name: Class of transformers that builds the models.
    """

    model_type: ClassVar[str]
    class_name: ClassVar[str]

    @abstractmethod
    def count(self, model: Any, frames: int) -> int:
        """Return the number of tokens of a part with `frames` frames."""

    @abstractmethod
    def hear(self, model: Any, bands_BNF: Tensor, frames_B: Tensor) -> Tensor:
        """Return the audio tokens of parts for the language model, (B, A, H).

        Args:
            bands_BNF: Log-mel bands of whole parts, padded with silence.
            frames_B: Number of frames of each part without padding.
        """


class Pooled(Family):
    """Whisper's tower with states averaged in pairs; padding is masked."""

    def count(self, model: Any, frames: int) -> int:
        """Return the number of pairs of positions."""
        count: int = (_positions(frames) - 2) // 2 + 1
        return count

    def project(self, model: Any, states_BAD: Tensor) -> Tensor:
        """Map states of the tower to states of the language model."""
        projected_BAH: Tensor = model.model.multi_modal_projector(states_BAD)
        return projected_BAH


class Qwen2Audio(Pooled):
    """Qwen2-Audio, whose tower gets its mask from the model."""

    model_type = "qwen2_audio"
    class_name = "Qwen2AudioForConditionalGeneration"

    def hear(self, model: Any, bands_BNF: Tensor, frames_B: Tensor) -> Tensor:
        """Return the output of the tower and the projector for parts."""
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
    """Audio Flamingo 3, whose tower gets the mask of frames."""

    model_type = "audioflamingo3"
    class_name = "AudioFlamingo3ForConditionalGeneration"

    def hear(self, model: Any, bands_BNF: Tensor, frames_B: Tensor) -> Tensor:
        """Return the output of the tower and the projector for parts."""
        mask = _heard(frames_B, bands_BNF.shape[2])
        states = model.model.audio_tower(bands_BNF, input_features_mask=mask).last_hidden_state
        return self.project(model, states)


class Voxtral(Family):
    """Voxtral, which joins neighbouring states and encodes every part including its padding."""

    model_type = "voxtral"
    class_name = "VoxtralForConditionalGeneration"

    def count(self, model: Any, frames: int) -> int:
        """Return the number of tokens of a whole part."""
        audio = model.config.audio_config
        return int(audio.max_source_positions * audio.hidden_size // audio.intermediate_size)

    def hear(self, model: Any, bands_BNF: Tensor, frames_B: Tensor) -> Tensor:
        """Return the output of the tower and the projector for parts."""
        embeddings: Tensor = model.model.get_audio_features(bands_BNF).pooler_output
        parts_BAH: Tensor = embeddings.unflatten(0, (len(bands_BNF), -1))
        return parts_BAH


FAMILIES = {each.model_type: each() for each in (Qwen2Audio, AudioFlamingo3, Voxtral)}


def find_family(model_type: str) -> Family:
    """Return the family of a model type.

    Raises:
        UsageError: the type is not a supported audio language model.
    """
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    raise UsageError(
        f"front_end.weights: the model type {shorten(model_type)!r} is not an audio language model "
        f"that asdf.networks.AudioLanguageModel supports: {', '.join(FAMILIES)}. For others write "
        "a class of your own (docs/your_own.md)."
    )


def _positions(frames: Any) -> Any:
    """Return the number of positions of a tower for numbers of frames."""
    return (frames - 1) // FRAMES_PER_POSITION + 1


def _heard(counts_B: Tensor, whole: int) -> Tensor:
    """Return a mask (B, whole) of the positions that are not padding."""
    return torch.arange(whole, device=counts_B.device) < counts_B[:, None]
