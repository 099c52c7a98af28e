"""Networks made smaller: parts of the front end that matter least for the scores are removed.

The names below are the door of this room; they are imported when they are first used.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.pruning.importance import Importance, measure_importance, prunable_front_end
    from asdf.pruning.measuring import Effect, measure_effect
    from asdf.pruning.removing import Sizes, choose_sizes, pruned_network

__all__, __getattr__ = open_door(__name__)
