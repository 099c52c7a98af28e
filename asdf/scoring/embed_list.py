"""The embedding of each recording of a list, exactly once, on any number of processes.

Invariant: batches are formed from the whole list before they are dealt out, so an embedding is the
same to the last bit on any number of processes with the same number of threads, and after any stop:
what was computed lies in parts of whole batches, of which a later command computes only the rest.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asdf.data.datasets import WholeUtterances
from asdf.data.decoders import log_fallbacks
from asdf.data.loaders import BatchLoader
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.runs.progress import track
from asdf.scoring.score_list import keys_of
from asdf.scoring.scorer import Scorer
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList

# How much a killed process may lose.
_SAVED_EVERY_S = 20.0
_SHOWN = 5


class Part(NamedTuple):
    """Some trials with their embeddings and scores."""

    trials_M: np.ndarray
    embeddings_ME: np.ndarray
    scores_M: np.ndarray


def embed_list(
    scorer: Scorer,
    utterances: TrialList,
    lengths: np.ndarray,
    settings: Sections,
    world: World,
    stop: StopRequest,
    folder: Path,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return embeddings (N, E) and scores (N,) on the main rank; None on the others.

    Args:
        lengths: of the utterances, in samples (see `asdf.data.lengths`).
        folder: of parts, which all processes see; parts in it are of the same work.

    Raises:
        AsdfError: a recording cannot be read, an embedding is not finite, or a batch does not fit
            into the device's memory.
        UsageError: the network returns no embeddings.
        Stopped: a stop was requested; what was computed is in `folder`.
    """
    what = f"embedding {utterances.name}"
    known = world.run_on_main(lambda: _known_trials(folder, len(utterances)))
    remaining = [batch for batch in scorer.plan_batches(lengths) if not known[batch.trials].all()]
    local = remaining[world.rank :: world.size]
    dataset = WholeUtterances(utterances, settings.sad)
    loader = BatchLoader(dataset, settings.computing.network_dataloader_workers, world, stop=stop)
    keys = list(map(keys_of, local))
    parts = _Parts(folder, world.rank)
    batches = track(loader.batches(keys), len(local), what, shown=world.is_main, unit="batches")
    for batch, waveforms in zip(local, batches, strict=False):
        output = scorer.score_tensor(waveforms, embedding=True)
        assert output.embeddings is not None
        parts.add(Part(batch.trials, output.embeddings, output.scores))
        if stop:
            break
    parts.save()
    world.stop_together(stop, f"while {what}")
    log_fallbacks(what, loader.decoded_by_ffmpeg, utterances, len(utterances), world)
    assembled: list[Part] = []
    world.run_on_main(lambda: assembled.append(_assemble(read_parts(folder), utterances)))
    if not assembled:
        return None
    return assembled[0].embeddings_ME, assembled[0].scores_M


class _Parts:
    """Batches of this process, saved together from time to time."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder = folder
        self._rank = rank
        self._batches: list[Part] = []
        self._saved_at = time.monotonic()

    def add(self, part: Part) -> None:
        """Add a batch."""
        self._batches.append(part)
        if time.monotonic() - self._saved_at > _SAVED_EVERY_S:
            self.save()

    def save(self) -> None:
        """Write the batches since the last time."""
        if self._batches:
            trials_M = np.concatenate([part.trials_M for part in self._batches])
            # A batch is computed once: no other part has its first trial.
            path = self._folder / f"{trials_M[0]}.npz"
            with atomic_write(path, "wb") as file:
                np.savez(
                    file,
                    trials=trials_M,
                    embeddings=np.concatenate([part.embeddings_ME for part in self._batches]),
                    scores=np.concatenate([part.scores_M for part in self._batches]),
                )
        self._batches = []
        self._saved_at = time.monotonic()


def read_parts(folder: Path) -> list[Part]:
    """Read all parts in a folder, in the order of their names."""
    parts = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            parts.append(Part(file["trials"], file["embeddings"], file["scores"]))
    return parts


def _known_trials(folder: Path, count: int) -> np.ndarray:
    known = np.zeros(count, bool)
    for path in folder.glob("*.npz"):
        with np.load(path, allow_pickle=False) as file:
            known[file["trials"]] = True
    return known


def _assemble(parts: Sequence[Part], utterances: TrialList) -> Part:
    """Put parts into the order of the list, and check them."""
    trials = np.concatenate([part.trials_M for part in parts])
    if not np.array_equal(np.sort(trials), np.arange(len(utterances))):
        raise RuntimeError(f"{utterances.name}: {len(trials)} of {len(utterances)} embeddings")
    embeddings_NE = np.concatenate([part.embeddings_ME for part in parts])
    scores_N = np.concatenate([part.scores_M for part in parts])
    order = np.argsort(trials)
    whole = Part(trials[order], embeddings_NE[order], scores_N[order])
    finite = np.isfinite(whole.embeddings_ME).all(axis=1) & np.isfinite(whole.scores_M)
    wrong = np.flatnonzero(~finite)
    if len(wrong):
        names = ", ".join(utterances.ids[index] for index in wrong[:_SHOWN])
        raise AsdfError(
            f"{len(wrong)} of the {len(trials)} embeddings of {utterances.name} are not finite, "
            f"first: {names}. The network has probably diverged: choose an earlier epoch."
        )
    return whole
