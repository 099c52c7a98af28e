"""The outputs of `python -m asdf score --segments`: RTTM, JSON with the scores of frames, pictures.

Invariant: the parts in all of them are the same, those of the frames that score less than the
threshold; the JSON is what `python -m asdf localise` reads, and its numbers are the scores' own.
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
"""More pictures than these are not looked at, and each reads its recording once more."""

_COLUMNS = 724
"""Of a picture, in pixels."""


@dataclass(frozen=True)
class SegmentOutputs:
    """Where the outputs go.

    Attributes:
        base: the path of the outputs, without suffix.
        threshold: frames that score less are marked.
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
        # Not with_suffix: a name may have a dot, as 'call.2'.
        return self.base.with_name(self.base.name + suffix)

    def write(self, network: str, lines: Callable[[], Iterator[Line]]) -> None:
        """Write RTTM and JSON.

        Args:
            lines: yields those of all recordings, each time from the first one on.
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
        # By bare name, as corpora have them, or by path where two have one name.
        bare = {bare_name(path): timed for path, timed in by_path.items()}
        write_rttm(self.rttm, bare if len(bare) == len(by_path) else by_path)

    def write_pictures(self, lines: Iterable[Line]) -> int:
        """Write pictures of the first recordings; return how many."""
        names: set[str] = set()
        for line in lines:
            if line.result.frames is None or len(names) == _PICTURES:
                continue
            name = picture_name(self.base.name, line, names)
            write_text(self.base.parent / f"{name}.svg", _draw(line, self.threshold))
        return len(names)


def segment_outputs(args: ScoreOptions, detector: Detector) -> SegmentOutputs | None:
    """Return the outputs that --segments names: files, or 'segments' in a folder.

    Raises:
        UsageError: they cannot be written there, another output has the same path, or the network
            scores no frames.
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
            raise UsageError(f"{other} would be written twice, by --segments too: name another.")
    # Before anything is scored or written.
    detector.score_many([], frames=True)
    return outputs


def frames_entry(frames: FrameScores | None) -> dict[str, Any] | None:
    """Return frame scores as plain values, for the journal."""
    if frames is None:
        return None
    return {"scores": frames.scores.tolist(), "hop_s": frames.hop_s, "seconds": frames.seconds}


def frames_of(entry: dict[str, Any] | None) -> FrameScores | None:
    """Return what `frames_entry` was made of."""
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
        # It may have gone since it was scored: the scores are drawn without it.
        loudness = np.zeros(1)
    backdrop = Backdrop(loudness, line.spoofed)
    kind = "frame score"
    return svg_plot(frames_as_windows(frames), line.result.name, kind, threshold, backdrop)


def frames_as_windows(frames: FrameScores, most: int = _COLUMNS) -> list[WindowScore]:
    """Return at most `most` windows that follow each other, with the lowest score of each."""
    windows = []
    indices = np.arange(len(frames))
    for part in np.array_split(indices, min(most, len(frames))):
        start_s = float(part[0]) * frames.hop_s
        end_s = min(float(part[-1] + 1) * frames.hop_s, frames.seconds)
        windows.append(WindowScore(start_s, end_s, float(frames.scores[part].min())))
    return windows


def _loudness(path: Path, seconds: float) -> Floats:
    """Return the largest sample of each of `_COLUMNS` parts of a recording, the loudest being 1."""
    per_column = max(1, round(seconds * SAMPLE_RATE / _COLUMNS))
    largest = []
    # Read part by part: memory holds a column, however long the recording.
    for block in read_blocks(path, per_column):
        largest.append(float(np.abs(block).max(initial=0.0)))
    loudness: Floats = np.array(largest or [0.0])
    loudness /= loudness.max() + 1e-12
    return loudness
