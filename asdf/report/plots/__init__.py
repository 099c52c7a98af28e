"""Plots for papers: DET curves, histograms, likelihood ratios, training ...

They draw the panels of pages, and are written as PDF, PNG or SVG.
"""

from __future__ import annotations

from asdf.report.curves import ThinnedCurve, thinned_det
from asdf.report.plots.figures import FORMATS, save_figure
from asdf.report.plots.paper_plots import (
    confusion_plot,
    det_plot,
    effect_map,
    effect_plot,
    heat_map,
    oscr_plot,
    ratio_plot,
    score_histograms,
    training_curves,
    write_plots,
)

__all__ = [
    "FORMATS",
    "ThinnedCurve",
    "confusion_plot",
    "det_plot",
    "effect_map",
    "effect_plot",
    "heat_map",
    "oscr_plot",
    "ratio_plot",
    "save_figure",
    "score_histograms",
    "thinned_det",
    "training_curves",
    "write_plots",
]
