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
    from asdf.report.choosing import Choice, runs_in
    from asdf.report.comparison import (
        Difference,
        ResultDifference,
        chosen_network,
        different_environments,
        different_results,
        different_settings,
    )
    from asdf.report.detection_text import summary_text, systems_text
    from asdf.report.document import Document, Items, Section, document_page
    from asdf.report.drawing import Figure, Legend
    from asdf.report.exports import to_csv
    from asdf.report.folding import fold_findings
    from asdf.report.gathering import Gathered, gather
    from asdf.report.html_page import chart_svg, heat_maps_svg, picture_svg, report_page
    from asdf.report.llr_pictures import llr_figures
    from asdf.report.paper_tables import runs_to_latex, to_latex
    from asdf.report.seed_comparison import (
        SeedComparison,
        SetDifference,
        Side,
        compare_configurations,
    )
    from asdf.report.seed_files import (
        csv_with_seeds,
        json_with_seeds,
        latex_with_seeds,
        over_seeds_of,
    )

__all__, __getattr__ = open_door(__name__)
