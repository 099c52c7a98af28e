"""Maps of what a score depends on, with checks of each: the explanation of one window.

Invariant: a recording is explained by the detector that scores it, with its weights, its precision
and its length rules; gradients and shuffled weights are those of a copy, so that the detector is
unchanged. The number of passes depends only on the options and the length. Every random draw
depends only on the seed, so that a recording always gets the same checks. Integrated gradients
(Sundararajan et al., 2017) sum to the score minus that of the filler, up to the error of the
integral, which is stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import nn

from asdf.arrays import Flags, Floats
from asdf.audio import cut_to_speech
from asdf.audio.speech import needs_whole_recording
from asdf.errors import AsdfError, UsageError
from asdf.extras.forensic.why.cells import Cells, make_cells, make_grid
from asdf.extras.forensic.why.explanation import (
    Explanation,
    Map,
    Options,
    Removal,
    WeightsCheck,
    check_options,
)
from asdf.facts import SAMPLE_RATE
from asdf.metrics.score_checks import rank_correlation
from asdf.runs.log import track
from asdf.runs.seeds import derived_seed, generator
from asdf.scoring.columns import Heard, LlrColumn
from asdf.scoring.detector import Detector
from asdf.scoring.opened_network import copy_with
from asdf.scoring.recordings import Recording, as_recording
from asdf.scoring.scored import BONA_FIDE, SPOOF
from asdf.scoring.scorer import check_usual
from asdf.scoring.waveform_scorer import WaveformScorer

# Samples of waveforms in memory together: 64 MiB, few enough for visible progress.
_HELD_SAMPLES = 2**24
_HELD_WAVEFORMS = 16
# Of passes with gradients, which hold all layers of a network.
_HELD_WITH_GRADIENTS = 2**18


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
        # Whether the likelihood ratio tells, if it is one.
        is_clear = True
        for column in detector.pipeline.summary.columns:
            if detector.calibration is not None and isinstance(column, LlrColumn):
                heard = Heard(score, float(detector.calibration.llr(score)))
                is_clear = column.add(heard).is_clear
                break
        maps = self._checked_maps(passes, score, filler_score, 1 if is_bona_fide else -1)
        return Explanation(
            named.name,
            start / SAMPLE_RATE,
            (start + grid.samples) / SAMPLE_RATE,
            self._cuts_silence,
            score,
            filler_score,
            BONA_FIDE if is_bona_fide else SPOOF,
            is_clear,
            grid,
            passes.count,
            self._options,
            maps,
        )

    @property
    def _cuts_silence(self) -> bool:
        return self._detector.settings.sad.mode != "off"

    @cached_property
    def _plain(self) -> WaveformScorer:
        """The scorer of a copy of the detector with the network's own weights, in float32."""
        # Gradients need float32, and the network's own weights instead of packed ones.
        copy: Detector = copy_with(self._detector, engine="plain", precision="fp32")
        for network in copy.pipeline.scorer.networks:
            # Only for the samples: a network that detaches their gradients is detected.
            network.requires_grad_(False)
        return copy.pipeline.scorer

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
        contributions = []
        for method in options.methods:
            cells_SB = self._cells(method, passes, score)
            if method == "gradients":
                # Gradients are additive: a stretch is the sum of its cells.
                stretches_S, bands_B = cells_SB.sum(axis=1), cells_SB.sum(axis=0)
            else:
                stretches = (_choose(shape, np.s_[stretch, :]) for stretch in range(shape[0]))
                bands = (_choose(shape, np.s_[:, band]) for band in range(shape[1]))
                stretches_S = passes.occlude(stretches, score)
                bands_B = passes.occlude(bands, score)
            contributions.append((method, cells_SB, stretches_S, bands_B))
        correlations = self._compare_with_shuffled(
            [(method, cells_SB) for method, cells_SB, _, _ in contributions], passes
        )
        maps = []
        for (method, cells_SB, stretches_S, bands_B), known in zip(
            contributions, correlations, strict=True
        ):
            check = WeightsCheck(tuple(known)) if known else None
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

    def _cells(
        self, method: str, passes: _Passes, score: float, what: str = "replacing cells"
    ) -> Floats:
        """Return the contribution of each cell to the score of the passes' network."""
        if method == "gradients":
            passes.count += self._options.steps
            return integrate(passes.plain or self._plain, passes.cells, self._options.steps)
        shape = passes.cells.grid.shape
        each = (_choose(shape, index) for index in np.ndindex(shape))
        return passes.occlude(each, score, what).reshape(shape)

    def _compare_with_shuffled(
        self, contributions: list[tuple[str, Floats]], passes: _Passes
    ) -> list[list[float]]:
        """Return the correlations of each map with those of networks with shuffled weights."""
        correlations: list[list[float]] = [[] for _ in contributions]
        if self._options.shuffles == 0:
            return correlations
        # A separate copy, because its weights are shuffled.
        copy: Detector = copy_with(self._detector, engine="plain", precision="fp32")
        scorer = copy.pipeline.scorer
        for seed in range(self._options.shuffles):
            shuffle_weights(scorer.networks, self._options.seed + seed)
            shuffled = _Passes(scorer, passes.cells, self._progress, scorer)
            for known, (method, cells_SB) in zip(correlations, contributions, strict=True):
                score = 0.0
                if method == "occlusion":
                    (score,) = shuffled.score([passes.cells.waveform_T], "scoring")
                try:
                    other_SB = self._cells(method, shuffled, score, "shuffled weights")
                except UsageError:
                    raise
                except AsdfError:
                    # Untrained weights may overflow; then no map is similar.
                    other_SB = np.full(cells_SB.shape, np.nan)
                known.append(compare_maps(cells_SB, other_SB))
            passes.count += shuffled.count
        return correlations


class _Passes:
    """Scores of a recording with some cells replaced.

    Attributes:
        count: Number of waveforms that were scored.
        plain: Scorer for gradients; None: that of the explainer.
    """

    def __init__(
        self,
        scorer: WaveformScorer,
        cells: Cells,
        progress: bool,
        plain: WaveformScorer | None = None,
    ) -> None:
        self.scorer = scorer
        self.plain = plain
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
        remaining = iter(waveforms)
        together = min(_HELD_WAVEFORMS, max(1, _HELD_SAMPLES // self.cells.grid.samples))
        held = iter(lambda: list(islice(remaining, together)), [])
        groups = (self.scorer.score_waveforms(group).scores.tolist() for group in held)
        shown = self._progress
        tracked = track(groups, total, what, shown=shown, unit="waveforms", size=len)
        scores = list(chain.from_iterable(tracked))
        self.count += len(scores)
        return np.array(scores, np.float64)


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


def integrate(scorer: WaveformScorer, cells: Cells, steps: int) -> Floats:
    """Return the contribution of each cell to the score, from filler to recording: (S, B).

    Args:
        scorer: Scorer with the engine 'plain'.
        steps: Number of points of the Gauss-Legendre rule at which gradients are computed.

    Raises:
        UsageError, AsdfError: as `WaveformScorer.score_with_gradients`; or a gradient is not a
            finite number.
    """
    from captum.attr import IntegratedGradients

    waveform_1T = torch.from_numpy(cells.waveform_T).to(scorer.device)[None]
    filler_1T = torch.from_numpy(cells.filler_T).to(scorer.device)[None]
    # Without multiplication by the difference of the ends, whose cells are multiplied here.
    integrated = IntegratedGradients(scorer.score_with_gradients, multiply_by_inputs=False)
    gradient_1T = integrated.attribute(
        waveform_1T,
        baselines=filler_1T,
        n_steps=steps,
        method="gausslegendre",
        internal_batch_size=max(1, _HELD_WITH_GRADIENTS // waveform_1T.shape[1]),
    )
    # float64, since a cell sums over all samples of the window.
    gradient_T = gradient_1T[0].detach().double().cpu().numpy()
    if not np.isfinite(gradient_T).all():
        raise AsdfError(
            "the gradient of the score is not a finite number somewhere between the filler and "
            "the recording. Use the filler 'noise', or occlusion."
        )
    return cells.project(gradient_T)


def compare_removals(cells: int, marked: float, random_R: Floats) -> Removal:
    """Compare the change of the marked cells with those of random ones.

    The p-value is that of a permutation test, (1 + draws at least as large) / (1 + draws).
    """
    low, high = np.quantile(random_R, [0.025, 0.975]).tolist()
    larger = int((random_R >= marked).sum())
    draws = len(random_R)
    p_value = (1 + larger) / (1 + draws)
    return Removal(cells, marked, float(random_R.mean()), low, high, draws, p_value)


def mark(contributions_SB: Floats, share: float) -> Flags:
    """Return the cells with the highest contributions: `share` of all, at least one."""
    count = max(1, round(share * contributions_SB.size))
    # Stable: of equal contributions, the earlier and lower cells are marked.
    order = np.argsort(-contributions_SB, axis=None, kind="stable")
    marked = np.zeros(contributions_SB.size, bool)
    marked[order[:count]] = True
    return marked.reshape(contributions_SB.shape)


def draw_cells(shape: tuple[int, int], count: int, seed: int, draw: int) -> Flags:
    """Return `count` random cells."""
    rng = generator(seed, "random cells", draw)
    chosen = np.zeros(shape, bool)
    chosen.flat[rng.choice(chosen.size, count, replace=False)] = True
    return chosen


def shuffle_weights(networks: Sequence[nn.Module], seed: int) -> None:
    """Shuffle the weights of each tensor within it, in place; other values are unchanged."""
    source = torch.Generator().manual_seed(derived_seed(seed, "shuffled weights"))
    with torch.no_grad():
        for network in networks:
            for weights in network.parameters():
                # Drawn on the CPU, so that all devices shuffle alike.
                order = torch.randperm(weights.numel(), generator=source).to(weights.device)
                weights.copy_(weights.flatten()[order].reshape(weights.shape))


def compare_maps(first_SB: Floats, second_SB: Floats) -> float:
    """Return the rank correlation of the absolute contributions; 0 if undefined."""
    if not np.isfinite(second_SB).all():
        return 0.0
    absolute = [np.abs(part).ravel().tolist() for part in (first_SB, second_SB)]
    return rank_correlation(*absolute) or 0.0
