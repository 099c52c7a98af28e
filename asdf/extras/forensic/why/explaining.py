"""Maps of what a score depends on, with checks of each: the explanation of one window.

Invariant: a recording is explained by the detector that scores it, with its weights, its precision
and its length rules; gradients and shuffled weights are those of a copy, so that the detector is
unchanged. The number of passes depends only on the options and the length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np

from asdf.arrays import Flags, Floats
from asdf.audio import cut_to_speech
from asdf.audio.speech import needs_whole_recording
from asdf.errors import AsdfError, UsageError
from asdf.extras.forensic.why.cells import Cells, make_cells, make_grid
from asdf.extras.forensic.why.contributions import (
    compare_maps,
    compare_removals,
    draw_cells,
    integrate,
    mark,
    shuffle_weights,
)
from asdf.extras.forensic.why.explanation import (
    Explanation,
    Map,
    Options,
    WeightsCheck,
    check_options,
)
from asdf.facts import SAMPLE_RATE
from asdf.runs.log import track
from asdf.scoring.columns import Heard, LlrColumn
from asdf.scoring.detector import Detector
from asdf.scoring.network_opening import copy_with
from asdf.scoring.recordings import Recording, as_recording
from asdf.scoring.scored import BONA_FIDE, SPOOF
from asdf.scoring.scorer import check_usual
from asdf.scoring.waveform_scorer import WaveformScorer

# Samples of waveforms in memory together: 64 MiB, few enough for visible progress.
_HELD_SAMPLES = 2**24
_HELD_WAVEFORMS = 16


def explain(
    detector: Detector,
    recording: Any,
    sample_rate: int | None = None,
    options: Options | None = None,
    *,
    progress: bool = False,
) -> Explanation:
    """Find the stretches of time and the bands that the score of a recording depends on.

        explanation = explain(Detector("network.pt"), "call.mp3")
        explanation.maps[0].cells_SB       # what each cell does for the score

    Args:
        recording, sample_rate: Recording and its rate, as in `Detector.score`.
        options: Options of the explanation; None: the defaults.
        progress: Whether to show the progress: a bar on a terminal, else lines in the log.

    Raises:
        UsageError: an option is not valid, captum is missing, gradients are requested but the
            scores are fused by rank, or the given window is beyond the end.
        AsdfError: the recording cannot be read, a score is not a finite number, or the network's
            file was changed since the detector was made.
    """
    return Explainer(detector, options or Options(), progress).explain(recording, sample_rate)


class Explainer:
    """Explains recordings one after another, with one copy of the network for all of them."""

    def __init__(self, detector: Detector, options: Options, progress: bool = False) -> None:
        """Prepare the explanation. Raises a UsageError as `explain`."""
        check_options(options)
        check_usual(detector.pipeline.audio, "An explanation of a score")
        self._detector = detector
        self._options = options
        self._progress = progress
        self.network = detector.source

    def explain(self, recording: Any, sample_rate: int | None = None) -> Explanation:
        """Explain a recording. Arguments and errors are those of `explain`."""
        named = as_recording(recording, sample_rate)
        start, waveform_T = self._find_window(named)
        grid = make_grid(len(waveform_T), self._options.stretch_s, self._options.bands_hz)
        cells = make_cells(grid, waveform_T, self._options.filler, self._options.seed)
        passes = _Passes(self._detector.pipeline.scorer, cells, self._progress)
        score, filler_score = passes.score([cells.waveform_T, cells.filler_T], "scoring")
        if not np.isfinite([score, filler_score]).all():
            raise AsdfError(
                f"{named.name}: the score of the recording or of the filler alone is not a finite "
                f"number ({score:g}, {filler_score:g}). Use the other filler."
            )
        detector = self._detector
        judged = score
        if detector.threshold is not None and detector.calibration is not None:
            # As in verdicts: the bounds of a calibration limit claims, and not decisions.
            judged = float(detector.calibration.unbounded_llr(score))
        limit = filler_score if detector.threshold is None else detector.threshold
        is_bona_fide = judged >= limit
        maps = self._checked_maps(passes, score, filler_score, 1 if is_bona_fide else -1)
        return Explanation(
            named.name,
            start / SAMPLE_RATE,
            (start + grid.samples) / SAMPLE_RATE,
            self._cuts_silence,
            score,
            filler_score,
            BONA_FIDE if is_bona_fide else SPOOF,
            self._is_clear(score),
            grid,
            passes.count,
            self._options,
            maps,
        )

    def _is_clear(self, score: float) -> bool:
        """Return whether the likelihood ratio of a raw score tells; True if it is none."""
        calibration = self._detector.calibration
        for column in self._detector.pipeline.summary.columns:
            if calibration is not None and isinstance(column, LlrColumn):
                return column.add(Heard(score, float(calibration.llr(score)))).is_clear
        return True

    @property
    def _cuts_silence(self) -> bool:
        return self._detector.settings.sad.mode != "off"

    @cached_property
    def _plain(self) -> Detector:
        """A copy of the detector with the network's own weights, in float32."""
        # Gradients need float32, and the network's own weights instead of packed ones.
        copy: Detector = copy_with(self._detector, engine="plain", precision="fp32")
        for network in copy.pipeline.scorer.networks:
            # Only for the samples: a network that detaches their gradients is detected.
            network.requires_grad_(False)
        return copy

    def _find_window(self, named: Recording) -> tuple[int, Floats]:
        """Return the first sample of the explained window, and the window as heard."""
        pipeline = self._detector.pipeline
        start_s = self._options.start_s
        if start_s is None:
            lowest = pipeline.score_whole(named).lowest
            start_s = lowest.start_s if lowest else 0.0
        start = round(start_s * SAMPLE_RATE)
        length = pipeline.max_samples
        if needs_whole_recording(pipeline.sad) or self._cuts_silence:
            speech_T = cut_to_speech(named.read_whole(), pipeline.sad)
            waveform_T = speech_T[start : start + length]
        else:
            waveform_T = _read_part(named.read_in_blocks(length), start, length)
        if len(waveform_T) == 0:
            raise UsageError(f"{named.name} ends before {start_s:g} s: choose an earlier window.")
        return start, np.asarray(waveform_T, np.float32)

    def _checked_maps(
        self, passes: _Passes, score: float, filler_score: float, sign: int
    ) -> list[Map]:
        """Return the map of each method, with the effect of replacing its marked cells."""
        options = self._options
        shape = passes.cells.grid.shape
        contributions = [self._map(method, passes, score) for method in options.methods]
        checks = self._compare_with_shuffled(contributions, passes)
        maps = []
        for (method, cells_SB, stretches_S, bands_B), check in zip(
            contributions, checks, strict=True
        ):
            marked_SB = mark(sign * cells_SB, options.marked)
            count = int(marked_SB.sum())
            # The marked cells first, then as many random ones.
            replaced = [marked_SB]
            for draw in range(options.draws):
                replaced.append(draw_cells(shape, count, options.seed, draw))
            moves = sign * passes.occlude(replaced, score, "checking the marked cells")
            removal = compare_removals(count, float(moves[0]), moves[1:])
            gap = float(cells_SB.sum()) - (score - filler_score)
            maps.append(Map(method, cells_SB, stretches_S, bands_B, marked_SB, removal, check, gap))
        return maps

    def _map(self, method: str, passes: _Passes, score: float) -> _Contributions:
        """Return contributions of cells, stretches and bands."""
        if method == "gradients":
            cells_SB = integrate(self._plain.pipeline.scorer, passes.cells, self._options.steps)
            passes.count += self._options.steps
            # Gradients are additive: a stretch is the sum of its cells.
            return method, cells_SB, cells_SB.sum(axis=1), cells_SB.sum(axis=0)
        shape = passes.cells.grid.shape
        stretches = (_choose(shape, np.s_[stretch, :]) for stretch in range(shape[0]))
        bands = (_choose(shape, np.s_[:, band]) for band in range(shape[1]))
        cells_SB = passes.occlude(_each_cell(shape), score)
        stretches_S = passes.occlude(stretches, score)
        bands_B = passes.occlude(bands, score)
        return method, cells_SB.reshape(shape), stretches_S, bands_B

    def _compare_with_shuffled(
        self, contributions: list[_Contributions], passes: _Passes
    ) -> list[WeightsCheck | None]:
        """Compare each map with those of networks with shuffled weights."""
        if self._options.shuffles == 0:
            return [None] * len(contributions)
        # A separate copy, because its weights are shuffled.
        copy: Detector = copy_with(self._detector, engine="plain", precision="fp32")
        scorer = copy.pipeline.scorer
        correlations: list[list[float]] = [[] for _ in contributions]
        for seed in range(self._options.shuffles):
            shuffle_weights(scorer.networks, self._options.seed + seed)
            shuffled = _Passes(scorer, passes.cells, self._progress)
            for known, (method, cells_SB, _, _) in zip(correlations, contributions, strict=True):
                known.append(compare_maps(cells_SB, self._shuffled_map(method, shuffled)))
            passes.count += shuffled.count
        return [WeightsCheck(tuple(known)) for known in correlations]

    def _shuffled_map(self, method: str, passes: _Passes) -> Floats:
        if method == "gradients":
            passes.count += self._options.steps
            try:
                return integrate(passes.scorer, passes.cells, self._options.steps)
            except AsdfError as error:
                if isinstance(error, UsageError):
                    raise
                # Untrained weights may overflow; then no map is similar.
                return np.full(passes.cells.grid.shape, np.nan)
        (score,) = passes.score([passes.cells.waveform_T], "scoring")
        shape = passes.cells.grid.shape
        return passes.occlude(_each_cell(shape), score, "shuffled weights").reshape(shape)


_Contributions = tuple[str, Floats, Floats, Floats]


class _Passes:
    """Scores of a recording with some cells replaced.

    Attributes:
        count: Number of waveforms that were scored.
    """

    def __init__(self, scorer: WaveformScorer, cells: Cells, progress: bool) -> None:
        self.scorer = scorer
        self.cells = cells
        self.count = 0
        self._progress = progress

    def occlude(
        self, chosen: Iterable[Flags], score: float, what: str = "replacing cells"
    ) -> Floats:
        """Return the decrease of the score for each choice of replaced cells."""
        all_chosen = list(chosen)
        # One at a time: all of them would need many times the memory of the recording.
        waveforms = map(self.cells.replace, all_chosen)
        drops: Floats = score - self.score(waveforms, what, len(all_chosen))
        return drops

    def score(self, waveforms: Iterable[Floats], what: str, total: int = 2) -> Floats:
        """Return the raw scores of waveforms, in float64."""
        groups = self._scores(iter(waveforms))
        shown = self._progress
        tracked = track(groups, total, what, shown=shown, unit="waveforms", size=len)
        scores = list(chain.from_iterable(tracked))
        self.count += len(scores)
        return np.array(scores, np.float64)

    def _scores(self, waveforms: Iterator[Floats]) -> Iterator[list[float]]:
        together = min(_HELD_WAVEFORMS, max(1, _HELD_SAMPLES // self.cells.grid.samples))
        while group := list(islice(waveforms, together)):
            yield self.scorer.score_waveforms(group).scores.tolist()


def _each_cell(shape: tuple[int, int]) -> Iterator[Flags]:
    for index in np.ndindex(shape):
        yield _choose(shape, index)


def _choose(shape: tuple[int, int], index: Any) -> Flags:
    chosen = np.zeros(shape, bool)
    chosen[index] = True
    return chosen


def _read_part(blocks: Iterable[Floats], start: int, length: int) -> Floats:
    """Return up to `length` samples from `start` on, with little additional memory."""
    parts = []
    position = 0
    for block in blocks:
        begin = max(0, start - position)
        parts.append(block[begin : max(begin, start + length - position)])
        position += len(block)
        if position >= start + length:
            break
    return np.concatenate(parts)
