"""The number of frames of an encoder for a number of samples, measured on the meta device.

Invariant: the number is exact. If frames are equally spaced, as almost always, a formula gives it;
otherwise, for example with padded windows, the encoder is outlined for each length.
"""

from __future__ import annotations

from functools import lru_cache

from asdf.errors import UsageError
from asdf.networks.front_ends.encoder_inputs import HOP
from asdf.networks.front_ends.encoder_outline import Outline, count_frames, is_whisper

_SECOND = 16000
# Nearly all encoders of speech have windows of 25 ms every 20 ms.
_USUAL_WINDOW = 400
_USUAL_HOP = 320
# 30 s, the maximum input of most encoders that have a limit.
_LONGEST = 30 * _SECOND


class FrameRule:
    """The number of frames of an encoder as a function of the number of samples.

    Attributes:
        window: Number of samples that the first frame needs.
        hop: Number of samples from the start of a frame to the start of the next.
        is_regular: Whether `window` and `hop` determine all numbers of frames.
    """

    def __init__(self, outline: Outline) -> None:
        if is_whisper(outline.model):
            # Longer waveforms are computed in parts.
            self.window = self.hop = 2 * HOP
            self.is_regular = True
            return
        self._count = lru_cache(maxsize=1024)(lambda samples: count_frames(outline, samples))
        self.window = self._fewest_samples(1, _SECOND, _USUAL_WINDOW)
        two_frames = self._fewest_samples(2, 2 * _SECOND, self.window + _USUAL_HOP)
        self.hop = max(two_frames - self.window, 1)
        # Just enough samples for some counts, and one fewer: there a wrong formula would show.
        edges = [self.window + count * self.hop for count in (2, 5, 9)]
        lengths = [*edges, *(edge - 1 for edge in edges), _SECOND, 2 * _SECOND - 1]
        self.is_regular = all(self._count(n) == self._formula(n) for n in lengths)

    def frames(self, samples: int) -> int:
        """Return the number of frames for `samples` samples."""
        return self._formula(samples) if self.is_regular else self._count(samples)

    def min_samples(self, frames: int) -> int:
        """Return the minimum number of samples for `frames` frames.

        Raises:
            UsageError: 30 s are not enough.
        """
        if self.is_regular:
            return (frames - 1) * self.hop + self.window
        if self._count(_LONGEST) < frames:
            raise UsageError(
                f"the front end makes {self._count(_LONGEST)} frames of 30 s, but the back end "
                f"needs {frames}. Choose another front_end or another back end."
            )
        return self._fewest_samples(frames, _LONGEST, (frames - 1) * self.hop + self.window)

    def _formula(self, samples: int) -> int:
        if samples < self.window:
            return 0
        return (samples - self.window) // self.hop + 1

    def _fewest_samples(self, frames: int, enough: int, guess: int) -> int:
        """Return the minimum samples, up to `enough`, for `frames` frames, by bisection.

        Args:
            guess: Number that is tried first, since each count runs a part of the encoder.
        """
        too_few = 0
        for samples in (guess, guess - 1):
            if too_few < samples < enough:
                if self._count(samples) >= frames:
                    enough = samples
                else:
                    too_few = samples
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            if self._count(middle) >= frames:
                enough = middle
            else:
                too_few = middle
        return enough
