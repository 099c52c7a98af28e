"""Rejection of networks with another audio format than some tools support."""

from __future__ import annotations

from asdf.errors import UsageError
from asdf.settings.sections import Audio


def check_usual(audio: Audio, what: str) -> None:
    """Raise an error unless a network hears 16 kHz and the mean of the channels.

    Args:
        what: Name of the tool with this limitation, which begins the message.

    Raises:
        UsageError: the network hears another format.
    """
    if not audio.is_usual:
        raise UsageError(
            f"{what} is made for networks that hear 16 kHz and one channel, the mean; this one "
            f"hears recordings {audio.describe()}. Choose a network without the settings "
            "audio.sample_rate and audio.channels; scoring works with both."
        )
