"""`evaluate` for detection scores: tables, files and plots of one or several systems."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np

from asdf.commands.evaluate import EvaluateOptions, ratio_plots
from asdf.commands.evaluate_thresholds import (
    Judged,
    calibration_of_scores,
    check_thresholds,
    decide_systems,
    one_class_json,
    one_class_text,
    threshold_of,
)
from asdf.commands.judged_files import System, read_protocol_option, read_system_scores
from asdf.commands.outputs import output_name, replicates_bar, show, write_outputs
from asdf.errors import UsageError
from asdf.metrics.detection import ASVSPOOF5, DetCurve, with_costs
from asdf.metrics.llr_maps import llr_quality
from asdf.metrics.results import JOINED, joined_columns, trials_of
from asdf.metrics.summary import (
    Summary,
    different_lengths,
    different_trials,
    known_columns,
    leading_systems,
    mixed_scoring,
    summarise,
)
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
from asdf.tasks.studies.seed_results import OverSeeds, over_seeds_text
from asdf.text import count_of
from asdf.trials.how_scored import in_precision, parse_scored_length, role_words
from asdf.trials.score_file import Scores, missing_class, read_asv_scores
from asdf.trials.scored_files import how_scored
from asdf.trials.submission_files import FORMATS, write_submission
from asdf.trials.trial_list import TrialList

_RATIO_PLOTS = {
    "tippett": "Tippett plot",
    "ece": "empirical cross-entropy",
    "reliability": "reliability diagram",
}
_UNDIVIDED = "no spoof has a known value of it, or all trials have the same value"


def evaluate(args: EvaluateOptions, systems: Sequence[System], screen: TextIO) -> None:
    """Write the requested files, and print the metrics on `screen`.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, written or evaluated.
    """
    _check(args, systems)
    protocol = read_protocol_option(args)
    columns = _columns(args.by, protocol.trials)
    asv = None
    if args.asv_scores:
        asv = read_asv_scores(args.asv_scores, args.asv_keys, args.subset)
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
        judged.append(_as_ratios(args, found, system.path) if args.calibration else found)
    if any(missing_class(scores.labels) for scores in each(judged, "scores")):
        sets = decide_systems(args, systems, judged, protocol, columns)
        write_outputs([(args.json, lambda path: write_text(path, one_class_json(sets)))])
        show(one_class_text(sets), screen)
        return
    cost = with_costs(ASVSPOOF5, args.costs)
    stated_length = parse_scored_length(args.scored_length) if args.scored_length else None
    summaries = []
    for system, (scores, threshold) in zip(systems, judged, strict=True):
        scoring = how_scored(system.path)
        if stated_length:
            # The user's statement takes precedence: files of other programs state nothing, or a
            # default.
            scoring = replace(scoring, length=stated_length)
        with replicates_bar(f"intervals of {system.name}") as progress:
            summary = summarise(
                system.name,
                "",
                scores,
                protocol.trials,
                by=columns,
                asv=asv,
                replicates=args.replicates,
                progress=progress,
                scored=scoring,
                threshold=threshold,
                is_hard=args.decisions,
                cost=cost,
            )
        summaries.append(summary)
    _report(args, systems, summaries, protocol.trials, columns, screen)


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
    first = summaries[0]
    threshold = first.decisions.threshold.value if first.decisions else None

    latex = partial(latex_with_seeds, summaries, leading, over)

    def write_scores(path: Path) -> None:
        write_submission(path, args.format or "", first.scores, trials, threshold)

    write_outputs(
        [
            (args.json, lambda path: write_text(path, json_with_seeds(summaries, over))),
            (args.csv, lambda path: write_text(path, csv_with_seeds(summaries, over))),
            (args.latex, lambda path: write_text(path, latex())),
            (args.submission, write_scores),
        ]
    )
    # Nobody requested the default: a file without attacks needs neither curves nor a warning.
    requested = columns if args.by else ()
    drawn = _draw(args, summaries, trials, requested) if any(_plots(args)) else []
    _print(args, summaries, leading, requested, screen)
    if over.by_set:
        show("\n" + over_seeds_text(over), screen)
    for finding in over.findings:
        show_error(f"{finding.level}: {finding.where}: {finding.message}")
    for written in drawn:
        show(written, screen)


def _as_ratios(args: EvaluateOptions, judged: Judged, path: Path) -> Judged:
    """Return scores, and a threshold learnt from such scores, as likelihood ratios.

    Maps are increasing, and their range limits scores and threshold alike, so decisions stay the
    same if it holds the threshold (`Calibration.supports_threshold`).
    """
    scores, threshold = judged
    calibration = calibration_of_scores(path, args.calibration or "")
    # A threshold on the command line is a likelihood ratio already.
    if threshold and args.threshold is None:
        threshold = replace(threshold, value=float(calibration.llr(threshold.value)))
    llrs = calibration.llr(scores.scores)
    bounded = int(np.count_nonzero(llrs != calibration.unbounded_llr(scores.scores)))
    if bounded:
        show_error(
            f"{bounded:,} of {len(scores):,} likelihood ratios are limited to the range that the "
            "calibration set supports"
        )
    return Judged(Scores.of(scores, llrs), threshold)


def _print(
    args: EvaluateOptions,
    summaries: Sequence[Summary],
    leading: Mapping[str, int],
    columns: Sequence[str],
    screen: TextIO,
) -> None:
    """Show the tables on `screen`, and after each table its warnings on stderr."""
    for index, summary in enumerate(summaries):
        # An empty line separates the tables of two systems.
        if index > 0:
            show("", screen)
        show(summary_text(summary), screen)
        for finding in summary.findings:
            show_error(f"{finding.level}: {summary.name}: {finding.message}")
        for column in columns:
            if column not in summary.columns:
                show_error(f"warning: {summary.name}: no results by {column}: {_UNDIVIDED}.")
    if len(summaries) > 1:
        show("\n" + systems_text(summaries, leading), screen)
        advice = " --protocol with --ignore-others evaluates all systems on the same trials."
        for finding in different_trials(summaries):
            show_error(f"{finding.level}: {finding.message}{advice}")
        for finding in different_lengths(summaries) + mixed_scoring(summaries):
            show_error(f"{finding.level}: {finding.message}")
    if args.submission:
        written = output_name(args.submission)
        count = len(summaries[0].scores)
        show(f"written to {written}: {count} scores in the format {args.format}", screen)
        if args.format == "asvspoof2021" and args.subset:
            show_error(
                f"warning: {written} contains only subset {args.subset}, but the packages of "
                "ASVspoof 2021 need the scores of all trials and select the subset themselves. "
                "Leave --subset out."
            )


def _check(args: EvaluateOptions, systems: Sequence[System]) -> None:
    """Raise UsageError for contradictory options."""
    if args.asv_keys and not args.asv_scores:
        raise UsageError("--asv-keys needs the ASV scores. Give --asv-scores too.")
    if (args.submission is None) != (args.format is None):
        raise UsageError(
            f"--submission and --format must be given together. Formats: {', '.join(FORMATS)}."
        )
    if args.submission and len(systems) > 1:
        raise UsageError(
            f"--submission writes a single system, but {len(systems)} score files are given. "
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


def _plots(args: EvaluateOptions) -> list[Path | None]:
    return [args.plot, *ratio_plots(args).values()]


def _columns(requested: str | None, trials: TrialList | None) -> tuple[str, ...]:
    """Return the columns of --by; the attack without --by.

    Raises:
        UsageError: the protocol has no such column.
    """
    if requested is None:
        return ("attack",)
    names = tuple(filter(None, map(str.strip, requested.split(","))))
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


def _draw(
    args: EvaluateOptions,
    summaries: Sequence[Summary],
    trials: TrialList | None,
    columns: Sequence[str],
) -> list[str]:
    """Write the requested plots; return a description of each.

    Args:
        columns: Columns of --by, whose conditions have curves if there is a single system.

    Raises:
        AsdfError: a file cannot be written.
    """
    # Imported here, because matplotlib takes a moment.
    from asdf.report import plots

    lines = []
    if args.plot:
        curves = {}
        for summary in summaries:
            scored = summary.scored
            name = f"{summary.name}{in_precision(scored.precision)}{role_words(scored.role)}"
            curves[name] = summary.curve
        # Conditions of several systems would overload a plot.
        if len(summaries) == 1:
            curves |= _condition_curves(summaries[0], trials, columns, curves)
        thinned = {name: plots.thinned_det(curve) for name, curve in curves.items()}
        plots.save_figure(plots.det_plot(thinned), args.plot)
        lines.append(f"written to {args.plot}: {count_of(len(curves), 'curve')}")
    if args.ratios:
        lines += _judge_ratios(summaries)
    of_systems = {summary.name: summary.curve for summary in summaries}
    for kind, path in ratio_plots(args).items():
        plots.save_figure(plots.ratio_plot(kind, of_systems), path)
        lines.append(f"written to {path}: {_RATIO_PLOTS[kind]}")
    return lines


def _condition_curves(
    summary: Summary, trials: TrialList | None, columns: Sequence[str], others: Collection[str]
) -> dict[str, DetCurve]:
    """Return the curve of each condition, with the trials of its EER."""
    known = joined_columns(known_columns(summary.name, summary.scores, trials), columns)
    curves = {}
    for column in columns:
        for condition in summary.of_column(column):
            curve = DetCurve.of(*trials_of(condition, summary.scores, known[column]))
            # A condition may have the same name as the system.
            name = condition.value
            name = f"'{name}'" if name in others or name in curves else name
            curves[name] = curve
    return curves


def _judge_ratios(summaries: Sequence[Summary]) -> list[str]:
    """Return the quality of likelihood ratios; warn if ratios of 1 would be more informative."""
    lines = []
    for summary in summaries:
        quality = llr_quality(summary.curve)
        lines.append(f"{summary.name}: {quality.describe()}")
        if quality.cllr > 1:
            show_error(
                f"warning: {summary.name}: Cllr is {quality.cllr:.3f} bits, worse than the 1 bit "
                "of uninformative ratios, so these scores are not calibrated log-likelihood "
                "ratios. Calibrate the network first (python -m asdf calibrate)."
            )
    return lines
