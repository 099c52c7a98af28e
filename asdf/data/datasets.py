"""Recordings as torch datasets. They hold plain values only, so that a worker of any start method sees the same.

Invariant: an item is a function of the settings' seed and its key; neither the worker nor the process that makes it,
nor what was made before, changes a sample. What cannot be read comes back as the error itself: raised in a worker it
would reach the user wrapped in two tracebacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

from asdf.audio import augment, crop_start, read_audio, repeat_to
from asdf.audio.speech_activity import apply as apply_speech_activity
from asdf.data.lists import UtteranceList
from asdf.errors import AsdfError
from asdf.runs.seeds import generator
from asdf.settings.sections import RawBoost, SpeechActivity


class TrainingClips(Dataset):
    """Random crops of `clip_size` samples; shorter utterances are repeated. Key: (epoch, utterance)."""

    def __init__(
        self,
        utterances: UtteranceList,
        lengths: np.ndarray,
        clip_size: int,
        rawboost: RawBoost,
        sad: SpeechActivity,
        seed: int,
    ) -> None:
        self.utterances, self.lengths, self.clip_size = utterances, lengths, clip_size
        self.rawboost, self.sad, self.seed = rawboost, sad, seed

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, key: tuple[int, int]) -> np.ndarray | AsdfError:
        epoch, index = key
        draws = generator(self.seed, "clip", epoch, index)
        try:
            clip = self._clip(self.utterances.path(index), int(self.lengths[index]), draws)
        except AsdfError as error:
            return error
        return augment(clip, self.rawboost, draws)

    def _clip(self, path: Path, length: int, draws: np.random.Generator) -> np.ndarray:
        start = crop_start(length, self.clip_size, draws)
        if self.sad.mode == "off":
            clip = read_audio(path, start, min(length, self.clip_size))
        else:
            clip = apply_speech_activity(read_audio(path), self.sad)[start : start + self.clip_size]
        return repeat_to(clip, self.clip_size)


class WholeUtterances(Dataset):
    """The first samples of utterances, repeated where there are fewer. Key: (utterance, samples)."""

    def __init__(self, utterances: UtteranceList, lengths: np.ndarray, sad: SpeechActivity) -> None:
        self.utterances, self.lengths, self.sad = utterances, lengths, sad

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, key: tuple[int, int]) -> np.ndarray | AsdfError:
        index, samples = key
        path, length = self.utterances.path(index), int(self.lengths[index])
        try:
            if self.sad.mode == "off":
                return repeat_to(read_audio(path, 0, min(length, samples)), samples)
            return repeat_to(apply_speech_activity(read_audio(path), self.sad)[:samples], samples)
        except AsdfError as error:
            return error


def collate(items: Sequence[np.ndarray | AsdfError]) -> torch.Tensor | AsdfError:
    """Waveforms (batch, samples), float32; or the first error among the items."""
    errors = [item for item in items if isinstance(item, AsdfError)]
    if errors:
        return errors[0]
    return torch.from_numpy(np.stack([item for item in items if isinstance(item, np.ndarray)]))
