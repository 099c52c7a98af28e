"""Scores per frame: the table that a run writes (npz), and third-party files in JSON and text.

Invariant: the frames of a recording are consecutive from its beginning, and every score is finite.
The same scores give the same bytes.

    {"recordings": [{"name": "a.flac", "hop_s": 0.02, "duration_s": 1.5, "scores": [2.1, ...]}]}
    a 0 2.1

The JSON is that of `python -m asdf score --segments`. A line of text has the recording, the frame's
index and the bona fide score, as written by WeDefense; further columns (its spoof score, a label)
are ignored.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from asdf.arrays import Floats, Integers, Singles
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import atomic_write
from asdf.text import AnyPath, read_number
from asdf.trials.text_lines import NumberedLines, numbered_lines, peek
from asdf.trials.trial_list import find_repeats

# Errors of a damaged archive, such as an unknown compression or an encrypted member.
_DAMAGED = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
_ARRAYS = ("ids", "offsets", "scores", "hop_s", "durations_s")


@dataclass(frozen=True, eq=False)
class FrameTable:
    """The scores of the frames of trials.

    Attributes:
        ids: Names of the trials.
        offsets: Offsets of the trials, (trials + 1,) int64; the frames of trial i are
            `scores[offsets[i]:offsets[i + 1]]`.
        scores: Scores of the frames of all trials, (frames,) float32, higher for bona fide.
        hop_s: Length of a frame in seconds.
        durations_s: Lengths of the recordings in seconds, (trials,).
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
    ids: Sequence[str], scores: Sequence[Singles], hop_s: float, durations_s: Floats
) -> FrameTable:
    """Return the table of trials with these scores per frame, each (frames,)."""
    counts = [len(part) for part in scores]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    # A list may have no trials, and the scores are then float32 as well.
    none = np.zeros(0, np.float32)
    return FrameTable(ids, offsets, np.concatenate([none, *scores]), hop_s, durations_s)


def write_frame_table(path: AnyPath, table: FrameTable) -> None:
    """Write a table atomically, as arrays in a numpy file (npz).

    Raises:
        AsdfError: a score is not finite, or the file cannot be written.
    """
    finite = np.isfinite(table.scores)
    if not finite.all():
        frame = int(np.argmin(finite))
        trial = int(np.searchsorted(table.offsets, frame, side="right")) - 1
        raise AsdfError(
            f"{(~finite).sum()} of the {len(finite)} scores of frames are not finite numbers, "
            f"first: of {table.ids[trial]}. The network has diverged: choose an earlier epoch."
        )
    with atomic_write(path, "wb") as file:
        np.savez(
            file,
            # Stated, since an empty list would become an array of numbers.
            ids=np.array(table.ids, dtype=np.str_),
            offsets=table.offsets,
            scores=table.scores,
            hop_s=np.float64(table.hop_s),
            durations_s=table.durations_s,
        )


def read_frame_table(path: AnyPath) -> FrameTable:
    """Read a table that `write_frame_table` wrote.

    Raises:
        AsdfError: the file cannot be read, or has another format.
    """
    path = Path(path)
    try:
        # The archive first: of other files, numpy would advise to load pickles.
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as arrays:
            ids, offsets, scores, hop_s, durations_s = (arrays[name] for name in _ARRAYS)
        table = FrameTable(
            ids.tolist(),
            offsets.astype(np.int64),
            scores.astype(np.float32),
            float(hop_s),
            durations_s.astype(np.float64),
        )
        trials = len(table.ids)
        fits = (
            table.offsets.shape == (trials + 1,)
            and table.offsets[0] == 0
            and (np.diff(table.offsets) >= 0).all()
            and table.scores.shape == (table.offsets[-1],)
            and table.durations_s.shape == (trials,)
        )
        if not fits or not np.isfinite(table.scores).all() or not 0 < table.hop_s < math.inf:
            raise ValueError("the arrays do not match, or a number is not finite")
    except _DAMAGED as error:
        raise _unreadable(path, error, "a run") from None
    return table


def _unreadable(path: Path, error: Exception, origin: str) -> AsdfError:
    reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
    return AsdfError(f"cannot read {path} as frame scores of {origin} ({reason}).")


@dataclass(frozen=True, eq=False)
class ScoredFrames:
    """The scores of a recording's frames.

    Attributes:
        scores: Scores of the frames, (frames,), higher for bona fide.
        hop_s: Length of a frame in seconds.
        duration_s: Length of the recording in seconds; None if the file does not state it.
    """

    name: str
    scores: Floats
    hop_s: float
    duration_s: float | None = None


def read_frame_scores(path: AnyPath, hop_s: float | None = None) -> list[ScoredFrames]:
    """Read a file of frame scores: JSON, npz, or text (which may be gzipped).

    Args:
        hop_s: Length of a frame in seconds, which text does not state.

    Raises:
        UsageError: the file is text, and `hop_s` is missing.
        AsdfError: the file cannot be read, or its data on a recording are inconsistent.
    """
    path = Path(path)
    # A JSON file may have a single line, longer than in any list or score file.
    if path.suffix not in (".npz", ".json"):
        if hop_s is None or not 0 < hop_s < math.inf:
            raise UsageError(f"{path} does not state the length of a frame: give --hop in seconds.")
        return _read_text(numbered_lines(path), path, hop_s)
    recordings = []
    if path.suffix == ".npz":
        table = read_frame_table(path)
        for index, name in enumerate(table.ids):
            scores = table.of_trial(index).astype(np.float64)
            duration_s = float(table.durations_s[index])
            recordings.append(ScoredFrames(name, scores, table.hop_s, duration_s))
    else:
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            recordings = list(map(_read_entry, saved["recordings"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise _unreadable(path, error, "`python -m asdf score --segments`") from None
    names = [recording.name for recording in recordings]
    repeats = find_repeats(names)
    if repeats:
        raise AsdfError(f"{path}: {names[repeats[0][0]]!r} is repeated.")
    return recordings


def _read_entry(entry: dict[str, Any]) -> ScoredFrames:
    hop_s = read_number(str(entry["hop_s"]))
    duration_s = read_number(str(entry["duration_s"]))
    scores = np.array(entry["scores"])
    # Numbers as text could have any notation.
    are_numbers = scores.ndim == 1 and scores.dtype.kind in "fiu" and np.isfinite(scores).all()
    if not are_numbers or not 0 < hop_s < math.inf or not 0 <= duration_s < math.inf:
        raise ValueError(f"{entry['name']!r} has scores or times that are not finite numbers")
    return ScoredFrames(str(entry["name"]), scores.astype(np.float64), hop_s, duration_s)


def _read_text(lines: NumberedLines, path: Path, hop_s: float) -> list[ScoredFrames]:
    first, lines = peek(lines)
    if not first:
        raise AsdfError(f"{path} has no frames.")
    scores_of: dict[str, array[float]] = {}
    for number, line in lines:
        name, *cells = line.split()
        # An array, because a million frames as Python numbers need four times the memory.
        scores = scores_of.setdefault(name, array("d"))
        try:
            frame, score = map(read_number, cells[:2])
        except ValueError:
            frame = score = math.nan
        if frame != len(scores) or not np.isfinite(score):
            raise AsdfError(
                f"{path}, line {number}: expected 'RECORDING FRAME SCORE', frame {len(scores)} of "
                f"{name!r} and a finite score, found {line.strip()[:120]!r}."
            )
        scores.append(score)
    by_name = scores_of.items()
    return [ScoredFrames(name, np.array(scores, np.float64), hop_s) for name, scores in by_name]
