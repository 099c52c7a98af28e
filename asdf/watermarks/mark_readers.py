"""Packages that find watermarks: audioseal, perth and silentcipher.

Invariant: a package is imported only when it is opened; its output goes to the log, because
standard output is for results. The decision is its authors', except for Perth: their threshold
marks every sixth unmarked recording (docs/watermarks.md), so ours is stricter.

Sources: San Roman et al., "Proactive Detection of Voice Cloning with Localized Watermarking", ICML
2024 (AudioSeal); Resemble AI's Perth; Singh et al., "SilentCipher: Deep Audio Watermarking",
Interspeech 2024.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch

from asdf.facts import SAMPLE_RATE
from asdf.runs.log import LOG

PERTH_THRESHOLD = 0.95
"""Minimum strength at which Perth's watermark counts as found; the package itself uses 0.5."""


@dataclass(frozen=True)
class Mark:
    """The result of a package for a piece of a recording.

    Attributes:
        found: Whether the piece is marked.
        strength: Confidence, between 0 and 1; None if the package states none.
        message: Message of the watermark, in hexadecimal digits; '' without one.
    """

    found: bool
    strength: float | None = None
    message: str = ""


class MarkReader(ABC):
    """An opened package that finds its own watermarks.

    Attributes:
        name: Name in results.
        package: Name by which pip installs it.
        rate: Sampling rate of its input, in Hz; None: that of the file.
    """

    name: str
    package: str
    rate: int | None = None

    @abstractmethod
    def __init__(self, device: torch.device) -> None:
        """Load the weights.

        Raises:
            ImportError: the package, or one that it needs, is not installed.
        """

    @abstractmethod
    def read(self, samples: np.ndarray, rate: int) -> Mark:
        """Return the result for samples (T,) float32 at a rate in Hz."""


class AudioSeal(MarkReader):
    """Meta's AudioSeal, with a message of 16 bits; the weights come from the hub."""

    name = "audioseal"
    package = "audioseal"
    rate = SAMPLE_RATE

    def __init__(self, device: torch.device, model: Any = None) -> None:
        if model is None:
            # Its names are exported in a way that type checkers do not support.
            published = import_module("audioseal").AudioSeal
            model = published.load_detector("audioseal_detector_16bits")
        self._model = model.to(device).eval()
        self._device = device

    def read(self, samples: np.ndarray, rate: int) -> Mark:
        waveform = torch.from_numpy(samples).to(self._device)[None, None]
        with torch.inference_mode():
            share, bits = self._model.detect_watermark(waveform, sample_rate=rate)
        strength = float(share)
        # More than half of the frames; the package itself uses this threshold for each frame.
        found = strength > 0.5
        message = ""
        if found:
            # As hexadecimal digits; the first bit is the most significant.
            digits = bits[0].tolist()
            number = int("".join(map(str, digits)), 2)
            message = f"{number:0{len(digits) // 4}x}"
        return Mark(found, strength, message)


class Perth(MarkReader):
    """Resemble AI's Perth, which Chatterbox's voices have; the weights are in the package."""

    name = "perth"
    package = "resemble-perth"

    def __init__(self, device: torch.device) -> None:
        import perth

        if perth.PerthImplicitWatermarker is None:
            # The package hides failed imports.
            raise ImportError("it also needs librosa, pyyaml and setuptools below 81")
        self._watermarker = perth.PerthImplicitWatermarker(device=str(device))

    def read(self, samples: np.ndarray, rate: int) -> Mark:
        with torch.inference_mode():
            strength = float(self._watermarker.get_watermark(samples, rate, round=False))
        return Mark(strength >= PERTH_THRESHOLD, strength)


class SilentCipher(MarkReader):
    """Sony's SilentCipher, at 44.1 kHz; the weights come from the hub."""

    name = "silentcipher"
    package = "silentcipher"

    def __init__(self, device: torch.device, model: Any = None) -> None:
        if model is None:
            import silentcipher

            model = silentcipher.get_model(model_type="44.1k", device=str(device))
        self._model = model

    def read(self, samples: np.ndarray, rate: int) -> Mark:
        result = self._model.decode_wav(samples, rate, False)
        if not result["status"]:
            return Mark(False)
        message = bytes(result["messages"][0]).hex()
        return Mark(True, float(result["confidences"][0]), message)


READERS: tuple[type[MarkReader], ...] = (AudioSeal, Perth, SilentCipher)


@contextlib.contextmanager
def quietly(name: str) -> Iterator[None]:
    """Log a package's output, and suppress its warnings for programmers."""
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("ignore")
        yield
    for line in printed.getvalue().splitlines():
        LOG.info("%s: %s", name, line)
