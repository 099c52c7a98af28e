"""Recordings as torch datasets: training clips, whole utterances, references, and frames' labels.

Invariants: an item depends only on the seed of the settings and its key, not on the worker or
process that makes it, or on earlier items. Datasets hold only plain values, so that workers of any
start method see the same. A crop depends only on the seed, the clip's key and the length of the
recording, so a worker that reads clips and each process that needs the labels of their frames
compute it independently. A frame has the label that its samples have in the recording: it is
spoofed if any of them is (`asdf.segments`), whatever the crop, its repetitions and its speed. A
vocoded copy is spoofed as a whole.

Shapes: N clips, F frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.random import Generator
from torch.utils.data import Dataset

from asdf.audio import crop_start, repeat_to
from asdf.audio.augmentation import Chain, source_samples
from asdf.audio.channels import channels_first, check_count
from asdf.audio.rawboost import boost, draw_for_some
from asdf.audio.speech import read_speech
from asdf.audio.vocoding import Vocoders
from asdf.data.batches import Clip, Mixup, mix
from asdf.errors import AsdfError, UsageError
from asdf.runs.seeds import generator
from asdf.segments import WHOLE, Segment, clipped, frame_count, labels_of_mask, spoofed_parts
from asdf.settings.sections import Audio, RawBoost, Sections, SpeechActivity
from asdf.trials.packed_names import Names
from asdf.trials.trial_list import REFERENCE, TrialList

_UNCHANGED = 100
# A step needs the labels of its clips several times.
_MAX_KNOWN = 10_000

CropPosition = Literal["random", "start"]


@dataclass(frozen=True)
class Crop:
    """A range of samples of a recording's speech, and its playback speed.

    Attributes:
        start: Index of the first sample.
        samples: Number of samples; a shorter recording is repeated.
        speed: Speed in percent.
    """

    start: int
    samples: int
    speed: int


def draw_crop(
    length: int, clip_size: int, position: CropPosition, augmentation: Chain, rng: Generator
) -> Crop:
    """Return the crop for a clip of `clip_size` samples out of `length` samples.

    Args:
        rng: Random numbers of the clip; the crop is drawn first: the speed, then the start.
    """
    speed = augmentation.draw_speed(rng)
    samples = source_samples(clip_size, speed)
    return Crop(crop_start(length, samples, rng) if position == "random" else 0, samples, speed)


class ClipFrames:
    """The labels of frames in the clips of a training list.

    Attributes:
        hop: Number of samples per frame.
        count: Number of frames of a clip, F; the last one may be shorter.
    """

    def __init__(
        self,
        utterances: TrialList,
        lengths: np.ndarray,
        settings: Sections,
        hop: int,
        augmentation: Chain | None = None,
    ) -> None:
        """Read the column `spoofed_s` of the list; a spoof without a value is spoofed as a whole.

        Args:
            lengths: Lengths of the utterances, in samples.
            hop: Number of samples per frame.
            augmentation: Augmentation of the clips.

        Raises:
            AsdfError: a value of the column is malformed, or contradicts the label.
            UsageError: a part of the augmentation shortens clips.
        """
        self.hop = hop
        self._size = settings.network.train_clip_size
        self._rate = settings.audio.sample_rate
        self.count = frame_count(self._size, hop)
        self._lengths = lengths
        self._seed = settings.recipe.seed
        self._position: CropPosition = settings.network.clip_position
        self._augmentation = augmentation or Chain()
        for part in self._augmentation.parts:
            if part.shortens:
                raise UsageError(
                    f"augmentation.chain: {part.describe()} shortens clips, and "
                    "localisation.enabled = True needs to know where their frames were. Take it "
                    "off the chain."
                )
        self._spoofed: list[tuple[Segment, ...]] = [
            WHOLE if utterances.vocoder(index) else spoofed_parts(utterances, index)
            for index in range(len(utterances))
        ]
        self._known: dict[tuple[int, int], np.ndarray | int] = {}

    def labels(self, keys: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return the labels of clips with these keys, (N, F) int8: 1 bona fide, 0 spoof."""
        labels_NF = np.empty((len(keys), self.count), np.int8)
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        for row, key in enumerate(keys):
            if key not in self._known:
                self._known[key] = self._labels_of(key)
            labels_NF[row] = self._known[key]
        return labels_NF

    def of_clips(self, keys: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return the labels of the clips as a whole, (N,) int8: spoof if any frame is."""
        labels_N: np.ndarray = self.labels(keys).min(axis=1)
        return labels_N

    def count_partial(self) -> int:
        """Return how many utterances are only partially spoofed."""
        return sum(bool(parts) and parts != WHOLE for parts in self._spoofed)

    def _labels_of(self, key: tuple[int, int]) -> np.ndarray | int:
        epoch, index = key
        parts = self._spoofed[index]
        # The label does not depend on the crop.
        if not parts or parts == WHOLE:
            return int(not parts)
        rng = generator(self._seed, "clip", epoch, index)
        length = int(self._lengths[index])
        crop = draw_crop(length, self._size, self._position, self._augmentation, rng)
        mask = np.zeros(min(length, crop.start + crop.samples) - crop.start, np.bool_)
        for part in clipped(parts, length / self._rate):
            first = max(round(part.start_s * self._rate) - crop.start, 0)
            stop = max(round(part.end_s * self._rate) - crop.start, 0)
            mask[first:stop] = True
        # Repeated from its start, like the samples.
        is_spoofed: np.ndarray = np.resize(mask, crop.samples)
        if crop.speed != _UNCHANGED:
            # Sample i of a clip at another speed is sample i * speed of the recording.
            heard_at = np.arange(self._size) * crop.speed // _UNCHANGED
            is_spoofed = is_spoofed[heard_at]
        return labels_of_mask(is_spoofed[: self._size], self.hop)


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
        index, weight = mixture
        # The partner is as in its own turn in this epoch.
        partner = self._unmixed((key[0], index))
        if partner.samples is None:
            return partner
        if self.rawboost.on_device:
            return replace(clip, partner=partner, weight=weight)
        return Clip(mix(clip.samples, partner.samples, weight))

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
