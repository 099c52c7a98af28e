"""Reports of results: a page of runs, tables of systems, plots for papers, and runs compared.

The page is one file for any browser without a network. `asdf.report.plots` is a door of its own:
it draws figures for papers, and needs matplotlib. Everything is imported when it is first used, so
that a command waits only for what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from asdf.report.exports import to_csv, to_json
    from asdf.report.folding import fold_findings
    from asdf.report.gathering import Gathered, gather
    from asdf.report.latex import to_latex
    from asdf.report.latex_seeds import runs_to_latex
    from asdf.report.names import names_of, numbered
    from asdf.report.page import report_page
    from asdf.report.seed_comparison import (
        SeedComparison,
        SetDifference,
        Side,
        compare_configurations,
    )
    from asdf.report.tables import summary_text, systems_text

_HOMES = {
    "Choice": "choosing",
    "Difference": "comparison",
    "Gathered": "gathering",
    "ResultDifference": "comparison",
    "SeedComparison": "seed_comparison",
    "SetDifference": "seed_comparison",
    "Side": "seed_comparison",
    "chosen_network": "comparison",
    "compare_configurations": "seed_comparison",
    "different_environments": "comparison",
    "different_results": "comparison",
    "different_settings": "comparison",
    "fold_findings": "folding",
    "gather": "gathering",
    "names_of": "names",
    "numbered": "names",
    "report_page": "page",
    "runs_in": "choosing",
    "runs_to_latex": "latex_seeds",
    "summary_text": "tables",
    "systems_text": "tables",
    "to_csv": "exports",
    "to_json": "exports",
    "to_latex": "latex",
}

__all__ = [
    "Choice",
    "Difference",
    "Gathered",
    "ResultDifference",
    "SeedComparison",
    "SetDifference",
    "Side",
    "chosen_network",
    "compare_configurations",
    "different_environments",
    "different_results",
    "different_settings",
    "fold_findings",
    "gather",
    "names_of",
    "numbered",
    "report_page",
    "runs_in",
    "runs_to_latex",
    "summary_text",
    "systems_text",
    "to_csv",
    "to_json",
    "to_latex",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"asdf.report.{_HOMES[name]}"), name)
