"""Plots for papers, as PDF, PNG or SVG: DET curves, score histograms, heat maps, training curves (extra `report`)."""

from __future__ import annotations

from asdf.report.plots.det import det_plot
from asdf.report.plots.every import write_plots
from asdf.report.plots.figures import FORMATS, save_figure
from asdf.report.plots.heat_map import heat_map
from asdf.report.plots.histograms import score_histograms
from asdf.report.plots.training import training_curves

__all__ = [
    "FORMATS",
    "det_plot",
    "heat_map",
    "save_figure",
    "score_histograms",
    "training_curves",
    "write_plots",
]
