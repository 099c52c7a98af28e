"""Settings of the audio that a network receives: its sampling rate and its channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.facts import SAMPLE_RATE
from asdf.settings.mistakes import KnownNames
from asdf.settings.sections.fields import setting

LOWEST_RATE = 4_000
HIGHEST_RATE = 192_000
# The maximum number of channels of a recording in memory.
_MAX_CHANNELS = 16


@dataclass
class Audio(KnownNames):
    """Format in which recordings are read."""

    sample_rate: int = setting(
        SAMPLE_RATE,
        "sampling rate of the network: all recordings are resampled to it, and all lengths in "
        "samples refer to it",
        unit="Hz",
        at_least=LOWEST_RATE,
        at_most=HIGHEST_RATE,
    )
    channels: int | Literal["mean", "all"] = setting(
        "mean",
        "channels of a recording: their mean; one of them, from 0; or all, for a network that "
        "takes (batch, channels, samples)",
        at_least=0,
        at_most=_MAX_CHANNELS - 1,  # counted from 0
    )

    @property
    def is_usual(self) -> bool:
        """Whether recordings are read as 16 kHz and the mean of their channels."""
        return self == USUAL_AUDIO

    def describe(self) -> str:
        """Return 'at 24,000 Hz, channel 1' and the like, for logs and messages."""
        words = {"mean": "the mean of the channels", "all": "all channels"}
        channels = words.get(str(self.channels), f"channel {self.channels}")
        return f"at {self.sample_rate:,} Hz, {channels}"


USUAL_AUDIO = Audio()
"""Default audio of networks: 16 kHz and the mean of the channels."""
