"""Building the network of `network.network_class`, ours or one in a file of the recipe.

Invariant: a class is checked before any of its code runs, and untrained parameters are known before
training starts: every parameter that requires a gradient gets one in each step. A network never
gets waveforms at an unsupported rate or with unsupported channels: classes declare both as
attributes, which are compared with the section `audio` before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from asdf.errors import AsdfError, UsageError
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.interface import (
    class_name,
    declared_count,
    frame_hop,
    front_end_parameters,
    note_audio,
    waveform_channels,
)
from asdf.networks.ssl_detector import (
    BACK_END_SETTING,
    FRONT_END_SETTING,
    find_back_end_class,
    find_front_end_class,
)
from asdf.networks.tuning import tune_front_ends
from asdf.settings.class_path import describe_error, find_class
from asdf.settings.relations import that_keep_time
from asdf.settings.sections import Audio, Sections
from asdf.settings.sections import FrontEnd as FrontEndSettings

SETTING = "network.network_class"

_ANY_RATE = "log_mel, filter_bank, spectrogram, lfcc, mfcc, raw, or one of your own"


@dataclass(frozen=True)
class Summary:
    """Numbers of parameters."""

    total: int
    trainable: int

    def __str__(self) -> str:
        return f"{self.total:,} parameters, {self.trainable:,} of them trainable"


def build_network(
    settings: Sections, folder: Path | None = None, load: Callable[[nn.Module], None] | None = None
) -> nn.Module:
    """Build the network of the settings with random weights, without reading any file.

    Weights are drawn from torch's default generator, so equal `torch.manual_seed` give equal
    weights. `asdf.interchange.build_pretrained` also loads `front_end.weights`.

    Args:
        settings: All sections, which are passed to the class unchanged.
        folder: Folder of the recipe with the user's own modules, which is searched first.
        load: Function that loads pretrained weights into the modules created by the network's
            class, called before anything is added to them.

    Raises:
        UsageError: as in `find_network_class`, `check_audio` and `tune_front_ends`.
        AsdfError: the class's module or its constructor fails.
    """
    class_path = settings.network.network_class
    network_class = find_network_class(class_path, folder)
    # Also imports them from the recipe's folder, which the network's constructor does not know.
    ends: dict[str, type[nn.Module] | None] = {
        FRONT_END_SETTING: find_front_end_class(settings.front_end, folder),
        BACK_END_SETTING: find_back_end_class(settings.back_end, folder),
    }
    check_audio(settings.audio, network_class, ends[FRONT_END_SETTING], settings.front_end)
    try:
        network = network_class(settings)
    # Such an error already says what to change; only others need the class named.
    except AsdfError:
        raise
    except Exception as error:
        raise AsdfError(
            f"{SETTING}: {class_path}(settings) failed: {describe_error(error, __file__)}. A "
            "network's constructor takes one argument, the settings; see "
            "asdf.networks.DetectorNetwork."
        ) from error
    for setting, kind in ends.items():
        if kind is None or any(isinstance(module, kind) for module in network.modules()):
            continue
        advice = "Choose network.network_class = 'asdf.networks.ComposedDetector', which has any"
        if setting == FRONT_END_SETTING:
            advice += ", or another class derived from asdf.networks.SSLDetector"
        raise UsageError(
            f"{setting} names {kind.__name__}, but {class_path} does not take one: its class fixes "
            f"its parts. {advice}; or set {setting} = None."
        )
    if settings.localisation.enabled and frame_hop(network) is None:
        raise UsageError(
            f"localisation.enabled = True: {class_path} has no frame-level head. Choose "
            "network.network_class = 'asdf.networks.ComposedDetector' with one of the back ends "
            f"that have frames: {that_keep_time()}. A class of your own must return "
            "asdf.networks.interface.Outputs with frame logits, and have the attribute frame_hop."
        )
    check_network_audio(settings.audio, network)
    note_audio(network, settings.audio)
    if load is not None:
        load(network)
    tune_front_ends(network, settings)
    return network


def channels_of(settings: Sections, folder: Path | None) -> int | None:
    """Return the number of channels that the network takes; None for waveforms (batch, samples).

    Raises:
        UsageError, AsdfError: as in `find_network_class`.
    """
    network_class = find_network_class(settings.network.network_class, folder)
    front_end_class = find_front_end_class(settings.front_end, folder)
    return count_channels(network_class, front_end_class)


def find_network_class(class_path: str, folder: Path | None) -> type[nn.Module]:
    """Return the network class that `class_path` names.

    Raises:
        UsageError: the class does not exist, is not a `torch.nn.Module`, or lacks a method that a
            network needs.
        AsdfError: importing its module fails.
    """
    network_class = find_class(class_path, folder, SETTING, nn.Module)
    missing = set(getattr(network_class, "__abstractmethods__", ()))
    # A misspelt `forward` would otherwise be noticed only in the first step.
    if network_class.forward is nn.Module.forward:
        missing.add("forward")
    if missing:
        raise UsageError(
            f"{SETTING}: {class_path} lacks {' and '.join(sorted(missing))}, which every network "
            "needs. Derive it from asdf.networks.DetectorNetwork or SSLDetector, and check the "
            "spelling."
        )
    return network_class


def summary(network: nn.Module) -> Summary:
    """Count the parameters of the network, in total and trained."""
    return _count(network.parameters())


def front_end_summary(network: nn.Module) -> Summary:
    """Count the parameters of the network's front end, in total and trained."""
    return _count(front_end_parameters(network))


def _count(parameters: Iterable[nn.Parameter]) -> Summary:
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in parameters]
    return Summary(sum(size for size, _ in sizes), sum(size for size, learns in sizes if learns))


def self_contained(settings: FrontEndSettings, network: nn.Module) -> FrontEndSettings:
    """Return the section that builds `network` again without its pretrained weights.

    The network's own state dict then holds all weights.
    """
    architectures = {
        module.architecture_setting for module in network.modules() if isinstance(module, FrontEnd)
    }
    # Without a front end, or with several, only the class itself knows their architectures.
    if len(architectures) != 1:
        return replace(settings, weights=None)
    return replace(settings, weights=None, architecture=architectures.pop())


def check_audio(
    audio: Audio,
    network_class: type[nn.Module],
    front_end_class: type[nn.Module] | None,
    front_end: FrontEndSettings | None = None,
) -> None:
    """Refuse a sampling rate or channels that the classes of a network do not support.

    Args:
        front_end_class: Class that `front_end.front_end_class` names; None for the network's own.
        front_end: Settings of the front end, which may state its sampling rate.

    Raises:
        UsageError: the audio is not supported; the message names the class and every reason.
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


def check_network_audio(audio: Audio, network: nn.Module) -> None:
    """Refuse a sampling rate or channels that a built network does not support.

    Raises:
        UsageError: as in `check_audio`, or if a front end was built for another rate.
    """
    problems = list(_rate_problems(audio, network, _rate_of(network)))
    for module in network.modules():
        if isinstance(module, FrontEnd):
            problems += _rate_problems(audio, module, module.sample_rate)
            built_for = module.sections.audio.sample_rate
            if module.sample_rate is None and built_for != audio.sample_rate:
                problems.append(
                    f"audio.sample_rate = {audio.sample_rate}: {class_name(module)} was built for "
                    f"{built_for} Hz. Build it with {class_name(module)}.from_settings(settings), "
                    "passing all sections."
                )
    problems += _channel_problems(audio, waveform_channels(network), network)
    if problems:
        # Two front ends of one class have the same problem, which is reported once.
        raise UsageError("\n".join(dict.fromkeys(problems)))


def count_channels(
    network_class: type[nn.Module], front_end_class: type[nn.Module] | None
) -> int | None:
    """Return the channels that a network of these classes takes; None for (batch, samples)."""
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
        f"audio.sample_rate = {audio.sample_rate}: {class_name(kind)} supports only {own:,} Hz. "
        f"Set audio.sample_rate = {own}, or choose a front end that supports any rate "
        f"(front_end.front_end_class: {_ANY_RATE})."
    )


def _rate_of(kind: nn.Module | type[nn.Module]) -> int | None:
    return declared_count(kind, "sample_rate", "the rate in Hz that the class supports")


def _channel_problems(
    audio: Audio, takes: int | None, kind: nn.Module | type[nn.Module]
) -> Iterator[str]:
    if audio.channels == "all" and takes is None:
        yield (
            f"audio.channels = 'all': {class_name(kind)} takes one channel, (batch, samples). Set "
            "'mean' or the index of a channel. A class of your own that takes (batch, channels, "
            "samples) must have the attribute waveform_channels, their number."
        )
    if audio.channels != "all" and takes is not None:
        yield (
            f"audio.channels = {audio.channels!r}: {class_name(kind)} takes {takes} channels. Set "
            "audio.channels = 'all'."
        )
