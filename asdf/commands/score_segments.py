"""Outputs of `python -m asdf score --segments`: RTTM, JSON with frame scores, plots.

Invariant: all outputs have the same parts, those of frames that score below the threshold; `python
-m asdf evaluate` reads the JSON, whose numbers are the exact scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from asdf.arrays import Floats
from asdf.audio.streaming import read_blocks
from asdf.commands.outputs import base_of_several
from asdf.commands.score_options import ScoreOptions
from asdf.commands.score_pictures import Backdrop, svg_plot
from asdf.commands.score_result_files import Line, picture_name
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.runs.files import atomic_write, write_text
from asdf.scoring.detector import Detector
from asdf.scoring.scored import WindowScore
from asdf.segments import Timed, write_rttm
from asdf.tasks.localisation.frame_scores import FrameScores
from asdf.trials.trial_list import bare_name

_SUFFIXES = (".rttm", ".json")
_NAME_IN_FOLDER = "segments"
_PICTURES = 100
"""Maximum number of plots: more are not looked at, and each reads its recording again."""

_COLUMNS = 724
"""Number of columns of a plot, in pixels."""


@dataclass(frozen=True)
class SegmentOutputs:
    """The paths of the outputs.

    Attributes:
        base: Common path of the outputs, without suffix.
        threshold: Score below which frames are marked.
    """

    base: Path
    threshold: float

    @property
    def rttm(self) -> Path:
        return self._with(".rttm")

    @property
    def json(self) -> Path:
        return self._with(".json")

    def _with(self, suffix: str) -> Path:
        # with_suffix would not do: a name may contain a dot, as in 'call.2'.
        return self.base.with_name(self.base.name + suffix)

    def write(self, network: str, lines: Callable[[], Iterator[Line]]) -> None:
        """Write RTTM and JSON.

        Args:
            lines: Function that yields the lines of all recordings, from the first one at each
                call.
        """
        with atomic_write(self.json) as file:
            heading = json.dumps({"network": network, "threshold": self.threshold}, indent=1)
            file.write(heading.removesuffix("\n}") + ',\n "recordings": [')
            between = "\n"
            for line in lines():
                if line.result.frames is not None:
                    file.write(between + json.dumps(_entry(line, line.result.frames)))
                    between = ",\n"
            file.write("\n ]\n}\n")
        by_path = {}
        for line in lines():
            if line.result.frames is not None:
                by_path[line.result.name] = Timed(tuple(line.spoofed), line.result.frames.seconds)
        # Bare names, as in corpora, or paths if two are equal.
        bare = {bare_name(path): timed for path, timed in by_path.items()}
        write_rttm(self.rttm, bare if len(bare) == len(by_path) else by_path)

    def write_pictures(self, lines: Iterable[Line]) -> int:
        """Write plots of the first recordings; return their number."""
        names: set[str] = set()
        for line in lines:
            if line.result.frames is None or len(names) == _PICTURES:
                continue
            name = picture_name(self.base.name, line, names)
            write_text(self.base.parent / f"{name}.svg", _draw(line, self.threshold))
        return len(names)


def segment_outputs(args: ScoreOptions, detector: Detector) -> SegmentOutputs | None:
    """Return the outputs of --segments: files, or 'segments' in a folder.

    Raises:
        UsageError: they cannot be written there, another output has the same path, or the network
            gives no frame scores.
    """
    path = args.segments
    if path is None:
        return None
    base = base_of_several("--segments", path, _NAME_IN_FOLDER, _SUFFIXES)
    outputs = SegmentOutputs(base, args.segment_threshold)
    for other in (args.csv, args.json, args.scores):
        if other is not None and other.resolve() in (
            outputs.rttm.resolve(),
            outputs.json.resolve(),
        ):
            raise UsageError(
                f"--segments would also write {other}, which is another output. Give one of them "
                "another name."
            )
    # Checked before anything is scored or written.
    detector.score_many([], frames=True)
    return outputs


def frames_entry(frames: FrameScores | None) -> dict[str, Any] | None:
    """Return frame scores as plain values, for the journal."""
    if frames is None:
        return None
    return {"scores": frames.scores.tolist(), "hop_s": frames.hop_s, "seconds": frames.seconds}


def frames_of(entry: dict[str, Any] | None) -> FrameScores | None:
    """Return the frame scores of an entry made by `frames_entry`."""
    if entry is None:
        return None
    scores = np.array(entry["scores"], np.float32)
    return FrameScores(scores, entry["hop_s"], entry["seconds"])


def _entry(line: Line, frames: FrameScores) -> dict[str, Any]:
    return {
        "name": line.result.name,
        "hop_s": frames.hop_s,
        "duration_s": frames.seconds,
        "spoofed": [list(segment) for segment in line.spoofed],
        "scores": frames.scores.tolist(),
    }


def _draw(line: Line, threshold: float) -> str:
    frames = line.result.frames
    assert frames is not None and line.result.path is not None
    try:
        loudness = _loudness(line.result.path, frames.seconds)
    except (AsdfError, OSError):
        # The recording may be gone since: the scores are drawn without it.
        loudness = np.zeros(1)
    backdrop = Backdrop(loudness, line.spoofed)
    kind = "frame score"
    return svg_plot(frames_as_windows(frames), line.result.name, kind, threshold, backdrop)


def frames_as_windows(frames: FrameScores, most: int = _COLUMNS) -> list[WindowScore]:
    """Return at most `most` consecutive windows, with the lowest score of each."""
    windows = []
    indices = np.arange(len(frames))
    for part in np.array_split(indices, min(most, len(frames))):
        start_s = float(part[0]) * frames.hop_s
        end_s = min(float(part[-1] + 1) * frames.hop_s, frames.seconds)
        windows.append(WindowScore(start_s, end_s, float(frames.scores[part].min())))
    return windows


def _loudness(path: Path, seconds: float) -> Floats:
    """Return the maximum sample of each of `_COLUMNS` parts of a recording, normalised to 1."""
    # A recording may have fewer samples than the plot has columns.
    per_column = max(1, round(seconds * SAMPLE_RATE / _COLUMNS))
    largest = []
    # Read part by part, so that memory holds one column for recordings of any length.
    for block in read_blocks(path, per_column):
        largest.append(float(np.abs(block).max(initial=0.0)))
    loudness: Floats = np.array(largest or [0.0])
    # The offset avoids a division by zero for silence.
    loudness /= loudness.max() + 1e-12
    return loudness
