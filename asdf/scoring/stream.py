"""Scoring of a recording while it arrives.

Invariant: scores do not depend, to the last bit, on how the recording is divided into chunks, and
after its end they equal, up to rounding, those of the same windows of the whole recording. Memory
holds one window and what the next one needs, for recordings of any length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from asdf.audio.streaming import StreamResampler
from asdf.errors import UsageError
from asdf.scoring.hearing import Hearing, Piece
from asdf.scoring.parts import add_to_parts
from asdf.scoring.scored import Score, WindowScore
from asdf.scoring.waveforms import as_chunk
from asdf.scoring.whole_recording import Tally, Window
from asdf.scoring.windows import Cut, WindowCutter


class Stream:
    """Scores of windows as soon as their samples arrive; `Detector.stream` returns one.

        stream = detector.stream(8000, window_s=4, hop_s=1)
        for chunk in call:
            for window in stream.add(chunk):
                print(window.start_s, window.end_s, window.score, stream.score)
        stream.finish()

    A window's score is known once its last sample has arrived, and the samples after it within
    reach of the resampling filter: 6 samples of the lower rate, less than a millisecond at 8 kHz or
    more; none at the network's own rate. A stream is for a single thread; its detector serves any
    number of streams.
    """

    def __init__(self, hearing: Hearing, rate: int, window: int, hop: int) -> None:
        """Score windows of `window` samples every `hop` samples, at the network's rate."""
        self._hearing = hearing
        self._resampler = StreamResampler(rate, hearing.audio.sample_rate)
        self._cutter = WindowCutter(window, hop)
        self._window = window
        self._hop = hop
        self._running = _Running()
        search = hearing.summary.search
        self._search = None if search is None else search.with_windows(window, hop)
        self._parts: list[WindowScore] = []
        self._judged = 0
        self._finished = False

    def add(self, chunk: Any) -> list[WindowScore]:
        """Add the next samples; return the scores of the windows that are now complete.

        Args:
            chunk: Samples, (samples,) or (samples, channels) of any length; floats with full scale
                1, int16 or int32.

        Raises:
            UsageError: it is no such array, its samples are not finite, or the stream is finished.
            AsdfError: a score is not a finite number.
        """
        scores = []
        for cut in self.cut(chunk):
            scores += self._score(cut)
        return scores

    def cut(self, chunk: Any) -> Iterator[Cut]:
        """Add the next samples; yield the windows that are now complete, for the caller to score.

        The caller then counts each of them in this order (`count`). Arguments and errors are those
        of `add`.
        """
        if self._finished:
            raise UsageError("this stream is finished: begin another one with detector.stream.")
        self._resampler.add(as_chunk(chunk, self._hearing.audio.channels))
        # The first window needs all of its samples, each later one only a hop more.
        missing = self._hop if self._resampler.done else self._window
        while (block := self._resampler.read(missing)) is not None:
            yield from self._cutter.add(block)
            missing = self._hop

    def finish(self) -> list[WindowScore]:
        """End the recording; return the scores of the remaining windows.

        The last window ends where the recording ends; a shorter recording is one window.

        Raises:
            AsdfError: as `add`.
        """
        scores = []
        for cut in self.cut_rest():
            scores += self._score(cut)
        return scores

    def cut_rest(self) -> Iterator[Cut]:
        """End the recording; yield the remaining windows, as `cut`."""
        if self._finished:
            return
        self._finished = True
        yield from self._cutter.add(self._resampler.read_rest())
        yield from self._cutter.finish()

    @property
    def score(self) -> Score | None:
        """The mean of the windows so far, without silent ones; None before the first window.

        It has the attributes of `Detector.score_whole`, and ends with the same score if windows and
        hop are `length.max_samples` and speech activity detection is off. Its parts are those of
        the stream's windows.
        """
        if not self._running.windows:
            return None
        tally = self._running.tally()
        return self._hearing.summary.describe_whole(tally, parts=self._describe_parts(tally))

    def _describe_parts(self, tally: Tally) -> dict[str, Any]:
        """Return the fields of `Known` about the parts so far."""
        if self._search is None or not self._search.applies(tally.end):
            return {}
        searched = self._search.searched(self._judged)
        return {"parts": tuple(self._parts), "searched": searched}

    def piece(self, cut: Cut) -> Piece:
        """Return a window as the network hears it."""
        return self._hearing.make_piece(cut, self._hearing.sad, self._hearing.find_speech)

    def count(self, window: Window) -> WindowScore:
        """Return the score of the next window, and count it in the overall score."""
        self._running.add(window)
        score = self._hearing.summary.describe_window(window)
        self._judged += score.judged
        if self._search is not None and self._search.is_below(score):
            add_to_parts(self._parts, score)
        return score

    def _score(self, cut: Cut) -> list[WindowScore]:
        scored = self._hearing.score_windows(iter([cut]), self._window, self._hearing.sad)
        return [self.count(window) for window in scored]


class _Counts:
    """Sums over windows, in their order."""

    def __init__(self) -> None:
        self.windows = 0
        self.covered = 0
        self.lowest: Window | None = None
        self._sum = 0.0
        self._end = 0
        self._sums: dict[str, np.ndarray] = {}
        self.has_speech = False

    @property
    def raw(self) -> float:
        return self._sum / self.windows

    @property
    def extras(self) -> dict[str, np.ndarray]:
        """Means of the extras' rows, float32."""
        return {key: (row / self.windows).astype(np.float32) for key, row in self._sums.items()}

    def add(self, window: Window) -> None:
        """Count a window."""
        self.windows += 1
        self.has_speech |= window.has_speech
        self._sum += window.raw
        for key, row in window.outcome.extras.items():
            # float64, as the means of `tally_windows`, with which a finished stream must agree.
            self._sums[key] = self._sums.get(key, 0.0) + row.astype(np.float64)
        # Samples that overlapping windows share count once.
        self.covered += window.end - max(self._end, window.start)
        self._end = window.end
        if self.lowest is None or window.raw < self.lowest.raw:
            self.lowest = window


class _Running:
    """The running counts of `tally_windows`, one window at a time."""

    def __init__(self) -> None:
        self._end = 0
        self._sounding = _Counts()
        self._silent = _Counts()

    @property
    def windows(self) -> int:
        return self._sounding.windows + self._silent.windows

    def add(self, window: Window) -> None:
        """Count a window."""
        counts = self._silent if window.silent else self._sounding
        counts.add(window)
        self._end = window.end

    def tally(self) -> Tally:
        """Return the counts of the windows so far, one or more."""
        counted = self._sounding if self._sounding.windows else self._silent
        assert counted.lowest is not None
        return Tally(
            raw=counted.raw,
            end=self._end,
            windows=self.windows,
            silent=self._silent.windows,
            covered=counted.covered,
            lowest=counted.lowest,
            extras=counted.extras,
            has_speech=self._sounding.has_speech or self._silent.has_speech,
        )
