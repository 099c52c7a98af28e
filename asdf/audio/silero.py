"""Silero VAD: speech probabilities from a small recurrent network.

Invariant: a recording's result depends only on its samples. The network has a state between
windows, so it is reset for each recording, and each thread has its own network.

Silero Team: Silero VAD: pre-trained enterprise-grade voice activity detector, number detector and
language classifier. github.com/snakers4/silero-vad. The package `silero-vad` (MIT licence) includes
the network; nothing is downloaded.
"""

from __future__ import annotations

import threading
import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.runs.systems import call_in_forked_processes

WINDOW = 512
"""Number of samples of a window at 16 kHz, the only length that the network takes."""

_PACKAGE = "silero-vad"
_OLDEST = 5

_of_thread = threading.local()
_loading = threading.Lock()


def _replace_lock() -> None:
    """Create a new lock in a forked process: the thread that may hold the old one is gone."""
    global _loading
    _loading = threading.Lock()


call_in_forked_processes(_replace_lock)


def silero_version(option: str = "sad.detector") -> str:
    """Return the version of the package, and so of its network.

    Args:
        option: Name of the setting or argument with the value 'silero', for the message.

    Raises:
        UsageError: the package is not installed, or is too old.
    """
    try:
        installed = version(_PACKAGE)
    except PackageNotFoundError:
        installed = ""
    if not installed:
        raise UsageError(_describe_missing(option, "it is not installed"))
    major = int(installed.split(".")[0])
    if major < _OLDEST:
        raise UsageError(_describe_missing(option, f"version {installed} is installed"))
    return installed


def speech_probabilities(waveform: np.ndarray) -> np.ndarray:
    """Return the probability of speech in each window of `waveform` (T,), T >= 1.

    The result is (ceil(T / WINDOW),) float32. The last window is padded with zeros.

    Raises:
        UsageError: as in `silero_version`.
    """
    import torch

    network = _load_network()
    padding = -len(waveform) % WINDOW
    padded = np.pad(np.asarray(waveform, np.float32), (0, padding))
    with torch.inference_mode():
        batch = torch.from_numpy(padded)[None]
        probabilities: torch.Tensor = network.audio_forward(batch, SAMPLE_RATE)[0]
        return probabilities.numpy()


def _describe_missing(option: str, problem: str) -> str:
    other = "energy" if option == "sad.detector" else "built-in"
    return (
        f"{option} = 'silero' needs the package {_PACKAGE}, version {_OLDEST} or newer, and "
        f"{problem}: pip install '{_PACKAGE}>={_OLDEST}', or use {option} = '{other}'."
    )


def _load_network() -> Any:
    """Return this thread's network."""
    if not hasattr(_of_thread, "network"):
        silero_version()
        import torch

        with _loading, warnings.catch_warnings():
            # Ignore warnings of newer versions of Python and torch about the package.
            warnings.simplefilter("ignore")
            threads = torch.get_num_threads()
            try:
                _of_thread.network = import_module("silero_vad").load_silero_vad()
            finally:
                # The package sets a single thread for the whole program.
                torch.set_num_threads(threads)
    return _of_thread.network
