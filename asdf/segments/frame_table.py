"""The frame scores of a list of trials, as a run writes them next to its score files.

Invariant: the frames of a trial follow each other from its beginning on, and every score is finite.
The same scores give the same bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asdf.arrays import Floats, Integers, Singles
from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.text import AnyPath

_ARRAYS = ("ids", "offsets", "scores", "hop_s", "durations_s")


@dataclass(frozen=True, eq=False)
class FrameTable:
    """The scores of the frames of trials.

    Attributes:
        ids: Names of the trials.
        offsets: (trials + 1,) int64; the frames of trial i are `scores[offsets[i]:offsets[i + 1]]`.
        scores: (frames of all trials,) float32, the higher, the more bona fide.
        hop_s: the length of a frame in seconds.
        durations_s: (trials,) of the recordings.
    """

    ids: Sequence[str]
    offsets: Integers
    scores: Singles
    hop_s: float
    durations_s: Floats

    def __len__(self) -> int:
        return len(self.ids)

    def of_trial(self, index: int) -> Singles:
        """Return the scores of a trial's frames, (frames,)."""
        return self.scores[self.offsets[index] : self.offsets[index + 1]]


def frame_table(
    ids: Sequence[str],
    scores: Sequence[Singles],
    hop_s: float,
    durations_s: Floats,
) -> FrameTable:
    """Return the table of trials with these scores per frame, each (frames,)."""
    counts = [len(part) for part in scores]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    none = np.zeros(0, np.float32)
    return FrameTable(ids, offsets, np.concatenate([none, *scores]), hop_s, durations_s)


def write_frame_table(path: AnyPath, table: FrameTable) -> None:
    """Write a table atomically, as the arrays of a file of numpy (npz).

    Raises:
        AsdfError: a score is not finite; or it cannot be written.
    """
    finite = np.isfinite(table.scores)
    if not finite.all():
        frame = int(np.argmin(finite))
        trial = int(np.searchsorted(table.offsets, frame, side="right")) - 1
        raise AsdfError(
            f"{(~finite).sum()} of the {len(finite)} scores of frames are not finite numbers, "
            f"first: of {table.ids[trial]}. The network has probably diverged: choose an earlier "
            f"epoch, or train with a lower learning rate. {path} has not been written."
        )
    with atomic_write(path, "wb") as file:
        np.savez(
            file,
            ids=np.array(table.ids, dtype=np.str_),
            offsets=table.offsets,
            scores=table.scores,
            hop_s=np.float64(table.hop_s),
            durations_s=table.durations_s,
        )


def read_frame_table(path: AnyPath) -> FrameTable:
    """Read a table that `write_frame_table` wrote.

    Raises:
        AsdfError: the file cannot be read, or is something else.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                # The size of a compressed one says nothing of the memory that it takes.
                if member.compress_type != zipfile.ZIP_STORED:
                    raise ValueError(f"{member.filename} is compressed")
        with np.load(path, allow_pickle=False) as arrays:
            ids, offsets, scores, hop_s, durations_s = (arrays[name] for name in _ARRAYS)
        table = FrameTable(
            ids.tolist(),
            offsets.astype(np.int64),
            scores.astype(np.float32),
            float(hop_s),
            durations_s.astype(np.float64),
        )
        _check_shapes(table)
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}. Check the path.") from None
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise AsdfError(
            f"{path}: these are not frame scores of a run ({type(error).__name__}: {error}). Is it "
            "the right file?"
        ) from None
    return table


def _check_shapes(table: FrameTable) -> None:
    trials = len(table.ids)
    offsets = table.offsets
    fits = (
        offsets.shape == (trials + 1,)
        and offsets[0] == 0
        and (np.diff(offsets) >= 0).all()
        and table.scores.shape == (offsets[-1],)
        and table.durations_s.shape == (trials,)
    )
    if not fits:
        raise ValueError("the arrays do not fit each other")
    if not np.isfinite(table.scores).all() or not 0 < table.hop_s < float("inf"):
        raise ValueError("a score or the length of a frame is not a finite number")
