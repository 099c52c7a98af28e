"""Recordings as torch datasets. They hold plain values only, so that a worker of any start method sees the same.

Invariant: an item is a function of the settings' seed and its key; neither the worker nor the process that makes it,
nor what was made before, changes a sample. What cannot be read comes back as the error itself: raised in a worker it
would reach the user wrapped in two tracebacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, default_collate

from asdf.audio import crop_start, repeat_to
from asdf.audio.augmentation import Chain, source_samples
from asdf.audio.rawboost import Draws, boost, draw_for_some
from asdf.audio.rawboost_batch import Unboosted, prepare
from asdf.audio.speech import read_speech
from asdf.errors import AsdfError
from asdf.runs.seeds import generator
from asdf.settings.sections import RawBoost, SpeechActivity
from asdf.trials.trial_list import TrialList


class ClipAndDraws(NamedTuple):
    """A clip (T,) that RawBoost is to reach with its batch, and what was drawn for it; None: it stays as it is."""

    clip: np.ndarray
    draws: Draws | None
    rawboost: RawBoost


class ClipPlan(NamedTuple):
    """What a clip is made of: `samples` of a recording's speech from sample `start` on.

    Attributes:
        speed: that it is to be played at, in percent.
        draws: the clip's own generator, for what is still to be drawn.
    """

    path: Path
    start: int
    samples: int
    speed: int
    draws: np.random.Generator


class TrainingClips(Dataset):
    """Crops of `clip_size` samples; shorter utterances are repeated. Key: (epoch, utterance).

    Args:
        position: where an utterance is cut: at 'random', or always at its 'start'.
        augmentation: what is done to a clip before RawBoost; None: nothing.
        rawboost: with `on_device` an item is a clip without its noises, and what was drawn for them; they are added by
            `BatchLoader`, on the device.
    """

    def __init__(
        self,
        utterances: TrialList,
        lengths: np.ndarray,
        clip_size: int,
        rawboost: RawBoost,
        sad: SpeechActivity,
        seed: int,
        position: Literal["random", "start"] = "random",
        augmentation: Chain | None = None,
    ) -> None:
        self.utterances, self.lengths, self.clip_size = utterances.packed(), lengths, clip_size
        self.rawboost, self.sad, self.seed = rawboost, sad, seed
        self.position, self.augmentation = position, augmentation or Chain()

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, key: tuple[int, int]) -> np.ndarray | ClipAndDraws | AsdfError:
        return self.read(self.plan(key))

    def plan(self, key: tuple[int, int]) -> ClipPlan:
        """What is to be read for `key`."""
        epoch, index = key
        draws = generator(self.seed, "clip", epoch, index)
        speed = self.augmentation.draw_speed(draws)
        samples = source_samples(self.clip_size, speed)
        length = int(self.lengths[index])
        start = 0 if self.position == "start" else crop_start(length, samples, draws)
        return ClipPlan(self.utterances.path(index), start, samples, speed, draws)

    def read(
        self, plan: ClipPlan, room: np.ndarray | None = None
    ) -> np.ndarray | ClipAndDraws | AsdfError:
        """The item that was planned; an array may lie at the beginning of `room` (R,), float32, which is scratch."""
        try:
            clip = self._clip(plan, None if self.rawboost.on_device else room)
            clip = self.augmentation.apply(clip, plan.speed, self.clip_size, plan.draws)
        except AsdfError as error:
            return error
        noises = draw_for_some(len(clip), self.rawboost, plan.draws)
        if self.rawboost.on_device:
            return ClipAndDraws(clip, noises, self.rawboost)
        return clip if noises is None else boost(clip, noises, self.rawboost)

    def _clip(self, plan: ClipPlan, room: np.ndarray | None) -> np.ndarray:
        clip = read_speech(plan.path, self.sad, plan.start, plan.samples, room)
        return repeat_to(clip, plan.samples, room)


class WholeUtterances(Dataset):
    """The first samples of utterances, repeated where there are fewer. Key: (utterance, samples)."""

    def __init__(self, utterances: TrialList, sad: SpeechActivity) -> None:
        self.utterances, self.sad = utterances.packed(), sad

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, key: tuple[int, int]) -> np.ndarray | AsdfError:
        index, samples = key
        path = self.utterances.path(index)
        try:
            return repeat_to(read_speech(path, self.sad, 0, samples), samples)
        except AsdfError as error:
            return error


def collate(
    items: Sequence[np.ndarray | ClipAndDraws | AsdfError],
) -> torch.Tensor | Unboosted | AsdfError:
    """Items of equal shape as (batch, ...): waveforms, float32, or features; or the first error among them."""
    errors = [item for item in items if isinstance(item, AsdfError)]
    if errors:
        return errors[0]
    clips = [item for item in items if isinstance(item, ClipAndDraws)]
    if clips:
        return prepare(
            _stacked([item.clip for item in clips]),
            [item.draws for item in clips],
            clips[0].rawboost,
        )
    return _stacked([item for item in items if isinstance(item, np.ndarray)])


def _stacked(arrays: Sequence[np.ndarray]) -> torch.Tensor:
    """One tensor of arrays of equal shape; a worker makes it in shared memory, so that it need not be copied there."""
    tensor: torch.Tensor = default_collate([torch.from_numpy(array) for array in arrays])
    return tensor
