"""The pass before training that computes and caches the features of all training clips.

Invariant: the clips are divided into the same batches on any number of processes, so that the file
is the same. If two runs need the same features, one computes them while the other waits. A pass
that was stopped on request is resumed; one that was killed restarts, since it is not known what
reached the disk. Features are computed in float32, as in scoring, whatever the value of
`computing.precision`.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asdf.data.feature_cache import CachedFeatures, FeatureCache, in_bytes
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
from asdf.settings.sections import Network
from asdf.trials.trial_list import TrialList

POLL_S = 5.0


@dataclass(frozen=True)
class _ComputingBatch:
    """A batch of features on its way from the device.

    Attributes:
        part: Indices of its clips in the list.
        block: Function that waits for the features in the saved format, and returns them.
    """

    part: range
    features: Tensor
    block: Callable[[], Tensor]


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
        with cache.unfinished.open("r+b", buffering=0) as file:
            blocks = track(
                self._blocks(local, cache.dtype),
                len(local),
                "computing features",
                shown=world.is_main,
                unit="batches",
            )
            for batch, block in zip(local, blocks, strict=True):
                # Not through a memory map, which would crash the process on a full disk instead of
                # raising an error.
                position = batch * self.batch_size * cache.clip_bytes
                rest = memoryview(block.tobytes())
                with _write_errors_as_messages(cache.unfinished):
                    # pwrite may write less than it is given.
                    while rest:
                        written = os.pwrite(file.fileno(), rest, position)
                        rest = rest[written:]
                        position += written
                finished.append(batch)
                if self.stop:
                    break
            with _write_errors_as_messages(cache.unfinished):
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
            raise Stopped(world.agree(self.stop.reason), "while computing features")

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
            # The remains cannot be used, so the pass restarts.
            pass
        with _write_errors_as_messages(cache.unfinished):
            cache.finished_batches.unlink(missing_ok=True)
            with cache.unfinished.open("wb") as file:
                file.truncate(cache.bytes)
        return []

    def _count_batches(self) -> int:
        return math.ceil(len(self.utterances) / self.batch_size)

    def _blocks(self, batches: list[int], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        parts = []
        keys = []
        for batch in batches:
            start = batch * self.batch_size
            part = range(start, min(start + self.batch_size, len(self.utterances)))
            parts.append(part)
            # Clips as in epoch 1, since a cache has one of each utterance.
            keys.append([(1, index) for index in part])
        computing: deque[_ComputingBatch] = deque()
        waveforms = self.clips.batches(keys)
        for part, waveforms_BT in zip(parts, waveforms, strict=True):
            features = self._features(waveforms_BT)
            block = fetch_later(features.to(getattr(torch, dtype.name)))
            computing.append(_ComputingBatch(part, features, block))
            # A GPU computes this batch while the previous one is written.
            if len(computing) > 1:
                yield _finish_batch(computing.popleft(), self.utterances)
        if computing:
            yield _finish_batch(computing.popleft(), self.utterances)

    def _features(self, waveforms_BT: Tensor) -> Tensor:
        with self.computing():
            features = self.front_end(waveforms_BT)
        return features if isinstance(features, Tensor) else torch.stack(features, dim=1)


def _finish_batch(computing: _ComputingBatch, utterances: TrialList) -> np.ndarray:
    """Wait for the features of a batch.

    Raises:
        AsdfError: some values exceed the range of their number format.
    """
    block = computing.block()
    is_beyond = (~block.isfinite()).flatten(1).any(dim=1).tolist()
    if any(is_beyond):
        wrong = is_beyond.index(True)
        name = utterances.ids[computing.part[wrong]]
        largest = float(computing.features[wrong].abs().max())
        raise AsdfError(
            f"features of {name} exceed the range of {block.numpy().dtype}: the largest is "
            f"{largest:.3g}. Set front_end.cache_features = False, or another front_end.layer."
        )
    return block.numpy()


@contextmanager
def _write_errors_as_messages(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AsdfError(write_advice(path, error)) from error
