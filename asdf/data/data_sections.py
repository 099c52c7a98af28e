"""The sections of the settings for the training data and its order.

`Sections` includes them all; this room uses no others.
"""

from __future__ import annotations

from typing import Protocol

from asdf.settings.sections import (
    Audio,
    Augmentation,
    Declared,
    Lengths,
    Network,
    Recipe,
    SpeechActivity,
    Vocoding,
)


class DataSections(Protocol):
    """The sections that a training list and its clips depend on."""

    @property
    def audio(self) -> Audio: ...
    @property
    def network(self) -> Network: ...
    @property
    def recipe(self) -> Recipe: ...
    @property
    def sad(self) -> SpeechActivity: ...
    @property
    def lengths(self) -> Lengths: ...
    @property
    def vocoding(self) -> Vocoding: ...
    @property
    def augmentation(self) -> Augmentation: ...
    def section_of(self, kind: type[Declared]) -> Declared:
        """Return the section that a user's class declares."""
