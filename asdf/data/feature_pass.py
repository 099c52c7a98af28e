"""The pass before training that computes the features of all training clips and keeps them.

Invariant: the clips are divided into the same batches on any number of processes, so that the file is the same; and
of two runs that need the same features one computes them while the other waits. A pass that was asked to stop goes on
where it stopped; one that was killed begins anew, since what had reached the disk is not known. Features are computed
in float32, as for scoring, whatever `computing.precision` says of training.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asdf.data.feature_cache import CachedFeatures, FeatureCache, in_bytes
from asdf.data.loaders import BatchLoader
from asdf.data.scoring_plan import batch_samples
from asdf.distributed.arithmetic import tf32
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.transfer import fetch_later
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.files import write_advice, write_text
from asdf.runs.log import LOG
from asdf.runs.owner import owner_mark
from asdf.runs.progress import track
from asdf.settings.sections import Network
from asdf.trials.trial_list import TrialList

POLL_S = 5.0


@dataclass(frozen=True)
class _Begun:
    """A batch on its way from the device.

    Attributes:
        part: positions of its clips in the list.
        block: gives the features as they are saved.
    """

    part: range
    features: Tensor
    block: Callable[[], Tensor]


@dataclass(frozen=True)
class FeaturePass:
    """Computes the features of the training clips of `utterances`, unless a cache has them.

    Args:
        front_end: from waveforms (batch, samples) to features (batch, frames, dimension), or a list of such tensors,
            one a layer; on the world's device. A batch has up to as many samples as a scoring
            batch on a CPU.
        clips: reads waveforms by the keys (epoch, utterance).
    """

    front_end: Callable[[Tensor], Tensor | list[Tensor]]
    clips: BatchLoader
    utterances: TrialList
    settings: Network
    world: World
    stop: StopRequest

    @property
    def batch_size(self) -> int:
        return max(1, batch_samples(self.settings) // self.settings.train_clip_size)

    def shape(self) -> tuple[int, ...]:
        """The shape of the features of all clips."""
        blank = torch.zeros(1, self.settings.train_clip_size, device=self.world.device)
        return (len(self.utterances), *self._features(blank).shape[1:])

    def keep(self, cache: FeatureCache) -> CachedFeatures:
        """The features, from `cache`, computed first if they are not there.

        Raises:
            AsdfError: they do not fit on the disk, or into their number format; a recording cannot be read.
            Stopped: a stop was asked for; what has been computed is kept.
        """
        with ExitStack() as stack:
            if self._must_compute(cache, stack):
                self._compute(cache)
        return CachedFeatures(cache)

    def _must_compute(self, cache: FeatureCache, stack: ExitStack) -> bool:
        """Whether the features are to be computed by this run, which then holds the mark of the cache's folder."""

        def look() -> str:
            if cache.is_whole():
                return "whole"
            cache.check_space()
            try:
                stack.enter_context(owner_mark(cache.own))
            except AsdfError as error:
                if error.__cause__ is not None:  # the folder cannot be written: no one else's doing
                    raise
                return "taken"
            return "whole" if cache.is_whole() else "ours"

        size = (
            f"features of {len(self.utterances):,} clips: {in_bytes(cache.bytes)}, in {cache.own}"
        )
        waited = False
        while (state := self.world.run_on_main(look)) == "taken":
            if not waited:
                LOG.info("%s: another run computes them; waiting for it", size)
            waited = True
            self.world.stop_together(self.stop, "while another run computed the features")
            time.sleep(POLL_S)
        LOG.info("%s: %s", size, "computed already" if state == "whole" else "computing them once")
        return state == "ours"

    def _compute(self, cache: FeatureCache) -> None:
        world, stop = self.world, self.stop
        done = world.run_on_main(lambda: self._prepare(cache))
        own = [
            batch for batch in range(world.rank, self._batches(), world.size) if batch not in done
        ]
        finished = []
        with cache.unfinished.open("r+b", buffering=0) as file:
            blocks = track(
                self._blocks(own, cache.dtype),
                len(own),
                "computing features",
                shown=world.is_main,
                unit="batches",
            )
            for batch, block in zip(own, blocks, strict=True):
                with _told(cache.unfinished):
                    _write_at(
                        file.fileno(), block.tobytes(), batch * self.batch_size * cache.clip_bytes
                    )
                finished.append(batch)
                if stop:
                    break
            with _told(cache.unfinished):
                os.fsync(file.fileno())
        stopped = bool(world.sum([float(bool(stop))])[0])
        parts = world.gather(finished) or []

        def conclude() -> None:
            batches = sorted({*done, *(batch for part in parts for batch in part)})
            if stopped:
                write_text(
                    cache.finished_batches,
                    json.dumps({"batch_size": self.batch_size, "batches": batches}),
                )
                return
            with _told(cache.features):
                cache.conclude()

        world.run_on_main(conclude)
        if stopped:
            raise Stopped(world.agree(stop.reason), "while computing features")

    def _prepare(self, cache: FeatureCache) -> list[int]:
        """Make room for the features, or take what a stopped pass left; the batches that are there."""
        try:
            left = json.loads(cache.finished_batches.read_text(encoding="utf-8"))
            batches: list[int] = left["batches"]
            if (
                left["batch_size"] == self.batch_size
                and cache.unfinished.stat().st_size == cache.bytes
            ):
                LOG.info(
                    "going on after %d of %d batches of features", len(batches), self._batches()
                )
                return batches
        except (OSError, ValueError, KeyError):
            pass
        with _told(cache.unfinished):
            cache.finished_batches.unlink(missing_ok=True)
            with cache.unfinished.open("wb") as file:
                file.truncate(cache.bytes)
        return []

    def _batches(self) -> int:
        return math.ceil(len(self.utterances) / self.batch_size)

    def _blocks(self, batches: list[int], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        indices = [
            range(len(self.utterances))[batch * self.batch_size :][: self.batch_size]
            for batch in batches
        ]
        begun: deque[_Begun] = deque()
        waveforms = self.clips.batches([(1, index) for index in part] for part in indices)
        for part, waveforms_BT in zip(indices, waveforms, strict=True):
            features = self._features(waveforms_BT)
            block = fetch_later(features.to(getattr(torch, dtype.name)))
            begun.append(_Begun(part, features, block))
            # A GPU computes this batch while the one before is written.
            if len(begun) > 1:
                yield self._finished(begun.popleft())
        if begun:
            yield self._finished(begun.popleft())

    def _finished(self, begun: _Begun) -> np.ndarray:
        block = begun.block()
        beyond = (~block.isfinite()).flatten(1).any(dim=1).tolist()
        if any(beyond):
            wrong = beyond.index(True)
            name = self.utterances.ids[begun.part[wrong]]
            raise AsdfError(
                f"features of {name} are beyond what {block.numpy().dtype} holds: the largest is "
                f"{float(begun.features[wrong].abs().max()):.3g}. Set front_end.cache_features = False, or another "
                "front_end.layer."
            )
        return block.numpy()

    def _features(self, waveforms_BT: Tensor) -> Tensor:
        with torch.no_grad(), tf32(False):
            features = self.front_end(waveforms_BT)
        return features if isinstance(features, Tensor) else torch.stack(features, dim=1)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AsdfError(write_advice(path, error)) from error


def _write_at(file: int, data: bytes, place: int) -> None:
    # Not through a memory map: on a full disk that would end the process instead of raising an error.
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, place)
        rest, place = rest[written:], place + written
