"""`evaluate --cross-test`: each set of spoofs against each genuine set, for one system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from asdf.commands.evaluate_options import EvaluateOptions
from asdf.commands.judged_files import Protocol, System
from asdf.commands.outputs import replicates_bar, show, write_outputs
from asdf.errors import UsageError
from asdf.metrics.summary import known_columns
from asdf.report import cross_test_page
from asdf.runs.files import write_text
from asdf.runs.streams import show_error
from asdf.tasks.cross_testing import cross_test_tables as tables
from asdf.tasks.cross_testing.cross_test import CrossTest, cross_test
from asdf.tasks.cross_testing.score_parts import read_parts

FILE = "file"
"""Name of the column with the score file of each trial."""


def check_cross_test(args: EvaluateOptions) -> None:
    """Raise UsageError for options that do not apply to a cross-test."""
    # Parsed here too, so that a mistake is reported before any file is read.
    _read_columns(args.cross_test or "")
    others = {
        "--by": args.by,
        "--plot": args.plot,
        "--calibration": args.calibration,
        "--tippett": args.tippett,
        "--ece": args.ece,
        "--reliability": args.reliability,
        "--asv-scores": args.asv_scores,
        "--scored-length": args.scored_length,
        "--submission": args.submission,
        "--decisions": args.decisions,
        "--threshold": args.threshold is not None,
        "--threshold-from": args.threshold_from,
        "--threshold-of": args.threshold_of,
    }
    named = [name for name, value in others.items() if value]
    if named:
        raise UsageError(
            f"--cross-test only computes EERs of pairs of sets. Leave {', '.join(named)} out."
        )


def _read_columns(text: str) -> tuple[str, str]:
    """Return the columns of spoofs and of genuine speech in --cross-test."""
    names = [word.strip() for word in text.split(",")]
    if len(names) != 2 or not all(names):
        raise UsageError(
            f"--cross-test {text}: expected two columns, one for sets of spoofs and one for sets "
            f"of genuine speech, such as attack,{FILE}; `{FILE}` is the score file."
        )
    return names[0], names[1]


def run_cross_test(
    args: EvaluateOptions,
    facts: Sequence[str],
    systems: Sequence[System],
    protocol: Protocol,
    screen: TextIO,
) -> None:
    """Compare the sets of all files, write the requested files, and show the matrix on `screen`.

    Args:
        facts: Facts in small print on the page.

    Raises:
        UsageError: the trials have no such column.
        AsdfError: a file cannot be read or written, or does not fit the protocol, or there is only
            one set.
    """
    name = args.set or ", ".join(system.name for system in systems)
    result = _compare_sets(args, systems, protocol, name)
    write_outputs(
        [
            (args.json, lambda path: write_text(path, tables.cross_test_json(name, result))),
            (args.csv, lambda path: write_text(path, tables.cross_test_csv(name, result))),
            (args.latex, lambda path: write_text(path, tables.cross_test_latex(name, result))),
            (args.html, lambda path: write_text(path, cross_test_page(name, result, facts))),
        ]
    )
    show(tables.cross_test_text(name, result), screen)
    for sentence in tables.remarks(result):
        show_error(f"warning: {name}: {sentence}")


def _compare_sets(
    args: EvaluateOptions,
    systems: Sequence[System],
    protocol: Protocol,
    name: str,
) -> CrossTest:
    by = _read_columns(args.cross_test or "")
    with replicates_bar(f"intervals of {name}") as progress:
        files = {system.name: system.path for system in systems}
        scores, file_of = read_parts(
            files, protocol.trials, protocol.whole, ignore_others=args.ignore_others
        )
        # Last, so that `file` is the score file even if the protocol has a column of this name.
        columns = {**known_columns("the score files", scores, protocol.trials), FILE: file_of}
        unknown = sorted(set(by) - set(columns))
        if unknown:
            more = "." if protocol.trials else "; a label file (--protocol) may add columns."
            raise UsageError(
                f"--cross-test {','.join(by)}: no column {', '.join(unknown)}. Columns: "
                f"{', '.join(sorted(columns))}{more}"
            )
        return cross_test(scores, columns, by, replicates=args.replicates, progress=progress)
