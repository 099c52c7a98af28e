"""Results of a recording, from the network's scores of its beginning or of its windows.

Invariant: a result never looks like that of the whole recording if less was heard: `seconds_scored`
is then below `seconds`, and `remark` states what was left out.

Windows of a recording: how it is cut.

Invariant: every sample is in a window, and every window has its full length; only a recording
shorter than a window is one short window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asdf.audio.channels import SILENCE_DB
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.metrics.calibration import Calibration, are_finite
from asdf.scoring.columns import UNDECIDED, Heard, ScoreColumn
from asdf.scoring.parts import PartColumn, Parts, PartSearch
from asdf.scoring.recordings import Recording
from asdf.scoring.scored import (
    BONA_FIDE,
    MIN_SPEECH_S,
    MIN_SPEECH_SHARE,
    Score,
    Scored,
    WindowScore,
    decide_verdict,
)

if TYPE_CHECKING:
    from asdf.networks.extras import Extra

# Longer than any recording.
_MAX_SAMPLES = 2**62


class Cut(NamedTuple):
    """A window of a recording: its first sample, and its waveform (T,)."""

    start: int
    waveform: np.ndarray


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
            yield Cut(self._start, self._held[offset : offset + self._window])
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
            yield Cut(self._held_from, self._held)


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


class Sound(NamedTuple):
    """The power of samples around their constant offset, and the offset; full scale is 1."""

    power: float
    offset: float

    @classmethod
    def of(cls, waveform: np.ndarray) -> Sound:
        return cls(float(waveform.var(dtype=np.float64)), float(waveform.mean(dtype=np.float64)))

    @classmethod
    def fields(cls, sound: Sound | None) -> dict[str, Any]:
        """Return the fields of `Known`, in as many digits as a device has."""
        if sound is None:
            return {}
        level_dbfs = 10 * math.log10(max(sound.power, _LEAST_POWER))
        return {"level_dbfs": round(level_dbfs, 2), "offset": round(sound.offset, 6)}


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outputs of a network for one piece of a recording.

    Attributes:
        raw: Score of the network itself, before a calibration.
        extras: Rows of the extras, by key.
    """

    raw: float
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outputs of a network for several pieces, in their order.

    Attributes:
        scores: Scores of the pieces, (pieces,) float32; float64 for fused networks.
        extras: Rows of each piece, by key.
    """

    scores: np.ndarray
    extras: Mapping[str, Sequence[np.ndarray]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Outcome]:
        for index, score in enumerate(self.scores.tolist()):
            yield Outcome(score, {key: rows[index] for key, rows in self.extras.items()})


@dataclass(frozen=True)
class Window:
    """A scored window.

    Attributes:
        start, end: Samples `start <= i < end`.
        silent: Whether the window is digital silence.
        outcome: Outputs of the network for the window.
        has_speech: Whether the window contains speech; True if it was not checked.
        sound: Power and offset of the window.
    """

    start: int
    end: int
    silent: bool
    outcome: Outcome
    has_speech: bool = True
    sound: Sound | None = None

    @property
    def raw(self) -> float:
        return self.outcome.raw


@dataclass(frozen=True)
class Tally:
    """Statistics of the windows of a recording, so that the windows need not be held.

    Attributes:
        raw: Mean of the network's scores of the windows that count.
        end: Sample at which the last window ends; samples of speech if only the beginning is heard.
        windows: Number of windows.
        silent: Number of windows of digital silence. These do not count, unless all are silent.
        covered: Samples that lie in a window that counts.
        lowest: Window with the lowest score among those that count.
        extras: Means of the extras' rows over the windows that count, by key.
        speech: Number of windows that contain speech, without silent ones.
        sound: Mean power and offset of the windows that count.
    """

    raw: float
    end: int
    windows: int
    silent: int
    covered: int
    lowest: Window
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)
    speech: int = 1
    sound: Sound | None = None

    @property
    def all_silent(self) -> bool:
        return self.silent == self.windows


class _Counted:
    """Sums over windows, in their order."""

    def __init__(self) -> None:
        self.windows = 0
        self.covered = 0
        self.sum = 0.0
        self.extras: dict[str, np.ndarray] = {}
        self.sound: np.ndarray | None = None
        self.lowest: Window | None = None
        self._end = 0

    def add(self, window: Window) -> None:
        self.windows += 1
        self.sum += window.raw
        for key, row in window.outcome.extras.items():
            self.extras[key] = self.extras.get(key, 0.0) + row.astype(np.float64)
        if window.sound is not None:
            self.sound = np.array(window.sound) + (0.0 if self.sound is None else self.sound)
        # Samples that overlapping windows share count once.
        self.covered += window.end - max(self._end, window.start)
        self._end = window.end
        if self.lowest is None or window.raw < self.lowest.raw:
            self.lowest = window


class Tallying:
    """Statistics of the windows of a recording that arrive one at a time, in their order."""

    def __init__(self) -> None:
        self.windows = 0
        self._end = 0
        self._speech = 0
        self._sounding = _Counted()
        self._silent = _Counted()

    def add(self, window: Window) -> None:
        """Count a window."""
        counted = self._silent if window.silent else self._sounding
        counted.add(window)
        self.windows += 1
        self._end = window.end
        self._speech += window.has_speech and not window.silent

    def tally(self) -> Tally:
        """Return the statistics of the windows so far, one or more."""
        # If all windows are silent, every window counts: a trial of a list must have a score.
        counted = self._sounding if self._sounding.windows else self._silent
        count = counted.windows
        assert counted.lowest is not None
        means = {key: (row / count).astype(np.float32) for key, row in counted.extras.items()}
        return Tally(
            raw=counted.sum / count,
            end=self._end,
            windows=self.windows,
            silent=self._silent.windows,
            covered=counted.covered,
            lowest=counted.lowest,
            extras=means,
            speech=self._speech,
            sound=None if counted.sound is None else Sound(*(counted.sound / count).tolist()),
        )


def tally_windows(windows: Iterable[Window]) -> Tally:
    """Return the statistics of the windows of a recording, one or more, in their order."""
    tallying = Tallying()
    for window in windows:
        tallying.add(window)
    return tallying.tally()


def tally_beginning(window: Window, speech: int, max_samples: int) -> Tally:
    """Return the statistics of a recording of which up to `max_samples` are heard as one window.

    Args:
        speech: Samples of speech in the recording.
    """
    return replace(tally_windows([window]), end=speech, covered=min(speech, max_samples))


@dataclass(frozen=True)
class Summary:
    """Turns scores into results.

    Attributes:
        calibration: Map from the network's score to the reported score; None: they are equal.
        threshold: Lowest score of the verdict 'bona fide'; None: no verdicts.
        max_samples: Number of samples of a trial that are heard.
        extras: Further outputs besides scores, by key.
        columns: Columns of the results, in the order in which they are computed.
        hidden: Keys of extras that are computed only for columns, and are not in results.
        sample_rate: Sampling rate of the samples, in Hz.
    """

    calibration: Calibration | None
    threshold: float | None
    max_samples: int
    extras: Mapping[str, Extra]
    columns: tuple[ScoreColumn, ...] = ()
    hidden: tuple[str, ...] = ()
    sample_rate: int = SAMPLE_RATE

    @property
    def search(self) -> PartSearch | None:
        """Rules of the search for parts of long recordings; None: no search."""
        searches = [column.search for column in self.columns if isinstance(column, PartColumn)]
        return searches[0] if searches else None

    def score_of(
        self,
        raw: float,
        rows: Mapping[str, np.ndarray] | None = None,
        searched: Sequence[Window] = (),
        found: Mapping[str, Any] | None = None,
        spoken: tuple[int, int] = (1, 1),
        **known: Any,
    ) -> Score:
        """Return the reported score for the network's score, with the `known` attributes.

        Args:
            rows: Rows of the extras, by key.
            searched: Windows that were searched for parts.
            found: Values of columns that are known already, by key.
            spoken: Number of scored windows with speech, and of those that are not silent.

        Raises:
            AsdfError: the score is not a finite number.
        """
        score = self._report(raw)
        windows = tuple(map(self.score_window, searched))
        judged = known.get("judged", True)
        checked = [window.has_speech for window in searched if not window.silent]
        speech, sounding = (sum(checked), len(checked)) if checked else spoken
        known["speech_share"] = speech / sounding if sounding else 1.0
        is_sparse = judged and known["speech_share"] < MIN_SPEECH_SHARE
        extras = known.get("extras", {})
        heard = Heard(raw, score, judged, rows or {}, extras, windows, doubted=is_sparse)
        # Whether the whole is not clearly spoofed, so that parts decide the verdict.
        accepted = False
        if self.threshold is not None:
            compared, is_clear = raw, True
            if self.calibration is not None:
                compared = float(self.calibration.unbounded_llr(raw))
                is_clear = self.calibration.is_clear(score)
            accepted = compared >= self.threshold or not is_clear
        values: dict[str, Any] = {}
        columns = {}
        remarks = [known.pop("remark", "")]
        if is_sparse:
            remarks.append(f"speech in only {speech} of {sounding} windows")
        for column in self.columns:
            value = (found or {}).get(column.key)
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
        if judged:
            remarks.append(self._describe_levels(known))
        known |= {"threshold": self.threshold, "raw": raw, "values": values, "columns": columns}
        known["remark"] = "; ".join(filter(None, remarks))
        return Score(score, **known, verdict=decide_verdict(Score(score, **known)))

    def _describe_levels(self, known: Mapping[str, Any]) -> str:
        """Return a remark if level or offset are outside those of the calibration set; ''."""
        ranges = None if self.calibration is None else self.calibration.others.get("levels")
        if not isinstance(ranges, Mapping):
            return ""
        outside = []
        for name, noun, margin in _LEVELS:
            value, span = known.get(name), ranges.get(name, ())
            if value is None or not are_finite(span) or len(span) != 2:
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

    def score_tally(
        self,
        tally: Tally,
        total: int | None = None,
        over_time: Mapping[str, Any] | None = None,
        searched: Sequence[Window] = (),
        parts: Parts | None = None,
    ) -> Score:
        """Return the score of a recording that was heard in windows, or as one window.

        Args:
            total: Samples of the recording, if the windows cover only its speech.
            over_time: Extras that follow the time of the whole recording.
            searched: Windows that were searched for parts.
            parts: Parts that are known without these windows, as of a stream.

        Raises:
            AsdfError: as `score_of`.
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
        counted = tally.windows
        if not tally.all_silent:
            counted -= tally.silent
        if not problem and counted < tally.windows:
            remarks.append(
                f"{tally.silent} of {tally.windows} windows are digital silence and do not count"
            )
        if tally.windows == 1 and tally.covered < tally.end:
            heard = self._to_seconds(tally.covered)
            remarks.append(
                f"only the first {heard} s of {self._to_seconds(tally.end)} s are scored"
            )
        return self.score_of(
            tally.raw,
            tally.extras,
            searched,
            {"parts": parts},
            (tally.speech, tally.windows - tally.silent),
            seconds=(tally.end if total is None else total) / self.sample_rate,
            seconds_scored=tally.covered / self.sample_rate,
            windows=counted,
            lowest=self.score_window(tally.lowest) if tally.windows > 1 else None,
            **Sound.fields(tally.sound),
            remark="; ".join(filter(None, remarks)),
            judged=not problem,
            extras={**self.shown_extras(tally.extras, tally.end), **(over_time or {})},
        )

    def shown_extras(self, rows: Mapping[str, np.ndarray], samples: int) -> dict[str, Any]:
        """Return the extras of `samples` samples in the form that results have."""
        described = {}
        for key, row in rows.items():
            if key in self.hidden:
                continue
            extra = self.extras[key]
            described[key] = extra.describe(extra.fit(row, samples), samples)
        return described

    def score_window(self, window: Window) -> WindowScore:
        """Return the result of a window."""
        score = self._report(window.raw)
        return WindowScore(
            window.start / self.sample_rate,
            window.end / self.sample_rate,
            score,
            self.shown_extras(window.outcome.extras, window.end - window.start),
            judged=window.has_speech and not window.silent,
            unbounded_llr=None if self.calibration is None else self.calibration.beyond(window.raw),
        )

    def _to_seconds(self, samples: int) -> str:
        return f"{samples / self.sample_rate:.2f}"


def as_result(recording: Recording, score: Score) -> Scored:
    """Return a score as the result of a recording among others."""
    return name_result(score, recording.name, recording.index, recording.path)


def name_result(score: Score, name: str, index: int = 0, path: Path | None = None) -> Scored:
    """Return a score as the result of a recording of that name."""
    return Scored(index, path, float(score), name=name, **score.known())
