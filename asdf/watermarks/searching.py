"""Search for watermarks in recordings, which never affects their scores.

Invariant: a watermark is reported with the package that found it, and its absence as such: this
package found none of its own. Packages that were not used are always listed by name. Memory holds
half a minute of a recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from asdf.audio.recording_files import open_recording
from asdf.audio.recording_sources import AnySource
from asdf.audio.sample_rates import resample
from asdf.audio.streaming import read_blocks
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.text import and_more
from asdf.watermarks.mark_readers import READERS, Mark, MarkReader, quietly

PIECE_S = 30.0
"""Length of a searched piece in seconds; a short rest is added to the last piece."""

MIN_S = 1.0
"""Minimum length of recordings that are searched: shorter ones give no reliable result."""

_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Samples:
    """A recording in memory.

    Attributes:
        mono: Samples (T,) float32.
        rate: Sampling rate in Hz.
    """

    mono: np.ndarray
    rate: int


@dataclass(frozen=True)
class Watermark:
    """The result of a package for a recording.

    Attributes:
        detector: Name of the package.
        found: Whether it found its watermark; None if it failed (`error`).
        strength: Maximum strength over the pieces, between 0 and 1; None if the package states
            none.
        message: Message of the first piece with a mark, in hexadecimal digits; ''.
        start_s, end_s: Times from the first marked piece to the last, in seconds; None without one.
        error: Reason why it failed; ''.
    """

    detector: str
    found: bool | None
    strength: float | None = None
    message: str = ""
    start_s: float | None = None
    end_s: float | None = None
    error: str = ""

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON; what does not apply is left out."""
        always = ("detector", "found")
        return {
            name: value
            for name, value in asdict(self).items()
            if name in always or value not in (None, "")
        }


@dataclass(frozen=True)
class WatermarkSearch:
    """The packages for a search.

    Attributes:
        readers: Opened packages.
        missing: Reasons why the other packages are not used, by name.
    """

    readers: tuple[MarkReader, ...]
    missing: dict[str, str]

    def describe(self) -> str:
        """Return in words which packages are used, and which are not."""
        names = ", ".join(reader.name for reader in self.readers)
        words = f"watermarks are searched for by {names}, apart from the score"
        if self.missing:
            reasons = [f"{name} ({reason})" for name, reason in self.missing.items()]
            words += f"; not by {', '.join(reasons)}"
        return words

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"asked": [reader.name for reader in self.readers], "not_asked": dict(self.missing)}


def open_search(device: str) -> WatermarkSearch:
    """Open the installed packages, on 'auto', 'cpu', 'cuda' or the like.

    Raises:
        UsageError: none of them can be opened; the message states each with its reason.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    opened: list[MarkReader] = []
    missing = {}
    for kind in READERS:
        try:
            with quietly(kind.name):
                opened.append(kind(torch.device(device)))
        except ImportError as error:
            missing[kind.name] = f"not installed: pip install {kind.package}; {error}"
        except Exception as error:  # whatever a package raises where its weights cannot be had
            missing[kind.name] = f"cannot be opened: {error}"
    if not opened:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise UsageError(
            "searching for watermarks needs audioseal, resemble-perth or silentcipher: pip install "
            f"'asdf-antispoofing[watermarks]'. {reasons}."
        )
    return WatermarkSearch(tuple(opened), missing)


def _never() -> bool:
    return False


def read_marks(
    search: WatermarkSearch,
    recording: AnySource | Samples,
    is_over: Callable[[], bool] = _never,
) -> list[Watermark]:
    """Return the result of each package for a recording; a failed one states its reason.

    Args:
        is_over: Function that is called before each piece; True means that nobody waits any more,
            and the results are those of the pieces searched so far.
    """
    return [_read(reader, recording, is_over) for reader in search.readers]


def _read(
    reader: MarkReader, recording: AnySource | Samples, is_over: Callable[[], bool]
) -> Watermark:
    marks = []
    try:
        for start, samples, rate in _pieces(recording, reader.rate):
            if is_over():
                break
            with quietly(reader.name):
                mark = reader.read(samples, rate)
            marks.append((start / rate, (start + len(samples)) / rate, mark))
    except (AsdfError, OSError) as error:
        return Watermark(reader.name, None, error=str(error))
    except Exception as error:  # a package's own, which must cost no recording its score
        return Watermark(reader.name, None, error=f"{reader.name} failed: {error}")
    if not marks:
        return Watermark(reader.name, None, error=f"shorter than {MIN_S:g} s")
    return _conclude(reader.name, marks)


def _conclude(name: str, marks: Sequence[tuple[float, float, Mark]]) -> Watermark:
    strengths = [mark.strength for _, _, mark in marks if mark.strength is not None]
    strength = max(strengths, default=None)
    found = [piece for piece in marks if piece[2].found]
    if not found:
        return Watermark(name, False, strength)
    message = next((mark.message for _, _, mark in found if mark.message), "")
    return Watermark(name, True, strength, message, found[0][0], found[-1][1])


def _pieces(
    recording: AnySource | Samples, rate: int | None
) -> Iterator[tuple[int, np.ndarray, int]]:
    """Yield the first sample of each piece, its mono samples, and their rate."""
    assert rate in (None, SAMPLE_RATE)
    if isinstance(recording, Samples):
        mono = recording.mono if rate is None else resample(recording.mono, recording.rate)
        rate = rate or recording.rate
        count = round(PIECE_S * rate)
        blocks = (mono[first : first + count] for first in range(0, len(mono), count))
        yield from _joined(blocks, rate)
    elif rate is None:
        with open_recording(recording) as file:
            own_rate = int(file.samplerate)
            yield from _joined(_blocks_of(file, round(PIECE_S * own_rate)), own_rate)
    else:
        yield from _joined(read_blocks(recording, round(PIECE_S * rate)), rate)


def _blocks_of(file: Any, samples: int) -> Iterator[np.ndarray]:
    while len(frames := file.read(samples, dtype="float32", always_2d=True)):
        yield np.ascontiguousarray(frames.mean(axis=1))


def _joined(blocks: Iterator[np.ndarray], rate: int) -> Iterator[tuple[int, np.ndarray, int]]:
    """Yield blocks with their first samples; a last one below `MIN_S` is joined to the previous."""
    held = np.zeros(0, np.float32)
    start = 0
    for block in blocks:
        if len(block) < MIN_S * rate:
            held = np.concatenate([held, block])
            continue
        if len(held):
            yield start, held, rate
            start += len(held)
        held = block
    if len(held) >= MIN_S * rate:
        yield start, held, rate


def describe_watermarks(marks: Sequence[Watermark]) -> str:
    """Return in words which watermarks were found; '' if none."""
    found = []
    for mark in marks:
        if not mark.found:
            continue
        words = f"{mark.detector}"
        if mark.strength is not None:
            words += f" {mark.strength:.2f}"
        if mark.message:
            words += f", message {mark.message}"
        found.append(words)
    if not found:
        return ""
    return f"watermark found: {and_more(found, _SHOWN)}"
