"""The reference recordings of trials: their lengths, and reading them for training.

Invariant: the references read for a trial depend only on the seed and the key of its clip, with a
separate random stream: clips are the same with and without references, and a resumed run reads the
same references in any process.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np

from asdf.audio import crop_start, read_speech, repeat_to
from asdf.audio.reading import channels_first
from asdf.data.clip_frames import CropPosition
from asdf.runs.seeds import generator
from asdf.settings.sections import Audio, SpeechActivity
from asdf.trials.reference_files import DistinctReferences


@dataclass(frozen=True, eq=False)
class MeasuredReferences:
    """The references of a list, with their lengths in samples, (references,) int64."""

    distinct: DistinctReferences
    lengths: np.ndarray

    def digest(self) -> str:
        """Return a digest of the recordings, their lengths, and the references of each trial."""
        digest = hashlib.sha256(self.distinct.recordings.digest().encode())
        for numbers in (self.lengths, self.distinct.starts, self.distinct.indices):
            digest.update(np.ascontiguousarray(numbers, np.int64).tobytes())
        return digest.hexdigest()[:16]


@dataclass(eq=False)
class ReferenceClips:
    """Crops of `clip_size` samples of references; shorter ones are repeated.

    If a trial has several references, one is drawn per epoch, so training uses all of them over
    time. References are not augmented: they represent enrolments, which are recorded with care, and
    the comparison must not learn to detect the augmentation of a clip.

    Attributes:
        position: Position at which a reference is cut: 'random', or always its 'start'.
        audio: Sampling rate and channels of recordings as they are read.
    """

    references: MeasuredReferences
    clip_size: int
    sad: SpeechActivity
    seed: int
    position: CropPosition = "random"
    audio: Audio = field(default_factory=Audio)

    def __post_init__(self) -> None:
        distinct = self.references.distinct
        packed = replace(distinct, recordings=distinct.recordings.packed())
        self.references = replace(self.references, distinct=packed)

    def read(self, key: tuple[int, int]) -> np.ndarray:
        """Return the waveforms of the references of a clip, (1, clip_size) float32.

        Args:
            key: Key of the clip, (epoch, utterance).

        Raises:
            AsdfError: the recording cannot be read.
        """
        draws = generator(self.seed, "reference", *key)
        distinct = self.references.distinct
        of_trial = distinct.of(key[1])
        index = int(of_trial[draws.integers(len(of_trial))])
        length = int(self.references.lengths[index])
        start = 0
        if self.position == "random":
            start = crop_start(length, self.clip_size, draws)
        path = distinct.recordings.path(index)
        speech = read_speech(path, self.sad, start, self.clip_size, self.audio)
        return channels_first(repeat_to(speech, self.clip_size))[np.newaxis]
