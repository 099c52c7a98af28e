"""How much memory a run will take on a GPU, before there is one.

The names below are the door of this room; they are imported when they are first used, since torch
takes seconds to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asdf.memory.advice import list_advice
    from asdf.memory.case import (
        OUTSIDE_ALLOCATOR,
        Case,
        Gpu,
        choose_format,
        describe_format,
        in_gibibytes,
    )
    from asdf.memory.training import TrainingMemory, training_memory

# Names by the files that define them.
_HOMES = {
    "advice": ("list_advice",),
    "case": (
        "OUTSIDE_ALLOCATOR",
        "Case",
        "Gpu",
        "choose_format",
        "describe_format",
        "in_gibibytes",
    ),
    "training": ("TrainingMemory", "training_memory"),
}

__all__ = [
    "OUTSIDE_ALLOCATOR",
    "Case",
    "Gpu",
    "TrainingMemory",
    "choose_format",
    "describe_format",
    "in_gibibytes",
    "list_advice",
    "training_memory",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
