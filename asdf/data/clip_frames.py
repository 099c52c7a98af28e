"""The samples of a recording that form a training clip, and the labels of its frames.

Invariants: a crop depends only on the seed, the clip's key and the length of the recording, so a
worker that reads clips and each process that needs their frames' labels compute it independently,
without communication. A frame has the label that its samples have in the recording: it is spoofed
if any of them is (`asdf.segments`), whatever the crop, its repetitions and its speed. The labels
depend only on the training list and the clips' keys. A vocoded copy is spoofed as a whole.

Shapes: N clips, F frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from asdf.audio import crop_start
from asdf.audio.augmentation import Chain, source_samples
from asdf.errors import UsageError
from asdf.runs.seeds import generator
from asdf.segments import WHOLE, Segment, clipped, frame_count, labels_of_mask, spoofed_parts
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList

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
    start = 0
    if position == "random":
        start = crop_start(length, samples, rng)
    return Crop(start, samples, speed)


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
                    f"augmentation.chain: {part.describe()} shortens clips by lengths that are "
                    "known only when a clip is read, and localisation.enabled = True needs to know "
                    "where its frames were. Take it off the chain."
                )
        self._spoofed: list[tuple[Segment, ...]] = []
        for index in range(len(utterances)):
            is_copy = utterances.vocoder(index)
            self._spoofed.append(WHOLE if is_copy else spoofed_parts(utterances, index))
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
