"""Scores of the frames of a recording, by a network with a frame-level head.

Invariant: every sample of a recording is in one frame, and a frame's score comes from the network
hearing it with what surrounds it: a recording beyond the length of a trial is heard in windows that
overlap, and each window gives the frames that lie further from its ends than in the other window.
Such windows follow from the recording's length alone, so that its scores are the same in a list and
by itself, on any number of processes.

Shapes: F frames, T samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from asdf.audio.speech import needs_whole_recording
from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.scoring.frame_scores import FrameScores, fit_frames
from asdf.scoring.waveform_scorer import WaveformScorer
from asdf.settings.sections import SpeechActivity

# What two windows have in common, at most.
_OVERLAP = 4 * SAMPLE_RATE
# Windows that are in memory together, in samples: 64 MiB.
_HELD_SAMPLES = 2**24


@dataclass(frozen=True)
class FrameScoring:
    """How frames of recordings are scored.

    Attributes:
        max_samples: Samples that the network hears at once.
        hop: samples per frame.
        window: samples of a window of a longer recording, whole frames.
        overlap: samples that two windows share, twice a number of whole frames.
    """

    scorer: WaveformScorer
    max_samples: int
    hop: int = field(init=False)
    window: int = field(init=False)
    overlap: int = field(init=False)

    def __post_init__(self) -> None:
        hop = self.scorer.require_frames()
        if self.max_samples < hop:
            raise UsageError(
                f"the network hears the first {self.max_samples} samples of a recording, less than "
                f"one of its frames of {hop}: raise "
                "network.max_evaluation_utterance_length_in_samples."
            )
        window = self.max_samples - self.max_samples % hop
        overlap = min(window // 2, _OVERLAP)
        object.__setattr__(self, "hop", hop)
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "overlap", overlap - overlap % (2 * hop))

    @property
    def hop_s(self) -> float:
        return self.hop / SAMPLE_RATE

    def of_row(self, frames: np.ndarray, samples: int) -> FrameScores:
        """Return the scores of a recording of `samples` samples that was heard as a whole."""
        scores = fit_frames(frames, samples, self.hop)
        return FrameScores(scores, self.hop_s, samples / SAMPLE_RATE)

    def of_blocks(self, blocks: Iterable[np.ndarray]) -> FrameScores:
        """Return the scores of a recording that comes in blocks (T,).

        Raises:
            AsdfError: as `WaveformScorer.score_waveforms`.
        """
        parts: list[np.ndarray] = []
        half = self.overlap // 2 // self.hop
        end = 0
        windows = self._cut(blocks)
        together = max(1, _HELD_SAMPLES // self.window)
        while group := list(islice(windows, together)):
            output = self.scorer.score_waveforms([part for _, part in group], frames=True)
            assert output.frames is not None  # requested
            for (start, waveform), scores in zip(group, output.frames, strict=True):
                if parts:
                    # The window before has frames up to the middle of what the two share.
                    parts[-1] = parts[-1][: len(parts[-1]) - half]
                    scores = scores[half:]
                parts.append(scores)
                end = start + len(waveform)
        return FrameScores(np.concatenate(parts), self.hop_s, end / SAMPLE_RATE)

    def _cut(self, blocks: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield first sample and waveform of each window; the last one ends with the recording."""
        step = self.window - self.overlap
        held = np.zeros(0, np.float32)
        start = 0
        end = 0
        for block in blocks:
            held = np.concatenate([held, block]) if len(held) else block
            while len(held) >= self.window:
                yield start, held[: self.window]
                end = start + self.window
                start += step
                held = held[step:]
        # Without more than the last window has, all of it is scored already.
        if start + len(held) > end:
            yield start, held


def check_whole_time(sad: SpeechActivity) -> None:
    """Refuse to score frames of speech whose times in the recording are not known.

    Raises:
        UsageError: speech activity detection is on.
    """
    if needs_whole_recording(sad):
        raise UsageError(
            f"frames are scored of whole recordings, and sad.mode = {sad.mode!r} leaves parts of "
            "them out. Train the network with sad.mode = 'off' to score frames with it."
        )
