"""Estimation of a run's GPU memory, without a GPU.

The names below are the public interface of this room; they are imported on first use, because torch
takes seconds to import.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.memory.advice import list_advice
    from asdf.memory.case import (
        OUTSIDE_ALLOCATOR,
        Case,
        Gpu,
        choose_format,
        describe_format,
        in_gibibytes,
        scoring_memory,
    )
    from asdf.memory.largest_minibatch import (
        LargestMinibatch,
        describe_largest,
        largest_minibatch,
    )
    from asdf.memory.training_step import TrainingMemory, scoring_peak, training_memory

__all__, __getattr__ = open_door(__name__)
