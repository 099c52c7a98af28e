"""Plots for papers (extra `report`): DET curves, histograms, heat maps, training; PDF, PNG, SVG.

They draw the curves, histograms and courses that the page of the report draws.
"""

from __future__ import annotations

from asdf.report.curves import ThinnedCurve, thinned_det
from asdf.report.plots.embeddings import embedding_plot, write_embedding_plot
from asdf.report.plots.every import write_plots
from asdf.report.plots.figures import FORMATS, save_figure
from asdf.report.plots.matrix_plots import confusion_plot, effect_map, heat_map
from asdf.report.plots.panel_plots import (
    det_plot,
    effect_plot,
    oscr_plot,
    score_histograms,
    training_curves,
)

__all__ = [
    "FORMATS",
    "ThinnedCurve",
    "confusion_plot",
    "det_plot",
    "effect_map",
    "effect_plot",
    "embedding_plot",
    "heat_map",
    "oscr_plot",
    "save_figure",
    "score_histograms",
    "thinned_det",
    "training_curves",
    "write_embedding_plot",
    "write_plots",
]
