"""The base class of parts of the augmentation chain, ours or the user's own.

Invariant: a part is created once, from the settings, and sent to the loader's processes; its result
depends only on the clip and the generator that it gets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.random import Generator

from asdf.settings.fields import OwnSettings
from asdf.settings.sections import Audio, Augmentation

Section = TypeVar("Section")


class PartSettings(Protocol):
    """The settings that the chain and its parts need; all sections satisfy it."""

    @property
    def audio(self) -> Audio: ...

    @property
    def augmentation(self) -> Augmentation: ...

    def section_of(self, kind: type[Section], /) -> Section: ...


class Part(ABC):
    """Base class of the parts of `augmentation.chain`, which change training clips.

    Random numbers must come from `rng` only, and no state may be kept between clips, so that a clip
    is the same in every process and after a resume. Attributes must be picklable for worker
    processes: numbers, texts, arrays, but no open files.

    Attributes:
        own_settings: Section of settings that the class declares; None if it declares none.
        probability: Proportion of clips to which it is applied; taken from a setting `probability`
            in the class's section, if it has one.
        shortens: Whether the part gets the speech before it is repeated to the length of a clip,
            and may return fewer samples. Such parts come first, in the order of the chain.

    Args:
        settings: Settings of the run, as a plain copy; a user's class gets all sections.
        base: Folder that folders in the settings are relative to.

    Examples:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from asdf.audio.augmentation import Part
        >>> from asdf.settings import Sections
        >>> class Clipping(Part):
        ...     probability = 0.5
        ...
        ...     def apply(self, clip, rng):
        ...         peak = np.abs(clip).max()
        ...         return np.clip(rng.uniform(1, 4) * clip, -peak, peak).astype(np.float32)
        >>> part = Clipping(Sections(), Path())
        >>> clip = np.array([0.1, -0.5], np.float32)
        >>> part.apply(clip, np.random.default_rng(0)).tolist()[1]
        -0.5
    """

    own_settings: ClassVar[type[OwnSettings] | None] = None
    probability: float = 1.0
    shortens: bool = False

    def __init__(self, settings: PartSettings, base: Path) -> None:
        self.read_probability(settings)

    def read_probability(self, settings: PartSettings) -> None:
        """Set the probability from the section that the class declares, if it is there."""
        if self.own_settings is not None:
            section = settings.section_of(self.own_settings)
            self.probability = getattr(section, "probability", self.probability)

    @abstractmethod
    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Return `clip` (T,) float32 at `settings.audio.sample_rate` after this part: (T,) float32.

        It may return fewer samples, but at least one, if the part `shortens`.
        """

    def describe(self) -> str:
        """Describe the part for the log."""
        return type(self).__name__
