"""The sections of the settings that a training step depends on.

`Sections` has them all; of this room only what builds users' tasks, and what writes the settings
into a network's file, gets the others as well.
"""

from __future__ import annotations

from typing import Protocol

from asdf.data.data_sections import DataSections
from asdf.settings.sections import Computing, FrontEnd, Lora, Loss


class TrainingSections(DataSections, Protocol):
    """The sections of a step's data, and those of its computation."""

    @property
    def loss(self) -> Loss: ...
    @property
    def front_end(self) -> FrontEnd: ...
    @property
    def lora(self) -> Lora: ...
    @property
    def computing(self) -> Computing: ...
