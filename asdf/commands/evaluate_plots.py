"""Plots of `evaluate`: DET curves, and what likelihood ratios are worth."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from asdf.commands.evaluate_options import EvaluateOptions
from asdf.metrics.detection import DetCurve
from asdf.metrics.llr_quality import llr_quality
from asdf.metrics.results import joined_columns, trials_of
from asdf.metrics.summary import Summary, known_columns
from asdf.report.plots import (
    ThinnedCurve,
    det_plot,
    ece_plot,
    reliability_plot,
    save_figure,
    thinned_det,
    tippett_plot,
)
from asdf.runs.streams import show_error
from asdf.text import count_of
from asdf.trials.how_scored import in_precision, role_words
from asdf.trials.trial_list import TrialList


def draw(
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
    lines = []
    if args.plot:
        curves = {}
        for summary in summaries:
            scored = summary.scored
            name = f"{summary.name}{in_precision(scored.precision)}{role_words(scored.role)}"
            curves[name] = thinned_det(summary.curve)
        # Conditions of several systems would overload a plot.
        if len(summaries) == 1:
            curves |= _condition_curves(summaries[0], trials, columns, curves)
        save_figure(det_plot(curves, args.title), args.plot)
        lines.append(f"written to {args.plot}: {count_of(len(curves), 'curve')}")
    ratios = {
        args.tippett: (tippett_plot, "Tippett plot"),
        args.ece: (ece_plot, "empirical cross-entropy"),
        args.reliability: (reliability_plot, "reliability diagram"),
    }
    ratios.pop(None, None)
    if ratios:
        lines += _judge_ratios(summaries)
    of_systems = {summary.name: summary.curve for summary in summaries}
    for path, (plot, noun) in ratios.items():
        assert path is not None
        save_figure(plot(of_systems, args.title), path)
        lines.append(f"written to {path}: {noun}")
    return lines


def _condition_curves(
    summary: Summary, trials: TrialList | None, columns: Sequence[str], others: Collection[str]
) -> dict[str, ThinnedCurve]:
    """Return the curve of each condition, with the trials of its EER."""
    known = joined_columns(known_columns(summary.name, summary.scores, trials), columns)
    curves = {}
    for column in columns:
        for condition in summary.of_column(column):
            curve = DetCurve.of(*trials_of(condition, summary.scores, known[column]))
            # A condition may have the same name as the system.
            name = condition.value
            name = f"'{name}'" if name in others or name in curves else name
            curves[name] = thinned_det(curve)
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
