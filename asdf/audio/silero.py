"""Silero VAD: the probability of speech by a small recurrent network, from the package `silero-vad` (MIT licence).

Invariant: what is said of a recording depends on its samples alone. The network keeps a state from window to window,
so it starts afresh for each recording, and each thread has a network of its own.

Silero Team: Silero VAD: pre-trained enterprise-grade voice activity detector, number detector and language
classifier. github.com/snakers4/silero-vad. The package holds the network; nothing is downloaded.
"""

from __future__ import annotations

import threading
import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from asdf.audio.resampling import SAMPLE_RATE
from asdf.errors import UsageError

WINDOW = 512
"""Samples of a window at 16 kHz, the one length that the network takes."""

_PACKAGE = "silero-vad"
_OLDEST = 5

_own = threading.local()
_loading = threading.Lock()


def silero_version() -> str:
    """The version of the package, and so of the network in it.

    Raises:
        UsageError: it is not installed, or is too old.
    """
    try:
        found = version(_PACKAGE)
    except PackageNotFoundError:
        found = ""
    if not found or int(found.split(".")[0]) < _OLDEST:
        problem = f"version {found} is installed" if found else "it is not installed"
        raise UsageError(
            f"sad.detector = 'silero' needs the package {_PACKAGE}, version {_OLDEST} or newer, and {problem}: "
            f"pip install '{_PACKAGE}>={_OLDEST}', or use sad.detector = 'energy'."
        )
    return found


def speech_probabilities(waveform: np.ndarray) -> np.ndarray:
    """The probability of speech in each window of `waveform` (T,), T >= 1: (ceil(T / WINDOW),) float32.

    The last window is filled up with zeros.

    Raises:
        UsageError: as `silero_version`.
    """
    import torch

    network = _network()
    padded = np.pad(np.asarray(waveform, np.float32), (0, -len(waveform) % WINDOW))
    with torch.inference_mode():
        return network.audio_forward(torch.from_numpy(padded)[None], SAMPLE_RATE)[0].numpy()


def _network() -> Any:
    """This thread's network."""
    if not hasattr(_own, "network"):
        silero_version()
        import torch

        with _loading, warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of newer Pythons and torches, which the package does not heed
            threads = torch.get_num_threads()
            try:
                _own.network = import_module("silero_vad").load_silero_vad()
            finally:
                torch.set_num_threads(threads)  # the package sets one for the whole program
    return _own.network
