"""Recordings as torch datasets.

Invariant: an item depends only on the seed of the settings and its key, not on the worker or
process that makes it, or on earlier items. Datasets hold only plain values, so that workers of any
start method see the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

from asdf.audio import repeat_to
from asdf.audio.augmentation import Chain
from asdf.audio.rawboost import boost, draw_for_some
from asdf.audio.reading import channels_first, check_count
from asdf.audio.speech import read_speech
from asdf.audio.vocoding import Vocoders
from asdf.data.batches import Clip, Mixup, mix
from asdf.data.clip_frames import CropPosition, draw_crop
from asdf.errors import AsdfError
from asdf.runs.seeds import generator
from asdf.settings.sections import Audio, RawBoost, SpeechActivity
from asdf.trials.packed_names import Names
from asdf.trials.trial_list import REFERENCE, TrialList


@dataclass(eq=False)
class TrainingClips(Dataset[Clip]):
    """Crops of `clip_size` samples; shorter utterances are repeated. Key: (epoch, utterance).

    If clips vary in length, the key includes the samples: (epoch, utterance, samples).

    Attributes:
        lengths: Lengths of the utterances, in samples, after speech activity detection.
        rawboost: Settings of RawBoost. With `on_device`, a clip comes without its noises but with
            their random draws; the noises are added to the whole batch, on the device.
        position: Position at which an utterance is cut: 'random', or always its 'start'.
        augmentation: Augmentation of a clip before RawBoost.
        vocoders: Vocoders of the utterances that are copies, with a separate random stream.
        references: References of the utterances; None if the network takes none.
        mixup: Mixing of a clip with another one after RawBoost; None for no mixing.
        audio: Sampling rate and channels of recordings as they are read; with all channels, a clip
            is (channels, samples).
        channels: Number of channels that the network takes; None if clips are (samples,).
    """

    utterances: TrialList
    lengths: np.ndarray
    clip_size: int
    rawboost: RawBoost
    sad: SpeechActivity
    seed: int
    position: CropPosition = "random"
    augmentation: Chain = field(default_factory=Chain)
    vocoders: Vocoders = field(default_factory=Vocoders)
    mixup: Mixup | None = None
    references: References | None = None
    audio: Audio = field(default_factory=Audio)
    channels: int | None = None

    def __post_init__(self) -> None:
        # Millions of Python objects would be copied into each worker by reference counting.
        self.utterances = self.utterances.packed()

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, key: tuple[int, ...]) -> Clip:
        clip = self._unmixed(key)
        if self.references is not None and clip.samples is not None:
            reference = self.references[key[1], clip.samples.shape[-1]]
            if reference.samples is None:
                return reference
            clip = replace(clip, reference=reference.samples)
        mixture = self.mixup.draw((key[0], key[1])) if self.mixup else None
        if mixture is None or clip.samples is None:
            return clip
        # The partner is as in its own turn in this epoch.
        partner = self._unmixed((key[0], mixture.partner))
        if partner.samples is None:
            return partner
        if self.rawboost.on_device:
            return replace(clip, partner=partner, weight=mixture.weight)
        return Clip(mix(clip.samples, partner.samples, mixture.weight))

    def _unmixed(self, key: tuple[int, ...]) -> Clip:
        """Read and augment the part of a recording that the clip of this key needs."""
        epoch, index, *samples = key
        clip_size = samples[0] if samples else self.clip_size
        # One generator for all random draws of a clip, whose order must not change.
        draws = generator(self.seed, "clip", epoch, index)
        length = int(self.lengths[index])
        drawn = draw_crop(length, clip_size, self.position, self.augmentation, draws)
        path = self.utterances.path(index)
        try:
            speech = read_speech(path, self.sad, drawn.start, drawn.samples, self.audio)
            check_count(speech, self.channels, path)
            # Before repetition, since a short recorded spoof would be repeated as a whole.
            vocoder = self.utterances.vocoder(index)
            if vocoder:
                copying = generator(self.seed, "vocoder", epoch, index)
                speech = self.vocoders.copy(vocoder, speech, copying, path)
            crop = self.augmentation.fill(speech, drawn.samples, draws, path)
            clip = self.augmentation.apply(crop, drawn.speed, clip_size, draws, path)
        except AsdfError as error:
            return Clip(error=error)
        noises = draw_for_some(len(clip), self.rawboost, draws, self.audio.sample_rate)
        if self.rawboost.on_device:
            return Clip(clip, self.rawboost, noises)
        if noises is not None:
            clip = boost(clip, noises, self.rawboost)
        return Clip(channels_first(clip), varies=bool(samples))


@dataclass(eq=False)
class WholeUtterances(Dataset[Clip]):
    """The first samples of utterances, repeated if there are fewer. Key: (utterance, samples).

    Attributes:
        audio, channels: Those of `TrainingClips`.
    """

    utterances: TrialList
    sad: SpeechActivity
    audio: Audio = field(default_factory=Audio)
    channels: int | None = None

    def __post_init__(self) -> None:
        self.utterances = self.utterances.packed()

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, key: tuple[int, int]) -> Clip:
        index, samples = key
        return self._beginning(self.utterances.path(index), samples)

    def _beginning(self, path: Path, samples: int) -> Clip:
        try:
            speech = read_speech(path, self.sad, 0, samples, self.audio)
            check_count(speech, self.channels, path)
        except AsdfError as error:
            return Clip(error=error)
        return Clip(channels_first(repeat_to(speech, samples)))


@dataclass(eq=False)
class References(WholeUtterances):
    """The beginnings of the references of utterances, repeated. Key: (utterance, samples).

    An utterance whose list has no column `reference`, or nothing in it, has zeros.
    """

    def __post_init__(self) -> None:
        self._paths = Names(self.utterances.columns.get(REFERENCE, [""] * len(self.utterances)))
        super().__post_init__()

    def __getitem__(self, key: tuple[int, int]) -> Clip:
        index, samples = key
        if not self._paths[index]:
            shape = (samples,) if self.channels is None else (self.channels, samples)
            return Clip(np.zeros(shape, np.float32))
        return self._beginning(self.utterances.folder_of(index) / self._paths[index], samples)
