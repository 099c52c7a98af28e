"""A part of a recording, with the interface of `soundfile.SoundFile`.

Invariant: the frames of a part are those of the whole recording, whatever reads them.
"""

from __future__ import annotations

import numpy as np
import soundfile

from asdf.archives import Part
from asdf.audio.pyav import LongTrack
from asdf.audio.recording_sources import AnySource
from asdf.errors import AsdfError

# In these formats, seeking does not give exactly the samples of decoding from the start.
INEXACT_SEEK = {"VORBIS", "OPUS", "MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III"}

# A part cut by times at another sampling rate may end a frame or two late.
_LATE_S = 0.01
_SKIPPED_AT_ONCE = 2**20


class RecordingPart:
    """The part of `soundfile.SoundFile`'s interface that readers use, for reading forwards.

    Attributes:
        whole: Recording that contains the part.
        first: First frame of the part in the recording.
        channel: Channel of the recording; None for all channels.
    """

    def __init__(
        self, whole: soundfile.SoundFile | LongTrack, part: Part, source: AnySource
    ) -> None:
        """Store an open recording, which is closed with its part.

        Raises:
            AsdfError: the recording ends before the part, or lacks the channel.
        """
        self.whole = whole
        self.first = part.first_frame(whole.samplerate)
        self.channel = part.channel
        self.frames = part.frames(whole.samplerate, whole.frames)
        self.samplerate: int = whole.samplerate
        self.channels: int = whole.channels
        if part.channel is not None:
            self.channels = 1
        self.format: str = whole.format
        self.subtype: str = whole.subtype
        self.extra_info: str = ""
        self._position: int | None = None
        seconds = whole.frames / whole.samplerate
        if not self.frames or (part.stop is not None and float(part.stop) > seconds + _LATE_S):
            whole.close()
            raise AsdfError(
                f"{source} is not part of its recording, which is {seconds:.3f} s long. The list "
                "was likely made for other recordings: make it again, or take it off the list."
            )
        if part.channel is not None and part.channel >= whole.channels:
            whole.close()
            raise AsdfError(
                f"{source}: the channels of its recording are 0 to {whole.channels - 1}. Correct "
                "the channel in the list."
            )

    def __enter__(self) -> RecordingPart:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the recording."""
        self.whole.close()

    def chosen(self, samples: np.ndarray) -> np.ndarray:
        """Select the part's channel from (frames, all channels): (frames, channels)."""
        if self.channel is None:
            return samples
        return samples[:, self.channel : self.channel + 1]

    def read(
        self,
        frames: int = -1,
        dtype: str = "float32",
        always_2d: bool = True,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Read up to `frames`, or as many as `out` has: (frames, channels)."""
        if self._position is None:
            self._go_to_start()
            self._position = 0
        remaining = self.frames - self._position
        wanted = remaining if frames < 0 else frames
        if out is not None:
            wanted = len(out)
        count = min(wanted, remaining)
        samples = self.chosen(self.whole.read(count, dtype=dtype, always_2d=True))
        self._position += len(samples)
        if out is None:
            return samples
        out[: len(samples)] = samples
        return out[: len(samples)]

    def _go_to_start(self) -> None:
        if self.whole.subtype not in INEXACT_SEEK:
            self.whole.seek(self.first)
            return
        skipped = 0
        while skipped < self.first:
            count = min(self.first - skipped, _SKIPPED_AT_ONCE)
            passed = self.whole.read(count, dtype="float32", always_2d=True)
            if not len(passed):
                break
            skipped += len(passed)
