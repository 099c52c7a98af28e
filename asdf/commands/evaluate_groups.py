"""`evaluate --by`: comparison of the groups of columns, and its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from asdf.commands.outputs import replicates_bar, write_outputs
from asdf.errors import AsdfError
from asdf.metrics.groups import compare_groups
from asdf.metrics.results import FEW, JOINED, joined_columns
from asdf.metrics.summary import Summary, known_columns
from asdf.report import groups_page
from asdf.runs.files import write_text
from asdf.trials.trial_list import TrialList


def with_groups(
    summary: Summary,
    trials: TrialList | None,
    columns: Sequence[str],
    replicates: int,
) -> Summary:
    """Return a summary with a comparison of the groups of columns other than attacks.

    Args:
        replicates: Number of bootstrap replicates; 0: no comparison.
    """
    # Only spoofs have an attack, and groups are compared with trials of both classes.
    compared = [name for name in columns if "attack" not in name.split(JOINED)]
    if not compared or not replicates or summary.is_hard:
        return summary
    known = known_columns(summary.name, summary.scores, trials)
    decided = summary.decisions
    with replicates_bar(f"groups of {summary.name}") as progress:
        studies = compare_groups(
            summary.scores,
            joined_columns(known, compared),
            compared,
            replicates=replicates,
            threshold=None if decided is None else decided.threshold.value,
            progress=progress,
        )
    return replace(summary, groups=studies)


def write_groups(path: Path, summaries: Sequence[Summary], facts: Sequence[str]) -> None:
    """Write the page of groups.

    Args:
        facts: Facts in small print on the page.

    Raises:
        AsdfError: no column has groups that can be compared.
    """
    if not any(summary.groups for summary in summaries):
        raise AsdfError(
            f"{path} was not written: no column of --by has two groups with {FEW} trials of each "
            "class, or --replicates is 0. Choose other columns, or a set with more trials."
        )
    write_outputs([(path, lambda out: write_text(out, groups_page(summaries, facts)))])
