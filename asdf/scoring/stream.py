"""Scoring of a recording while it arrives.

Invariant: scores do not depend, to the last bit, on how the recording is divided into chunks, and
after its end they equal, up to rounding, those of the same windows of the whole recording. Memory
holds one window and what the next one needs, for recordings of any length.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from asdf.audio.channels import Comparison
from asdf.audio.sample_rates import StreamResampler
from asdf.errors import UsageError
from asdf.scoring.columns import UNDECIDED
from asdf.scoring.parts import PartFinder
from asdf.scoring.pipeline import Pipeline
from asdf.scoring.recordings import as_chunk
from asdf.scoring.scored import Score, WindowScore
from asdf.scoring.whole_recording import Cut, Tallying, WindowCutter


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

    def __init__(self, pipeline: Pipeline, rate: int, window: int, hop: int) -> None:
        """Score windows of `window` samples every `hop` samples, at the network's rate."""
        self._pipeline = pipeline
        self._resampler = StreamResampler(rate, pipeline.audio.sample_rate)
        self._cutter = WindowCutter(window, hop)
        self._window = window
        self._hop = hop
        self._running = Tallying()
        search = pipeline.summary.search
        self._finder = None if search is None else PartFinder(search.with_windows(window, hop))
        self._channels = Comparison()
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
        if self._finished:
            raise UsageError("this stream is finished: begin another one with detector.stream.")
        self._resampler.add(as_chunk(chunk, self._pipeline.audio.channels, self._channels))
        scores = []
        # The first window needs all of its samples, each later one only a hop more.
        missing = self._hop if self._resampler.done else self._window
        while (block := self._resampler.read(missing)) is not None:
            scores += self._score(self._cutter.add(block))
            missing = self._hop
        return scores

    def finish(self) -> list[WindowScore]:
        """End the recording; return the scores of the remaining windows.

        The last window ends where the recording ends; a shorter recording is one window.

        Raises:
            AsdfError: as `add`.
        """
        if self._finished:
            return []
        self._finished = True
        scores = self._score(self._cutter.add(self._resampler.read_rest()))
        return scores + self._score(self._cutter.finish())

    @property
    def score(self) -> Score | None:
        """The mean of the windows so far, without silent ones; None before the first window.

        It has the attributes of `Detector.score_whole`, and ends with the same score if windows and
        hop are `length.max_samples` and speech activity detection is off. Its parts are those of
        the stream's windows. The verdict on channels that differ is 'undecided'.
        """
        if not self._running.windows:
            return None
        tally = self._running.tally()
        parts = None
        if self._finder is not None and self._finder.search.applies(tally.end):
            parts = self._finder.result()
        score = self._pipeline.summary.describe(tally, parts=parts)
        why = self._channels.relation().why
        if not why:
            return score
        known = {**score.known(), "verdict": UNDECIDED if score.judged else None}
        remark = f"{why}: give each channel a stream of its own"
        known["remark"] = "; ".join(filter(None, [remark, score.remark]))
        return Score(score, **known)

    def _score(self, cuts: Iterable[Cut]) -> list[WindowScore]:
        scores = []
        for cut in cuts:
            # Each by itself, so that chunks of any size give the same last digits.
            for window in self._pipeline.score_windows(
                iter([cut]), self._window, self._pipeline.sad
            ):
                self._running.add(window)
                score = self._pipeline.summary.describe_window(window)
                if self._finder is not None:
                    self._finder.add(score)
                scores.append(score)
        return scores
