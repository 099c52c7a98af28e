"""The sections of the settings from which networks are built.

Invariant: a network depends only on these sections and on sections declared by a user's class,
never on lists, folders or the machine. Callers pass all sections, which satisfy this protocol.
"""

from __future__ import annotations

from typing import Protocol

from asdf.settings.sections import (
    Audio,
    BackEnd,
    FrontEnd,
    Localisation,
    Lora,
    Network,
    Spectrum,
)


class NetworkSections(Protocol):
    """The sections that the project's networks read; users' classes get all sections."""

    @property
    def audio(self) -> Audio: ...
    @property
    def network(self) -> Network: ...
    @property
    def front_end(self) -> FrontEnd: ...
    @property
    def spectrum(self) -> Spectrum: ...
    @property
    def back_end(self) -> BackEnd: ...
    @property
    def localisation(self) -> Localisation: ...
    @property
    def lora(self) -> Lora: ...
