"""Extras that follow the time of a recording, such as the scores of its frames.

Invariant: every sample of a recording is in exactly one frame, and each frame is computed with its
context. A recording longer than a trial is heard in overlapping windows; each frame comes from the
window whose ends are further away. The windows depend only on the recording's length, so the values
are the same in a list and alone, to the last bit, on any number of processes.

Shapes: F frames, T samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from asdf.audio.speech import needs_whole_recording
from asdf.errors import UsageError
from asdf.scoring.waveform_scorer import WaveformScorer
from asdf.settings.sections import SpeechActivity

if TYPE_CHECKING:
    from asdf.networks.extras import Extra

# Maximum overlap of two windows.
_OVERLAP_S = 4
# Samples of windows in memory together: 64 MiB.
_HELD_SAMPLES = 2**24


class Timed(NamedTuple):
    """An extra of a recording: the values of its frames, (F,), and the recording's samples."""

    row: np.ndarray
    samples: int


class OverTime:
    """Computation of an extra of long recordings.

    Attributes:
        extra: The extra, which has a hop.
        max_samples: Maximum number of samples that the network hears at once.
        hop: Samples per frame.
        window: Samples of a window of a longer recording, a multiple of the frame length.
        overlap: Samples that two windows share, an even multiple of the frame length.
    """

    def __init__(self, scorer: WaveformScorer, key: str, max_samples: int) -> None:
        """Compute the extra `key`.

        Raises:
            UsageError: the network has no such extra, or hears less than one of its frames.
        """
        scorer.require(key)
        self.scorer = scorer
        self.key = key
        self.extra: Extra = scorer.extras[key]
        self.max_samples = max_samples
        assert self.extra.hop is not None  # only such extras come here
        self.hop = self.extra.hop
        if max_samples < self.hop:
            raise UsageError(
                f"the network hears the first {max_samples} samples of a recording, less than one "
                f"of its frames ({self.hop} samples): raise "
                "network.max_evaluation_utterance_length_in_samples."
            )
        self.window = max_samples - max_samples % self.hop
        overlap = min(self.window // 2, _OVERLAP_S * scorer.audio.sample_rate)
        # Half of the overlap is whole frames: there, one window hands over to the next.
        self.overlap = overlap - overlap % (2 * self.hop)

    def of_blocks(self, blocks: Iterable[np.ndarray]) -> Timed:
        """Return the extra of a recording that arrives in blocks (T,).

        Raises:
            AsdfError: as `WaveformScorer.score_waveforms`.
        """
        parts: list[np.ndarray] = []
        half = self.overlap // 2 // self.hop
        end = 0
        windows = self._cut(blocks)
        together = max(1, _HELD_SAMPLES // self.window)
        while group := list(islice(windows, together)):
            outcomes = self.scorer.score_waveforms([part for _, part in group], [self.key])
            for (start, waveform), row in zip(group, outcomes.extras[self.key], strict=True):
                values = row
                if parts:
                    # The previous window provides the frames up to the middle of the overlap.
                    parts[-1] = parts[-1][: len(parts[-1]) - half]
                    values = row[half:]
                parts.append(values)
                end = start + len(waveform)
        return Timed(np.concatenate(parts), end)

    def _cut(self, blocks: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the first sample and waveform of each window; the last ends with the recording."""
        step = self.window - self.overlap
        held = np.zeros(0, np.float32)
        start = 0
        end = 0
        for block in blocks:
            # A recording that is whole in memory is not copied.
            held = np.concatenate([held, block]) if len(held) else block
            while len(held) >= self.window:
                yield start, held[: self.window]
                end = start + self.window
                start += step
                held = held[step:]
        # If nothing follows the last window, everything is scored already.
        if start + len(held) > end:
            yield start, held


def check_whole_time(key: str, sad: SpeechActivity) -> None:
    """Refuse to compute an extra of joined speech, whose times are not known.

    Raises:
        UsageError: speech activity detection is on.
    """
    if needs_whole_recording(sad):
        raise UsageError(
            f"{key} are scored on whole recordings, but sad.mode = {sad.mode!r} leaves parts of "
            f"them out. Train the network with sad.mode = 'off' to score {key} with it."
        )
