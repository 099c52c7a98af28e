"""Adversarial attacks on copies of recordings, for measuring a detector's vulnerability.

Everything is imported on first use, so that a command waits only for what it needs.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.adversarial.attacks import ATTACKS, Search
    from asdf.adversarial.conditions import SNRS_DB, Condition, choose_attacks
    from asdf.adversarial.results import (
        attacks_csv,
        attacks_json,
        attacks_latex,
        attacks_page,
        attacks_text,
        success_svg,
    )
    from asdf.adversarial.running import Plan, Study, run_attacks

__all__, __getattr__ = open_door(__name__)
