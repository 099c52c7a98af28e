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
_DAMAGED = (ValueError, KeyError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
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
            f"first: of {table.ids[trial]}. The network has probably diverged: choose an earlier "
            f"epoch, or train with a lower learning rate. {path} has not been written."
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
        if not fits:
            raise ValueError("the arrays do not match")
        if not np.isfinite(table.scores).all() or not 0 < table.hop_s < float("inf"):
            raise ValueError("a score or the length of a frame is not a finite number")
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}. Check the path.") from None
    except _DAMAGED as error:
        raise AsdfError(
            f"{path}: these are not frame scores of a run ({type(error).__name__}: {error}). Is it "
            "the right file?"
        ) from None
    return table


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
    if path.suffix == ".npz":
        table = read_frame_table(path)
        recordings = []
        for index, name in enumerate(table.ids):
            scores = table.of_trial(index).astype(np.float64)
            duration_s = float(table.durations_s[index])
            recordings.append(ScoredFrames(name, scores, table.hop_s, duration_s))
        _check_names(table.ids, path)
        return recordings
    # A JSON file may have a single line, longer than in any list or score file.
    if path.suffix == ".json":
        return _read_json(path)
    if hop_s is None:
        raise UsageError(
            f"{path}: a text file does not state the length of a frame: give --hop, in seconds."
        )
    if not 0 < hop_s < float("inf"):
        raise UsageError(f"--hop {hop_s:g}: a frame must be longer than 0 s.")
    return _read_text(numbered_lines(path), path, hop_s)


def _read_json(path: Path) -> list[ScoredFrames]:
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        recordings = list(map(_read_entry, saved["recordings"]))
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}. Check the path.") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AsdfError(
            f"{path}: these are not frame scores as `python -m asdf score --segments` writes them "
            f"({type(error).__name__}: {error}). Is it the right file?"
        ) from None
    _check_names([recording.name for recording in recordings], path)
    return recordings


def _read_entry(entry: dict[str, Any]) -> ScoredFrames:
    hop_s = read_number(str(entry["hop_s"]))
    duration_s = read_number(str(entry["duration_s"]))
    scores = np.array(entry["scores"])
    # Numbers as text could have any notation.
    are_numbers = scores.dtype.kind in "fiu"
    if scores.ndim != 1 or not are_numbers or not np.isfinite(scores).all():
        raise ValueError(f"the scores of {entry['name']!r} are not a row of finite numbers")
    if not 0 < hop_s < float("inf") or not 0 <= duration_s < float("inf"):
        raise ValueError(f"the times of {entry['name']!r} are not valid")
    return ScoredFrames(str(entry["name"]), scores.astype(np.float64), hop_s, duration_s)


def _read_text(lines: NumberedLines, path: Path, hop_s: float) -> list[ScoredFrames]:
    first, lines = peek(lines)
    if not first:
        raise AsdfError(f"{path}: no frames found. Was it copied completely?")
    scores_of: dict[str, array[float]] = {}
    for number, line in lines:
        cells = line.split()
        try:
            name = cells[0]
            frame = read_number(cells[1])
            score = read_number(cells[2])
        except (IndexError, ValueError):
            raise AsdfError(
                f"{path}, line {number}: expected 'RECORDING FRAME SCORE', FRAME being 0, 1, 2 "
                f"..., found {line.strip()[:120]!r}."
            ) from None
        # An array, because a million frames as Python numbers need four times the memory.
        scores = scores_of.setdefault(name, array("d"))
        if frame != len(scores) or not np.isfinite(score):
            raise AsdfError(
                f"{path}, line {number}: expected frame {len(scores)} of {name!r} with a finite "
                f"score, found {line.strip()[:120]!r}. Frames are in order, each once."
            )
        scores.append(score)
    by_name = scores_of.items()
    return [ScoredFrames(name, np.array(scores, np.float64), hop_s) for name, scores in by_name]


def _check_names(names: Sequence[str], path: Path) -> None:
    repeats = find_repeats(names)
    if repeats is not None:
        repeated = names[repeats.indices[0]]
        raise AsdfError(f"{path}: {repeated!r} is repeated. Every recording counts once.")
