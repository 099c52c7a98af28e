"""Reports of results: a page of runs, tables of systems, plots for papers, comparisons of runs.

The page is one file for any browser, and loads nothing from a network. `asdf.report.plots` is
imported separately: it draws figures for papers with matplotlib, which takes a moment. Everything
is imported on first use, so that a command waits only for what it needs.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.report.comparison import (
        Comparison,
        Difference,
        ResultDifference,
        SetDifference,
        compare_configurations,
        compare_runs,
    )
    from asdf.report.drawing import Figure, Legend
    from asdf.report.exports import csv_with_seeds, json_with_seeds, latex_with_seeds, over_seeds_of
    from asdf.report.gathering import Gathered, fold_findings, gather, runs_in
    from asdf.report.html_page import (
        Document,
        Items,
        Section,
        Verdict,
        document_page,
        picture_svg,
        report_page,
    )
    from asdf.report.llr_pictures import llr_figures
    from asdf.report.paper_tables import runs_to_latex, summary_text, systems_text

__all__, __getattr__ = open_door(__name__)
