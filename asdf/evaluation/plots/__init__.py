"""Plots for papers, as PDF, PNG or SVG: DET curves, score histograms, heat maps, training curves (extra `report`)."""

from __future__ import annotations

from asdf.evaluation.plots.det import det_plot
from asdf.evaluation.plots.figures import FORMATS, save_figure
from asdf.evaluation.plots.heat_map import heat_map
from asdf.evaluation.plots.histograms import score_histograms
from asdf.evaluation.plots.training import training_curves

__all__ = ["FORMATS", "det_plot", "heat_map", "save_figure", "score_histograms", "training_curves"]
