"""Pieces of recordings: what the network hears at once, and what it gives for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.audio import cut_to_speech
from asdf.scoring.outcome import Outcome
from asdf.scoring.whole_recording import Window, is_silent
from asdf.scoring.windows import Cut
from asdf.settings.sections import SpeechActivity

NO_DETECTION = SpeechActivity(mode="off")


@dataclass(frozen=True)
class Piece:
    """Samples `start <= i < end` of a recording, and what the network hears of them: (T,)."""

    start: int
    end: int
    waveform: np.ndarray
    silent: bool

    def scored(self, outcome: Outcome) -> Window:
        """Return the piece with what the network gives for it, without its samples."""
        return Window(self.start, self.end, self.silent, outcome)


def make_piece(cut: Cut, sad: SpeechActivity = NO_DETECTION) -> Piece:
    """Return a window of a recording as the network hears it: what `sad` leaves of it."""
    end = cut.start + len(cut.waveform)
    heard = cut_to_speech(cut.waveform, sad)
    return Piece(cut.start, end, heard, is_silent(cut.waveform))


@dataclass(frozen=True)
class Pieces:
    """A recording in memory, in pieces.

    Attributes:
        total: Samples of the recording.
        speech: Samples of speech in it.
        is_trial: Whether its score is of its beginning, as one piece.
        scored: Pieces of its score.
        over_time: Pieces that are its windows; empty where none were requested.
    """

    total: int
    speech: int
    is_trial: bool
    scored: list[Piece]
    over_time: list[Piece]

    @property
    def all(self) -> list[Piece]:
        return [*self.scored, *self.over_time]
