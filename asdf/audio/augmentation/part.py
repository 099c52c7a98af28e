"""What a part of the augmentation chain is: ours, or a class of the user's own file.

Invariant: a part is made once, from the settings, and goes to the loader's processes as it is; what
it does to a clip follows from the clip and from the generator that it gets with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.random import Generator

from asdf.settings.declared import OwnSettings
from asdf.settings.sections import Audio, Augmentation

Section = TypeVar("Section")


class PartSettings(Protocol):
    """What the chain and its parts see of the settings: all sections fulfil it."""

    @property
    def audio(self) -> Audio: ...

    @property
    def augmentation(self) -> Augmentation: ...

    def section_of(self, kind: type[Section], /) -> Section: ...


class Part(ABC):
    """Base of the classes that `augmentation.chain` names: something done to training clips.

    Random numbers come from `rng` alone, and nothing is noted from clip to clip: only then is a
    clip the same in whichever process it is made, and after a resume. Attributes are what pickle
    can copy to a worker process: numbers, texts, arrays, but no open file.

    Attributes:
        own_settings: Section of settings that the class declares; None for none.
        probability: Proportion of the clips that it is done to; where the section of the class
            has a setting `probability`, its value.
        shortens: True if the part gets the speech before it is repeated up to the length of a clip,
            and may return fewer samples. Such parts come first, in the order of the chain.

    Args:
        settings: Plain copy of the run's settings; a class of the user's own gets all sections.
        base: Folder that those in the settings are relative to.

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
        """Take the probability from the section that the class declares, if it has one there."""
        if self.own_settings is not None:
            section = settings.section_of(self.own_settings)
            self.probability = getattr(section, "probability", self.probability)

    @abstractmethod
    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Return `clip` (T,) float32 at `settings.audio.sample_rate` after this part: (T,) float32.

        Fewer samples, but at least one, where the part `shortens`.
        """

    def describe(self) -> str:
        """Return the part in words, for the log."""
        return type(self).__name__
