"""The report of runs, a page in one file for any browser without a network; and runs compared.

`asdf.report.plots` draws figures for papers, and needs matplotlib.
"""

from __future__ import annotations

from asdf.report.choosing import Choice, runs_in
from asdf.report.comparison import (
    Difference,
    ResultDifference,
    chosen_network,
    different_environments,
    different_results,
    different_settings,
)
from asdf.report.folding import folded
from asdf.report.gathering import Gathered, gather
from asdf.report.page import report_page

__all__ = [
    "Choice",
    "Difference",
    "Gathered",
    "ResultDifference",
    "chosen_network",
    "different_environments",
    "different_results",
    "different_settings",
    "folded",
    "gather",
    "report_page",
    "runs_in",
]
