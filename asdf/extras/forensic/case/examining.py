"""Examination of a recording of a case: its file, its outline, its score and its windows.

Invariant: the score is that of `python -m asdf score` for the same file and network; a recording
that cannot be read or scored is a result with its reason, and the others continue.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from asdf.audio import audio_length
from asdf.audio.recording_files import open_recording
from asdf.audio.recording_sources import size_of
from asdf.audio.streaming import read_blocks
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.scoring.detector import Detector
from asdf.scoring.made_by import recording_digest
from asdf.scoring.scored import Scored, WindowScore

_POINTS = 480


@dataclass(frozen=True)
class FileFacts:
    """Facts that a recording's file states.

    Attributes:
        sha256: Digest of the file.
        size: Size of the file in bytes; None if its stream does not state it.
        format, codec: Container and number format or codec, in the decoder's terms.
        tags: Texts in the file, by name.
    """

    sha256: str
    size: int | None
    format: str
    codec: str
    channels: int
    sample_rate: int
    seconds: float
    tags: Mapping[str, str]

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Outline:
    """The lowest and the highest sample of equal parts of a recording, relative to full scale.

    Attributes:
        part_s: Length of a part, in seconds.
    """

    part_s: float
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Examined:
    """A recording of a case.

    Attributes:
        name: Path as given.
        facts: Facts about the file; None if it cannot be read.
        result: Score of the recording, or the reason why it has none.
        windows: Scores of consecutive windows.
        outline: Outline of the waveform; None if the file cannot be decoded.
    """

    name: str
    facts: FileFacts | None
    result: Scored
    windows: tuple[WindowScore, ...] = ()
    outline: Outline | None = None


def examine(
    detector: Detector,
    names: list[str],
    window: tuple[float, float],
) -> Iterator[Examined]:
    """Yield the result for each recording, in order.

    Args:
        window: Length of a window and distance between window starts, in seconds.
    """
    for index, name in enumerate(names):
        # What the file states is shown even if its score fails.
        facts = None
        try:
            facts = read_facts(name)
            result = detector.score_whole(name)
            # The windows of a search for parts are reused, if there was one.
            windows = result.windows_scores or detector.score_over_time(name, *window)
            outline = read_outline(name)
        except (AsdfError, OSError) as error:
            yield Examined(name, facts, Scored(index, Path(name), error=str(error), name=name))
            continue
        yield Examined(name, facts, result, tuple(windows), outline)


def read_facts(path: str) -> FileFacts:
    """Read the facts that a file states, and digest it.

    Raises:
        AsdfError: it is not a recording, or cannot be read.
    """
    digest = recording_digest(path)
    with open_recording(path) as file:
        # Only soundfile's files have tags.
        tags: dict[str, str] = getattr(file, "copy_metadata", dict)()
        # Sorted, since the same file gives the same page, byte by byte.
        known = {key: text for key, text in sorted(tags.items()) if text}
        return FileFacts(
            digest,
            size_of(path),
            str(file.format),
            str(file.subtype),
            int(file.channels),
            int(file.samplerate),
            file.frames / file.samplerate,
            known,
        )


def read_outline(path: str, points: int = _POINTS) -> Outline:
    """Read the outline of a recording, block by block: at most `points` parts.

    Raises:
        AsdfError: it cannot be decoded.
    """
    # A recording of fewer samples than points has a part for each sample.
    samples = max(1, math.ceil(audio_length(path) / points))
    low = []
    high = []
    for block in read_blocks(path, samples):
        low.append(round(float(block.min()), 4))
        high.append(round(float(block.max()), 4))
    return Outline(samples / SAMPLE_RATE, tuple(low), tuple(high))
