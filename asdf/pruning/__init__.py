"""Pruning of networks: removal of the parts of the front end that matter least for the scores.

The names below are the public interface of this room; they are imported on first use.
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
