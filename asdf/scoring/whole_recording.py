"""Windows of a recording, their scores, and the result that follows from them.

Invariant: every sample is in a window, and every window has its full length; only a recording
shorter than a window is one short window. A result never looks like that of the whole recording if
less was heard: `seconds_scored` is then below `seconds`, and `remark` states what was left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asdf.audio.channels import SILENCE_DB
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.metrics.calibration import Calibration, are_finite
from asdf.scoring.columns import UNDECIDED, Heard, ScoreColumn
from asdf.scoring.parts import PartColumn, Parts, PartSearch
from asdf.scoring.scored import (
    BONA_FIDE,
    MIN_SPEECH_S,
    MIN_SPEECH_SHARE,
    Scored,
    WindowScore,
    decide_verdict,
)
from asdf.scoring.waveform_scorer import WaveformScorer

# Longer than any recording.
_MAX_SAMPLES = 2**62


Cut = tuple[int, np.ndarray]
"""A window of a recording: its first sample, and its waveform (T,)."""


def in_samples(
    window_s: float, hop_s: float, max_samples: int | None = None, rate: int = SAMPLE_RATE
) -> tuple[int, int]:
    """Return the window and the hop in samples.

    Args:
        max_samples: Maximum number of samples of a window that the network hears; None: any number.
        rate: Sampling rate of what the network hears, in Hz.

    Raises:
        UsageError: one of them is not a positive number, the hop leaves gaps, or the network does
            not hear windows whole.
    """
    window = hop = 0
    if 0 < hop_s <= window_s < math.inf:
        # A finite number of seconds may be an infinite number of samples.
        window = round(min(window_s * rate, _MAX_SAMPLES))
        hop = round(min(hop_s * rate, _MAX_SAMPLES))
    if hop < 1:
        raise UsageError(
            f"windows of {window_s:g} s every {hop_s:g} s: both must be positive, and the hop at "
            "most the window."
        )
    if max_samples is not None and window > max_samples:
        raise UsageError(
            f"windows of {window_s:g} s: this network hears {max_samples:,} samples "
            f"({max_samples / rate:.4g} s). Take windows of that length or less."
        )
    return window, hop


def count_windows(samples: int, window: int, hop: int) -> int:
    """Return the number of windows that `cut_windows` cuts from a recording of `samples`."""
    return 1 + max(0, math.ceil((samples - window) / hop))


class WindowCutter:
    """Windows of a recording that arrives in blocks; holds at most a window and a block.

    Windows start at 0, hop, 2 hop, ...; one last window ends where the recording ends.
    """

    def __init__(self, window: int, hop: int) -> None:
        """Cut windows of `window` samples every `hop`, which is at most `window`."""
        self._window = window
        self._hop = hop
        self._held = np.zeros(0, np.float32)
        self._held_from = 0
        self._start = 0

    def add(self, block: np.ndarray) -> Iterator[Cut]:
        """Yield the windows that end in the next block (T,) of the recording."""
        # A recording that is whole in memory is not copied.
        self._held = np.concatenate([self._held, block]) if len(self._held) else block
        end = self._held_from + len(self._held)
        while self._start + self._window <= end:
            offset = self._start - self._held_from
            yield self._start, self._held[offset : offset + self._window]
            self._start += self._hop
        # A full window is held, since the last one ends where the recording ends.
        retained_from = max(self._held_from, end - self._window)
        self._held = self._held[retained_from - self._held_from :]
        self._held_from = retained_from

    def finish(self) -> Iterator[Cut]:
        """Yield the last window, unless another window ends where the recording ends."""
        end = self._held_from + len(self._held)
        last_end = self._start - self._hop + self._window
        if len(self._held) and (self._start == 0 or last_end < end):
            yield self._held_from, self._held


def cut_windows(blocks: Iterable[np.ndarray], window: int, hop: int) -> Iterator[Cut]:
    """Yield the windows of a recording that arrives in blocks, see `WindowCutter`."""
    cutter = WindowCutter(window, hop)
    for block in blocks:
        yield from cutter.add(block)
    yield from cutter.finish()


# -120 dB of full scale, below which is rounding.
_LEAST_POWER = 1e-12

# The field of a level, its name in a remark, and how far outside the range of the calibration set a
# recording may lie: a small set has a narrow range.
_LEVELS = (("level_dbfs", "level in dBFS", 1.0), ("offset", "constant offset", 0.001))


@dataclass(frozen=True, eq=False)
class Piece:
    """Samples `start <= i < end` of a recording, to be scored.

    Attributes:
        waveform: Samples that the network hears of them, (T,).
        sound: Power of the samples around their constant offset, and this offset; full scale is 1.
        silent: Whether they are digital silence.
        has_speech: Whether they contain speech; True if it was not checked.
    """

    start: int
    end: int
    waveform: np.ndarray
    sound: np.ndarray
    silent: bool
    has_speech: bool = True

    def scored(self, raw: float, extras: Mapping[str, np.ndarray]) -> Window:
        """Return the piece with what the network gives for it, without its samples."""
        return Window(self.start, self.end, raw, extras, self.sound, self.silent, self.has_speech)


@dataclass(frozen=True, eq=False)
class Window:
    """A scored piece of a recording.

    Attributes:
        raw: Score of the network itself, before a calibration.
        extras: Rows of the extras, by key.
        start, end, sound, silent, has_speech: Attributes of `Piece`.
    """

    start: int
    end: int
    raw: float
    extras: Mapping[str, np.ndarray]
    sound: np.ndarray
    silent: bool = False
    has_speech: bool = True


class Tally:
    """Statistics of the windows of a recording, so that the windows need not be held.

    Windows of digital silence do not count, unless all are silent: a trial of a list must have a
    score.

    Attributes:
        windows: Number of windows.
        silent: Number of windows of digital silence.
        speech: Number of windows that contain speech, without silent ones.
        end: Sample at which the last window ends; samples of speech if only the beginning is heard.
        counted: Number of windows that count.
        covered: Number of samples that lie in these.
        lowest: Window with the lowest score among these.
    """

    lowest: Window

    def __init__(self, windows: Iterable[Window] = ()) -> None:
        self.windows = self.silent = self.speech = self.end = 0
        self._begin()
        for window in windows:
            self.add(window)

    @classmethod
    def of_beginning(cls, window: Window, speech: int, max_samples: int) -> Tally:
        """Count a recording of which up to `max_samples` are heard, as one window.

        Args:
            speech: Samples of speech in the recording.
        """
        tally = cls([window])
        tally.end, tally.covered = speech, min(speech, max_samples)
        return tally

    def _begin(self) -> None:
        self.counted = self.covered = self._covered_to = 0
        self._raw = 0.0
        self._sound = np.zeros(2)
        self._extras: dict[str, np.ndarray] = {}

    def add(self, window: Window) -> None:
        """Count the next window."""
        if self.all_silent and not window.silent:
            self._begin()
        self.windows += 1
        self.silent += window.silent
        self.speech += window.has_speech and not window.silent
        self.end = window.end
        if window.silent and not self.all_silent:
            return
        if not self.counted or window.raw < self.lowest.raw:
            self.lowest = window
        self.counted += 1
        self._raw += window.raw
        self._sound = self._sound + window.sound
        for key, row in window.extras.items():
            self._extras[key] = self._extras.get(key, 0.0) + row.astype(np.float64)
        # Samples that overlapping windows share count once.
        self.covered += window.end - max(self._covered_to, window.start)
        self._covered_to = window.end

    @property
    def all_silent(self) -> bool:
        return self.silent == self.windows

    @property
    def raw(self) -> float:
        """Mean of the network's scores of the windows that count."""
        return self._raw / self.counted

    @property
    def extras(self) -> dict[str, np.ndarray]:
        """Means of the extras' rows over the windows that count, by key."""
        return {key: (row / self.counted).astype(np.float32) for key, row in self._extras.items()}

    @property
    def level_and_offset(self) -> tuple[float, float]:
        """Mean level in dBFS, and offset, of the windows that count.

        They have as many digits as a device has.
        """
        power, offset = (self._sound / self.counted).tolist()
        level_dbfs = 10 * math.log10(max(power, _LEAST_POWER))
        return round(level_dbfs, 2), round(offset, 6)


@dataclass(frozen=True)
class Summary:
    """Turns scores into results.

    Attributes:
        scorer: Network, or networks, of the scores.
        calibration: Map from the network's score to the reported score; None: they are equal.
        threshold: Lowest score of the verdict 'bona fide'; None: no verdicts.
        columns: Columns of the results, in the order in which they are computed.
        hidden: Keys of extras that are computed only for columns, and are not in results.
    """

    scorer: WaveformScorer
    calibration: Calibration | None
    threshold: float | None
    columns: tuple[ScoreColumn, ...]
    hidden: tuple[str, ...]

    @property
    def sample_rate(self) -> int:
        """Sampling rate of the samples, in Hz."""
        return self.scorer.audio.sample_rate

    @property
    def search(self) -> PartSearch | None:
        """Rules of the search for parts of long recordings; None: no search."""
        searches = [column.search for column in self.columns if isinstance(column, PartColumn)]
        return searches[0] if searches else None

    def score_tally(
        self,
        tally: Tally,
        total: int | None = None,
        over_time: Mapping[str, Any] | None = None,
        searched: Sequence[Window] = (),
        parts: Parts | None = None,
    ) -> Scored:
        """Return the score of a recording that was heard in windows, or as one window.

        Args:
            total: Samples of the recording, if the windows cover only its speech.
            over_time: Extras that follow the time of the whole recording.
            searched: Windows that were searched for parts.
            parts: Parts that are known without these windows, as of a stream.

        Raises:
            AsdfError: the score is not a finite number.
        """
        problem = ""
        if tally.all_silent:
            problem = f"digital silence (nothing above {SILENCE_DB:g} dB of full scale)"
        elif tally.end < MIN_SPEECH_S * self.sample_rate:
            seconds = self._to_seconds(tally.end)
            problem = f"{seconds} s are too short (under {MIN_SPEECH_S:g} s of speech)"
        elif not tally.speech:
            problem = "no speech found"
        remarks = [f"not judged: {problem}" if problem else ""]
        if not problem and tally.counted < tally.windows:
            remarks.append(
                f"{tally.silent} of {tally.windows} windows are digital silence and do not count"
            )
        if tally.windows == 1 and tally.covered < tally.end:
            heard = self._to_seconds(tally.covered)
            remarks.append(
                f"only the first {heard} s of {self._to_seconds(tally.end)} s are scored"
            )
        checked = [window.has_speech for window in searched if not window.silent]
        speech, sounding = tally.speech, tally.windows - tally.silent
        if checked:
            speech, sounding = sum(checked), len(checked)
        score, rows = self._report(tally.raw), tally.extras
        level_dbfs, offset = tally.level_and_offset
        result = Scored(
            0,
            None,
            score,
            threshold=self.threshold,
            raw=tally.raw,
            seconds=(tally.end if total is None else total) / self.sample_rate,
            seconds_scored=tally.covered / self.sample_rate,
            windows=tally.counted,
            speech_share=speech / sounding if sounding else 1.0,
            lowest=self.score_window(tally.lowest) if tally.windows > 1 else None,
            level_dbfs=level_dbfs,
            offset=offset,
            judged=not problem,
            extras={**self.shown_extras(rows, tally.end), **(over_time or {})},
        )
        is_sparse = not problem and result.speech_share < MIN_SPEECH_SHARE
        if is_sparse:
            remarks.append(f"speech in only {speech} of {sounding} windows")
        windows = tuple(map(self.score_window, searched))
        known = Heard(tally.raw, score, not problem, rows, result.extras, windows, is_sparse)
        return self._judge(result, known, remarks, parts)

    def _judge(
        self, result: Scored, heard: Heard, remarks: list[str], parts: Parts | None
    ) -> Scored:
        """Return a result with the values of the columns, all remarks, and the verdict."""
        # Whether the whole is not clearly spoofed, so that parts decide the verdict.
        accepted = False
        if self.threshold is not None:
            compared, is_clear = heard.raw, True
            if self.calibration is not None:
                compared = float(self.calibration.unbounded_llr(heard.raw))
                is_clear = self.calibration.is_clear(heard.score)
            accepted = compared >= self.threshold or not is_clear
        values: dict[str, Any] = {}
        columns = {}
        for column in self.columns:
            value = parts if column.key == PartColumn.key else None
            if value is None:
                value = column.add(heard)
            if value is None:
                continue
            values[column.key] = value
            columns[column.key] = type(column)
            remarks.append(column.remark(value, heard))
            changed = accepted and column.veto(value, BONA_FIDE) not in (None, UNDECIDED)
            doubts = column.doubts(value) or changed
            heard = replace(heard, doubted=heard.doubted or doubts)
        if result.judged:
            remarks.append(self._describe_levels(result))
        remark = "; ".join(filter(None, remarks))
        result = replace(result, remark=remark, values=values, columns=columns)
        return replace(result, verdict=decide_verdict(result))

    def _describe_levels(self, result: Scored) -> str:
        """Return a remark if level or offset are outside those of the calibration set; ''."""
        ranges = None if self.calibration is None else self.calibration.others.get("levels")
        if not isinstance(ranges, Mapping):
            return ""
        outside = []
        for name, noun, margin in _LEVELS:
            value, span = getattr(result, name), ranges.get(name, ())
            if not are_finite(span) or len(span) != 2:
                continue
            if not span[0] - margin <= value <= span[1] + margin:
                outside.append(f"{noun} {value:.3g} (there {span[0]:.3g} to {span[1]:.3g})")
        if not outside:
            return ""
        return f"outside the range of the calibration set: {', '.join(outside)}"

    def _report(self, raw: float) -> float:
        """Return the reported score for the network's score.

        Raises:
            AsdfError: the score is not a finite number.
        """
        if not np.isfinite(raw):
            raise AsdfError(
                "the network gives a score that is not a finite number: it has probably diverged."
            )
        return float(raw) if self.calibration is None else float(self.calibration.llr(raw))

    def shown_extras(self, rows: Mapping[str, np.ndarray], samples: int) -> dict[str, Any]:
        """Return the extras of `samples` samples in the form that results have."""
        described = {}
        for key, row in rows.items():
            if key in self.hidden:
                continue
            extra = self.scorer.extras[key]
            described[key] = extra.describe(extra.fit(row, samples), samples)
        return described

    def score_window(self, window: Window) -> WindowScore:
        """Return the result of a window."""
        score = self._report(window.raw)
        return WindowScore(
            window.start / self.sample_rate,
            window.end / self.sample_rate,
            score,
            self.shown_extras(window.extras, window.end - window.start),
            judged=window.has_speech and not window.silent,
            unbounded_llr=None if self.calibration is None else self.calibration.beyond(window.raw),
        )

    def _to_seconds(self, samples: int) -> str:
        return f"{samples / self.sample_rate:.2f}"
