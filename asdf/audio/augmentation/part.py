"""The base class of parts of the augmentation chain, ours or the user's own.

Invariant: a part is created once, from the settings, and sent to the loader's processes; its result
depends only on the clip and the generator that it gets.

Also the two random draws of augmentations, an item and a number in a range, and checks of the
user's own parts and vocoders: pickling, and a second of noise before a run.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.random import Generator

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.settings.class_path import searched_first
from asdf.settings.fields import OwnSettings
from asdf.settings.sections import Audio, Augmentation

Holder = TypeVar("Holder")
Item = TypeVar("Item")
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


def draw_item(items: Sequence[Item], rng: Generator) -> Item:
    """Draw one of `items`, with equal probabilities."""
    index = int(rng.integers(len(items)))
    return items[index]


def draw_between(lowest: float, highest: float, rng: Generator) -> float:
    """Draw a number between `lowest` and `highest`, uniformly."""
    return float(scale(rng.random(), lowest, highest))


def scale(uniform: Any, lowest: Any, highest: Any) -> Any:
    """Scale numbers or arrays drawn from 0 to 1 to the range from `lowest` to `highest`."""
    return lowest + (highest - lowest) * uniform


TRIAL = "'a second of noise', before training"
"""Name of this test in messages."""

_LEVEL = 0.1


def second_of_noise(rate: int = SAMPLE_RATE) -> np.ndarray:
    """Return a second of noise (T,) float32 at `rate` Hz, the same in every call."""
    noise = _LEVEL * np.random.default_rng(0).standard_normal(rate)
    return noise.astype(np.float32)


def check_sendable(part: object, name: str, method: str) -> None:
    """Refuse a part that cannot be pickled for the loader's processes.

    Args:
        method: Name of the method in which the part can create unpicklable state.
    """
    try:
        pickle.dumps(part)
    except Exception as error:
        raise UsageError(
            f"{name} cannot be sent to the loader's processes: {type(error).__name__}: {error}. "
            "Its attributes must be picklable, such as numbers, strings and arrays; open files and "
            f"lambdas are not. Create whatever else it needs in `{method}`, on first use."
        ) from error


def unpickle_from(
    kind: Callable[[Any, Path | None], Holder], pickled: bytes, folder: Path | None
) -> Holder:
    """Return `kind(objects, folder)` for pickled objects whose classes may lie in `folder`."""
    with searched_first(folder):
        return kind(pickle.loads(pickled), folder)
