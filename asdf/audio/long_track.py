"""A sound track that only PyAV decodes and that is too long to be held, read as a sound file is.

Invariant: what is read is what `asdf.audio.pyav.decode` would have returned; memory holds no more
than what is requested and a frame of the codec, however many hours a small file decodes to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from asdf.audio import pyav
from asdf.audio.sources import AnySource
from asdf.errors import AsdfError


class LongTrack:
    """What readers use of `soundfile.SoundFile`; it is read forwards.

    Attributes:
        frames, samplerate, channels: Numbers as a sound file has them.
    """

    format = "FFMPEG"
    subtype = "FLOAT"
    extra_info = ""

    def __init__(self, source: AnySource, decoded: pyav.Decoded) -> None:
        """Read the track that was decoded before, to count its frames."""
        self.frames = decoded.frames
        self.samplerate = decoded.rate
        self.channels = decoded.samples.shape[1]
        self._source = source
        self._blocks: Iterator[np.ndarray] = pyav.decode_blocks(source)
        self._block = np.zeros((0, self.channels), np.float32)
        self._position = 0

    def __enter__(self) -> LongTrack:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file that is decoded."""
        close: Any = getattr(self._blocks, "close", None)
        if close is not None:
            close()

    def seek(self, frame: int) -> int:
        """Go on to a frame further on; those before it are decoded and dropped."""
        while self._position < frame:
            if not len(self._block) and not self._decode_more():
                break
            skipped = min(len(self._block), frame - self._position)
            self._block = self._block[skipped:]
            self._position += skipped
        return self._position

    def read(
        self,
        frames: int = -1,
        dtype: str = "float32",
        always_2d: bool = True,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Read up to `frames`, or as many as `out` has: (frames, channels) float32.

        Raises:
            AsdfError: the file was changed meanwhile, and does not decode any more.
        """
        remaining = self.frames - self._position
        if out is None:
            count = remaining if frames < 0 else min(frames, remaining)
            out = np.empty((count, self.channels), np.float32)
        done = 0
        while done < len(out):
            if not len(self._block) and not self._decode_more():
                break
            part = self._block[: len(out) - done]
            out[done : done + len(part)] = part
            self._block = self._block[len(part) :]
            done += len(part)
        self._position += done
        return out[:done]

    def _decode_more(self) -> bool:
        """Decode the next block; False at the end."""
        try:
            block = next(self._blocks, None)
        except pyav.NotDecoded as error:
            raise AsdfError(
                f"{self._source} was decoded a moment ago, and now it is not ({error}). It was "
                "likely changed meanwhile: score it again."
            ) from None
        if block is None:
            return False
        self._block = block
        return True
