"""Metrics of spoofing-robust speaker verification (SASV), and one score from those of two systems.

Invariant: metrics of a single score per trial use the SASV scores, tandem metrics the scores of
both systems, and metrics without scores are None. The values equal those of the package of ASVspoof
5 (`a_dcf.py`, `compute_teer`, `compute_tDCF`); rates are fractions.

    a-DCF      see `asdf.metrics.tandem.min_a_dcf`
    SASV-EER   targets against nontargets and spoofs, SV-EER against nontargets, SPF-EER against
               spoofs: Jung et al., "SASV 2022: the first spoofing-aware speaker verification
               challenge", Interspeech 2022; here without interpolation, as everywhere
    t-EER      concurrent: see `asdf.metrics.tandem.t_eer`
    min t-DCF  of the CM scores with the ASV rates that ASVspoof 5 published for its track 2

The scores of a countermeasure (CM) and of speaker verification (ASV) are fused with parameters that
are fitted on a development set, never on the scores that are fused:

    nonlinear   -log((1 - r) exp(-ASV LLR) + r exp(-CM LLR)): the log-likelihood ratio of a target
                against impostors of which the share r are spoofs. Wang et al., "Revisiting and
                improving scoring fusion for spoofing-aware speaker verification using
                compositional data analysis", Interspeech 2024
    linear      ASV LLR + CM LLR
    sum         of the scores as they are, as baseline 1 of SASV 2022; nothing is fitted

The LLRs are affine maps of the scores (see `asdf.metrics.calibration`). The map of ASV scores is
fitted on targets against nontargets, that of CM scores on targets and nontargets against spoofs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from asdf.arrays import Flags, Floats
from asdf.errors import AsdfError, UsageError
from asdf.metrics.bootstrap import replicate_eer, times_drawn
from asdf.metrics.detection import Counts, DetCurve, eer, into_blocks
from asdf.metrics.intervals import Interval, Rates, lowest_interval, rate_interval
from asdf.metrics.llr_maps import describe_affine, fit_llr
from asdf.metrics.tandem import (
    ASVSPOOF5_ASV,
    TANDEM,
    TandemCost,
    TandemPath,
    min_a_dcf,
    min_tdcf,
    t_eer_path,
)
from asdf.tasks.sasv.sasv_files import KINDS, NONTARGET, SPOOF, TARGET, SasvScores
from asdf.trials.score_file import AsvScores

DRAWN = ("a_dcf", "sasv_eer", "sv_eer", "spf_eer")
"""Metrics that have intervals."""

Kinds = tuple[Floats, Floats, Floats]
"""Scores of target, nontarget and spoof trials."""
FUSIONS = ("nonlinear", "linear", "sum")


@dataclass(frozen=True)
class SasvResult:
    """The metrics of one system on some trials; None for metrics without scores.

    Attributes:
        act_a_dcf: Normalised a-DCF at the Bayes threshold of log-likelihood ratios.
    """

    target: int
    nontarget: int
    spoof: int
    a_dcf: float | None = None
    a_dcf_threshold: float | None = None
    act_a_dcf: float | None = None
    sasv_eer: float | None = None
    sv_eer: float | None = None
    spf_eer: float | None = None
    t_eer: float | None = None
    t_eer_asv_threshold: float | None = None
    t_eer_cm_threshold: float | None = None
    min_tdcf: float | None = None
    asv_eer: float | None = None
    cm_eer: float | None = None


@dataclass(frozen=True)
class SasvCondition:
    """The result for one value of one column."""

    column: str
    value: str
    result: SasvResult


@dataclass(frozen=True)
class SasvSummary:
    """One system on one set.

    Attributes:
        intervals, speaker_intervals: Intervals of the metrics in `DRAWN`, over trials and over
            claimed speakers; empty if not requested, or with a single speaker.
        left_out: Values that lack a kind of trials, by column.
    """

    name: str
    result: SasvResult
    cost: TandemCost
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    speaker_intervals: Mapping[str, Interval] = field(default_factory=dict)
    conditions: tuple[SasvCondition, ...] = ()
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)


def bayes_threshold(cost: TandemCost) -> float:
    """Return the threshold on the log-likelihood ratio of targets against all impostors."""
    return float(np.log((cost.nontarget_weight + cost.spoof_weight) / cost.target_weight))


def act_a_dcf(kinds: Kinds, cost: TandemCost) -> float:
    """Return the normalised a-DCF at the Bayes threshold; `kinds` are log-likelihood ratios."""
    target, nontarget, spoof = kinds
    threshold = bayes_threshold(cost)
    paid = cost.target_weight * np.mean(target < threshold)
    paid += cost.nontarget_weight * np.mean(nontarget >= threshold)
    paid += cost.spoof_weight * np.mean(spoof >= threshold)
    # As for min a-DCF, the better of accepting and rejecting every trial costs 1.
    return float(paid / min(cost.target_weight, cost.nontarget_weight + cost.spoof_weight))


def sasv_result(
    scores: SasvScores,
    cost: TandemCost = TANDEM,
    chosen: Flags | None = None,
    *,
    are_llrs: bool = False,
) -> SasvResult:
    """Return the metrics of scored trials with known kinds.

    Args:
        chosen: Mask of the trials to use, (trials,), with each kind among them; None: all.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import SasvScores, SasvTrials, sasv_result
        >>> kinds = np.array([0, 0, 1, 1, 2, 2], np.int8)  # target, nontarget, spoof
        >>> trials = SasvTrials(["S1"] * 6, list("abcdef"), kinds)
        >>> asv = np.array([3.0, 2.0, -1.0, 0.0, 2.5, 1.0])
        >>> cm = np.array([2.0, 1.0, 1.5, 0.5, -1.0, -2.0])
        >>> result = sasv_result(SasvScores(trials, cm, asv))
        >>> result.asv_eer, result.cm_eer, result.spoof
        (0.0, 0.0, 2)
    """
    kinds = scores.trials.kinds
    if kinds is None:
        raise ValueError("the kinds of the trials are not known")
    counted = kinds if chosen is None else kinds[chosen]
    values: dict[str, float] = {}
    if scores.sasv is not None:
        target, nontarget, spoof = scores.by_kind("sasv", chosen)
        values["a_dcf"], values["a_dcf_threshold"] = min_a_dcf(target, nontarget, spoof, cost)
        values["sasv_eer"] = eer(target, np.concatenate([nontarget, spoof]))[0]
        values["sv_eer"] = eer(target, nontarget)[0]
        values["spf_eer"] = eer(target, spoof)[0]
        if are_llrs:
            values["act_a_dcf"] = act_a_dcf((target, nontarget, spoof), cost)
    if scores.asv is not None:
        target, nontarget, _ = scores.by_kind("asv", chosen)
        values["asv_eer"] = eer(target, nontarget)[0]
    if scores.cm is not None:
        target, nontarget, spoof = scores.by_kind("cm", chosen)
        # To a countermeasure, targets and nontargets alike are bona fide.
        speech = np.concatenate([target, nontarget])
        values["cm_eer"] = eer(speech, spoof)[0]
        values["min_tdcf"] = min_tdcf(speech, spoof, ASVSPOOF5_ASV)
    if scores.asv is not None and scores.cm is not None:
        # If no pair of thresholds has equal rates, the other metrics are defined nevertheless.
        with suppress(AsdfError):
            point = tandem_path(scores, chosen).concurrent()
            values["t_eer"] = point.rate
            values["t_eer_asv_threshold"] = point.asv_threshold
            values["t_eer_cm_threshold"] = point.cm_threshold
    sizes = [int((counted == kind).sum()) for kind in (TARGET, NONTARGET, SPOOF)]
    return SasvResult(sizes[0], sizes[1], sizes[2], **values)


def tandem_path(scores: SasvScores, chosen: Flags | None = None) -> TandemPath:
    """Return the t-EER path of scores of both systems."""
    target, nontarget, spoof = scores.by_kind("cm", chosen)
    speech = np.concatenate([target, nontarget])
    asv = AsvScores(*scores.by_kind("asv", chosen))
    return t_eer_path(asv, DetCurve.of(speech, spoof))


def summarise_sasv(
    name: str,
    scores: SasvScores,
    *,
    cost: TandemCost = TANDEM,
    by: Sequence[str] = (),
    replicates: int = 0,
    are_llrs: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SasvSummary:
    """Return the metrics of a system, by condition and with intervals.

    Args:
        by: Columns of the trials to break the results down by. In 'attack', and other columns with
            values only for spoofs, the spoofs of each value are combined with all targets and
            nontargets.
        replicates: Number of replicates of each bootstrap; 0: no intervals.
        are_llrs: Whether the SASV scores are log-likelihood ratios, so that act_a_dcf means
            something.
        progress: Function called with the numbers of finished and of all replicates.
    """
    intervals: dict[str, Interval] = {}
    speaker_intervals: dict[str, Interval] = {}
    result = sasv_result(scores, cost, are_llrs=are_llrs)
    if replicates and scores.sasv is not None:
        bootstrap = _Bootstrap(scores, cost, result, progress)
        intervals = bootstrap.intervals(replicates, over_speakers=False)
        if len(set(scores.trials.speakers)) > 1:
            speaker_intervals = bootstrap.intervals(replicates, over_speakers=True)
    conditions: list[SasvCondition] = []
    left_out: dict[str, list[str]] = {}
    kinds = np.asarray(scores.trials.kinds)
    is_spoof = kinds == SPOOF
    for column in by:
        values = np.asarray(scores.trials.columns[column])
        of_spoofs, others = (set(values[kind].tolist()) for kind in (is_spoof, ~is_spoof))
        is_of_spoofs_alone = of_spoofs.isdisjoint(others)
        for value in sorted((of_spoofs if is_of_spoofs_alone else of_spoofs | others) - {""}):
            chosen = values == value
            if is_of_spoofs_alone:
                chosen |= ~is_spoof
            if len(set(kinds[chosen].tolist())) < len(KINDS):
                left_out.setdefault(column, []).append(value)
                continue
            of_value = sasv_result(scores, cost, chosen, are_llrs=are_llrs)
            conditions.append(SasvCondition(column, value, of_value))
    drawn = (intervals, speaker_intervals)
    return SasvSummary(name, result, cost, *drawn, tuple(conditions), left_out)


class _Bootstrap:
    """Bootstrap replicates of the trials of one system.

    A replicate is the number of times each trial is drawn. As in `asdf.metrics.detection`, sorted
    trials are grouped into blocks, first targets and then impostors: the lowest a-DCF lies between
    two blocks.
    """

    def __init__(
        self,
        scores: SasvScores,
        cost: TandemCost,
        result: SasvResult,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._cost = cost
        self._result = result
        self._progress = progress
        self._kinds = scores.trials.kinds
        target, nontarget, spoof = scores.by_kind("sasv")
        self._sizes = (target.size, nontarget.size, spoof.size)
        impostors = np.concatenate([nontarget, spoof])
        self._all = into_blocks(DetCurve.of(target, impostors))
        self._nontargets = into_blocks(DetCurve.of(target, nontarget))
        self._spoofs = into_blocks(DetCurve.of(target, spoof))
        names, index = np.unique(np.asarray(scores.trials.speakers), return_inverse=True)
        self._speakers = names.size
        self._speaker_of = [index[self._kinds == kind] for kind in (TARGET, NONTARGET, SPOOF)]
        weights = np.array([cost.target_weight, cost.nontarget_weight, cost.spoof_weight])
        # Normalised, so that the better of accepting and rejecting every trial costs 1.
        self._weights: Floats = weights / min(weights[0], weights[1:].sum())
        # Each trial once gives the rates of the set itself.
        rates = self._rates(*(np.ones(size, np.int64) for size in self._sizes))
        self._best = int(np.argmin(self._weights @ rates))
        self._best_rates = rates[:, self._best]

    def intervals(self, replicates: int, *, over_speakers: bool) -> dict[str, Interval]:
        """Return the intervals of the metrics in `DRAWN`."""
        rng = np.random.default_rng(0)
        drawn = []
        at_best = []
        for done in range(1, replicates + 1):
            weights = self._draw(rng, over_speakers=over_speakers)
            rates = self._rates(*weights)
            at_best.append(rates[:, self._best])
            drawn.append([float((self._weights @ rates).min()), *self._eers(*weights)])
            if self._progress is not None:
                self._progress(done, replicates)
        groups = None
        if over_speakers:
            # The kind with the fewest speakers limits what is known about other speakers.
            groups = max(2, min(np.unique(speakers).size for speakers in self._speaker_of))
        a_dcfs, *eers = np.array(drawn).T
        of_best = Rates(
            values=self._best_rates,
            weights=self._weights,
            trials=np.array(self._sizes, np.float64),
            # Independent trials have binomial rates, and `Rates` needs no draws of them.
            drawn=np.array(at_best).T if over_speakers else None,
        )
        lowest = getattr(self._result, DRAWN[0])
        intervals = {DRAWN[0]: lowest_interval(lowest, a_dcfs, of_best, groups=groups)}
        fewest = min(self._sizes)
        for name, values in zip(DRAWN[1:], eers, strict=True):
            rate = getattr(self._result, name)
            intervals[name] = rate_interval(rate, values, trials=fewest, groups=groups)
        return intervals

    def _draw(self, rng: np.random.Generator, *, over_speakers: bool) -> list[Counts]:
        """Return the number of times each trial is drawn, by kind."""
        if not over_speakers:
            return [times_drawn(size, rng) for size in self._sizes]
        while True:
            times = times_drawn(self._speakers, rng)
            weights = [times[speakers] for speakers in self._speaker_of]
            # A draw that lacks a kind of trials has no a-DCF and is repeated.
            if all(counts.any() for counts in weights):
                return weights

    def _eers(self, target: Counts, nontarget: Counts, spoof: Counts) -> list[float]:
        """Return the EERs of `DRAWN` for one replicate, from the counts of its trials."""
        sums = (
            self._all.sums(target, np.concatenate([nontarget, spoof])),
            self._nontargets.sums(target, nontarget),
            self._spoofs.sums(target, spoof),
        )
        return list(map(replicate_eer, sums))

    def _rates(self, target: Counts, nontarget: Counts, spoof: Counts) -> Floats:
        """Return miss, false alarm and spoof false alarm rates of a replicate, (3, blocks + 1)."""
        # Among the impostors of all blocks, nontargets come first.
        of_impostors = np.split(self._all.of_spoof, [nontarget.size])
        rejected = []
        for blocks, counts in zip(
            (self._all.of_bona_fide, *of_impostors), (target, nontarget, spoof), strict=True
        ):
            # The share of trials in the first 0, 1, ... blocks.
            totals = np.cumsum(np.append(0.0, np.bincount(blocks, counts, self._all.count)))
            rejected.append(totals / totals[-1])
        return np.stack([rejected[0], 1 - rejected[1], 1 - rejected[2]])


@dataclass(frozen=True)
class SasvFusion:
    """A fusion with its fitted parameters: LLR = scale * score + offset for each system.

    Attributes:
        kind: Name in `FUSIONS`.
        spoof_share: Share r of spoofs among impostors, for the nonlinear fusion.
    """

    kind: str
    asv_scale: float = 1.0
    asv_offset: float = 0.0
    cm_scale: float = 1.0
    cm_offset: float = 0.0
    spoof_share: float | None = None

    @property
    def are_llrs(self) -> bool:
        """Whether the fused scores are a log-likelihood ratio of targets against impostors."""
        return self.kind == "nonlinear"

    def fuse(self, asv: Floats, cm: Floats) -> Floats:
        """Return the fused scores of trials, (trials,)."""
        asv_llr = self.asv_scale * asv + self.asv_offset
        cm_llr = self.cm_scale * cm + self.cm_offset
        if self.spoof_share is None:
            total: Floats = asv_llr + cm_llr
            return total
        # The logarithm of a share of 0 is minus infinity: there are no impostors of that kind.
        with np.errstate(divide="ignore"):
            nontargets = np.log1p(-self.spoof_share) - asv_llr
            spoofs = np.log(self.spoof_share) - cm_llr
        # The exponential of a very negative LLR would overflow.
        fused: Floats = -np.logaddexp(nontargets, spoofs)
        return fused

    def apply(self, scores: SasvScores) -> SasvScores:
        """Return the scores with the fused ones as SASV scores.

        Raises:
            AsdfError: a system has no scores.
        """
        if scores.asv is None or scores.cm is None:
            raise AsdfError(
                "a fusion needs the scores of both systems: columns cm-score and asv-score, or "
                "two score files with --asv-scores."
            )
        fused = self.fuse(scores.asv, scores.cm)
        return SasvScores(scores.trials, cm=scores.cm, asv=scores.asv, sasv=fused)

    def describe(self) -> str:
        """Return the fusion in words."""
        if self.kind == "sum":
            return "CM score + ASV score"
        maps = (
            f"ASV LLR = {describe_affine(self.asv_scale, self.asv_offset)}, "
            f"CM LLR = {describe_affine(self.cm_scale, self.cm_offset)}"
        )
        if self.spoof_share is None:
            return f"ASV LLR + CM LLR, {maps}"
        return f"-log((1 - r) exp(-ASV LLR) + r exp(-CM LLR)), r = {self.spoof_share:.6g}, {maps}"


def fit_fusion(kind: str, development: SasvScores | None, cost: TandemCost = TANDEM) -> SasvFusion:
    """Fit a fusion on the scores of both systems on a development set with known kinds.

    Args:
        kind: Name in `FUSIONS`.
        development: Scores of a development set; not needed for the sum.
        cost: Costs and priors, which determine the share of spoofs among impostors: the fused score
            has the lowest expected a-DCF if the LLRs are correct.

    Raises:
        UsageError: no development set.
        AsdfError: a system has no scores in the set, or higher scores do not mean targets.
    """
    if kind not in FUSIONS:
        raise ValueError(f"{kind!r} is not one of {FUSIONS}")
    if kind == "sum":
        return SasvFusion(kind)
    if development is None:
        raise UsageError(
            f"the {kind} fusion is fitted on a development set: name its scores and keys, or take "
            "the fusion 'sum', which fits nothing."
        )
    if development.asv is None or development.cm is None:
        raise AsdfError(
            "the development set has no scores of both systems: columns cm-score and asv-score."
        )
    target, nontarget, _ = development.by_kind("asv")
    speech, speech_too, spoof = development.by_kind("cm")
    fitted = []
    for system, positive, negative in (
        ("ASV", target, nontarget),
        ("CM", np.concatenate([speech, speech_too]), spoof),
    ):
        try:
            fitted.append(fit_llr(positive, negative))
        except AsdfError as error:
            raise AsdfError(f"{system} scores of the development set: {error}") from None
    share = None
    if kind == "nonlinear":
        share = cost.spoof_weight / (cost.nontarget_weight + cost.spoof_weight)
    asv, cm = fitted
    return SasvFusion(kind, *asv, *cm, share)
