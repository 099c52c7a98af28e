"""The metrics of score files, with the digits of the official packages: pooled, by condition, with intervals.

    python -m asdf evaluate scores/epoch.20/asvspoof19-eval.txt
    python -m asdf evaluate scores.txt --protocol trial_metadata.txt --subset eval --by attack,codec
    python -m asdf evaluate la_eval.txt --asv-scores ASVspoof2019.LA.asv.eval.gi.trl.scores.txt
    python -m asdf evaluate first.txt second.txt --protocol protocol.txt --latex table.tex
    python -m asdf evaluate scores.txt --protocol P --submission out.tsv --format asvspoof5

A score file has lines 'relative/path.flac 1 SCORE', 'UTT ATTACK bonafide|spoof SCORE' or 'UTT SCORE' (with or without
the header 'filename TAB cm-score'), plain or gzipped; the higher score means bona fide. The protocol is a label file of
any corpus that ASDF knows. Where both tell labels they must agree, and every trial of the protocol needs its score.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asdf.commands.score_files import UNDIVIDED, add_score_files, read_protocol_asked, read_scores_asked, short_names
from asdf.errors import UsageError
from asdf.evaluation import Scores, read_asv_scores
from asdf.evaluation.exports import to_csv, to_json, to_latex
from asdf.evaluation.submission import FORMATS, write_submission
from asdf.evaluation.summary import Progress, different_trials, summarise
from asdf.evaluation.tables import summary_text, systems_text
from asdf.evaluation.trials import Trials
from asdf.runs.files import write_text


def main(arguments: list[str]) -> int:
    """Print the metrics; 0, also when something looks wrong, which is told on stderr.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, written or evaluated.
    """
    given = _parser().parse_args(arguments)
    _check(given)
    whole, trials = read_protocol_asked(given)
    columns = _columns(given.by, trials)
    asv = read_asv_scores(given.asv_scores, given.asv_keys, given.subset) if given.asv_scores else None
    summaries = []
    for path, name in zip(given.scores, short_names(given.scores), strict=True):
        scores = read_scores_asked(path, trials, whole, given.ignore_others)
        with _bar(name) as progress:
            summary = summarise(
                name, given.set, scores, trials, by=columns, asv=asv, replicates=given.replicates, progress=progress
            )
        _show(summary_text(summary) + ("\n" if len(given.scores) > 1 else ""))
        for finding in summary.findings:
            print(f"{finding.level}: {name}: {finding.message}", file=sys.stderr)
        for column in columns if given.by else ():
            if column not in summary.columns:
                print(f"warning: {name}: no results by {column}: {UNDIVIDED}.", file=sys.stderr)
        summaries.append(summary)
    if len(summaries) > 1:
        _show(systems_text(summaries))
        for finding in different_trials(summaries):
            advice = "--protocol with --ignore-others takes the same ones of all."
            print(f"{finding.level}: {finding.message} {advice}", file=sys.stderr)
    for write, out in ((to_json, given.json), (to_csv, given.csv), (to_latex, given.latex)):
        if out:
            write_text(out, write(summaries))
    if given.submission:
        _submit(given, summaries[0].scores, trials)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m asdf evaluate",
        usage="python -m asdf evaluate SCORES... [options]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_score_files(parser)
    parser.add_argument("--asv-scores", type=Path, metavar="F", help="'SOURCE KEY SCORE' of an ASV system, for t-DCF")
    parser.add_argument("--asv-keys", type=Path, metavar="F", help="keys of ASV scores that have none (ASVspoof 2021)")
    parser.add_argument("--by", metavar="C,C", help="columns of P to break results down by (attack)")
    parser.add_argument("--replicates", type=int, metavar="N", default=1000, help="of the bootstrap (1000); 0: none")
    parser.add_argument("--set", default="", metavar="NAME", help="what the set is called in the output")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything with all digits")
    parser.add_argument("--csv", type=Path, metavar="OUT", help="write a row for each system and condition")
    parser.add_argument("--latex", type=Path, metavar="OUT", help="write tables for a paper (booktabs)")
    parser.add_argument("--submission", type=Path, metavar="OUT", help="write the scores in a challenge's format")
    parser.add_argument("--format", choices=FORMATS, help=f"of the submission: {', '.join(FORMATS)}")
    return parser


def _check(given: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together."""
    if given.asv_keys and not given.asv_scores:
        raise UsageError("--asv-keys are the keys of ASV scores: give --asv-scores too.")
    if (given.submission is None) != (given.format is None):
        raise UsageError(f"--submission and --format go together; formats are {', '.join(FORMATS)}.")
    if given.submission and len(given.scores) > 1:
        raise UsageError(f"--submission is of one system: give one score file, not {len(given.scores)}.")
    if given.replicates and given.replicates < 20:
        raise UsageError(
            f"--replicates {given.replicates}: 20 or more tell something of a 95 % interval; 0 leaves out."
        )
    outputs = [path.resolve() for path in (given.json, given.csv, given.latex, given.submission) if path]
    inputs = [path.resolve() for path in (*given.scores, given.protocol, given.asv_scores, given.asv_keys) if path]
    if len(set(outputs)) < len(outputs) or set(outputs) & set(inputs):
        raise UsageError("an output would overwrite another one or a file that is read: name each its own file.")


def _columns(asked: str | None, trials: Trials | None) -> tuple[str, ...]:
    if asked is None:
        return ("attack",)
    names = tuple(filter(None, map(str.strip, asked.split(","))))
    there = ("attack",) if trials is None else ("attack", *trials.columns)
    if unknown := [name for name in names if name not in there]:
        known = ", ".join(dict.fromkeys(there)) if trials is not None else "only attack without --protocol"
        raise UsageError(f"--by {asked}: no column {', '.join(unknown)}. There is {known}.")
    return names


@contextmanager
def _bar(name: str) -> Iterator[Progress]:
    """A bar on a terminal, for bootstraps that take more than a moment."""
    from tqdm import tqdm

    with tqdm(desc=f"intervals of {name}", unit="replicates", leave=False, delay=1, disable=None) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield progress


def _show(text: str) -> None:
    """Print; where nobody reads on (`| head`) the files are written all the same."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _submit(given: argparse.Namespace, scores: Scores, trials: Trials | None) -> None:
    write_submission(given.submission, given.format, scores, trials)
    print(f"written to {given.submission}: {len(scores)} scores in the format {given.format}")
    if given.format == "asvspoof2021" and given.subset:
        print(
            f"warning: only subset {given.subset} is in {given.submission}; the packages of ASVspoof 2021 want the "
            "scores of all trials and choose the subset themselves. Leave --subset out for them.",
            file=sys.stderr,
        )
