"""`evaluate` for detection scores: tables, files and plots of systems, and submissions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import numpy as np

from asdf.commands.evaluate import EvaluateOptions, ratio_plots
from asdf.commands.judged_files import (
    Judged,
    Protocol,
    System,
    calibration_of_scores,
    check_thresholds,
    decide_systems,
    one_class_json,
    one_class_text,
    read_protocol_option,
    read_system_scores,
    read_threshold,
    threshold_of,
)
from asdf.commands.outputs import output_name, replicates_bar, show, write_outputs
from asdf.corpora import read_protocol
from asdf.errors import AsdfError, UsageError
from asdf.metrics.detection import ASVSPOOF5, DetCurve, with_costs
from asdf.metrics.llr_maps import llr_quality
from asdf.metrics.results import JOINED, joined_columns, trials_of
from asdf.metrics.summary import (
    Summary,
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
from asdf.runs.streams import input_name, show_error
from asdf.tables.table import each
from asdf.tasks.studies.seed_results import OverSeeds, over_seeds_text
from asdf.text import count_of
from asdf.trials.formats import read_score_file
from asdf.trials.how_scored import in_precision, parse_scored_length, role_words
from asdf.trials.matching import match_file
from asdf.trials.score_file import Scores, missing_class, read_asv_scores
from asdf.trials.scored_files import how_scored
from asdf.trials.submission_files import (
    FORMATS,
    SUBMISSION_FORMATS,
    check_submission,
    write_submission,
)
from asdf.trials.text_lines import numbered_lines
from asdf.trials.trial_list import UNLABELLED, TrialList

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
    problem = _contradiction(args, len(systems))
    if problem:
        raise UsageError(problem)
    check_thresholds(args, systems)
    protocol = read_protocol_option(args)
    columns = _columns(args.by, protocol.trials)
    asv = None
    if args.asv_scores:
        asv = read_asv_scores(args.asv_scores, args.asv_keys, args.subset)
    cost = with_costs(ASVSPOOF5, args.costs)
    judged = []
    for index, system in enumerate(systems):
        scores = read_system_scores(
            system.path,
            protocol,
            args.ignore_others,
            are_decisions=args.decisions,
            both_classes=False,
        )
        found = Judged(scores, threshold_of(args, cost, index, scores, system.path))
        judged.append(_as_ratios(args, found, system.path) if args.calibration else found)
    if any(missing_class(scores.labels) for scores in each(judged, "scores")):
        of_both = ("asv_scores", "plot", "ratios", "submission", "csv", "latex")
        given = ["--" + name.replace("_", "-") for name in of_both if getattr(args, name)]
        sets = decide_systems(systems, judged, protocol, columns, given)
        write_outputs([(args.json, lambda path: write_text(path, one_class_json(sets)))])
        show(one_class_text(sets), screen)
        return
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
        for finding in mixed_scoring(summaries):
            show_error(f"{finding.level}: {finding.message}")
    if args.submission:
        written = output_name(args.submission)
        count = len(summaries[0].scores)
        show(f"written to {written}: {count} scores in the format {args.format}", screen)
        if args.format == "asvspoof2021" and args.subset:
            show_error(
                f"warning: {written} has only subset {args.subset}, but the packages of ASVspoof "
                "2021 need all trials. Leave --subset out."
            )


def _contradiction(args: EvaluateOptions, systems: int) -> str:
    """Return what contradicts each other in the options; '' if nothing does."""
    of_threshold = args.threshold_by or args.threshold_protocol
    problems = (
        (args.asv_keys and not args.asv_scores, "--asv-keys needs --asv-scores too."),
        (
            (args.submission is None) != (args.format is None),
            f"--submission and --format go together. Formats: {', '.join(FORMATS)}.",
        ),
        (args.submission and systems > 1, "--submission writes one system. Give one score file."),
        (args.decisions and any(_plots(args)), "plots need scores, not --decisions."),
        (args.decisions and not args.protocol, "--decisions have no labels. Give --protocol."),
        (
            args.calibration and (args.decisions or systems > 1),
            "--calibration applies to the scores of one network. Give one score file.",
        ),
        (
            of_threshold and not args.threshold_from,
            "--threshold-by and --threshold-protocol describe the set of --threshold-from DEV.",
        ),
    )
    return next((problem for applies, problem in problems if applies), "")


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
        known = f"columns: {', '.join(existing)}" if trials else "only attack without --protocol"
        raise UsageError(f"--by {requested}: no column {', '.join(unknown)}; {known}.")
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
    for summary in summaries if args.ratios else ():
        quality = llr_quality(summary.curve)
        lines.append(f"{summary.name}: {quality.describe()}")
        if quality.cllr > 1:
            show_error(
                f"warning: {summary.name}: Cllr is {quality.cllr:.3f} bits, worse than the 1 bit "
                "of uninformative ratios, so these scores are not calibrated log-likelihood "
                "ratios. Calibrate the network first (python -m asdf calibrate)."
            )
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


def submit(args: EvaluateOptions, systems: Sequence[System], screen: TextIO) -> None:
    """Write or check a file.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read or written, or does not fit the list of trials.
    """
    is_whole = len(systems) == 1 and args.check == (args.submission is None)
    if args.protocol is None or args.format is None or not is_whole:
        raise UsageError(
            "a submission needs one score file, --format, the challenge's list of trials with "
            "--protocol, and either --submission OUT or --check."
        )
    path = systems[0].path
    if args.check:
        lines = check_submission(path, args.format, _read_trials(args.protocol).ids)
        show(f"{input_name(path)}: {lines} trials, in the format {args.format}", screen)
        return
    threshold = None if args.threshold is None else read_threshold(args.threshold)
    decides = SUBMISSION_FORMATS[args.format].decides
    if decides != (threshold is not None):
        raise UsageError(
            f"the format {args.format} has {'' if decides else 'no '}decisions: "
            f"{'give' if decides else 'leave out'} --threshold X."
        )
    trials = _read_trials(args.protocol)
    if args.format == "asvspoof2019":
        # Its lines have labels and attacks, which the label file of the set states.
        scores = read_system_scores(path, Protocol(trials, trials), ignore_others=False)
        columns = known_columns(input_name(path), scores, trials)
        scores = replace(scores, columns=columns)
    else:
        file = read_score_file(path, lambda utterance: trials.index_of(utterance) is not None)
        # Labels in it need not be those of the list, which states none.
        file = replace(file, labels=np.full(len(file), UNLABELLED))
        scores, _ = match_file(path, file, trials, None, args.ignore_others, both_classes=False)
    assert args.submission is not None  # it was looked for above
    write_submission(args.submission, args.format, scores, trials, threshold)
    written = output_name(args.submission)
    show(f"written to {written}: {len(scores)} trials, format {args.format}", screen)


def _read_trials(path: Path) -> TrialList:
    """Read the utterances of a list without labels, or of a label file."""
    names = [line for _, line in numbered_lines(path)]
    # Names of utterances have no spaces or commas, so lines with several fields have labels.
    if any(len(name.split()) > 1 or "," in name for name in names):
        return read_protocol(path)
    repeated = len(names) - len(set(names))
    if repeated or not names:
        raise AsdfError(
            f"{input_name(path)} has {len(names)} trials, {repeated} of them repeated. Is it the "
            "challenge's list?"
        )
    return TrialList(names, np.zeros(len(names), np.int8))
