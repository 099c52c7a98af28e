"""Draw DET curves of score files for a paper (needs matplotlib, in the extra `report`).

Older name of `evaluate --plot`, which draws the same curves and prints error rates.

    python -m asdf detplot scores/epoch.20/asvspoof19-eval.txt --output det.pdf
    python -m asdf detplot A=first.txt B=second.txt --protocol P --subset eval --output det.pdf
    python -m asdf detplot scores.txt --protocol P --by attack --output det.png --title "XLS-R"

Score files and protocols have the formats of `python -m asdf evaluate`. With --by, one file gets a
curve for each value of the column: its spoof trials against the bona fide trials. The suffix of OUT
selects the format: pdf, png or svg.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.judged_files import (
    UNDIVIDED,
    ScoreFilesOptions,
    System,
    named_systems,
    read_protocol_option,
    read_system_scores,
)
from asdf.commands.options import Command, option
from asdf.commands.outputs import check_file, check_inputs, show
from asdf.errors import UsageError
from asdf.runs.streams import show_error
from asdf.text import count_of

if TYPE_CHECKING:
    from asdf.report.plots import ThinnedCurve
    from asdf.trials.score_file import Scores
    from asdf.trials.trial_list import TrialList


@dataclass(frozen=True, kw_only=True)
class DetplotOptions(ScoreFilesOptions):
    """Options of the command."""

    by: str | None = option(
        "column of P that gets a curve per value, such as attack; needs a single score file",
        metavar="COLUMN",
    )
    title: str = option(
        "title of the plot",
        metavar="TEXT",
        default="",
    )
    output: Path = option(
        "output file: .pdf, .png or .svg",
        metavar="OUT",
        default=MISSING,
        short="-o",
    )


COMMAND = Command("detplot", __doc__, DetplotOptions)


def main(arguments: list[str]) -> int:
    """Write the plot; return 0.

    Raises:
        UsageError: matplotlib is not installed, or a mistake in the options.
        AsdfError: a file cannot be read or written, or a class has no trial.
    """
    args = COMMAND.read(arguments)
    if args.by and len(args.scores) > 1:
        raise UsageError(
            f"--by {args.by} draws the conditions of a single system, but {len(args.scores)} score "
            "files are given. Give one."
        )
    check_file(args.output)
    check_inputs([*map(Path, args.scores), args.protocol])
    # Options are checked first, because importing matplotlib takes seconds.
    from asdf.report.plots import det_plot, save_figure

    protocol = read_protocol_option(args)
    systems = named_systems(args.scores)
    scores = [read_system_scores(one.path, protocol, args.ignore_others) for one in systems]
    columns = (args.by,) if args.by else ()
    curves = curves_of(systems, scores, protocol.trials, columns)
    save_figure(det_plot(curves, args.title), args.output)
    show(f"written to {args.output}: {count_curves(curves)}")
    return 0


def count_curves(curves: Mapping[str, ThinnedCurve]) -> str:
    """Return the number of curves in words."""
    return count_of(len(curves), "curve")


def curves_of(
    systems: Sequence[System],
    scores: Sequence[Scores],
    trials: TrialList | None,
    columns: Sequence[str],
) -> dict[str, ThinnedCurve]:
    """Return the curves by name: first those of systems, then those of conditions.

    Args:
        scores: Scores of each system.
        trials: Trials of the protocol, with its columns.
        columns: Columns whose conditions are drawn, for the last system.

    Raises:
        UsageError: a column does not exist, or does not divide the trials.
        AsdfError: a class has no trial.
    """
    from asdf.metrics.detection import DetCurve
    from asdf.report.plots import thinned_det
    from asdf.trials.how_scored import in_precision, role_words
    from asdf.trials.scored_files import how_scored

    curves: dict[str, ThinnedCurve] = {}
    for system, own in zip(systems, scores, strict=True):
        scored = how_scored(system.path)
        name = f"{system.name}{in_precision(scored.precision)}{role_words(scored.role)}"
        curves[name] = thinned_det(DetCurve.of_scores(own))
    for column in columns:
        for value, condition in _condition_curves(own, trials, column).items():
            # A condition may have the same name as the system.
            name = f"'{value}'" if value in curves else value
            curves[name] = condition
    return curves


def _condition_curves(
    scores: Scores,
    trials: TrialList | None,
    column: str,
) -> dict[str, ThinnedCurve]:
    """Return the curve of each condition of a column, with the trials used by `evaluate`."""
    from asdf.metrics.detection import DetCurve
    from asdf.metrics.results import conditions_of, trials_of
    from asdf.metrics.summary import known_columns
    from asdf.report.plots import thinned_det

    columns = known_columns("the score file", scores, trials)
    if column not in columns:
        known = f"Columns: {', '.join(columns)}."
        if not columns:
            known = "The score file has no columns. Give the label file with --protocol."
        raise UsageError(f"--by {column}: there is no such column. {known}")
    values = columns[column]
    conditions, findings = conditions_of(scores, column, values)
    for finding in findings:
        show_error(f"{finding.level}: {finding.message}")
    if not conditions:
        raise UsageError(f"--by {column}: {UNDIVIDED}. Leave --by out.")
    curves = {}
    for condition in conditions:
        bona_fide, spoof = trials_of(condition, scores, values)
        curves[condition.value] = thinned_det(DetCurve.of(bona_fide, spoof))
    return curves
