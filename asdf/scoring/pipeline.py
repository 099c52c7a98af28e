"""The single orchestration of scoring: recordings to pieces, pieces to windows, then a score.

Invariant: up to rounding, a recording's result does not depend on who reads it or forms the
batches. Files, arrays, streams and uploads are sources of pieces; only this module decides what a
piece is and what follows from their scores.

The scores of a stream do not depend, to the last bit, on how it is divided into chunks, and after
its end they equal, up to rounding, those of the same windows of the whole recording. Memory holds
one window and what the next one needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from asdf.audio import cut_to_speech
from asdf.audio.channels import Comparison, is_silent
from asdf.audio.sample_rates import StreamResampler, resample
from asdf.audio.speech import SpeechLength, needs_whole_recording
from asdf.errors import UsageError
from asdf.runs.log import track
from asdf.scoring.columns import UNDECIDED
from asdf.scoring.parts import PartFinder
from asdf.scoring.recordings import Recording, as_chunk
from asdf.scoring.scored import Score, Scored, WindowScore, as_score, join_channels
from asdf.scoring.waveform_scorer import OverTime, WaveformScorer, check_whole_time
from asdf.scoring.whole_recording import (
    Cut,
    Piece,
    Summary,
    Tally,
    Window,
    WindowCutter,
    count_windows,
    cut_windows,
    in_samples,
)
from asdf.settings.sections import Audio, SpeechActivity
from asdf.text import printable

FindSpeech = Callable[[np.ndarray], bool]

NO_DETECTION = SpeechActivity(mode="off")

# Samples of windows in memory together: 64 MiB, enough for full batches, and independent of the
# length of the recording. On a CPU more samples take as long each, and the progress would wait.
_HELD_SAMPLES = 2**24
_HELD_ON_CPU = 2**18


@dataclass(frozen=True)
class Pieces:
    """A recording in memory, in pieces.

    Attributes:
        total: Samples of the recording.
        speech: Samples of speech in it.
        is_trial: Whether the score covers only the beginning of the recording, as one piece.
        scored: Pieces that the score is computed from.
        over_time: Pieces for scores over time; empty if none were requested.
        searched: Pieces that are searched for spoofed parts; they may be among the others.
    """

    total: int
    speech: int
    is_trial: bool
    scored: list[Piece]
    over_time: list[Piece]
    searched: list[Piece] = field(default_factory=list)

    @property
    def all(self) -> list[Piece]:
        """The pieces, each once."""
        # By identity: a piece for several purposes is one object.
        return list(dict.fromkeys([*self.scored, *self.over_time, *self.searched]))


@dataclass(frozen=True)
class Pipeline:
    """Rules by which recordings are heard.

    Attributes:
        scorer: Network, or networks, that compute the scores.
        sad: Settings of speech activity detection.
        summary: Summary that turns scores into results.
        wanted: Keys of the extras to compute on request, for the caller or for the summary.
        find_speech: Function that returns whether samples contain speech, for verdicts on whole
            recordings; None: speech is assumed.
    """

    scorer: WaveformScorer
    sad: SpeechActivity
    summary: Summary
    wanted: tuple[str, ...] = ()
    find_speech: FindSpeech | None = None

    @property
    def audio(self) -> Audio:
        """Rate and channels that recordings are read as."""
        return self.scorer.audio

    @property
    def max_samples(self) -> int:
        """Samples of a window of a whole recording."""
        return self.scorer.window_samples

    @property
    def _of_time(self) -> list[str]:
        """Keys of the wanted extras that follow the time of a recording."""
        return [key for key in self.wanted if self.scorer.extras[key].hop is not None]

    def check(self) -> None:
        """Check that the network can give what is wanted.

        Raises:
            UsageError: the network lacks a wanted extra, or a wanted extra follows time and the
                network does not hear whole recordings.
        """
        for key in self.wanted:
            self.scorer.require(key)
        for key in self._of_time:
            check_whole_time(key, self.sad)
            OverTime(self.scorer, key, self.max_samples)

    def score_trial(self, recording: Recording) -> Scored:
        """Score the beginning of a recording. Raises as `score_whole`."""
        self.check()
        waveform, length = recording.read_beginning(self.sad, self.scorer.trial_samples)
        [window] = self.score([self.make_piece(waveform)])
        return self.score_beginning(recording, window, length)

    def make_piece(
        self, waveform: np.ndarray, start: int = 0, sad: SpeechActivity = NO_DETECTION
    ) -> Piece:
        """Return a window as the network hears it, after speech activity detection.

        Args:
            waveform: Samples of the window, (T,).
            start: First of them in the recording.
        """
        rate = self.audio.sample_rate
        has_speech = True
        if self.find_speech is not None:
            mono = waveform if waveform.ndim == 1 else waveform.mean(axis=1)
            has_speech = self.find_speech(resample(mono, rate))
        return Piece(
            start,
            start + len(waveform),
            cut_to_speech(waveform, sad, rate),
            np.array([waveform.var(dtype=np.float64), waveform.mean(dtype=np.float64)]),
            is_silent(waveform),
            has_speech,
        )

    def score(self, pieces: Sequence[Piece], wanted: Collection[str] | None = None) -> list[Window]:
        """Score pieces of any recordings, those of equal length together.

        Args:
            wanted: Keys of the extras to compute on request; None: those of the pipeline.

        Raises:
            AsdfError: a batch does not fit into the device's memory.
        """
        waveforms = [piece.waveform for piece in pieces]
        wanted = self.wanted if wanted is None else wanted
        outcomes = self.scorer.score_waveforms(waveforms, wanted)
        windows = []
        for index, (piece, raw) in enumerate(zip(pieces, outcomes.scores.tolist(), strict=True)):
            extras = {key: rows[index] for key, rows in outcomes.extras.items()}
            windows.append(piece.scored(raw, extras))
        return windows

    def score_beginning(
        self,
        recording: Recording,
        window: Window,
        length: SpeechLength,
        whole: bool = False,
        searched: Sequence[Window] = (),
    ) -> Scored:
        """Return the score of a recording whose beginning was heard.

        Args:
            length: Samples of speech in the recording, and of the recording.
            whole: Whether it is the score of the whole recording.
            searched: Windows that were searched for spoofed parts.

        Raises:
            AsdfError: the score is not a finite number, or the recording cannot be read for extras
                that follow time.
        """
        over_time = None
        if length.speech > self.max_samples:
            over_time = self.score_over_time(recording)
        tally = Tally.of_beginning(window, length.speech, self.scorer.trial_samples)
        score = self.summary.score_tally(tally, length.recording, over_time, searched)
        return self._of_recording(recording, score, whole)

    def _of_recording(self, recording: Recording, score: Scored, whole: bool) -> Scored:
        """Return a score as that of a recording that was read, with its channels if they differ."""
        result = replace(score, index=recording.index, path=recording.path, name=recording.name)
        why, sides = recording.differing()
        if not why:
            return result
        score_side = self.score_whole if whole else self.score_trial
        return join_channels(result, why, [score_side(side) for side in sides], not whole)

    def score_over_time(self, recording: Recording) -> Mapping[str, Any]:
        """Return, by key, the wanted extras that follow the time of the whole recording."""
        extras = {}
        for key in self._of_time:
            over_time = OverTime(self.scorer, key, self.max_samples)
            row, samples = over_time.of_blocks(recording.read_in_blocks(over_time.window))
            extras[key] = self.scorer.extras[key].describe(row, samples)
        return extras

    def score_whole(self, recording: Recording, shown_samples: int | None = None) -> Scored:
        """Score a whole recording, in windows.

        Args:
            shown_samples: Samples of speech in the recording, for the progress display; None:
                nothing is displayed.

        Raises:
            UsageError: as `check`.
            AsdfError: it cannot be read, or its score is not a finite number.
        """
        self.check()
        length = self.max_samples
        total = None
        if needs_whole_recording(self.sad):
            # Whether a frame is speech depends on the loudest frame, which may be the last one.
            # Speech is therefore detected once, before the recording is cut into windows.
            waveform = recording.read_whole()
            total = len(waveform)
            blocks: Iterable[np.ndarray] = [
                cut_to_speech(waveform, self.sad, self.audio.sample_rate)
            ]
        else:
            blocks = recording.read_in_blocks(length)
        count = 0 if shown_samples is None else count_windows(shown_samples, length, length)
        cut = cut_windows(blocks, length, length)
        heard = list(self.score_windows(cut, length, NO_DETECTION, recording, count))
        tally = Tally(heard)
        # Windows of joined speech have no known time in the recording.
        known = heard if total is None else []
        samples = tally.end if total is None else total
        shown = shown_samples is not None
        searched = self.search_recording(recording, samples, known, shown=shown)
        over_time = self.score_over_time(recording)
        score = self.summary.score_tally(tally, total, over_time, searched)
        return self._of_recording(recording, score, whole=True)

    def search_recording(
        self,
        recording: Recording,
        samples: int,
        known: Sequence[Window] = (),
        heard: np.ndarray | None = None,
        shown: bool = False,
    ) -> list[Window]:
        """Score the windows of a recording that is searched for parts; [] for a short recording.

        Args:
            samples: Samples of the recording.
            known: Windows that are scored already and are not scored again.
            heard: Beginning of the recording that was read already; without speech activity
                detection that is all of it, and nothing is decoded.
            shown: Whether to show the progress.
        """
        search = self.summary.search
        if search is None or not search.applies(samples):
            return []
        blocks: Iterable[np.ndarray]
        if heard is not None and not needs_whole_recording(self.sad):
            blocks = [heard]
        else:
            blocks = recording.read_in_blocks(search.window)
        known_at = {(window.start, window.end): window for window in known}
        found = []

        def cut_unknown() -> Iterator[Cut]:
            for start, waveform in cut_windows(blocks, search.window, search.hop):
                window = known_at.get((start, start + len(waveform)))
                if window is None:
                    yield start, waveform
                else:
                    found.append(window)

        count = 0
        if shown:
            count = count_windows(samples, search.window, search.hop)
            spans = {(start, start + search.window) for start in range(0, samples, search.hop)}
            count -= len(spans & known_at.keys())
        unknown = self.score_windows(cut_unknown(), search.window, self.sad, recording, count)
        return sorted(chain(unknown, found), key=lambda window: window.start)

    def score_windows(
        self,
        cut: Iterator[Cut],
        length: int,
        sad: SpeechActivity,
        recording: Recording | None = None,
        count: int = 0,
    ) -> Iterator[Window]:
        """Score windows of up to `length` samples, a few at a time.

        Memory holds a few windows at a time, for recordings of any length. `sad` is applied to each
        window by itself.

        Args:
            recording, count: Recording and number of its windows, to show the progress: a bar on a
                terminal, else lines in the log; 0: nothing is shown.
        """
        # Extras that follow time need the context around a window, see `OverTime`.
        wanted = [key for key in self.wanted if self.scorer.extras[key].hop is None]
        held = _HELD_ON_CPU if self.scorer.device_type == "cpu" else _HELD_SAMPLES
        together = max(1, held // length)

        def score_groups() -> Iterator[list[Window]]:
            while group := list(islice(cut, together)):
                pieces = [self.make_piece(waveform, start, sad) for start, waveform in group]
                yield self.score(pieces, wanted)

        groups = score_groups()
        if recording is not None and count:
            what = f"scoring {printable(Path(recording.name).name)}"
            groups = track(groups, count, what, unit="windows", size=len)
        return chain.from_iterable(groups)

    def cut(
        self, waveform: np.ndarray, whole: bool = True, window: tuple[float, float] | None = None
    ) -> Pieces:
        """Cut a recording in memory into pieces; (T,) float32 at the network's rate, T >= 1.

        Args:
            whole: Whether a long recording is scored as a whole instead of only its beginning.
            window: Length and hop of the windows, in seconds, for scores over time.

        Raises:
            UsageError: windows or hops that leave parts out.
        """
        speech = cut_to_speech(waveform, self.sad, self.audio.sample_rate)
        is_trial = not whole or len(speech) <= self.max_samples
        if is_trial:
            # Only whole recordings are checked for speech: a protocol judges every trial.
            judging = self if whole else replace(self, find_speech=None)
            scored = [judging.make_piece(speech[: self.scorer.trial_samples])]
        else:
            cut = cut_windows([speech], self.max_samples, self.max_samples)
            scored = [self.make_piece(samples, start) for start, samples in cut]
        # Pieces with the same samples are scored once, whatever they are used for.
        known = {}
        if not needs_whole_recording(self.sad) and not is_trial:
            known = {(piece.start, piece.end): piece for piece in scored}

        def cut_pieces(length: int, hop: int) -> list[Piece]:
            pieces = []
            for start, samples in cut_windows([waveform], length, hop):
                times = (start, start + len(samples))
                if times not in known:
                    known[times] = self.make_piece(samples, start, self.sad)
                pieces.append(known[times])
            return pieces

        over_time = []
        if window is not None:
            over_time = cut_pieces(*in_samples(*window, self.max_samples, self.audio.sample_rate))
        searched = []
        search = self.summary.search
        if whole and search is not None and search.applies(len(waveform)):
            searched = cut_pieces(search.window, search.hop)
        return Pieces(len(waveform), len(speech), is_trial, scored, over_time, searched)

    def batch_length(self, piece: Piece) -> int:
        """Return the number of samples that a piece is scored from; equal within a batch."""
        return self.scorer.scored_samples(len(piece.waveform))

    def conclude(
        self, pieces: Pieces, windows: Sequence[Window], name: str
    ) -> tuple[Scored, list[WindowScore]]:
        """Return the result of a recording that was cut into pieces, and those of its windows.

        Args:
            windows: Scored `pieces.all`.
            name: Name of the recording.

        Raises:
            AsdfError: a score is not a finite number.
        """
        window_of = dict(zip(pieces.all, windows, strict=True))
        scored = [window_of[piece] for piece in pieces.scored]
        searched = [window_of[piece] for piece in pieces.searched]
        summary = self.summary
        tally = Tally(scored)
        if pieces.is_trial:
            tally = Tally.of_beginning(scored[0], pieces.speech, self.scorer.trial_samples)
        score = summary.score_tally(tally, pieces.total, searched=searched)
        over_time = [summary.score_window(window_of[piece]) for piece in pieces.over_time]
        return replace(score, name=name), over_time


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
        self._running = Tally()
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
        tally = self._running
        if not tally.windows:
            return None
        parts = None
        if self._finder is not None and self._finder.search.applies(tally.end):
            parts = self._finder.result()
        score = self._pipeline.summary.score_tally(tally, parts=parts)
        why = self._channels.relation().why
        if why:
            remark = f"{why}: give each channel a stream of its own"
            remark = "; ".join(filter(None, [remark, score.remark]))
            verdict = UNDECIDED if score.judged else None
            score = replace(score, verdict=verdict, remark=remark)
        return as_score(score)

    def _score(self, cuts: Iterable[Cut]) -> list[WindowScore]:
        scores = []
        for cut in cuts:
            # Each by itself, so that chunks of any size give the same last digits.
            for window in self._pipeline.score_windows(
                iter([cut]), self._window, self._pipeline.sad
            ):
                self._running.add(window)
                score = self._pipeline.summary.score_window(window)
                if self._finder is not None:
                    self._finder.add(score)
                scores.append(score)
        return scores
