"""Several systems on one set: obstacles to their comparison, and the best of them.

Invariant: the lowest number alone is never called the best. A system leads only if the paired
bootstrap, over speakers if they are known, shows at 5 % that the next one is worse on the same
trials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from asdf.errors import AsdfError
from asdf.metrics.bootstrap import SIGNIFICANT, paired_test
from asdf.metrics.results import Result
from asdf.metrics.score_checks import Finding
from asdf.metrics.summary import Summary
from asdf.trials.how_scored import ScoredLength, different_precisions
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList

TESTED = ("eer", "min_dcf")
"""Metrics that `paired_test` compares."""

ScoresOf = Callable[[int], tuple[Scores, Sequence[str] | None]]
"""A function from a system's index to its scores, and the trials' speakers if known."""


def leaders(results: Sequence[Result], scores_of: ScoresOf, replicates: int) -> dict[str, int]:
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
            tested = paired_test(scores, others, speakers=speakers, replicates=replicates)
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

    Systems scored from different lengths have no common best one, and decisions have no EER.
    """
    if different_lengths(summaries) or summaries[0].is_hard:
        return {}

    def scores_and_speakers(index: int) -> tuple[Scores, Sequence[str] | None]:
        scores = summaries[index].scores
        return scores, speakers_of(scores, trials)

    results = [summary.result for summary in summaries]
    return leaders(results, scores_and_speakers, replicates)


def speakers_of(scores: Scores, trials: TrialList | None) -> list[str] | None:
    """Return the speaker of each scored trial; None unless all are known and some differ."""
    if trials is None or "speaker" not in trials.columns:
        return None
    column = trials.columns["speaker"]
    speakers = []
    for utterance in scores.ids:
        index = trials.index_of(utterance)
        # A test over the known speakers would leave out the trials of the others.
        if index is None or not column[index]:
            return None
        speakers.append(column[index])
    if len(set(speakers)) < 2:
        return None
    return speakers


def different_trials(summaries: Sequence[Summary]) -> list[Finding]:
    """Warn if systems on one set were scored on different numbers of its trials."""
    sizes = {(summary.result.bona_fide, summary.result.spoof) for summary in summaries}
    if len(sizes) < 2:
        return []
    numbers = ", ".join(f"{bona_fide} + {spoof}" for bona_fide, spoof in sorted(sizes))
    message = (
        f"the systems were scored on different trials (bona fide + spoof: {numbers}), so their "
        "numbers cannot be compared."
    )
    return [Finding("warning", message)]


def different_lengths(summaries: Sequence[Summary]) -> list[Finding]:
    """Warn if systems on one set are known to be scored from different lengths of recordings."""
    lengths: list[ScoredLength] = []
    for summary in summaries:
        length = summary.scored.length
        if length is not None and length not in lengths:
            lengths.append(length)
    # Agreement with the first implies agreement with each other.
    if all(length.agrees_with(lengths[0]) for length in lengths):
        return []
    described_lengths = "; ".join(length.describe() for length in lengths)
    message = (
        f"the systems were scored from different lengths of the recordings "
        f"({described_lengths}), so their numbers cannot be compared."
    )
    return [Finding("warning", message)]


def mixed_precisions(summaries: Sequence[Summary]) -> list[Finding]:
    """Warn if systems on one set were scored in different precisions."""
    precisions = different_precisions(summary.scored for summary in summaries)
    if not precisions:
        return []
    message = (
        f"the systems were scored in different precisions ({precisions}), which moves scores a "
        "little: score all in fp32 where a small difference counts."
    )
    return [Finding("warning", message)]
