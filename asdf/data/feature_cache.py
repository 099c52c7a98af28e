"""Cached features: the files of a cache, their validity, and the dataset that reads them.

Invariant: the name of a cache's folder is the digest of everything that its numbers depend on. The
manifest, which lists this in full, is written after everything else is on disk. Features of other
weights, recordings or settings, or of a killed pass, are therefore never used.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from asdf.data.batches import Clip
from asdf.data.data_sections import DataSections
from asdf.data.lengths import lengths_file
from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.trials.trial_list import TrialList

FORMAT = 1


@dataclass(frozen=True)
class FeatureCache:
    """The features of all clips of a training list, as one array in one file.

    Attributes:
        folder: Folder of all caches.
        identity: Facts that the features depend on, as plain JSON values.
        shape: Shape of the array, (clips, frames, dimension), or (clips, layers, frames,
            dimension).
    """

    folder: Path
    identity: Mapping[str, Any]
    shape: tuple[int, ...]

    @property
    def cache_folder(self) -> Path:
        """The folder of this cache, named by the digest of its identity."""
        text = json.dumps(self.identity, sort_keys=True)
        return self.folder / hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def features(self) -> Path:
        return self.cache_folder / "features.bin"

    @property
    def unfinished(self) -> Path:
        return self.cache_folder / "features.part"

    @property
    def finished_batches(self) -> Path:
        """The file with the numbers of a stopped pass's batches that are in `unfinished`."""
        return self.cache_folder / "stopped.json"

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(self.identity["dtype"])
        return dtype

    @property
    def clip_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.clip_bytes

    def is_whole(self) -> bool:
        """Return whether the cache is complete and holds these features."""
        try:
            text = (self.cache_folder / "manifest.json").read_text(encoding="utf-8")
            is_this = bool(json.loads(text) == self._manifest())
            return is_this and self.features.stat().st_size == self.bytes
        except (OSError, ValueError):
            return False

    def conclude(self) -> None:
        """Mark the features in `unfinished`, which are on disk, as complete."""
        self.unfinished.replace(self.features)
        write_text(
            self.cache_folder / "manifest.json", json.dumps(self._manifest(), indent=1) + "\n"
        )
        self.finished_batches.unlink(missing_ok=True)

    def check_space(self) -> None:
        """Raise an AsdfError if the features do not fit on the disk."""
        folders = (self.cache_folder, *self.cache_folder.parents)
        existing = next(folder for folder in folders if folder.exists())
        taken = 0
        if self.unfinished.exists():
            # The remains of a stopped pass already take part of the space.
            # By blocks: the file has its full size from the start, and takes only what was written.
            taken = self.unfinished.stat().st_blocks * 512
        free = shutil.disk_usage(existing).free
        if self.bytes - taken <= free:
            return
        raise AsdfError(
            f"the features of {self.shape[0]:,} clips take {in_bytes(self.bytes)}, but "
            f"{self.folder} has {in_bytes(free)} left. Free some space (each folder there holds "
            "the features of one front end and training list, and can be deleted: they are "
            "computed again when needed), choose another paths.output_folder, a shorter "
            "network.train_clip_size, or front_end.cache_features = False."
        )

    def _manifest(self) -> dict[str, Any]:
        return {"identity": dict(self.identity), "shape": list(self.shape)}


def identity_of(
    front_end: Mapping[str, Any],
    utterances: TrialList,
    lengths: np.ndarray,
    settings: DataSections,
    dtype: str = "float16",
    precision: str = "fp32",
) -> dict[str, Any]:
    """Return everything that the features of the training clips depend on.

    Args:
        front_end: Facts that they depend on besides the waveforms
            (`asdf.networks.split.feature_identity`).
        lengths: Lengths of the utterances after speech activity detection, in samples.
        precision: Name of the arithmetic of the computation.
    """
    identity = {
        "format": FORMAT,
        "dtype": dtype,
        "front_end": dict(front_end),
        # The file's name includes a digest of the list, of the recordings' sizes and of speech
        # activity detection.
        "utterances": lengths_file(Path(), utterances, settings.sad, settings.audio).name,
        "lengths": hashlib.sha256(lengths.astype(np.int64).tobytes()).hexdigest(),
        "samples": settings.network.train_clip_size,
        "position": settings.network.clip_position,
    }
    if precision != "fp32":
        # Older caches, which are all fp32, state no precision.
        identity["precision"] = precision
    if settings.vocoding.vocoders:
        # Copies are made once, with the seed's draws for the first epoch.
        identity["vocoding"] = {**asdict(settings.vocoding), "seed": settings.recipe.seed}
    return identity


def in_bytes(count: int) -> str:
    """Return a readable number of bytes: '12.3 GB'."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1e3:,.1f} kB"


class CachedFeatures(Dataset[Clip]):
    """The features of the training clips, from a memory-mapped file.

    Keys are (epoch, utterance), as in `TrainingClips`; features are the same in every epoch.
    """

    def __init__(self, cache: FeatureCache) -> None:
        self.path = cache.features
        self.shape = cache.shape
        self.dtype = cache.dtype
        self._array: np.memmap[Any, Any] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: tuple[int, int]) -> Clip:
        if self._array is None:
            self._array = np.memmap(self.path, self.dtype, "r", shape=self.shape)
        # A copy, since torch warns of arrays that cannot be written.
        return Clip(np.array(self._array[key[1]]))

    def __getstate__(self) -> dict[str, Any]:
        # A memory map would be pickled with the whole content of the file.
        return {**self.__dict__, "_array": None}
