"""Refusal of networks that hear recordings otherwise than tools that know one way alone."""

from __future__ import annotations

from asdf.errors import UsageError
from asdf.settings.sections import Audio


def check_usual(audio: Audio, what: str) -> None:
    """Refuse a network that does not hear 16 kHz and the mean of the channels.

    Args:
        what: Name of what knows this alone, with which a sentence begins.

    Raises:
        UsageError: the network hears otherwise.
    """
    if not audio.is_usual:
        raise UsageError(
            f"{what} is made for networks that hear 16 kHz and one channel, the mean; this one "
            f"hears recordings {audio.describe()}. Choose a network without the settings "
            "audio.sample_rate and audio.channels; scoring works with both."
        )
