"""Files of scores per frame: of `python -m asdf score --segments`, of a run (npz), and text.

Invariant: the frames of a recording follow each other from 0 on; every score is finite.

    {"recordings": [{"name": "a.flac", "hop_s": 0.02, "duration_s": 1.5, "scores": [2.1, ...]}]}
    a 0 2.1

A line of text has the recording, the frame's index and the score of bona fide, as WeDefense writes
it; what follows (its score of spoof, a label) does not count.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError, UsageError
from asdf.segments.frame_table import FrameTable, read_frame_table
from asdf.text import AnyPath, read_number
from asdf.trials.text_lines import NumberedLines, numbered_lines, peek
from asdf.trials.trial_list import find_repeats

_MOST_BYTES = 2**32


@dataclass(frozen=True, eq=False)
class ScoredFrames:
    """The scores of a recording's frames.

    Attributes:
        scores: (frames,), the higher, the more bona fide.
        hop_s: the length of a frame in seconds.
        duration_s: Duration of the recording; None where the file does not state it.
    """

    name: str
    scores: Floats
    hop_s: float
    duration_s: float | None = None


def read_frame_scores(path: AnyPath, hop_s: float | None = None) -> list[ScoredFrames]:
    """Read a file of frame scores: JSON, npz, or text (which may be gzipped).

    Args:
        hop_s: the length of a frame, which text does not state.

    Raises:
        UsageError: text without `hop_s`.
        AsdfError: the file cannot be read, or what it says of a recording does not fit.
    """
    path = Path(path)
    if path.suffix == ".npz":
        return _of_table(read_frame_table(path), path)
    # A JSON file may have a single line, longer than any list or score file has.
    if path.suffix == ".json":
        return _read_json(path)
    if hop_s is None:
        raise UsageError(
            f"{path}: text does not state how long a frame is: give --hop, in seconds."
        )
    if not 0 < hop_s < float("inf"):
        raise UsageError(f"--hop {hop_s:g}: a frame has a length of more than 0 s.")
    return _read_text(numbered_lines(path), path, hop_s)


def _of_table(table: FrameTable, path: Path) -> list[ScoredFrames]:
    recordings = []
    for index, name in enumerate(table.ids):
        scores = table.of_trial(index).astype(np.float64)
        duration_s = float(table.durations_s[index])
        recordings.append(ScoredFrames(name, scores, table.hop_s, duration_s))
    _check_names([recording.name for recording in recordings], path)
    return recordings


def _read_json(path: Path) -> list[ScoredFrames]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise AsdfError(f"{path}: it has more than {_MOST_BYTES:,} bytes.")
        saved = json.loads(path.read_text(encoding="utf-8"))
        entries = saved["recordings"]
        recordings = [_read_entry(entry) for entry in entries]
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
    # As texts, numbers could be written in any way.
    are_numbers = scores.dtype.kind in "fiu"
    if scores.ndim != 1 or not are_numbers or not np.isfinite(scores).all():
        raise ValueError(f"the scores of {entry['name']!r} are not finite numbers in a row")
    if not 0 < hop_s < float("inf") or not 0 <= duration_s < float("inf"):
        raise ValueError(f"the times of {entry['name']!r} are none")
    return ScoredFrames(str(entry["name"]), scores.astype(np.float64), hop_s, duration_s)


def _read_text(lines: NumberedLines, path: Path, hop_s: float) -> list[ScoredFrames]:
    first, lines = peek(lines)
    if not first:
        raise AsdfError(f"{path}: no frame in it. Was it copied whole?")
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
        # An array: as Python's numbers a million frames take four times the memory.
        scores = scores_of.setdefault(name, array("d"))
        if frame != len(scores) or not np.isfinite(score):
            raise AsdfError(
                f"{path}, line {number}: frame {len(scores)} of {name!r} with a finite score "
                f"should come here, found {line.strip()[:120]!r}. Frames are in order, each once."
            )
        scores.append(score)
    recordings = []
    for name, scores in scores_of.items():
        recordings.append(ScoredFrames(name, np.array(scores, np.float64), hop_s))
    return recordings


def _check_names(names: list[str], path: Path) -> None:
    repeats = find_repeats(names)
    if repeats is not None:
        repeated = names[repeats.indices[0]]
        raise AsdfError(f"{path}: {repeated!r} stands in it twice. Every recording counts once.")
