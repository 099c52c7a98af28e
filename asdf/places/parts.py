"""Parts of recordings as paths: `a.flac#t=1.5,4` is `a.flac` from 1.5 s to 4 s.

Invariant: a part is defined by its path alone, and reading its file as bytes reads the whole file.
Times are decimal numbers of seconds, so that the first and last frames are exact at every sampling
rate: both are rounded half up, the last one as a number of frames from the first.

The syntax is that of the W3C's media fragments (https://www.w3.org/TR/media-frags/, `t=`);
`track=` and `channel=` are our extensions.
"""

from __future__ import annotations

import os
import re
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from asdf.text import AnyPath

_TIMES = r"t=(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)"
_TRACK = r"track=([1-9]\d{0,3})"
_CHANNEL = r"channel=(\d{1,4})"
# In this order, with '&' between two.
_PART = re.compile(rf"#(?=[tc])(?:{_TIMES}(?=&|$)&?)?(?:{_TRACK}(?=&|$)&?)?(?:{_CHANNEL})?(?<!&)$")


class Part(NamedTuple):
    """A part of a recording.

    Attributes:
        start, stop: Times in seconds; `stop` is None for the end of the recording.
        channel: Channel, counted from 0; None for all channels.
        track: Sound track of a video or another container, counted from 1; None for the default.
    """

    start: Decimal = Decimal(0)
    stop: Decimal | None = None
    channel: int | None = None
    track: int | None = None

    def first_frame(self, rate: int) -> int:
        """Return the first frame of the part, at a sampling rate in Hz."""
        return _round(self.start * rate)

    def frames(self, rate: int, frames: int) -> int:
        """Return the number of frames of the part in a file of `frames`; 0 beyond its end."""
        first = self.first_frame(rate)
        rest = max(0, frames - first)
        if self.stop is None:
            return rest
        return max(0, min(rest, _round((self.stop - self.start) * rate)))


def _round(frames: Decimal) -> int:
    return int(frames.quantize(Decimal(1), ROUND_HALF_UP))


def split_part(path: AnyPath) -> tuple[str, Part | None]:
    """Return the path of a recording and the requested part; None for all of it.

    Examples:
        >>> split_part("a.flac#t=1.5,4")
        ('a.flac', Part(start=Decimal('1.5'), stop=Decimal('4'), channel=None, track=None))
        >>> split_part("a.flac")
        ('a.flac', None)
    """
    text = os.fspath(path)
    # Nearly all paths are of whole recordings, and this is called a million times.
    if "#" not in text:
        return text, None
    match = _PART.search(text)
    if match is None:
        return text, None
    start, stop, track, channel = match.groups()
    part = Part(track=None if track is None else int(track))
    if channel is not None:
        part = part._replace(channel=int(channel))
    if start is not None:
        part = part._replace(start=Decimal(start), stop=Decimal(stop))
    return text[: match.start()], part


def part_path(path: str, part: Part) -> str:
    """Return the path of a part of the recording `path`.

    Examples:
        >>> part_path("a.flac", Part(Decimal("1.50"), Decimal(4), 1))
        'a.flac#t=1.5,4&channel=1'
    """
    words = []
    if part.stop is not None:
        words.append(f"t={_plain(part.start)},{_plain(part.stop)}")
    if part.track is not None:
        words.append(f"track={part.track}")
    if part.channel is not None:
        words.append(f"channel={part.channel}")
    if words:
        return f"{path}#{'&'.join(words)}"
    return path


def _plain(seconds: Decimal) -> str:
    # Never in the notation 1E+1.
    text = f"{seconds:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
