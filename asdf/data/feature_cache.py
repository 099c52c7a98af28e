"""Cached features: the files of a cache, the pass that computes them, and their dataset.

Invariants: the name of a cache's folder is the digest of everything that its numbers depend on. The
manifest, which lists this in full, is written after everything else is on disk. Features of other
weights, recordings or settings, or of a killed pass, are therefore never used.

The clips are divided into the same batches on any number of processes, so that the file is the
same. If two runs need the same features, one computes them while the other waits. A pass that was
stopped on request is resumed; one that was killed restarts, since it is not known what reached the
disk. Features are computed in float32, as in scoring, unless `front_end.cache_precision` says
otherwise.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from asdf.data.batches import Clip
from asdf.data.lengths import digest_recordings, lengths_file
from asdf.data.loaders import BatchLoader
from asdf.data.scoring_plan import batch_samples
from asdf.distributed.arithmetic import arithmetic
from asdf.distributed.gpus import fetch_later
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.files import write_advice, write_text
from asdf.runs.layout import owner_lock
from asdf.runs.log import LOG, track
from asdf.settings.sections import Network, Sections
from asdf.trials.trial_list import TrialList

FORMAT = 1

POLL_S = 5.0


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
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

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
        text = json.dumps(self._manifest(), indent=1) + "\n"
        write_text(self.cache_folder / "manifest.json", text)
        self.finished_batches.unlink(missing_ok=True)

    def check_space(self) -> None:
        """Raise an AsdfError if the features do not fit on the disk."""
        folders = (self.cache_folder, *self.cache_folder.parents)
        existing = next(folder for folder in folders if folder.exists())
        free = shutil.disk_usage(existing).free
        # The remains of a stopped pass, by blocks: the file has its full size from the start.
        taken = self.unfinished.stat().st_blocks * 512 if self.unfinished.exists() else 0
        if self.bytes - taken > free:
            raise AsdfError(
                f"the features of {self.shape[0]:,} clips take {in_bytes(self.bytes)}, but "
                f"{self.folder} has {in_bytes(free)} left. Free some space (each folder there can "
                "be deleted: its features are computed again when needed), choose another "
                "paths.output_folder, or set front_end.cache_features = False."
            )

    def _manifest(self) -> dict[str, Any]:
        return {"identity": dict(self.identity), "shape": list(self.shape)}


def identity_of(
    front_end: Mapping[str, Any],
    utterances: TrialList,
    lengths: np.ndarray,
    settings: Sections,
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
        # The file's name includes digests of the list and of speech activity detection.
        "utterances": lengths_file(Path(), utterances, settings.sad, settings.audio).name,
        "recordings": digest_recordings(utterances),
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
        return {**vars(self), "_array": None}


@contextmanager
def computing_in_fp32() -> Iterator[None]:
    """Compute in float32 inside the block, without gradients."""
    with torch.no_grad(), arithmetic(tf32=False):
        yield


@dataclass(frozen=True)
class FeaturePass:
    """Computes the features of the training clips of `utterances`, unless a cache has them.

    Args:
        front_end: Function from waveforms (batch, samples) to features (batch, frames, dimension),
            or to a list of such tensors, one per layer; on the world's device. A batch has at most
            as many samples as a scoring batch on a CPU.
        clips: Loader of waveforms by the keys (epoch, utterance).
        computing: Block in which the front end computes, without gradients.
    """

    front_end: Callable[[Tensor], Tensor | list[Tensor]]
    clips: BatchLoader
    utterances: TrialList
    settings: Network
    world: World
    stop: StopRequest
    computing: Callable[[], AbstractContextManager[None]] = computing_in_fp32

    @property
    def batch_size(self) -> int:
        return max(1, batch_samples(self.settings) // self.settings.train_clip_size)

    def shape(self) -> tuple[int, ...]:
        """Return the shape of the features of all clips."""
        blank = torch.zeros(1, self.settings.train_clip_size, device=self.world.device)
        return (len(self.utterances), *self._features(blank).shape[1:])

    def fill(self, cache: FeatureCache) -> CachedFeatures:
        """Return the features from `cache`, computing them if necessary.

        Raises:
            AsdfError: they do not fit on the disk or into their number format, or a recording
                cannot be read.
            Stopped: a stop was requested; computed features are saved.
        """
        with ExitStack() as stack:
            if self._must_compute(cache, stack):
                self._compute(cache)
        return CachedFeatures(cache)

    def _must_compute(self, cache: FeatureCache, stack: ExitStack) -> bool:
        """Return whether this run has to compute the features; it then holds the folder's lock."""

        def look() -> str:
            if cache.is_whole():
                return "whole"
            cache.check_space()
            try:
                stack.enter_context(owner_lock(cache.cache_folder))
            except AsdfError as error:
                if error.__cause__ is not None:
                    raise
                return "taken"
            # Another run may have finished between the first look and the lock.
            return "whole" if cache.is_whole() else "ours"

        size = (
            f"features of {len(self.utterances):,} clips: {in_bytes(cache.bytes)}, "
            f"in {cache.cache_folder}"
        )
        waited = False
        while (state := self.world.run_on_main(look)) == "taken":
            if not waited:
                LOG.info("%s: another run computes them; waiting for it", size)
            waited = True
            self.world.stop_together(self.stop, "while another run computed the features")
            time.sleep(POLL_S)
        LOG.info("%s: %s", size, "already computed" if state == "whole" else "computing them once")
        return state == "ours"

    def _compute(self, cache: FeatureCache) -> None:
        world = self.world
        done = world.run_on_main(lambda: self._prepare(cache))
        of_this_rank = range(world.rank, self._count_batches(), world.size)
        local = [batch for batch in of_this_rank if batch not in done]
        finished = []
        computed = self._blocks(local, cache.dtype)
        what = "computing features"
        blocks = track(computed, len(local), what, shown=world.is_main, unit="batches")
        # Not through a memory map, which would crash the process on a full disk instead of raising
        # an error.
        with _write_errors_as_messages(cache.unfinished), cache.unfinished.open("r+b") as file:
            for batch, block in zip(local, blocks, strict=True):
                file.seek(batch * self.batch_size * (cache.bytes // cache.shape[0]))
                file.write(block.tobytes())
                file.flush()
                finished.append(batch)
                if self.stop:
                    break
            os.fsync(file.fileno())
        stopped = bool(world.sum([float(bool(self.stop))])[0])
        parts = world.gather(finished) or []

        def conclude() -> None:
            if stopped:
                batches = sorted(set(done).union(*parts))
                content = {"batch_size": self.batch_size, "batches": batches}
                write_text(cache.finished_batches, json.dumps(content))
                return
            with _write_errors_as_messages(cache.features):
                cache.conclude()

        world.run_on_main(conclude)
        if stopped:
            raise Stopped(world.agree(self.stop.reason), f"while {what}")

    def _prepare(self, cache: FeatureCache) -> list[int]:
        """Reserve space for the features, or reuse those of a stopped pass; return its batches."""
        try:
            left = json.loads(cache.finished_batches.read_text(encoding="utf-8"))
            batches: list[int] = left["batches"]
            is_as_large = cache.unfinished.stat().st_size == cache.bytes
            if left["batch_size"] == self.batch_size and is_as_large:
                count = self._count_batches()
                LOG.info("continuing after %d of %d batches of features", len(batches), count)
                return batches
        except (OSError, ValueError, KeyError):
            pass  # there are no remains, or they cannot be used
        with _write_errors_as_messages(cache.unfinished):
            cache.finished_batches.unlink(missing_ok=True)
            with cache.unfinished.open("wb") as file:
                file.truncate(cache.bytes)
        return []

    def _count_batches(self) -> int:
        return math.ceil(len(self.utterances) / self.batch_size)

    def _blocks(self, batches: list[int], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        size = self.batch_size
        count = len(self.utterances)
        parts = [range(size * batch, min(size * (batch + 1), count)) for batch in batches]
        # Clips as in epoch 1, since a cache has one of each utterance.
        keys = (list(product([1], part)) for part in parts)
        before: Callable[[], np.ndarray] | None = None
        for part, waveforms_BT in zip(parts, self.clips.batches(keys), strict=True):
            features = self._features(waveforms_BT)
            block = fetch_later(features.to(getattr(torch, dtype.name)))
            # A GPU computes this batch while the previous one is written.
            if before is not None:
                yield before()
            before = partial(self._finish, part, features, block)
        if before is not None:
            yield before()

    def _features(self, waveforms_BT: Tensor) -> Tensor:
        with self.computing():
            features = self.front_end(waveforms_BT)
        return features if isinstance(features, Tensor) else torch.stack(features, dim=1)

    def _finish(self, part: range, features: Tensor, fetch: Callable[[], Tensor]) -> np.ndarray:
        """Wait for the features of the clips `part`.

        Raises:
            AsdfError: some values exceed the range of their number format.
        """
        block = fetch()
        is_finite = block.isfinite().flatten(1).all(dim=1).tolist()
        if not all(is_finite):
            row = is_finite.index(False)
            raise AsdfError(
                f"features of {self.utterances.ids[part[row]]} exceed the range of "
                f"{block.numpy().dtype}: the largest is {float(features[row].abs().max()):.3g}. "
                "Set front_end.cache_features = False, or another front_end.layer."
            )
        return block.numpy()


@contextmanager
def _write_errors_as_messages(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AsdfError(write_advice(path, error)) from error
