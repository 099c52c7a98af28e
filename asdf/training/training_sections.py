"""The sections of the settings that a training step depends on.

`Sections` includes them all. In this room, only code that builds users' tasks or writes the
settings to a network file gets the other sections.
"""

from __future__ import annotations

from typing import Protocol

from asdf.data.data_sections import DataSections
from asdf.settings.sections import Computing, FrontEnd, Lora, Loss


class TrainingSections(DataSections, Protocol):
    """The sections for a step's data and for its computation."""

    @property
    def loss(self) -> Loss: ...
    @property
    def front_end(self) -> FrontEnd: ...
    @property
    def lora(self) -> Lora: ...
    @property
    def computing(self) -> Computing: ...
