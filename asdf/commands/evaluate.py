"""The metrics of score files, with the digits of the official packages: pooled, by condition, with intervals.

    python -m asdf evaluate scores/epoch.20/asvspoof19-eval.txt
    python -m asdf evaluate scores.txt --protocol trial_metadata.txt --subset eval --by attack,codec
    python -m asdf evaluate la_eval.txt --asv-scores ASVspoof2019.LA.asv.eval.gi.trl.scores.txt
    python -m asdf evaluate AASIST=first.txt SLS=second.txt --protocol protocol.txt --latex table.tex
    python -m asdf evaluate scores.txt --protocol P --submission out.tsv --format asvspoof5

A score file has lines 'relative/path.flac 1 SCORE', 'UTT ATTACK bonafide|spoof SCORE' or 'UTT SCORE' (with or without
the header 'filename TAB cm-score'), plain or gzipped; the higher score means bona fide. The protocol is a label file of
any corpus that ASDF knows. Where both tell labels they must agree, and every trial of the protocol needs its score.
'-' is standard input; as an output it is standard output, and the tables are then shown on standard error.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from asdf.commands.outputs import check_inputs, output_name, show, text_stream, write_outputs
from asdf.commands.score_files import (
    UNDIVIDED,
    System,
    add_score_files,
    read_protocol_asked,
    read_scores_asked,
    systems_asked,
)
from asdf.errors import UsageError
from asdf.metrics.leading import leaders, speakers_of
from asdf.metrics.summary import (
    Progress,
    Summary,
    different_lengths,
    different_trials,
    mixed_precisions,
    summarise,
)
from asdf.report.exports import to_csv, to_json
from asdf.report.latex import to_latex
from asdf.report.tables import summary_text, systems_text
from asdf.runs.files import write_text
from asdf.runs.streams import STREAM, is_stdout, show_error
from asdf.trials.asv_scores import read_asv_scores
from asdf.trials.scored_files import how_scored
from asdf.trials.scored_length import parse_scored_length
from asdf.trials.submission import FORMATS, write_submission
from asdf.trials.trials import Trials


def main(arguments: list[str]) -> int:
    """Print the metrics; 0, also when something looks wrong, which is told on stderr.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, written or evaluated.
    """
    given = _parser().parse_args(arguments)
    systems = systems_asked(given.scores)
    _check(given, systems)
    screen = text_stream(_outputs(given))
    said = parse_scored_length(given.scored_length) if given.scored_length else None
    whole, trials = read_protocol_asked(given)
    columns = _columns(given.by, trials)
    asv = (
        read_asv_scores(given.asv_scores, given.asv_keys, given.subset)
        if given.asv_scores
        else None
    )
    summaries = []
    for system in systems:
        scored = how_scored(system.path)
        scores = read_scores_asked(system.path, trials, whole, given.ignore_others)
        with _bar(system.name) as progress:
            summary = summarise(
                system.name,
                given.set,
                scores,
                trials,
                by=columns,
                asv=asv,
                replicates=given.replicates,
                progress=progress,
                scored=replace(scored, length=said or scored.length),
            )
        summaries.append(summary)
    leading = leaders(
        [summary.result for summary in summaries],
        lambda index: (summaries[index].scores, speakers_of(summaries[index].scores, trials)),
        # Systems that were scored from different lengths have no common best one.
        0 if different_lengths(summaries) else given.replicates,
    )
    # Files first: where the screen is closed or full, what was computed is not lost.
    _write(given, summaries, leading, trials)
    _print(given, summaries, leading, columns, screen)
    return 0


def _write(
    given: argparse.Namespace,
    summaries: Sequence[Summary],
    leading: Mapping[str, int],
    trials: Trials | None,
) -> None:
    scores = summaries[0].scores
    write_outputs(
        [
            (given.json, lambda path: write_text(path, to_json(summaries))),
            (given.csv, lambda path: write_text(path, to_csv(summaries))),
            (given.latex, lambda path: write_text(path, to_latex(summaries, leading))),
            (given.submission, lambda path: write_submission(path, given.format, scores, trials)),
        ]
    )


def _print(
    given: argparse.Namespace,
    summaries: Sequence[Summary],
    leading: Mapping[str, int],
    columns: Sequence[str],
    screen: TextIO,
) -> None:
    """The tables on `screen`, what looks wrong on stderr behind the table that it is about."""
    several = len(summaries) > 1
    for summary in summaries:
        show(summary_text(summary) + ("\n" if several else ""), screen)
        for finding in summary.findings:
            show_error(f"{finding.level}: {summary.name}: {finding.message}")
        for column in columns if given.by else ():
            if column not in summary.columns:
                show_error(f"warning: {summary.name}: no results by {column}: {UNDIVIDED}.")
    if several:
        show(systems_text(summaries, leading), screen)
        for finding in different_trials(summaries):
            advice = "--protocol with --ignore-others takes the same ones of all."
            show_error(f"{finding.level}: {finding.message} {advice}")
        for finding in different_lengths(summaries) + mixed_precisions(summaries):
            show_error(f"{finding.level}: {finding.message}")
    if given.submission:
        _print_submission(given, len(summaries[0].scores), screen)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m asdf evaluate",
        usage="python -m asdf evaluate SCORES... [options]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_score_files(parser)
    parser.add_argument(
        "--asv-scores",
        type=Path,
        metavar="F",
        help="'SOURCE KEY SCORE' of an ASV system, for t-DCF",
    )
    parser.add_argument(
        "--asv-keys",
        type=Path,
        metavar="F",
        help="keys of ASV scores that have none (ASVspoof 2021)",
    )
    parser.add_argument(
        "--by", metavar="C,C", help="columns of P to break results down by (attack)"
    )
    parser.add_argument(
        "--replicates", type=int, metavar="N", default=1000, help="of the bootstrap (1000); 0: none"
    )
    parser.add_argument(
        "--set", default="", metavar="NAME", help="what the set is called in the output"
    )
    parser.add_argument(
        "--scored-length",
        metavar="L",
        help="how much of each recording was scored, where the file does not say it: published (64,600 samples), "
        "whole, or a number of samples",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything with all digits")
    parser.add_argument(
        "--csv", type=Path, metavar="OUT", help="write a row for each system and condition"
    )
    parser.add_argument(
        "--latex", type=Path, metavar="OUT", help="write tables for a paper (booktabs)"
    )
    parser.add_argument(
        "--submission", type=Path, metavar="OUT", help="write the scores in a challenge's format"
    )
    parser.add_argument(
        "--format", choices=FORMATS, help=f"of the submission: {', '.join(FORMATS)}"
    )
    return parser


def _check(given: argparse.Namespace, systems: Sequence[System]) -> None:
    """Raise UsageError for options that do not go together."""
    if given.asv_keys and not given.asv_scores:
        raise UsageError("--asv-keys are the keys of ASV scores: give --asv-scores too.")
    if (given.submission is None) != (given.format is None):
        raise UsageError(
            f"--submission and --format go together; formats are {', '.join(FORMATS)}."
        )
    if given.submission and len(given.scores) > 1:
        raise UsageError(
            f"--submission is of one system: give one score file, not {len(given.scores)}."
        )
    if given.replicates and given.replicates < 20:
        raise UsageError(
            f"--replicates {given.replicates}: 20 or more tell something of a 95 % interval; 0 leaves out."
        )
    read = [system.path for system in systems]
    read += [path for path in (given.protocol, given.asv_scores, given.asv_keys) if path]
    check_inputs(read)
    inputs = [path.resolve() for path in read if str(path) != STREAM]
    outputs = [path.resolve() for path in _outputs(given) if path and not is_stdout(path)]
    if len(set(outputs)) < len(outputs) or set(outputs) & set(inputs):
        raise UsageError(
            "an output would overwrite another one or a file that is read: name each its own file."
        )


def _outputs(given: argparse.Namespace) -> list[Path | None]:
    return [given.json, given.csv, given.latex, given.submission]


def _columns(asked: str | None, trials: Trials | None) -> tuple[str, ...]:
    if asked is None:
        return ("attack",)
    names = tuple(filter(None, map(str.strip, asked.split(","))))
    there = ("attack",) if trials is None else ("attack", *trials.columns)
    if unknown := [name for name in names if name not in there]:
        known = (
            ", ".join(dict.fromkeys(there))
            if trials is not None
            else "only attack without --protocol"
        )
        raise UsageError(f"--by {asked}: no column {', '.join(unknown)}. There is {known}.")
    return names


@contextmanager
def _bar(name: str) -> Iterator[Progress]:
    """A bar on a terminal, for bootstraps that take more than a moment."""
    from tqdm import tqdm

    with tqdm(
        desc=f"intervals of {name}", unit="replicates", leave=False, delay=1, disable=None
    ) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield progress


def _print_submission(given: argparse.Namespace, trials: int, screen: TextIO) -> None:
    written = output_name(given.submission)
    show(f"written to {written}: {trials} scores in the format {given.format}", screen)
    if given.format == "asvspoof2021" and given.subset:
        show_error(
            f"warning: only subset {given.subset} is in {written}; the packages of ASVspoof 2021 want the "
            "scores of all trials and choose the subset themselves. Leave --subset out for them."
        )
