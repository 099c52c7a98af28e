"""What a vocoder is: samples in, a copy of the same length out.

Invariant: a copy is a function of the samples and of the generator's draws. A vocoder is plain
values, so that it can be sent to the loader's processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.random import Generator

from asdf.audio.vocoding.frames import Array
from asdf.settings.sections import Vocoding


class VocoderSettings(Protocol):
    """What our vocoders see of the settings; a user's own gets all sections."""

    @property
    def vocoding(self) -> Vocoding: ...


class Vocoder(ABC):
    """A copy through analysis and synthesis; a user's own is derived from this class.

    Args:
        settings: All sections, those of the user's own among them.

    Examples:
        >>> import numpy as np
        >>> from asdf.audio.vocoding import Vocoder
        >>> from asdf.settings import Sections
        >>> class Noisy(Vocoder):
        ...     def vocode(self, samples, rng):
        ...         magnitudes = np.abs(np.fft.rfft(samples))
        ...         phases = rng.uniform(0, 2 * np.pi, len(magnitudes))
        ...         return np.fft.irfft(magnitudes * np.exp(1j * phases), len(samples))
        >>> speech = np.random.default_rng(0).normal(0, 0.1, 400).astype(np.float32)
        >>> Noisy(Sections()).vocode(speech, np.random.default_rng(1)).shape
        (400,)
    """

    def __init__(self, settings: VocoderSettings) -> None: ...  # noqa: B027

    @abstractmethod
    def vocode(self, samples: np.ndarray, rng: Generator) -> np.ndarray:
        """Return a copy of speech (T,) float32 at 16 kHz, T >= 1, which is not silent: (T,).

        Its level does not matter: it is set to that of the speech. All draws are of `rng`.
        """


def normalize(samples: np.ndarray) -> Array:
    """Return speech that is not silent as float64 of unit power, which the analysis relies on."""
    voice = samples.astype(np.float64)
    normalized: Array = voice / np.sqrt(np.mean(voice**2))
    return normalized
