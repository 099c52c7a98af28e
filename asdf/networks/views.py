"""The sections of the settings from which networks are built.

Invariant: a network depends on these sections, on what a class of the user's declares, and on
nothing else of a run: not on its lists, its folders or its machine. Whoever builds a network passes
all sections, which are such a view as they are.
"""

from __future__ import annotations

from typing import Protocol

from asdf.settings.sections import (
    Adapter,
    Audio,
    BackEnd,
    ConstantQ,
    FrontEnd,
    LanguageModel,
    Localisation,
    Lora,
    Moments,
    Network,
    Prompt,
    Sinc,
    Spectrum,
)


class NetworkSections(Protocol):
    """Sections that the project's networks look at; classes of the user's get all sections."""

    @property
    def audio(self) -> Audio: ...
    @property
    def network(self) -> Network: ...
    @property
    def front_end(self) -> FrontEnd: ...
    @property
    def spectrum(self) -> Spectrum: ...
    @property
    def cqt(self) -> ConstantQ: ...
    @property
    def sinc(self) -> Sinc: ...
    @property
    def moments(self) -> Moments: ...
    @property
    def back_end(self) -> BackEnd: ...
    @property
    def localisation(self) -> Localisation: ...
    @property
    def lora(self) -> Lora: ...
    @property
    def adapter(self) -> Adapter: ...
    @property
    def prompt(self) -> Prompt: ...
    @property
    def language_model(self) -> LanguageModel: ...
