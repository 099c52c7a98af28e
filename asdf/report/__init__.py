"""Reports of results: a page of runs, tables of systems, plots for papers, and runs compared.

The page is one file for any browser without a network. `asdf.report.plots` is a door of its own:
it draws figures for papers, and needs matplotlib. Everything is imported when it is first used, so
that a command waits only for what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asdf.report.choosing import Choice, best_network, runs_in
    from asdf.report.comparison import (
        Difference,
        ResultDifference,
        chosen_network,
        different_environments,
        different_results,
        different_settings,
    )
    from asdf.report.embeddings import EmbeddingSection, embedding_picture, embedding_section
    from asdf.report.exports import to_csv, to_json
    from asdf.report.folding import fold_findings
    from asdf.report.gathering import Gathered, gather
    from asdf.report.generalisation_tables import generalisation_json, generalisation_text
    from asdf.report.grouping import NO_EFFECT
    from asdf.report.latex import to_latex
    from asdf.report.latex_seeds import runs_to_latex
    from asdf.report.left_out_tables import left_out_text
    from asdf.report.located import located_record
    from asdf.report.names import names_of, numbered
    from asdf.report.page import report_page
    from asdf.report.sasv import sasv_csv, sasv_json, sasv_latex, sasv_systems_text, sasv_text
    from asdf.report.seed_comparison import (
        SeedComparison,
        SetDifference,
        Side,
        compare_configurations,
    )
    from asdf.report.seed_files import (
        csv_with_seeds,
        file_configurations,
        json_with_seeds,
        over_seeds_of,
        over_seeds_text,
        seeds_to_latex,
    )
    from asdf.report.seed_results import OverSeeds
    from asdf.report.sources import confusion_svg, sources_record, sources_text
    from asdf.report.tables import summary_text, systems_text

_HOMES = {
    "Choice": "choosing",
    "Difference": "comparison",
    "EmbeddingSection": "embeddings",
    "best_network": "choosing",
    "Gathered": "gathering",
    "NO_EFFECT": "grouping",
    "embedding_picture": "embeddings",
    "embedding_section": "embeddings",
    "OverSeeds": "seed_results",
    "ResultDifference": "comparison",
    "SeedComparison": "seed_comparison",
    "SetDifference": "seed_comparison",
    "Side": "seed_comparison",
    "chosen_network": "comparison",
    "compare_configurations": "seed_comparison",
    "csv_with_seeds": "seed_files",
    "confusion_svg": "sources",
    "different_environments": "comparison",
    "different_results": "comparison",
    "different_settings": "comparison",
    "file_configurations": "seed_files",
    "fold_findings": "folding",
    "gather": "gathering",
    "generalisation_json": "generalisation_tables",
    "generalisation_text": "generalisation_tables",
    "json_with_seeds": "seed_files",
    "left_out_text": "left_out_tables",
    "located_record": "located",
    "names_of": "names",
    "numbered": "names",
    "over_seeds_of": "seed_files",
    "over_seeds_text": "seed_files",
    "report_page": "page",
    "runs_in": "choosing",
    "runs_to_latex": "latex_seeds",
    "seeds_to_latex": "seed_files",
    "sources_record": "sources",
    "sources_text": "sources",
    "sasv_csv": "sasv",
    "sasv_json": "sasv",
    "sasv_latex": "sasv",
    "sasv_systems_text": "sasv",
    "sasv_text": "sasv",
    "summary_text": "tables",
    "systems_text": "tables",
    "to_csv": "exports",
    "to_json": "exports",
    "to_latex": "latex",
}

__all__ = [
    "NO_EFFECT",
    "Choice",
    "Difference",
    "EmbeddingSection",
    "Gathered",
    "OverSeeds",
    "ResultDifference",
    "SeedComparison",
    "SetDifference",
    "Side",
    "best_network",
    "chosen_network",
    "compare_configurations",
    "confusion_svg",
    "csv_with_seeds",
    "different_environments",
    "different_results",
    "different_settings",
    "embedding_picture",
    "embedding_section",
    "file_configurations",
    "fold_findings",
    "gather",
    "generalisation_json",
    "generalisation_text",
    "json_with_seeds",
    "left_out_text",
    "located_record",
    "names_of",
    "numbered",
    "over_seeds_of",
    "over_seeds_text",
    "report_page",
    "runs_in",
    "runs_to_latex",
    "sasv_csv",
    "sasv_json",
    "sasv_latex",
    "sasv_systems_text",
    "sasv_text",
    "seeds_to_latex",
    "sources_record",
    "sources_text",
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
