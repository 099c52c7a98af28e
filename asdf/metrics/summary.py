"""Everything reported about a system on a set: metrics, intervals, conditions, warnings.

Invariant: tables, reports and plots only render a `Summary`; none of their numbers is computed
elsewhere, and the pooled trials are sorted once for all of them. Results that cannot be computed
from the arguments are None or absent, never guessed:

- the t-DCF and the t-EER need the scores of a speaker verification system (ASV), but only their
  distributions over target, nontarget and spoof trials; the a-DCF would need its score of each
  trial of the countermeasure, fused with the countermeasure's, so it is not part of a summary (see
  `asdf.metrics.tandem.min_a_dcf`);
- an interval over speakers needs the speaker of every trial.

Of several systems, the lowest number alone is never called the best. A system leads only if the
paired bootstrap, over speakers if they are known, shows at 5 % that the next one is worse on the
same trials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.metrics.bootstrap import SIGNIFICANT, Intervals, confidence_intervals, paired_test
from asdf.metrics.decisions import Decisions, Threshold, decide, find_turned
from asdf.metrics.detection import ASVSPOOF5, DetCurve, DetectionCost, eer, min_cllr_of
from asdf.metrics.results import (
    Average,
    Condition,
    Result,
    average_decisions,
    conditions_of,
    joined_columns,
    result_of,
    trials_of,
)
from asdf.metrics.score_checks import Finding, alike, another_subset, find_errors, find_warnings
from asdf.metrics.tandem import asv_rates_at, min_tdcf_legacy_of, min_tdcf_of, t_eer_of
from asdf.tables.table import each
from asdf.trials.how_scored import NOT_KNOWN, HowScored, different_precisions, different_recordings
from asdf.trials.matching import columns_of
from asdf.trials.score_file import AsvScores, Scores
from asdf.trials.trial_list import TrialList, bare_name, known_speakers

Progress = Callable[[int, int], None]
"""A function called with the numbers of finished and of all replicates."""
TESTED = ("eer", "min_dcf")
"""Metrics that `paired_test` compares."""


@dataclass(frozen=True)
class Tandem:
    """The results with an ASV system's scores; the EERs are fractions.

    Attributes:
        asv_eer, asv_threshold: EER and threshold of target against nontarget trials; the t-DCFs are
            taken at this threshold.
        tdcf_2019, tdcf_2021: Minimum of the normalised t-DCF, legacy and revised.
        t_eer: Concurrent t-EER; None if no pair of thresholds has it.
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
        name: Name of the system, or of its score file.
        set: Name of the set.
        scores: Scores with the attacks of the trials, if they are known.
        curve: DET curve of `scores`.
        result: Pooled metrics, with the EER as a fraction.
        tandem: Results with ASV scores; None without them.
        intervals, speaker_intervals: Intervals over trials and over speakers; None if they were not
            requested or no speakers are known.
        conditions: Conditions, column by column in the requested order, with values sorted.
        findings: Warnings about the scores; errors are raised.
        scored: Information on the computation of the scores, as far as it is known.
        decisions: Decisions at a threshold chosen elsewhere; None without one.
        is_hard: Whether the scores are only decisions, 1 and 0, for which only metrics of decisions
            are meaningful.
        cost: Costs of minDCF and actDCF.
        trials: Key of the trials and their labels; None: that of `scores`.
    """

    name: str
    set: str
    scores: Scores
    curve: DetCurve
    result: Result
    auc: float
    min_cllr: float
    tandem: Tandem | None = None
    intervals: Intervals | None = None
    speaker_intervals: Intervals | None = None
    conditions: tuple[Condition, ...] = ()
    findings: tuple[Finding, ...] = ()
    scored: HowScored = NOT_KNOWN
    decisions: Decisions | None = None
    is_hard: bool = False
    cost: DetectionCost = ASVSPOOF5
    trials: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that have conditions."""
        return tuple(dict.fromkeys(condition.column for condition in self.conditions))

    def of_column(self, column: str) -> tuple[Condition, ...]:
        """Return the conditions of one column."""
        return tuple(condition for condition in self.conditions if condition.column == column)

    def spoofs_by_attack(self) -> dict[str, Floats]:
        """Return the scores of the spoofs of each attack, in alphabetical order.

        The result is empty if fewer than two attacks are known.
        """
        conditions = self.of_column("attack")
        attacks = self.scores.attacks
        if attacks is None or len(conditions) < 2:
            return {}
        return {one.value: trials_of(one, self.scores, attacks)[1] for one in conditions}

    def without_trials(self) -> Summary:
        """Return the summary without its scores and curve, which take most of its memory."""
        nothing = np.empty(0)
        curve = DetCurve(nothing, nothing, np.empty(0, np.intp), nothing, nothing, nothing)
        scores = Scores([], np.empty(0, np.int8), nothing)
        return replace(self, scores=scores, curve=curve, trials=_trials_key(self))

    def average(self, column: str) -> Average:
        """Return the means over the conditions of `column`, which must be one of `columns`."""
        return Average.of(self.of_column(column))

    def average_decisions(self, column: str) -> dict[str, float]:
        """Return the means of the metrics of decisions by name; empty without decisions."""
        return average_decisions(self.of_column(column))


# Options with defaults, by keyword: a caller names the few that it needs.
def summarise(  # noqa: PLR0913
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
    threshold: Threshold | None = None,
    is_hard: bool = False,
    cost: DetectionCost = ASVSPOOF5,
) -> Summary:
    """Summarise `scores`, with the columns of its corpus's trials.

    Args:
        by: Columns to break down by; an unknown column, or one with a single value, gives no
            conditions. A name such as 'gender+language' joins both.
        replicates: Number of replicates of each bootstrap; 0 for no intervals. Equal seeds give
            equal intervals.
        condition_replicates: Number of replicates of the bootstrap of each condition's EER.
        threshold: Threshold of decisions; None for no decisions.
        is_hard: Whether the scores are only decisions, as in `Summary`.
        cost: Costs of minDCF and actDCF.

    Raises:
        AsdfError: a class is missing, a score is not finite, a scored trial is missing from
            `trials` or has another label there, or the ASV scores leave the t-DCF undefined. The
            message begins with `name`.
    """
    scores, columns = _checked(name, scores, trials, by)
    curve = DetCurve.of_scores(scores)
    speakers = known_speakers(columns.get("speaker", ())) or ()
    draw = partial(confidence_intervals, scores, seed=seed, cost=cost, curve=curve)
    # Hard decisions have no EER to bootstrap.
    over_trials, over_speakers = _intervals(draw, speakers, replicates * (not is_hard), progress)
    of_decisions = partial(decide, scores, speakers=speakers, replicates=replicates, seed=seed)
    decisions = None if threshold is None else of_decisions(threshold)
    findings = find_turned(decisions) if is_hard and decisions else find_warnings(curve)
    conditions: list[Condition] = []
    for column in dict.fromkeys(by):
        of_column, omitted = conditions_of(
            scores,
            column,
            columns.get(column, ()),
            replicates=condition_replicates,
            seed=seed,
            threshold=None if threshold is None else threshold.value,
            cost=cost,
        )
        conditions += of_column
        findings += omitted
    findings += alike(scores.ids) + another_subset(len(scores), columns.get("subset", ()))
    findings += [Finding("warning", message) for message in scored.warnings()]
    return Summary(
        name=name,
        set=set,
        scores=scores,
        curve=curve,
        result=result_of(curve, cost),
        auc=curve.auc(),
        min_cllr=min_cllr_of(curve),
        tandem=None if asv is None else _tandem(name, curve, asv),
        intervals=over_trials,
        speaker_intervals=over_speakers,
        conditions=tuple(conditions),
        findings=tuple(findings),
        scored=scored,
        decisions=decisions,
        is_hard=is_hard,
        cost=cost,
    )


def _checked(
    name: str, scores: Scores, trials: TrialList | None, by: Sequence[str]
) -> tuple[Scores, Mapping[str, Sequence[str]]]:
    """Return scores with their attacks, and the columns of their trials."""
    errors = find_errors(scores.labels, scores.scores, scores.ids)
    if errors:
        messages = " ".join(error.message for error in errors)
        raise AsdfError(f"{name}: {messages}")
    columns = joined_columns(known_columns(name, scores, trials), by)
    # A column of only '' has no attacks and must not hide those of the score file.
    if any(columns.get("attack", ())):
        scores = replace(scores, columns={**scores.columns, "attack": columns["attack"]})
    return scores, columns


def known_columns(
    name: str, scores: Scores, trials: TrialList | None
) -> Mapping[str, Sequence[str]]:
    """Return the columns of the scored trials, in the order of `scores`.

    The attacks are those of the score file if `trials` has none.

    Raises:
        AsdfError: as in `columns_of`.
    """
    columns = {} if trials is None else columns_of(name, scores, trials)
    if scores.attacks is not None and not any(columns.get("attack", ())):
        columns["attack"] = scores.attacks
    return columns


def _tandem(name: str, curve: DetCurve, asv: AsvScores) -> Tandem:
    rate, threshold = eer(asv.target, asv.nontarget)
    rates = asv_rates_at(asv, threshold)
    try:
        # The countermeasure sees utterances, not identity claims: targets and nontargets are bona
        # fide trials.
        concurrent = t_eer_of(asv, curve)
    except AsdfError:
        # No pair of thresholds has equal rates, but the t-DCFs are defined.
        concurrent = None
    try:
        return Tandem(
            asv_eer=rate,
            asv_threshold=threshold,
            tdcf_2019=min_tdcf_legacy_of(curve, rates),
            tdcf_2021=min_tdcf_of(curve, rates),
            t_eer=concurrent,
        )
    except AsdfError as error:
        raise AsdfError(f"{name}: {error}") from None


def _intervals(
    draw: Callable[..., Intervals],
    speakers: Sequence[str],
    replicates: int,
    progress: Progress | None,
) -> tuple[Intervals | None, Intervals | None]:
    """Return the intervals over trials and over speakers, with common progress."""
    if not replicates:
        return None, None
    done = 0
    total = replicates * (2 if speakers else 1)

    def report(drawn: int) -> None:
        nonlocal done
        done += drawn
        if progress is not None:
            progress(done, total)

    draw = partial(draw, replicates=replicates, progress=report)
    return draw(), draw(speakers=speakers) if speakers else None


ScoresOf = Callable[[int], tuple[Scores, Sequence[str] | None]]
"""A function from a system's index to its scores, and the trials' speakers if known."""


def leaders(
    results: Sequence[Result], scores_of: ScoresOf, replicates: int, cost: DetectionCost = ASVSPOOF5
) -> dict[str, int]:
    """Return the index of the system that leads by each of `TESTED`.

    A metric is left out if the lowest value is shared, if the systems were not scored on the same
    trials, if the next system is not significantly worse, and without `replicates`.
    """
    if len(results) < 2 or not replicates:
        return {}
    leading = {}
    for metric in TESTED:
        values = [getattr(result, metric) for result in results]
        # A system better than the second lowest is assumed to be better than all above it.
        first, second = sorted(range(len(results)), key=values.__getitem__)[:2]
        if values[first] == values[second]:
            continue
        try:
            scores, speakers = scores_of(first)
            others, _ = scores_of(second)
            tested = paired_test(
                scores, others, speakers=speakers, replicates=replicates, cost=cost
            )
        except AsdfError:
            continue
        p_value = getattr(tested, metric).p_value
        if p_value is not None and p_value < SIGNIFICANT:
            leading[metric] = first
    return leading


def leading_systems(
    summaries: Sequence[Summary], trials: TrialList | None, replicates: int
) -> dict[str, int]:
    """Return the index of the system that leads by each of `TESTED`, see `leaders`.

    Systems that are not comparable have no common best one, and decisions have no EER.
    """
    if summaries[0].is_hard or not are_comparable(summaries):
        return {}

    def scores_and_speakers(index: int) -> tuple[Scores, Sequence[str] | None]:
        scores = summaries[index].scores
        return scores, speakers_of(scores, trials)

    results = [summary.result for summary in summaries]
    return leaders(results, scores_and_speakers, replicates, summaries[0].cost)


def speakers_of(scores: Scores, trials: TrialList | None) -> Sequence[str] | None:
    """Return the speaker of each scored trial; None unless all are known and some differ."""
    if trials is None or "speaker" not in trials.columns:
        return None
    indices = map(trials.index_of, scores.ids)
    speakers = trials.columns["speaker"]
    return known_speakers(["" if index is None else speakers[index] for index in indices])


def different_trials(summaries: Sequence[Summary]) -> list[Finding]:
    """Warn if systems on one set were scored on different trials, or with other labels."""
    if len(summaries) < 2 or len(set(map(_trials_key, summaries))) < 2:
        return []
    sizes = {(summary.result.bona_fide, summary.result.spoof) for summary in summaries}
    numbers = ", ".join(f"{bona_fide} + {spoof}" for bona_fide, spoof in sorted(sizes))
    message = (
        f"the systems were scored on different trials (bona fide + spoof: {numbers}), so their "
        "numbers cannot be compared."
    )
    return [Finding("warning", message)]


def _trials_key(summary: Summary) -> int:
    """Return a number that is equal for the same trials with the same labels, in any order."""
    if summary.trials is not None:
        return summary.trials
    names = map(bare_name, summary.scores.ids)
    return sum(map(hash, zip(names, summary.scores.labels.tolist(), strict=True)))


def are_comparable(summaries: Sequence[Summary]) -> bool:
    """Whether systems are not known to be scored from other recordings, or lengths of them."""
    ways = each(summaries, "scored")
    return not (_different_lengths(ways) or different_recordings(ways))


def _different_lengths(ways: Sequence[HowScored]) -> str:
    """Return the lengths of recordings that were scored, if they differ; else ''."""
    lengths = [length for length in dict.fromkeys(each(ways, "length")) if length is not None]
    # Agreement with the first implies agreement with each other.
    if all(length.agrees_with(lengths[0]) for length in lengths):
        return ""
    return "; ".join(length.describe() for length in lengths)


def mixed_scoring(summaries: Sequence[Summary]) -> list[Finding]:
    """Warn if systems were scored from other lengths or recordings, or in other precisions."""
    ways = each(summaries, "scored")
    messages = []
    if lengths := _different_lengths(ways):
        messages.append(
            f"the systems were scored from different lengths of the recordings ({lengths}), so "
            "their numbers cannot be compared."
        )
    if precisions := different_precisions(ways):
        messages.append(
            f"the systems were scored in different precisions ({precisions}), which moves scores a "
            "little: score all in fp32 where a small difference counts."
        )
    if different_recordings(ways):
        messages.append(
            "the systems were scored from different recordings of the same names, so their numbers "
            "cannot be compared: score the set again with each."
        )
    return [Finding("warning", message) for message in messages]
