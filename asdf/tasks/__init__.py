"""Tasks, the outputs of a network besides a score: one folder each, from labels to tables.

A task of your own is a class derived from `Task`, named by `network.tasks` (docs/your_own.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.networks.attached import Head as Head
    from asdf.training.losses.loss import Term as Term
    from asdf.training.task import ScoredSet as ScoredSet
    from asdf.training.task import Task as Task

_, __getattr__ = open_door(
    __name__,
    Head="asdf.networks.attached",
    ScoredSet="asdf.training.task",
    Task="asdf.training.task",
    Term="asdf.training.losses.loss",
)
