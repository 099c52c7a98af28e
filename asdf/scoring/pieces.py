"""A recording in memory as the pieces that the network hears, for whoever forms the batches.

Invariant: pieces are cut, scored and summed up as `Detector.score`, `score_whole` and
`score_over_time` do it. So a recording's result does not depend on the recordings whose pieces
share a batch with its own, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.audio import cut_to_speech
from asdf.scoring.scored import Scored, WindowScore
from asdf.scoring.waveform_scorer import WaveformScorer
from asdf.scoring.whole_recording import (
    Summary,
    Trial,
    Window,
    is_silent,
    name_result,
    tally_windows,
)
from asdf.scoring.windows import cut_windows, in_samples
from asdf.settings.sections import SpeechActivity


@dataclass(frozen=True)
class Piece:
    """Samples `start <= i < end` of a recording, and what the network hears of them: (T,)."""

    start: int
    end: int
    waveform: np.ndarray
    silent: bool


@dataclass(frozen=True)
class Pieces:
    """A recording in pieces.

    Attributes:
        total: samples of the recording.
        speech: samples of speech in it.
        is_trial: whether its score is of its beginning, as one piece.
        scored: the pieces of its score.
        over_time: those of its windows; empty where none were requested.
    """

    total: int
    speech: int
    is_trial: bool
    scored: list[Piece]
    over_time: list[Piece]

    @property
    def all(self) -> list[Piece]:
        return [*self.scored, *self.over_time]


@dataclass(frozen=True)
class PieceScoring:
    """Cuts recordings into pieces, scores pieces of any recordings, and sums up.

    Attributes:
        sad: settings of speech activity detection.
        max_samples: Max number of samples of a piece of the score, where it is not a trial's.
    """

    scorer: WaveformScorer
    summary: Summary
    sad: SpeechActivity
    max_samples: int

    def cut(
        self, waveform: np.ndarray, whole: bool = True, window: tuple[float, float] | None = None
    ) -> Pieces:
        """Cut a whole recording (T,) float32 at 16 kHz, T >= 1.

        Args:
            whole: score all of a long recording, as `Detector.score_whole`, not its beginning.
            window: seconds of a window and of the hop, for scores over time.

        Raises:
            UsageError: windows or hops that leave parts out.
        """
        speech = cut_to_speech(waveform, self.sad)
        is_trial = not whole or len(speech) <= self.max_samples
        if is_trial:
            scored = [_make_piece(0, speech[: self.summary.max_samples])]
        else:
            cut = cut_windows([speech], self.max_samples, self.max_samples)
            scored = [_make_piece(part.start, part.waveform) for part in cut]
        over_time = self._cut_over_time(waveform, window)
        return Pieces(len(waveform), len(speech), is_trial, scored, over_time)

    def batch_length(self, piece: Piece) -> int:
        """Return how many samples a piece is scored from; those of a batch have the same."""
        return self.scorer.scored_samples(len(piece.waveform))

    def batch_size(self, batch_length: int) -> int:
        """Return how many pieces of that length one forward pass takes."""
        return self.scorer.batch_size(batch_length)

    def score(self, pieces: Sequence[Piece]) -> list[float]:
        """Return the network's own scores of pieces.

        Raises:
            AsdfError: a batch does not fit into the device's memory.
        """
        output = self.scorer.score_waveforms([piece.waveform for piece in pieces])
        scores: list[float] = output.scores.tolist()
        return scores

    def conclude(
        self, pieces: Pieces, scores: Sequence[float], name: str
    ) -> tuple[Scored, list[WindowScore]]:
        """Return the result of a recording, and those of its windows.

        Args:
            scores: the network's own, of `pieces.all`.
            name: Name of the recording.

        Raises:
            AsdfError: a score is not a finite number.
        """
        count = len(pieces.scored)
        heard = _make_windows(pieces.scored, scores[:count])
        if pieces.is_trial:
            trial = Trial(heard[0].raw, pieces.speech, pieces.total, heard[0].silent)
            score = self.summary.describe_trial(trial)
        else:
            score = self.summary.describe_whole(tally_windows(heard), pieces.total)
        windows = _make_windows(pieces.over_time, scores[count:])
        described = [self.summary.describe_window(window) for window in windows]
        return name_result(score, name), described

    def _cut_over_time(
        self, waveform: np.ndarray, window: tuple[float, float] | None
    ) -> list[Piece]:
        if window is None:
            return []
        length, hop = in_samples(*window, self.max_samples)
        pieces = []
        for part in cut_windows([waveform], length, hop):
            end = part.start + len(part.waveform)
            heard = cut_to_speech(part.waveform, self.sad)
            pieces.append(Piece(part.start, end, heard, is_silent(part.waveform)))
        return pieces


def _make_piece(start: int, waveform: np.ndarray) -> Piece:
    return Piece(start, start + len(waveform), waveform, is_silent(waveform))


def _make_windows(pieces: Sequence[Piece], scores: Sequence[float]) -> list[Window]:
    windows = []
    for piece, score in zip(pieces, scores, strict=True):
        windows.append(Window(piece.start, piece.end, score, piece.silent))
    return windows
