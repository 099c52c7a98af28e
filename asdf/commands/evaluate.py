"""Evaluate score files with the metrics of the official packages, by condition, with intervals.

    python -m asdf evaluate scores/epoch.20/asvspoof19-eval.txt
    python -m asdf evaluate scores.txt --protocol metadata.txt --subset eval --by attack,codec
    python -m asdf evaluate la_eval.txt --asv-scores ASVspoof2019.LA.asv.eval.gi.trl.scores.txt
    python -m asdf evaluate AASIST=first.txt SLS=second.txt --protocol P --latex table.tex
    python -m asdf evaluate net=seed0.txt,seed1.txt other=seed2.txt,seed3.txt --protocol P
    python -m asdf evaluate scores.txt --protocol P --by attack --plot det.pdf
    python -m asdf evaluate llrs.txt --tippett tippett.pdf --ece ece.pdf --reliability bins.pdf
    python -m asdf evaluate eval.txt --calibration calibrated.pt --ece ece.pdf
    python -m asdf evaluate eval.txt --threshold-from dev.txt --threshold-by best-f1
    python -m asdf evaluate predict.csv --protocol eval.csv --decisions --by type
    python -m asdf evaluate itw.txt studio.txt --cross-test file,file --html matrix.html
    python -m asdf evaluate calls.txt --threshold-from dev.txt --audio calls

A score file has lines 'relative/path.flac 1 SCORE', 'UTT ATTACK bonafide|spoof SCORE' or 'UTT
SCORE' (with or without the header 'filename TAB cm-score'), plain or gzipped; the higher score
means bona fide. The protocol is a label file of any corpus that ASDF knows. Where both files have
labels they must agree, and every trial of the protocol needs its score. '-' is standard input; as
an output it is standard output, and the tables are then shown on standard error.

Files of several seeds, NAME=A,B,C or files in the folders of runs that recorded the same settings
but for the seed, get a mean, a standard deviation, an interval and a test over seeds as well.

With --cross-test all files are of one system: each set of spoofs has an EER against each set of
genuine speech (bona fide cross-testing, Interspeech 2025), with maxima and means.

Of genuine speech alone, or of spoofs alone, there is recall and the rate of errors at a threshold
of other trials (--threshold-from, --threshold-of, --threshold), with exact intervals, and, of
genuine speech whose durations are known, the hours until the next false alarm.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from asdf.commands.detplot import count_curves, curves_of
from asdf.commands.evaluate_cross_test import cross_test_files, read_cross_test
from asdf.commands.evaluate_llrs import as_llrs, draw_llrs
from asdf.commands.evaluate_one_class import (
    check_one_class_options,
    check_one_class_systems,
    decide_systems,
    one_class_outputs,
    one_class_texts,
)
from asdf.commands.judged_files import (
    UNDIVIDED,
    Protocol,
    ScoreFilesOptions,
    System,
    ThresholdOptions,
    check_thresholds,
    named_systems,
    read_protocol_option,
    read_system_scores,
    threshold_of,
)
from asdf.commands.options import Command, option, replicates_option
from asdf.commands.outputs import (
    check_file,
    check_inputs,
    check_overwriting,
    output_name,
    show,
    text_stream,
    write_outputs,
)
from asdf.errors import AsdfError, UsageError
from asdf.metrics.groups import compare_groups
from asdf.metrics.results import FEW, JOINED, joined_columns
from asdf.metrics.several_systems import (
    different_lengths,
    different_trials,
    leaders,
    mixed_precisions,
    speakers_of,
)
from asdf.metrics.summary import Progress, Summary, known_columns, summarise
from asdf.report import (
    cross_test_page,
    csv_with_seeds,
    file_configurations,
    groups_page,
    json_with_seeds,
    over_seeds_of,
    seeds_to_latex,
    summary_text,
    systems_text,
    to_csv,
    to_latex,
)
from asdf.runs.files import write_text
from asdf.runs.streams import show_error
from asdf.tasks.studies.seed_results import OverSeeds
from asdf.tasks.studies.seed_tables import over_seeds_text
from asdf.trials.asv_scores import AsvScores, read_asv_scores
from asdf.trials.how_scored import parse_scored_length
from asdf.trials.score_file import Scores, missing_class
from asdf.trials.scored_files import how_scored
from asdf.trials.submission_files import FORMATS, write_submission
from asdf.trials.trial_list import TrialList
from asdf.version import VERSION


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ScoreFilesOptions, ThresholdOptions):
    """Options of the command."""

    asv_scores: Path | None = option(
        "'SOURCE KEY SCORE' of an ASV system, for t-DCF",
        metavar="F",
    )
    asv_keys: Path | None = option(
        "keys of ASV scores that have none (ASVspoof 2021)",
        metavar="F",
    )
    by: str | None = option(
        "columns of P to break results down by (attack), whose groups are compared where both"
        " classes have them; gender+language: both together",
        metavar="C,C",
    )
    cross_test: str | None = option(
        "columns that tell sets of spoofs and sets of genuine speech apart, each pair of which gets"
        " an EER, such as attack,language; `file` is the score file",
        metavar="S,G",
    )
    replicates: int = replicates_option(
        "replicates of the bootstrap (%(default)s); 0: no intervals"
    )
    set: str = option(
        "name of the set in the output",
        metavar="NAME",
        default="",
    )
    scored_length: str | None = option(
        "how much of each recording was scored, where the file does not say it: published (64,600"
        " samples), whole, or a number of samples",
        metavar="L",
    )
    json: Path | None = option(
        "write everything with all digits",
        metavar="OUT",
    )
    csv: Path | None = option(
        "write a row for each system and condition",
        metavar="OUT",
    )
    latex: Path | None = option(
        "write tables for a paper (booktabs)",
        metavar="OUT",
    )
    html: Path | None = option(
        "write a page of --cross-test, or of the groups of --by",
        metavar="OUT",
    )
    plot: Path | None = option(
        "draw the DET curves, of one system also by the columns of --by: .pdf, .png, .svg",
        metavar="OUT",
        check=check_file,
    )
    calibration: str | None = option(
        "turn scores of this calibrated network into its likelihood ratios first",
        metavar="NETWORK",
    )
    tippett: Path | None = option(
        "draw for both classes how large the likelihood ratios are; of scores that are natural-log"
        " ratios, as those of a calibrated network",
        metavar="OUT",
        check=check_file,
    )
    ece: Path | None = option(
        "draw the empirical cross-entropy of likelihood ratios over the prior odds, as they are and"
        " after PAV",
        metavar="OUT",
        check=check_file,
    )
    reliability: Path | None = option(
        "draw how often recordings are bona fide by what likelihood ratios state",
        metavar="OUT",
        check=check_file,
    )
    audio: Path | None = option(
        "folder of the recordings: hours of genuine speech are read from their headers",
        metavar="FOLDER",
    )
    title: str = option(
        "above the plots",
        metavar="TEXT",
        default="",
    )
    # `submission` writes them now.
    submission: Path | None = option(
        "write the scores in a challenge's format",
        hidden=True,
    )
    format: str | None = option(
        "format of the submission",
        choices=FORMATS,
        hidden=True,
    )


COMMAND = Command(
    "evaluate",
    __doc__,
    EvaluateOptions,
    {".json": "json", ".csv": "csv", ".tex": "latex", ".html": "html"}
    | dict.fromkeys((".pdf", ".png", ".svg"), "plot"),
)


def main(arguments: list[str]) -> int:
    """Print the metrics; return 0, also if something looks wrong: stderr says what.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, written or evaluated.
    """
    args = COMMAND.read(arguments)
    systems = named_systems(args.scores)
    _check(args, systems)
    screen = text_stream(_outputs(args))
    if any(_plots(args)):
        # Without matplotlib this ends with an error, before the minutes of a bootstrap.
        importlib.import_module("asdf.report.plots")
    protocol = read_protocol_option(args)
    if args.cross_test:
        _cross_test(args, arguments, systems, protocol, screen)
        return 0
    columns = _columns(args.by, protocol.trials)
    asv = _read_asv_scores(args)
    scored = _read_scores(args, systems, protocol)
    if _has_one_class(scored):
        check_one_class_systems(args, systems, scored)
        check_one_class_options(_of_both_classes(args))
        sets = decide_systems(args, systems, scored, protocol, columns, args.audio)
        write_outputs(one_class_outputs(sets, args.json, args.csv, args.latex))
        show(one_class_texts(sets), screen)
        return 0
    summaries = _summarise(args, systems, scored, protocol, columns, asv)
    leading = _leading(summaries, protocol.trials, args.replicates)
    over = _over_seeds(args, systems, summaries, protocol.trials)
    # Files first: where the screen is closed or full, what was computed is not lost.
    _write(args, summaries, leading, over, protocol.trials)
    if args.html:
        _write_groups(args.html, summaries, arguments)
    drawn = []
    if args.plot:
        drawn.append(_draw(args.plot, args, systems, summaries, protocol.trials))
    if any((args.tippett, args.ece, args.reliability)):
        drawn += draw_llrs(args, summaries)
    _print(args, summaries, leading, columns, screen)
    if over.by_set:
        show("\n" + over_seeds_text(over), screen)
    for finding in over.findings:
        show_error(f"{finding.level}: {finding.where}: {finding.message}")
    for written in drawn:
        show(written, screen)
    return 0


def _with_groups(
    args: EvaluateOptions,
    summary: Summary,
    trials: TrialList | None,
    names: Sequence[str],
) -> Summary:
    """Return a summary with the groups of the requested columns compared, but for attacks."""
    compared = [name for name in names if "attack" not in name.split(JOINED)]
    if not (args.by and compared and args.replicates) or summary.is_hard:
        return summary
    known = known_columns(summary.name, summary.scores, trials)
    decided = summary.decisions
    with _bar(f"groups of {summary.name}") as progress:
        studies = compare_groups(
            summary.scores,
            joined_columns(known, compared),
            compared,
            replicates=args.replicates,
            threshold=None if decided is None else decided.threshold.value,
            progress=progress,
        )
    return replace(summary, groups=studies)


def _write_groups(path: Path, summaries: Sequence[Summary], arguments: Sequence[str]) -> None:
    """Write the page of groups.

    Raises:
        AsdfError: no column has groups that can be compared.
    """
    if not any(summary.groups for summary in summaries):
        raise AsdfError(
            f"{path} is not written: no column of --by has two groups with {FEW} trials of either "
            "class (and --replicates 0 compares none)."
        )
    write_outputs([(path, lambda out: write_text(out, groups_page(summaries, _facts(arguments))))])


def _facts(arguments: Sequence[str]) -> list[str]:
    return [f"ASDF {VERSION}", f"asdf-antispoofing evaluate {shlex.join(arguments)}"]


def _cross_test(
    args: EvaluateOptions,
    arguments: Sequence[str],
    systems: Sequence[System],
    protocol: Protocol,
    screen: TextIO,
) -> None:
    from asdf.tasks.cross_testing import cross_test_tables as tables

    by = read_cross_test(args.cross_test or "")
    name = args.set or ", ".join(system.name for system in systems)
    with _bar(name) as progress:
        result = cross_test_files(
            systems,
            protocol,
            by,
            ignore_others=args.ignore_others,
            replicates=args.replicates,
            progress=progress,
        )
    facts = _facts(arguments)
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


def _draw(
    path: Path,
    args: EvaluateOptions,
    systems: Sequence[System],
    summaries: Sequence[Summary],
    trials: TrialList | None,
) -> str:
    """Write the DET curves; return what was written, in words."""
    from asdf.report.plots import det_plot, save_figure

    # Conditions of several systems in one plot would be a tangle.
    by = _columns(args.by, trials) if args.by and len(systems) == 1 else ()
    curves = curves_of(systems, [summary.scores for summary in summaries], trials, by)
    save_figure(det_plot(curves, args.title), path)
    return f"written to {path}: {count_curves(curves)}"


def _summarise(
    args: EvaluateOptions,
    systems: Sequence[System],
    scored: Sequence[Scores],
    protocol: Protocol,
    columns: tuple[str, ...],
    asv: AsvScores | None,
) -> list[Summary]:
    stated_length = None
    if args.scored_length:
        stated_length = parse_scored_length(args.scored_length)
    summaries = []
    for index, (system, scores) in enumerate(zip(systems, scored, strict=True)):
        scoring = how_scored(system.path)
        if stated_length:
            # The user's word counts: files of other programs say nothing, or what a default was.
            scoring = replace(scoring, length=stated_length)
        threshold = threshold_of(args, index, scores)
        with _bar(system.name) as progress:
            summary = summarise(
                system.name,
                args.set,
                scores,
                protocol.trials,
                by=columns,
                asv=asv,
                replicates=args.replicates,
                progress=progress,
                scored=scoring,
                threshold=threshold,
                is_hard=args.decisions,
            )
        summaries.append(_with_groups(args, summary, protocol.trials, columns))
    return summaries


def _read_asv_scores(args: EvaluateOptions) -> AsvScores | None:
    if args.asv_scores is None:
        return None
    return read_asv_scores(args.asv_scores, args.asv_keys, args.subset)


def _read_scores(
    args: EvaluateOptions,
    systems: Sequence[System],
    protocol: Protocol,
) -> list[Scores]:
    scored = []
    for system in systems:
        scores = read_system_scores(
            system.path,
            protocol,
            args.ignore_others,
            are_decisions=args.decisions,
            both_classes=False,
        )
        if args.calibration:
            scores = as_llrs(scores, system.path, args.calibration)
        scored.append(scores)
    return scored


def _over_seeds(
    args: EvaluateOptions,
    systems: Sequence[System],
    summaries: Sequence[Summary],
    trials: TrialList | None,
) -> OverSeeds:
    """Return the results of systems that differ by their seed alone, put together."""
    if len(systems) < 2:
        return OverSeeds()
    names = [system.name for system in systems]
    paths = [system.path for system in systems]
    configurations = file_configurations(names, paths, [system.group for system in systems])
    by_name = dict(zip(names, summaries, strict=True))
    of_name = dict(zip(names, paths, strict=True))
    return over_seeds_of(configurations, by_name, of_name, trials, args.replicates)


def _leading(
    summaries: Sequence[Summary], trials: TrialList | None, replicates: int
) -> dict[str, int]:
    """Return the index of the best system for each metric in which one system is the best."""

    def scores_and_speakers(index: int) -> tuple[Scores, Sequence[str] | None]:
        scores = summaries[index].scores
        return scores, speakers_of(scores, trials)

    # Systems that were scored from different lengths have no common best one, decisions no EER.
    if len(summaries) < 2 or different_lengths(summaries) or summaries[0].is_hard:
        return {}
    results = [summary.result for summary in summaries]
    return leaders(results, scores_and_speakers, replicates)


def _write(
    args: EvaluateOptions,
    summaries: Sequence[Summary],
    leading: Mapping[str, int],
    over: OverSeeds,
    trials: TrialList | None,
) -> None:
    scores = summaries[0].scores
    decisions = summaries[0].decisions
    threshold = decisions.threshold.value if decisions else None

    def write_latex(path: Path) -> None:
        latex = to_latex(summaries, leading)
        if over.by_set:
            by_name = {summary.name: summary for summary in summaries}
            latex += "\n" + seeds_to_latex(over, by_name)
        write_text(path, latex)

    write_outputs(
        [
            (args.json, lambda path: write_text(path, json_with_seeds(summaries, over))),
            (args.csv, lambda path: write_text(path, csv_with_seeds(to_csv(summaries), over))),
            (args.latex, write_latex),
            (
                args.submission,
                lambda path: write_submission(path, args.format or "", scores, trials, threshold),
            ),
        ]
    )


def _print(
    args: EvaluateOptions,
    summaries: Sequence[Summary],
    leading: Mapping[str, int],
    columns: Sequence[str],
    screen: TextIO,
) -> None:
    """Show the tables on `screen`, and on stderr, after each table, what looks wrong in it."""
    # Nobody requested the default: a file without attacks is no reason to warn.
    requested_columns = columns if args.by else ()
    for index, summary in enumerate(summaries):
        # An empty line parts the table of one system from the next.
        if index > 0:
            show("", screen)
        show(summary_text(summary), screen)
        for finding in summary.findings:
            show_error(f"{finding.level}: {summary.name}: {finding.message}")
        for column in requested_columns:
            if column not in summary.columns:
                show_error(f"warning: {summary.name}: no results by {column}: {UNDIVIDED}.")
    if len(summaries) > 1:
        show("\n" + systems_text(summaries, leading), screen)
        advice = " --protocol with --ignore-others evaluates all systems on the same trials."
        for finding in different_trials(summaries):
            show_error(f"{finding.level}: {finding.message}{advice}")
        for finding in different_lengths(summaries) + mixed_precisions(summaries):
            show_error(f"{finding.level}: {finding.message}")
    if args.submission:
        _print_submission(args, len(summaries[0].scores), screen)


def _check(args: EvaluateOptions, systems: Sequence[System]) -> None:
    """Raise UsageError for options that do not go together."""
    if args.asv_keys and not args.asv_scores:
        raise UsageError("--asv-keys are the keys of ASV scores: give --asv-scores too.")
    if (args.submission is None) != (args.format is None):
        raise UsageError(
            f"--submission and --format go together; formats are {', '.join(FORMATS)}."
        )
    if args.submission and len(args.scores) > 1:
        raise UsageError(
            f"--submission is of one system: give one score file, not {len(args.scores)}."
        )
    if any(_plots(args)) and args.decisions:
        raise UsageError("plots draw curves of scores: --decisions have one point each.")
    if args.calibration and (args.decisions or len(systems) > 1):
        raise UsageError("--calibration is of the scores of one network: give one score file.")
    if args.cross_test:
        _check_cross_test(args)
    elif args.html and not args.by:
        raise UsageError("--html is the page of --cross-test, or of --by: give one of them too.")
    check_thresholds(args, systems)
    inputs = [system.path for system in systems]
    others = (args.protocol, args.asv_scores, args.asv_keys, args.threshold_protocol)
    inputs += [path for path in others if path]
    inputs += map(Path, args.threshold_from)
    check_inputs(inputs)
    check_overwriting(inputs, _outputs(args))


def _check_cross_test(args: EvaluateOptions) -> None:
    """Raise UsageError for options that a cross-test has no use for."""
    read_cross_test(args.cross_test or "")
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
            f"--cross-test has EERs of pairs of sets alone: leave {', '.join(named)} out."
        )


def _has_one_class(scored: Sequence[Scores]) -> bool:
    """Whether the trials of a system are of one class."""
    return any(missing_class(scores.labels) for scores in scored)


def _of_both_classes(args: EvaluateOptions) -> Mapping[str, object]:
    """Return the options that a set of one class has no use for."""
    return {
        "--plot": args.plot,
        "--tippett": args.tippett,
        "--ece": args.ece,
        "--reliability": args.reliability,
        "--asv-scores": args.asv_scores,
        "--html": args.html,
        "--submission": args.submission,
    }


def _outputs(args: EvaluateOptions) -> list[Path | None]:
    return [args.json, args.csv, args.latex, args.html, args.submission, *_plots(args)]


def _plots(args: EvaluateOptions) -> list[Path | None]:
    return [args.plot, args.tippett, args.ece, args.reliability]


def _columns(requested: str | None, trials: TrialList | None) -> tuple[str, ...]:
    """Return the columns that --by names; the attack without --by.

    Raises:
        UsageError: the protocol has no such column.
    """
    if requested is None:
        return ("attack",)
    words = [word.strip() for word in requested.split(",")]
    names = tuple(word for word in words if word)
    # The attack can be in the score file itself, so it needs no protocol.
    existing = dict.fromkeys(("attack", *(trials.columns if trials else ())))
    unknown = []
    for name in names:
        parts = [name] if name in existing else name.split(JOINED)
        unknown += [part for part in parts if part not in existing]
    if unknown:
        known = ", ".join(existing) if trials else "only attack without --protocol"
        raise UsageError(f"--by {requested}: no column {', '.join(unknown)}. There is {known}.")
    return names


@contextmanager
def _bar(name: str) -> Iterator[Progress]:
    """Show a bar on a terminal, for bootstraps that take more than a moment."""
    from tqdm import tqdm

    title = name if name.startswith("groups") else f"intervals of {name}"
    with tqdm(desc=title, unit="replicates", leave=False, delay=1, disable=None) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield progress


def _print_submission(args: EvaluateOptions, trials: int, screen: TextIO) -> None:
    assert args.submission is not None
    written = output_name(args.submission)
    show(f"written to {written}: {trials} scores in the format {args.format}", screen)
    if args.format == "asvspoof2021" and args.subset:
        show_error(
            f"warning: only subset {args.subset} is in {written}; the packages of ASVspoof 2021 "
            "need the scores of all trials and choose the subset themselves: leave --subset out."
        )
