"""The demo corpus: synthetic voices and their spoofs, so that a recipe runs without downloads.

Everything is imported when it is first used, so that a command waits only for what it needs.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.demo.partial import PartialSet, make_partial_demo
    from asdf.demo.synthetic_corpus import DEMO_SETS, DemoSet, make_demo_corpus

__all__, __getattr__ = open_door(__name__)
