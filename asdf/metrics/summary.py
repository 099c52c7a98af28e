"""All that is told of one system on one set: pooled metrics, intervals, conditions, what looks wrong.

Invariant: tables, reports and plots only render a `Summary`; no number of theirs is computed anywhere else. What cannot
be computed from what was given is None or absent, never a guess:

- the t-DCF and the t-EER need the scores of a speaker verification system (ASV), of which only how target, nontarget
  and spoof trials are distributed matters; the a-DCF would need its score of each trial of the countermeasure, fused
  with the latter's, so it is not part of a summary (see `asdf.metrics.tandem.min_a_dcf`);
- an interval over speakers needs the speaker of every trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from asdf.errors import AsdfError
from asdf.metrics.bootstrap import Intervals, confidence_intervals
from asdf.metrics.checks import Finding, find_errors, find_warnings
from asdf.metrics.conditions import Average, Condition, average, conditions_of, trials_of
from asdf.metrics.costs import min_cllr_of
from asdf.metrics.detection import Floats, eer
from asdf.metrics.known_sets import another_subset
from asdf.metrics.results import Result, evaluate
from asdf.metrics.tandem import asv_rates, min_tdcf_legacy_of, min_tdcf_of, t_eer
from asdf.trials.asv_scores import AsvScores
from asdf.trials.how_scored import NOT_KNOWN, HowScored, different_precisions
from asdf.trials.matching import columns_of
from asdf.trials.score_file import Scores
from asdf.trials.scored_length import described
from asdf.trials.trial_list import TrialList

__all__ = [
    "Average",
    "Condition",
    "Summary",
    "Tandem",
    "different_lengths",
    "different_trials",
    "known_columns",
    "mixed_precisions",
    "summarise",
]

Progress = Callable[[int, int], None]
"""Told of replicates: how many are done, of how many."""


@dataclass(frozen=True)
class Tandem:
    """What the scores of an ASV system add; the EERs are fractions.

    Attributes:
        asv_eer, asv_threshold: of target against nontarget trials; the t-DCFs are taken at this threshold.
        tdcf_2019, tdcf_2021: the least normalised t-DCF, legacy and revised.
        t_eer: the concurrent t-EER; None where no pair of thresholds has it.
    """

    asv_eer: float
    asv_threshold: float
    tdcf_2019: float
    tdcf_2021: float
    t_eer: float | None


@dataclass(frozen=True)
class Summary:
    """One system on one set.

    Attributes:
        name: of the system, or of its score file.
        set: the set's name.
        scores: with the attacks of the trials, where they are known.
        result: the pooled metrics, EER as a fraction.
        tandem: None without ASV scores.
        intervals, speaker_intervals: over trials and over speakers; None where not asked for or no speakers are known.
        conditions: column by column in the order asked for, values in alphabetical order.
        findings: warnings; errors are raised.
        scored: what is known of how the scores were computed.
    """

    name: str
    set: str
    scores: Scores
    result: Result
    auc: float
    min_cllr: float
    tandem: Tandem | None = None
    intervals: Intervals | None = None
    speaker_intervals: Intervals | None = None
    conditions: tuple[Condition, ...] = ()
    findings: tuple[Finding, ...] = ()
    scored: HowScored = NOT_KNOWN

    @property
    def tdcf_2019(self) -> float | None:
        """The legacy min t-DCF; None without ASV scores."""
        return self.tandem.tdcf_2019 if self.tandem else None

    @property
    def tdcf_2021(self) -> float | None:
        """The revised min t-DCF; None without ASV scores."""
        return self.tandem.tdcf_2021 if self.tandem else None

    @property
    def t_eer(self) -> float | None:
        """The concurrent t-EER as a fraction; None without ASV scores."""
        return self.tandem.t_eer if self.tandem else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that there are conditions of."""
        return tuple(dict.fromkeys(condition.column for condition in self.conditions))

    def of_column(self, column: str) -> tuple[Condition, ...]:
        """The conditions of one column."""
        return tuple(condition for condition in self.conditions if condition.column == column)

    def spoofs_by_attack(self) -> dict[str, Floats]:
        """Scores of the spoofs of each attack, in alphabetical order; empty where fewer than two attacks are known."""
        conditions, attacks = self.of_column("attack"), self.scores.attacks
        if attacks is None or len(conditions) < 2:
            return {}
        return {one.value: trials_of(one, self.scores, attacks)[1] for one in conditions}

    def average(self, column: str) -> Average:
        """The means over the conditions of `column`, which must be one of `columns`."""
        return average(self.of_column(column))


def summarise(
    name: str,
    set: str,
    scores: Scores,
    trials: TrialList | None = None,
    *,
    by: Sequence[str] = ("attack",),
    asv: AsvScores | None = None,
    replicates: int = 1000,
    condition_replicates: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
    scored: HowScored = NOT_KNOWN,
) -> Summary:
    """Everything that can be said of `scores` with the columns that the corpus has on its trials.

    `by` names columns; one that is not known, or has a single value, gives no conditions. `replicates` is that of each
    bootstrap, 0 for no intervals, `condition_replicates` that of the EER of each condition; the same seed gives the
    same intervals.

    Raises:
        AsdfError: a class is missing, a score is not finite, a scored trial is not among `trials` or labelled otherwise
            there, or the ASV scores leave the t-DCF undefined. The message begins with `name`.
    """
    errors = find_errors(scores.labels, scores.scores, scores.ids)
    if errors:
        raise AsdfError(f"{name}: {' '.join(error.message for error in errors)}")
    columns = known_columns(name, scores, trials)
    if any(columns.get("attack", ())):
        scores = replace(scores, columns={**scores.columns, "attack": columns["attack"]})
    findings = find_warnings(scores.det_curve)
    conditions: list[Condition] = []
    for column in dict.fromkeys(by):
        values = columns.get(column, ())
        found, left_out = conditions_of(scores, column, values)
        if condition_replicates:
            found = [
                _with_interval(one, scores, values, condition_replicates, seed) for one in found
            ]
        conditions += found
        findings += left_out
    findings += another_subset(len(scores), columns.get("subset", ()))
    speakers = columns.get("speaker", ())
    draw_speakers = replicates > 0 and all(speakers) and len(frozenset(speakers)) > 1
    told = _Told(progress, replicates * (1 + draw_speakers))
    draw = partial(confidence_intervals, scores, replicates=replicates, seed=seed, progress=told)
    return Summary(
        name=name,
        set=set,
        scores=scores,
        result=evaluate(scores),
        auc=scores.det_curve.auc(),
        min_cllr=min_cllr_of(scores.det_curve),
        tandem=_tandem(name, scores, asv) if asv else None,
        intervals=draw() if replicates else None,
        speaker_intervals=draw(speakers=speakers) if draw_speakers else None,
        conditions=tuple(conditions),
        findings=tuple(findings),
        scored=scored,
    )


def different_trials(summaries: Sequence[Summary]) -> list[Finding]:
    """A warning where systems on one set were scored on different numbers of its trials."""
    sizes = sorted({(one.result.bona_fide, one.result.spoof) for one in summaries})
    if len(sizes) < 2:
        return []
    told = ", ".join(f"{bona_fide} + {spoof}" for bona_fide, spoof in sizes)
    words = f"the systems were scored on different trials (bona fide + spoof: {told}), so their numbers cannot be "
    return [Finding("warning", f"{words}compared.")]


def different_lengths(summaries: Sequence[Summary]) -> list[Finding]:
    """A warning where systems on one set are known to be scored from different lengths of its recordings."""
    lengths = (one.scored.length for one in summaries)
    known = list(dict.fromkeys(length for length in lengths if length is not None))
    if len(known) < 2 or all(one.agrees_with(known[0]) for one in known):
        return []
    named = "; ".join(described(one) for one in known)
    words = f"the systems were scored from different lengths of the recordings ({named}), so their"
    return [Finding("warning", f"{words} numbers cannot be compared.")]


def mixed_precisions(summaries: Sequence[Summary]) -> list[Finding]:
    """A remark where systems on one set were scored in different precisions."""
    named = different_precisions(one.scored for one in summaries)
    if not named:
        return []
    words = (
        f"the systems were scored in different precisions ({named}), which moves scores a little"
    )
    return [Finding("warning", f"{words}: score all in fp32 where a small difference counts.")]


def known_columns(
    name: str, scores: Scores, trials: TrialList | None
) -> Mapping[str, Sequence[str]]:
    """The columns of the scored trials, in the order of `scores`; the score file's attacks where `trials` has none.

    Raises:
        AsdfError: see `columns_of`.
    """
    found = dict(columns_of(name, scores, trials)) if trials is not None else {}
    if scores.attacks is not None and not any(found.get("attack", ())):
        found["attack"] = scores.attacks
    return found


def _with_interval(
    condition: Condition, scores: Scores, values: Sequence[str], replicates: int, seed: int
) -> Condition:
    bona_fide, spoof = trials_of(condition, scores, values)
    labels = np.repeat([1, 0], [bona_fide.size, spoof.size])
    own = Scores([""] * labels.size, labels, np.concatenate([bona_fide, spoof]))
    drawn = confidence_intervals(own, replicates=replicates, seed=seed)
    return replace(condition, interval=drawn.eer)


def _tandem(name: str, scores: Scores, asv: AsvScores) -> Tandem:
    rate, threshold = eer(asv.target, asv.nontarget)
    rates = asv_rates(asv)
    try:
        # The countermeasure sees utterances, not claims of identity: targets and nontargets are its bona fide trials.
        concurrent = t_eer(asv, AsvScores(scores.bona_fide, np.empty(0), scores.spoof))
    except AsdfError:
        concurrent = None
    try:
        return Tandem(
            asv_eer=rate,
            asv_threshold=threshold,
            tdcf_2019=min_tdcf_legacy_of(scores.det_curve, rates),
            tdcf_2021=min_tdcf_of(scores.det_curve, rates),
            t_eer=concurrent,
        )
    except AsdfError as error:
        raise AsdfError(f"{name}: {error}") from None


class _Told:
    """Counts the replicates of all bootstraps of a summary together."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, replicates: int) -> None:
        self._done += replicates
        if self._progress is not None:
            self._progress(self._done, self._total)
