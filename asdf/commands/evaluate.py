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
    python -m asdf evaluate calls.txt --threshold-from dev.txt

A score file has lines 'relative/path.flac 1 SCORE', 'UTT ATTACK bonafide|spoof SCORE' or 'UTT
SCORE' (with or without the header 'filename TAB cm-score'), plain or gzipped; a higher score means
bona fide. The protocol is a label file of any corpus that ASDF supports. If both files have labels,
they must agree, and every trial of the protocol needs a score. '-' is standard input or standard
output; if an output is '-', the tables are printed on standard error.

For several seeds, given as NAME=A,B,C or as files of runs whose recorded settings differ only in
the seed, the output also has the mean, standard deviation, interval and a test over seeds.

For a set with only one class, the output is the recall and the error rate at a threshold from other
trials (--threshold-from, --threshold-of, --threshold), with exact intervals.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from asdf.commands.detplot import count_curves, curves_of
from asdf.commands.evaluate_llrs import calibrate_file, draw_llrs
from asdf.commands.evaluate_one_class import decide_systems, one_class_json, one_class_text
from asdf.commands.evaluate_options import EvaluateOptions
from asdf.commands.judged_files import (
    UNDIVIDED,
    Judged,
    Protocol,
    System,
    check_thresholds,
    named_systems,
    read_protocol_option,
    read_system_scores,
    threshold_of,
)
from asdf.commands.options import Command
from asdf.commands.outputs import (
    check_inputs,
    check_overwriting,
    output_name,
    replicates_bar,
    show,
    text_stream,
    write_outputs,
)
from asdf.errors import UsageError
from asdf.metrics.results import JOINED
from asdf.metrics.several_systems import (
    different_lengths,
    different_trials,
    leading_systems,
    mixed_precisions,
)
from asdf.metrics.summary import Summary, summarise
from asdf.report import (
    csv_with_seeds,
    json_with_seeds,
    latex_with_seeds,
    over_seeds_of,
    summary_text,
    systems_text,
)
from asdf.runs.files import write_text
from asdf.runs.streams import show_error
from asdf.tables.table import each
from asdf.tasks.studies.seed_results import OverSeeds
from asdf.tasks.studies.seed_tables import over_seeds_text
from asdf.trials.asv_scores import AsvScores, read_asv_scores
from asdf.trials.how_scored import parse_scored_length
from asdf.trials.score_file import missing_class
from asdf.trials.scored_files import how_scored
from asdf.trials.submission_files import FORMATS, write_submission
from asdf.trials.trial_list import TrialList

COMMAND = Command(
    "evaluate",
    __doc__,
    EvaluateOptions,
    {".json": "json", ".csv": "csv", ".tex": "latex"}
    | dict.fromkeys((".pdf", ".png", ".svg"), "plot"),
)


def main(arguments: list[str]) -> int:
    """Print the metrics; return 0 even if something looks wrong, which stderr states.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, written or evaluated.
    """
    args = COMMAND.read(arguments)
    systems = named_systems(args.scores)
    _check(args, systems)
    screen = text_stream(_outputs(args))
    if any(_plots(args)):
        # Checked first, so that missing matplotlib does not cost the minutes of a bootstrap.
        importlib.import_module("asdf.report.plots")
    protocol = read_protocol_option(args)
    columns = _columns(args.by, protocol.trials)
    asv = None
    if args.asv_scores:
        asv = read_asv_scores(args.asv_scores, args.asv_keys, args.subset)
    judged = _read_scores(args, systems, protocol)
    if any(missing_class(scores.labels) for scores in each(judged, "scores")):
        sets = decide_systems(args, systems, judged, protocol, columns)
        write_outputs([(args.json, lambda path: write_text(path, one_class_json(sets)))])
        show(one_class_text(sets), screen)
        return 0
    summaries = _summarise(args, systems, judged, protocol, columns, asv)
    _report(args, systems, summaries, protocol.trials, columns, screen)
    return 0


def _report(
    args: EvaluateOptions,
    systems: Sequence[System],
    summaries: Sequence[Summary],
    trials: TrialList | None,
    columns: tuple[str, ...],
    screen: TextIO,
) -> None:
    """Write the requested files, and then print."""
    leading: dict[str, int] = {}
    over = OverSeeds()
    if len(summaries) > 1:
        leading = leading_systems(summaries, trials, args.replicates)
        paths = each(systems, "path")
        groups = each(systems, "group")
        over = over_seeds_of(summaries, paths, groups, trials, args.replicates)
    # Files first: if the screen is closed or full, the results are not lost.
    _write(args, summaries, leading, over, trials)
    drawn = []
    if args.plot:
        drawn.append(_draw(args.plot, args, systems, summaries, trials))
    if any((args.tippett, args.ece, args.reliability)):
        drawn += draw_llrs(args, summaries)
    _print(args, summaries, leading, columns, screen)
    if over.by_set:
        show("\n" + over_seeds_text(over), screen)
    for finding in over.findings:
        show_error(f"{finding.level}: {finding.where}: {finding.message}")
    for written in drawn:
        show(written, screen)


def _draw(
    path: Path,
    args: EvaluateOptions,
    systems: Sequence[System],
    summaries: Sequence[Summary],
    trials: TrialList | None,
) -> str:
    """Write the DET curves; return a description of the plot."""
    from asdf.report.plots import det_plot, save_figure

    # Conditions of several systems would overload a plot.
    by = _columns(args.by, trials) if args.by and len(systems) == 1 else ()
    curves = curves_of(systems, [summary.scores for summary in summaries], trials, by)
    save_figure(det_plot(curves, args.title), path)
    return f"written to {path}: {count_curves(curves)}"


def _summarise(
    args: EvaluateOptions,
    systems: Sequence[System],
    judged: Sequence[Judged],
    protocol: Protocol,
    columns: tuple[str, ...],
    asv: AsvScores | None,
) -> list[Summary]:
    stated_length = parse_scored_length(args.scored_length) if args.scored_length else None
    summaries = []
    for system, (scores, threshold) in zip(systems, judged, strict=True):
        scoring = how_scored(system.path)
        if stated_length:
            # The user's statement takes precedence: files of other programs state nothing, or a
            # default.
            scoring = replace(scoring, length=stated_length)
        with replicates_bar(f"intervals of {system.name}") as progress:
            summaries.append(
                summarise(
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
            )
    return summaries


def _read_scores(
    args: EvaluateOptions,
    systems: Sequence[System],
    protocol: Protocol,
) -> list[Judged]:
    judged = []
    for index, system in enumerate(systems):
        scores = read_system_scores(
            system.path,
            protocol,
            args.ignore_others,
            are_decisions=args.decisions,
            both_classes=False,
        )
        found = Judged(scores, threshold_of(args, index, scores, system.path))
        if args.calibration:
            found = calibrate_file(args, found, system.path)
        judged.append(found)
    return judged


def _write(
    args: EvaluateOptions,
    summaries: Sequence[Summary],
    leading: Mapping[str, int],
    over: OverSeeds,
    trials: TrialList | None,
) -> None:
    first = summaries[0]
    threshold = first.decisions.threshold.value if first.decisions else None

    def write_scores(path: Path) -> None:
        write_submission(path, args.format or "", first.scores, trials, threshold)

    write_outputs(
        [
            (args.json, lambda path: write_text(path, json_with_seeds(summaries, over))),
            (args.csv, lambda path: write_text(path, csv_with_seeds(summaries, over))),
            (args.latex, lambda path: write_text(path, latex_with_seeds(summaries, leading, over))),
            (args.submission, write_scores),
        ]
    )


def _print(
    args: EvaluateOptions,
    summaries: Sequence[Summary],
    leading: Mapping[str, int],
    columns: Sequence[str],
    screen: TextIO,
) -> None:
    """Show the tables on `screen`, and after each table its warnings on stderr."""
    # Nobody requested the default: a file without attacks needs no warning.
    requested_columns = columns if args.by else ()
    for index, summary in enumerate(summaries):
        # An empty line separates the tables of two systems.
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
    """Raise UsageError for contradictory options."""
    if args.asv_keys and not args.asv_scores:
        raise UsageError("--asv-keys needs the ASV scores. Give --asv-scores too.")
    if (args.submission is None) != (args.format is None):
        raise UsageError(
            f"--submission and --format must be given together. Formats: {', '.join(FORMATS)}."
        )
    if args.submission and len(args.scores) > 1:
        raise UsageError(
            f"--submission writes a single system, but {len(args.scores)} score files are given. "
            "Give one."
        )
    if any(_plots(args)) and args.decisions:
        raise UsageError(
            "plots need scores, but files of --decisions contain only decisions. Leave the plots "
            "out."
        )
    if args.calibration and (args.decisions or len(systems) > 1):
        raise UsageError(
            "--calibration applies to the scores of a single network, not to several files or to "
            "--decisions. Give one score file."
        )
    check_thresholds(args, systems)
    inputs = [system.path for system in systems]
    others = (args.protocol, args.asv_scores, args.asv_keys, args.threshold_protocol)
    inputs += [path for path in others if path]
    inputs += map(Path, args.threshold_from)
    check_inputs(inputs)
    check_overwriting(inputs, _outputs(args))


def _outputs(args: EvaluateOptions) -> list[Path | None]:
    return [args.json, args.csv, args.latex, args.submission, *_plots(args)]


def _plots(args: EvaluateOptions) -> list[Path | None]:
    return [args.plot, args.tippett, args.ece, args.reliability]


def _columns(requested: str | None, trials: TrialList | None) -> tuple[str, ...]:
    """Return the columns of --by; the attack without --by.

    Raises:
        UsageError: the protocol has no such column.
    """
    if requested is None:
        return ("attack",)
    words = [word.strip() for word in requested.split(",")]
    names = tuple(word for word in words if word)
    # The score file itself may contain the attack, without a protocol.
    existing = dict.fromkeys(("attack", *(trials.columns if trials else ())))
    unknown = []
    for name in names:
        parts = [name] if name in existing else name.split(JOINED)
        unknown += [part for part in parts if part not in existing]
    if unknown:
        known = ", ".join(existing) if trials else "only attack without --protocol"
        raise UsageError(f"--by {requested}: no column {', '.join(unknown)}. Columns: {known}.")
    return names


def _print_submission(args: EvaluateOptions, trials: int, screen: TextIO) -> None:
    assert args.submission is not None
    written = output_name(args.submission)
    show(f"written to {written}: {trials} scores in the format {args.format}", screen)
    if args.format == "asvspoof2021" and args.subset:
        show_error(
            f"warning: {written} contains only subset {args.subset}, but the packages of ASVspoof "
            "2021 need the scores of all trials and select the subset themselves. Leave --subset "
            "out."
        )
