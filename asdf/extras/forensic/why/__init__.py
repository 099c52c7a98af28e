"""Explanation of scores: the stretches of time and frequency bands that a score depends on.

Everything is imported on first use, so that a command waits only for what it needs.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.extras.forensic.why.cells import BANDS_HZ, Cells, Grid, make_cells
    from asdf.extras.forensic.why.checks import Removal, WeightsCheck
    from asdf.extras.forensic.why.explaining import Explainer, explain
    from asdf.extras.forensic.why.explanation import (
        Explanation,
        Map,
        Method,
        Options,
        check_options,
    )
    from asdf.extras.forensic.why.gradients import check_installed
    from asdf.extras.forensic.why.pictures import explanation_svg, explanation_text

__all__, __getattr__ = open_door(__name__)
