"""DET curves of score files, for papers (needs matplotlib: the extra `report`).

    python -m asdf detplot scores/epoch.20/asvspoof19-eval.txt --output det.pdf
    python -m asdf detplot AASIST=first.txt SLS=second.txt --protocol trial_metadata.txt --subset eval --output det.pdf
    python -m asdf detplot scores.txt --protocol P --by attack --output det.png --title "XLS-R + AASIST"

Score files and protocols are those of `python -m asdf evaluate`. With --by, one file's curves by that column: the
spoofs of each value against the bona fide trials. The suffix of OUT tells the format: pdf, png, svg.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.outputs import check_file, check_inputs, show
from asdf.commands.score_files import (
    UNDIVIDED,
    add_score_files,
    read_protocol_asked,
    read_scores_asked,
    systems_asked,
)
from asdf.errors import UsageError
from asdf.runs.streams import show_error

if TYPE_CHECKING:
    from asdf.metrics.detection import Floats
    from asdf.trials.score_file import Scores
    from asdf.trials.trials import Trials


def main(arguments: list[str]) -> int:
    """Write the plot; 0.

    Raises:
        UsageError: matplotlib is not installed, or a mistake in the options.
        AsdfError: a file cannot be read or written, or a class has no trial.
    """
    parser = argparse.ArgumentParser(
        prog="python -m asdf detplot",
        usage="python -m asdf detplot SCORES... --output OUT [options]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_score_files(parser)
    parser.add_argument(
        "--by", metavar="COLUMN", help="curves by a column of P, such as attack; one score file"
    )
    parser.add_argument("--title", default="", metavar="TEXT", help="above the plot")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="OUT", help="the file: .pdf, .png or .svg"
    )
    given = parser.parse_args(arguments)
    if given.by and len(given.scores) > 1:
        raise UsageError(
            f"--by {given.by} draws one system by condition: give one score file, not {len(given.scores)}."
        )
    check_file(given.output)
    check_inputs([*given.scores, given.protocol])
    from asdf.report.plots import det_plot, save_figure
    from asdf.trials.how_scored import in_precision
    from asdf.trials.scored_files import how_scored

    whole, trials = read_protocol_asked(given)
    systems = {}
    for system in systems_asked(given.scores):
        scores = read_scores_asked(system.path, trials, whole, given.ignore_others)
        name = f"{system.name}{in_precision(how_scored(system.path).precision)}"
        systems[name] = (scores.bona_fide, scores.spoof)
    if given.by:
        for value, both in _by_column(scores, trials, given.by).items():
            # A condition may be called as the system itself.
            systems[f"'{value}'" if value in systems else value] = both
    save_figure(det_plot(systems, given.title), given.output)
    show(f"written to {given.output}: {len(systems)} curve{'s' * (len(systems) != 1)}")
    return 0


def _by_column(
    scores: Scores, trials: Trials | None, column: str
) -> dict[str, tuple[Floats, Floats]]:
    """The scores of each condition of a column, as `evaluate` takes them."""
    from asdf.metrics.conditions import conditions_of, trials_of
    from asdf.metrics.summary import known_columns

    columns = known_columns("the score file", scores, trials)
    if column not in columns:
        known = (
            f"There is {', '.join(columns)}."
            if columns
            else "The score file tells none: give --protocol."
        )
        raise UsageError(f"--by {column}: no such column. {known}")
    values = columns[column]
    conditions, findings = conditions_of(scores, column, values)
    for finding in findings:
        show_error(f"{finding.level}: {finding.message}")
    if not conditions:
        raise UsageError(f"--by {column}: {UNDIVIDED}. Leave --by out.")
    return {condition.value: trials_of(condition, scores, values) for condition in conditions}
