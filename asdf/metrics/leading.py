"""Which of several systems is the best one, if the trials are enough to say so.

Invariant: the lowest number alone is never called the best. A system leads only where the paired
bootstrap, drawn over speakers where they are known, says at 5 % that the next one is worse on the
same trials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from asdf.errors import AsdfError
from asdf.metrics.bootstrap import SIGNIFICANT, paired_test
from asdf.metrics.results import Result
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList

TESTED = ("eer", "min_dcf")
"""The metrics that `paired_test` is about."""

ScoresOf = Callable[[int], tuple[Scores, Sequence[str] | None]]
"""The scores of a system, by its index, and the speaker of each trial where they are known."""


def leaders(results: Sequence[Result], scores_of: ScoresOf, replicates: int) -> dict[str, int]:
    """The index of the system that leads by each of `TESTED`; without those that none leads by.

    None leads where the lowest value is shared, where the systems were not scored on the same
    trials, and without `replicates`.
    """
    leading = {}
    for metric in TESTED if len(results) > 1 and replicates else ():
        first, second = sorted(range(len(results)), key=lambda i: getattr(results[i], metric))[:2]
        if getattr(results[first], metric) == getattr(results[second], metric):
            continue
        try:
            (scores, speakers), (others, _) = scores_of(first), scores_of(second)
            tested = paired_test(scores, others, speakers=speakers, replicates=replicates)
        except AsdfError:
            continue
        p_value = getattr(tested, metric).p_value
        if p_value is not None and p_value < SIGNIFICANT:
            leading[metric] = first
    return leading


def speakers_of(scores: Scores, trials: TrialList | None) -> list[str] | None:
    """Return the speaker of each scored trial; None unless all are known and at least two differ."""
    column = trials.columns.get("speaker") if trials else None
    if trials is None or column is None:
        return None
    speakers = []
    for utterance in scores.ids:
        index = trials.index_of(utterance)
        speakers.append("" if index is None else column[index])
    if not all(speakers) or len(set(speakers)) < 2:
        return None
    return speakers
