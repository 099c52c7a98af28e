"""Whether a network can hear what recordings are read as: its rate, and its channels.

Invariant: a network never gets waveforms of another rate than it is made for, nor of other
channels: a class says what it takes by attributes, which are compared with the section `audio`
before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from asdf.errors import UsageError
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.settings.sections import USUAL_AUDIO, Audio
from asdf.settings.sections import FrontEnd as FrontEndSettings

_NOTED = "_heard_audio"

ANY_RATE = "log_mel, filter_bank, spectrogram, lfcc, mfcc, cqt, cqcc, sinc, raw, or one of your own"


def waveform_channels(network: nn.Module | type[nn.Module]) -> int | None:
    """Return how many channels a network takes, (batch, channels, samples); None: one, without it.

    Raises:
        UsageError: its class has another value than such a number.
    """
    if isinstance(network, DistributedDataParallel):
        network = network.module
    count: Any = getattr(network, "waveform_channels", None)
    if count is None:
        front_end = getattr(network, "front_end_class", None)
        count = getattr(front_end, "waveform_channels", None)
    # To Python True is an int.
    if count is not None and (type(count) is not int or count < 1):
        raise UsageError(
            f"{_name(network)}.waveform_channels is {count!r}: it is the number of channels of the "
            "waveforms (batch, channels, samples) that it takes, or None for (batch, samples)."
        )
    return count


def waveform_shape(network: nn.Module, utterances: int, samples: int) -> tuple[int, ...]:
    """Return the shape of waveforms for a network: (batch, samples) or with its channels."""
    channels = waveform_channels(network)
    if channels is None:
        return utterances, samples
    return utterances, channels, samples


def note_audio(network: nn.Module, audio: Audio) -> None:
    """Note what a network that was built hears, for graphs and programs that are made of it."""
    vars(network)[_NOTED] = audio


def audio_of(network: nn.Module) -> Audio:
    """Return what a network hears, as `note_audio` noted it."""
    audio: Audio = vars(network).get(_NOTED, USUAL_AUDIO)
    return audio


def check_classes(
    audio: Audio,
    network_class: type[nn.Module],
    front_end_class: type[nn.Module] | None,
    front_end: FrontEndSettings | None = None,
) -> None:
    """Refuse a rate or channels that the classes of a network do not take.

    Args:
        front_end_class: Class that `front_end.front_end_class` names; None: that of the network.
        front_end: Settings of the front end, which may state its rate.

    Raises:
        UsageError: names the class, and all that it does not take.
    """
    front_end_class = front_end_class or getattr(network_class, "front_end_class", None)
    problems = list(_rate_problems(audio, network_class, _rate_of(network_class)))
    if isinstance(front_end_class, type) and issubclass(front_end_class, FrontEnd):
        own = front_end_class.own_rate(front_end or FrontEndSettings())
        problems += _rate_problems(audio, front_end_class, own)
    takes = count_channels(network_class, front_end_class)
    problems += _channel_problems(audio, takes, front_end_class or network_class)
    if problems:
        raise UsageError("\n".join(problems))


def check_network(audio: Audio, network: nn.Module) -> None:
    """Refuse a rate or channels that a network which was built does not take.

    Raises:
        UsageError: as `check_classes`; or a front end was built for another rate.
    """
    problems = list(_rate_problems(audio, network, _rate_of(network)))
    for module in network.modules():
        if isinstance(module, FrontEnd):
            problems += _rate_problems(audio, module, module.sample_rate)
            built_for = module.sections.audio.sample_rate
            if module.sample_rate is None and built_for != audio.sample_rate:
                problems.append(
                    f"audio.sample_rate = {audio.sample_rate}: {_name(module)} was built for "
                    f"{built_for} Hz. Make it by {_name(module)}.from_settings(settings), with all "
                    "sections."
                )
    problems += _channel_problems(audio, waveform_channels(network), network)
    if problems:
        raise UsageError("\n".join(dict.fromkeys(problems)))


def count_channels(
    network_class: type[nn.Module], front_end_class: type[nn.Module] | None
) -> int | None:
    """Return how many channels a network of these classes takes; None: (batch, samples)."""
    count = waveform_channels(network_class)
    if count is None and front_end_class is not None:
        count = waveform_channels(front_end_class)
    return count


def _rate_problems(
    audio: Audio, kind: nn.Module | type[nn.Module], own: int | None
) -> Iterator[str]:
    if own is None or own == audio.sample_rate:
        return
    yield (
        f"audio.sample_rate = {audio.sample_rate}: {_name(kind)} is of {own:,} Hz and no other. "
        f"Set audio.sample_rate = {own}, or choose a front end that takes any rate "
        f"(front_end.front_end_class: {ANY_RATE})."
    )


def _rate_of(kind: nn.Module | type[nn.Module]) -> int | None:
    """Return the attribute `sample_rate` of a class that may be of any base."""
    rate: Any = getattr(kind, "sample_rate", None)
    if rate is not None and type(rate) is not int:
        raise UsageError(
            f"{_name(kind)}.sample_rate is {rate!r}: it is the rate in Hz that the class is made "
            "for, a whole number, or None for any."
        )
    return rate


def _channel_problems(
    audio: Audio, takes: int | None, kind: nn.Module | type[nn.Module]
) -> Iterator[str]:
    if audio.channels == "all" and takes is None:
        yield (
            f"audio.channels = 'all': {_name(kind)} takes one channel, (batch, samples). Choose "
            "'mean' or the index of one; a class of your own that takes (batch, channels, samples) "
            "says so by its attribute waveform_channels, their number."
        )
    if audio.channels != "all" and takes is not None:
        yield (
            f"audio.channels = {audio.channels!r}: {_name(kind)} takes {takes} channels. Set "
            "audio.channels = 'all'."
        )


def _name(kind: nn.Module | type[nn.Module]) -> str:
    return kind.__qualname__ if isinstance(kind, type) else type(kind).__qualname__
