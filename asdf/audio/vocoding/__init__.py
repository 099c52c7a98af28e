"""Vocoders that copy bona fide speech, with the copies used as spoofs in training.

Xin Wang and Junichi Yamagishi: Spoofed training data for speech spoofing countermeasure can be
efficiently created using neural vocoders. ICASSP 2023. Ours are not neural.

Invariant: a copy depends only on the samples and the generator's draws. It has the length and level
of its speech, and 16-bit samples like recordings, so none of these reveals it. Silence is
unchanged. A vocoder consists of plain values, so that it can be sent to the loader's processes.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from asdf.audio.augmentation.part import TRIAL, check_sendable, second_of_noise, unpickle_from
from asdf.audio.vocoding.analysis import Array
from asdf.errors import AsdfError
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_files import is_ours
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import Vocoding


class VocoderSettings(Protocol):
    """The settings that our vocoders need; a user's own gets all sections."""

    @property
    def vocoding(self) -> Vocoding: ...


class Vocoder(ABC):
    """Base class of vocoders, which copy a recording through analysis and synthesis.

    Args:
        settings: Sections of all settings, including the user's own.

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

        Its level does not matter, since it is set to that of the speech. All draws come from `rng`.
        """


def normalize(samples: np.ndarray) -> Array:
    """Return speech that is not silent as float64 of unit power, which the analysis relies on."""
    voice = samples.astype(np.float64)
    normalized: Array = voice / np.sqrt(np.mean(voice**2))
    return normalized


SETTING = "vocoding.vocoders"
_STEPS = 2**15


@dataclass(frozen=True)
class Vocoders:
    """Vocoders by their names in the settings, as plain values for worker processes.

    Attributes:
        folder: Folder that is searched first for modules with the user's own vocoders, also by
            worker processes.
    """

    by_name: Mapping[str, Vocoder] = field(default_factory=dict)
    folder: Path | None = None

    def __reduce__(self) -> tuple[Callable[..., Vocoders], tuple[Any, ...]]:
        return unpickle_from, (Vocoders, pickle.dumps(self.by_name), self.folder)

    def copy(
        self, name: str, speech: np.ndarray, rng: Generator, recording: object = ""
    ) -> np.ndarray:
        """Copy speech (T,) float32 at 16 kHz through the vocoder `name`: (T,) float32.

        Args:
            recording: Name of the recording, for messages.

        Raises:
            AsdfError: the vocoder fails, or returns something other than such samples.
        """
        power = _measure_power(speech)
        if power == 0:
            return speech
        where = f"{SETTING}: {name}.vocode, for the recording {recording},"
        with UserErrors(f"{where} failed"):
            copy = self.by_name[name].vocode(speech, rng)
        problem = ""
        if not isinstance(copy, np.ndarray):
            problem = f"{type(copy).__name__}, not a numpy array"
        elif copy.shape != speech.shape:
            problem = f"samples of shape {copy.shape} for speech of shape {speech.shape}"
        elif copy.dtype.kind != "f":
            problem = f"samples of type {copy.dtype}; floats between -1 and 1 are needed"
        elif not np.isfinite(copy).all():
            problem = "samples that are not finite"
        if problem:
            raise AsdfError(
                f"{where} returned {problem}. A copy must have as many samples as its speech: (T,) "
                "floats."
            )
        exact = copy.astype(np.float64)
        power_of_copy = _measure_power(exact)
        if power_of_copy > 0:
            exact = exact * np.sqrt(power / power_of_copy)
        # Rounded to 16 bits, like recordings.
        steps = np.rint(exact * _STEPS).clip(-_STEPS, _STEPS - 1)
        rounded: np.ndarray = steps / _STEPS
        return rounded.astype(np.float32)


def open_vocoders(settings: VocoderSettings, folder: Path | None) -> Vocoders:
    """Build the vocoders in the settings.

    Args:
        folder: Folder of the recipe, which is searched first for the user's own.

    Raises:
        UsageError: one of them does not exist, is not a `Vocoder`, or cannot be pickled.
        AsdfError: a user's own fails.
    """
    by_name: dict[str, Vocoder] = {}
    for name in settings.vocoding.vocoders:
        path = class_path_of(SETTING, name)
        kind = find_class(path, folder, SETTING, Vocoder)  # type: ignore[type-abstract]
        with UserErrors(f"{SETTING}: {name} cannot be made"):
            by_name[name] = kind(settings)
        check_sendable(by_name[name], f"{SETTING}: {name}", "vocode")
    return Vocoders(by_name, folder)


def try_vocoders(settings: VocoderSettings, folder: Path | None) -> None:
    """Copy a second of noise through each of the user's own vocoders, and check the copy.

    Raises:
        UsageError, AsdfError: as in `open_vocoders` and `Vocoders.copy`.
    """
    vocoders = open_vocoders(settings, folder)
    for name, vocoder in vocoders.by_name.items():
        if not is_ours(f"{type(vocoder).__module__}."):
            vocoders.copy(name, second_of_noise(), np.random.default_rng(0), TRIAL)


def _measure_power(samples: np.ndarray) -> float:
    """Return the mean square of samples; 0 for no samples."""
    if len(samples) == 0:
        return 0.0
    return float(np.mean(np.square(samples, dtype=np.float64)))
