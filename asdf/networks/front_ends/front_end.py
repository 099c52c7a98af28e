"""The interface of front ends: waveforms in, features out, of one layer or of all.

Invariant: in `eval()` mode an utterance's features depend on that utterance alone, and a frozen
front end is always in that mode. What is the same for every kind of front end is done here, once:
the choice of layers, freezing, masks, short and normalised waveforms, and which samples count.

Shapes: B utterances, T samples, L frames, C feature values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from asdf.errors import AsdfError, UsageError
from asdf.networks.front_ends.encoder_layers import WeightedSum
from asdf.networks.front_ends.masking import Masking
from asdf.networks.front_ends.padded import Padded, pad_rows
from asdf.networks.front_ends.trained_parts import all_parameters, resting_names
from asdf.networks.interface import repeat_short
from asdf.networks.traced_sizes import VARIANCE_FLOOR, normalize_rows
from asdf.networks.views import NetworkSections
from asdf.settings.sections import FrontEnd as FrontEndSettings
from asdf.settings.sections import Sections


class FrontEnd(nn.Module, ABC):
    """A front end of any kind; ours, and a model for yours.

    A class of your own states its sizes, makes the module of its weights, and computes states.

    Settings of its own, of a section that it declares as `own_settings`, are in `self.sections`:
    `self.sections.my_section.bands`, from `set_sizes` on.

    Attributes:
        sections: all sections of the settings.
        dimension: C, the number of values per frame.
        window: samples that the first frame needs.
        hop: samples from the start of a frame to the start of the next.
        encoder_layers: number of its layers; states are one more, with the first layer's input.
        layers: Number of those that are computed; `front_end.layer` may leave the upper ones out.
        cacheable: whether its features depend on the waveform, the numbers of `model`, the code of
            its module and `feature_settings()` alone, so that those of a frozen one may be cached.
            A derived class does not inherit it, but must say it again.
        architecture_setting: the value of `front_end.architecture` that builds it again.
        unloaded_weights: the pretrained weights that it is to start from and has not yet got, as
            `front_end.weights` names them; None once they are loaded, or without any.
        pretrained: Repository of the hub, and commit, that its weights are of, as
            'hub:ORG/NAME@COMMIT'; None: of none, or not known.
        resting: names of parameters that never learn, as `front_end.trained_parts` says.
        variance_floor: added to a waveform's variance where waveforms are normalised.
        repeats_last_frame: Whether frames go on to the end of a waveform, as in s3prl.
        frozen: see `freeze`.
        sample_rate: Sampling rate, in Hz, that it is made for; None: it takes any, and reads
            `self.sections.audio.sample_rate`.
        waveform_channels: Number of channels of the waveforms (batch, channels, samples) that it
            takes, with `audio.channels = 'all'`; None: it takes (batch, samples).

    Examples:
        >>> import torch
        >>> from asdf.networks import FrontEnd
        >>> from asdf.settings import Sections
        >>> class Frames(FrontEnd):
        ...     dimension = 40
        ...     window = 320
        ...     hop = 320
        ...
        ...     def make_model(self, settings):
        ...         return torch.nn.Linear(320, 40)
        ...
        ...     def states(self, waveforms_BT):
        ...         yield self.mask(self.model(waveforms_BT.unfold(1, 320, 320)))
        >>> front_end = Frames(Sections().front_end)
        >>> front_end(torch.zeros(2, 16000)).shape
        torch.Size([2, 50, 40])
    """

    dimension: int
    window: int
    hop: int
    encoder_layers: int = 0
    variance_floor: float = VARIANCE_FLOOR
    cacheable: ClassVar[bool] = False
    sample_rate: int | None = None
    waveform_channels: int | None = None

    def __init__(self, settings: FrontEndSettings, sections: NetworkSections | None = None) -> None:
        """Build it with random weights; `asdf.interchange.load_pretrained` loads those named.

        Args:
            sections: all sections; None: the defaults, but for `settings`.

        Raises:
            UsageError: the settings name no architecture of this kind, or a layer that it lacks.
        """
        super().__init__()
        self.sections = sections or Sections(front_end=settings)
        self.architecture_setting = settings.architecture
        self.unloaded_weights = settings.weights
        self.pretrained: str | None = None
        self.normalize_waveforms = settings.normalize_waveforms
        self.repeats_last_frame = settings.repeat_last_frame
        self.set_sizes(settings)
        # Before the model is built, which may take gigabytes.
        self.layers = _choose_layers(settings, self.encoder_layers)
        # The order of these three is the order in which random numbers are drawn.
        self.model = self.make_model(settings)
        self.masking: Masking | None = None
        if settings.time_mask_proportion or settings.channel_mask_proportion:
            self.masking = Masking(settings, self.dimension)
        self.layer_sum: WeightedSum | None = None
        if settings.layer == "weighted":
            self.layer_sum = WeightedSum(self.layers + 1)
        self.resting: frozenset[str] = frozenset()
        if settings.trained_parts is not None:
            self.resting = resting_names(self, settings.trained_parts)
        self.frozen = False
        self.freeze(settings.frozen)

    @classmethod
    def from_settings(cls, sections: NetworkSections) -> FrontEnd:
        """Build it from all sections, also where its constructor takes `sections.front_end` alone.

        Raises:
            UsageError: as the constructor.
        """
        if "sections" in signature(cls).parameters:
            return cls(sections.front_end, sections)
        return cls(sections.front_end)

    @classmethod
    def min_layers(cls, settings: FrontEndSettings) -> int:
        """Return its smallest number of layers, which settings show before it is built.

        A file may describe more than its weights are; memory is taken for no more than these.
        """
        return 0

    @classmethod
    def own_rate(cls, settings: FrontEndSettings) -> int | None:
        """Return the sampling rate that settings show before it is built; None: it takes any."""
        return cls.sample_rate

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Set `dimension`, `window`, `hop` and `encoder_layers`, where the settings choose them."""

    @abstractmethod
    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the module that holds all numbers of the front end; what learns and freezes."""

    @abstractmethod
    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the state that enters the first layer, and the output of each of `layers` layers.

        Args:
            waveforms_BT: (batch, samples) float32 at `audio.sample_rate`, `window` samples or more.

        Yields:
            (batch, frames, dimension), `layers` + 1 times. `mask` belongs before the first layer.
        """

    def padded_states(self, recordings: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the states of recordings of varying length, padded with zeros to the longest.

        A recording's are those that it has alone: here each is computed by itself. A front end that
        masks padding overrides this.

        Args:
            recordings: Waveforms, each (1, samples), as `states` takes them.

        Yields:
            (batch, frames of the longest, dimension), `layers` + 1 times.

        Raises:
            AsdfError: a recording has other frames than `frames` says, so that masks would be
                wrong.
        """
        of_each = [list(self._ended_states(recording)) for recording in recordings]
        for recording, (first_1LC, *_) in zip(recordings, of_each, strict=True):
            samples = recording.shape[1]
            if first_1LC.shape[1] != self.frames(samples):
                raise AsdfError(
                    f"{type(self).__qualname__} gives {first_1LC.shape[1]} frames of {samples} "
                    f"samples, and its frames({samples}) is {self.frames(samples)}: padding could "
                    "not be masked. Correct its window and hop, or its method frames."
                )
        for states in zip(*of_each, strict=True):
            yield pad_rows(states)

    def final_norm(self, x_BLC: Tensor) -> Tensor:
        """Return features from the last layer's output: the norm that ends the encoder, if any."""
        return x_BLC

    def final_norm_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of `final_norm`, which `layer_outputs` does not use."""
        return iter(())

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of layers that `front_end.layer` leaves out."""
        return iter(())

    def part_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        """Return the modules of the parts that `front_end.trained_parts` may name.

        Those of 'layers' are `layer_modules`; norms, biases and masks need no method.
        """
        return {}

    def layer_modules(self) -> Sequence[nn.Module]:
        """Return the encoder's layers: the first list of `encoder_layers` modules in `model`."""
        for module in self.model.modules():
            if isinstance(module, nn.ModuleList) and len(module) == self.encoder_layers:
                return list(module)
        return ()

    def untrained_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters that learn in no epoch: unused ones, and those that rest."""
        yield from self.unused_parameters()
        if self.resting:
            for name, parameter in all_parameters(self):
                if name in self.resting:
                    yield parameter

    def feature_settings(self) -> dict[str, Any]:
        """Return the plain values that features depend on, next to the numbers of `model`."""
        values = {
            "architecture": self.architecture_setting,
            "layers": self.layers,
            "normalize_waveforms": self.normalize_waveforms,
        }
        if self.variance_floor != VARIANCE_FLOOR:
            values["variance_floor"] = self.variance_floor
        if self.repeats_last_frame:
            values["repeats_last_frame"] = True
        return values

    def load_weights(self, weights: str) -> None:
        """Load the pretrained weights that `front_end.weights` names.

        Raises:
            UsageError: a front end of this kind takes none.
        """
        raise UsageError(
            f"front_end.weights = {weights!r}: {type(self).__name__} takes no pretrained weights. "
            "Set front_end.weights = None, or give the class a method load_weights(weights)."
        )

    def train(self, mode: bool = True) -> FrontEnd:
        """Choose training mode, unless it is frozen: then it stays without dropout and masks."""
        return super().train(mode and not self.frozen)

    def freeze(self, frozen: bool) -> None:
        """Let its weights stay as they are, or learn; a learned sum of layers always learns.

        What rests (`resting`) does so in any case.
        """
        self.frozen = frozen
        untrained = {id(parameter) for parameter in self.untrained_parameters()}
        for _, parameter in all_parameters(self):
            parameter.requires_grad_(not frozen and id(parameter) not in untrained)
        if frozen:
            self.train(False)

    def forward(self, waveforms_BT: Tensor | Padded) -> Tensor:
        """Return features (batch, frames, dimension), of the layers that `front_end.layer` chooses.

        Waveforms (batch, samples) at `audio.sample_rate`, or recordings of varying length; those
        shorter than `window` are repeated.
        """
        if self.layer_sum is not None:
            features_BLC: Tensor = self.layer_sum(self.hidden_states(waveforms_BT))
            return features_BLC
        with self._gradients(waveforms_BT):
            # Holds one state at a time, and not all until the last is computed.
            last_BLC = deque(self._prepared_states(waveforms_BT), maxlen=1).pop()
            return self.final_norm(last_BLC)

    def hidden_states(self, waveforms_BT: Tensor | Padded) -> list[Tensor]:
        """Return the first layer's input and the outputs of `layers` layers.

        As in SUPERB, the last layer's is taken after the encoder's final layer norm. Each is
        (batch, frames, dimension).
        """
        with self._gradients(waveforms_BT):
            *states, last_BLC = self._prepared_states(waveforms_BT)
            return [*states, self.final_norm(last_BLC)]

    def layer_outputs(self, waveforms_BT: Tensor | Padded) -> list[Tensor]:
        """Return the outputs of `layers` layers without `final_norm`: fairseq's `layer_results`."""
        with self._gradients(waveforms_BT):
            return list(self._prepared_states(waveforms_BT))[1:]

    def mask(self, x_BLC: Tensor) -> Tensor:
        """Return features (batch, frames, dimension), masked in training as the settings say."""
        if self.masking is None:
            return x_BLC
        masked_BLC: Tensor = self.masking(x_BLC)
        return masked_BLC

    def frames(self, samples: int) -> int:
        """Return how many frames `samples` samples give."""
        if samples < self.window:
            return 0
        if self.repeats_last_frame:
            return (samples + self.hop - 1) // self.hop
        return (samples - self.window) // self.hop + 1

    def min_samples(self, frames: int) -> int:
        """Return the fewest samples that give `frames` frames."""
        return (frames - 1) * self.hop + self.window

    def scoring_length(self, samples: int) -> int:
        """Return how many leading samples the features of `samples` samples depend on."""
        depends_on_all = self.normalize_waveforms or self.repeats_last_frame
        if depends_on_all or samples < self.window:
            return samples
        return self.used_samples(samples)

    def used_samples(self, samples: int) -> int:
        """Return how many leading samples the frames of `window` samples or more look at."""
        return self.min_samples(self.frames(samples))

    def check_loaded(self) -> None:
        """Make sure that the pretrained weights of the settings are in, before they are used.

        Raises:
            AsdfError: they are not, and the numbers would be random ones.
        """
        if self.unloaded_weights is not None:
            raise AsdfError(
                f"front_end.weights = {self.unloaded_weights!r} are not loaded: the front end has "
                "random numbers. Build the network with "
                "asdf.interchange.build_pretrained(settings), or call "
                "load_pretrained(network) of the same module first."
            )

    def _gradients(self, waveforms_BT: Tensor | Padded) -> torch.set_grad_enabled:
        # Frozen weights need none; samples whose gradient is asked for do.
        is_needed = not self.frozen or waveforms_BT.requires_grad
        return torch.set_grad_enabled(torch.is_grad_enabled() and is_needed)

    def _prepared_states(self, waveforms_BT: Tensor | Padded) -> Iterator[Tensor]:
        self.check_loaded()
        if isinstance(waveforms_BT, Tensor):
            return self._ended_states(self._prepared(waveforms_BT))
        recordings = [self._prepared(recording) for recording in waveforms_BT.recordings]
        if waveforms_BT.masks:
            return self.padded_states(recordings)
        # Silence comes after normalisation: it would change the recording's mean and variance.
        return self._ended_states(pad_rows(recordings))

    def _prepared(self, waveforms_BT: Tensor) -> Tensor:
        """Return waveforms of at least `window` samples, normalised if the settings say so."""
        waveforms_BT = repeat_short(waveforms_BT, self.window)
        if self.normalize_waveforms:
            # Each row by itself: torchaudio's bundles normalise a batch as a whole.
            waveforms_BT = normalize_rows(waveforms_BT, self.variance_floor)
        return waveforms_BT

    def _ended_states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        if self.repeats_last_frame:
            return self._states_to_the_end(waveforms_BT)
        return self.states(waveforms_BT)

    def _states_to_the_end(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield states whose last frame is repeated up to one for every hop that begins.

        Source: s3prl, `S3PRLUpstream._match_length`.
        """
        begun = (waveforms_BT.shape[1] + self.hop - 1) // self.hop
        # More than are ever missing; the others are cut off, also in a graph of any length.
        repeats = (self.window - 1) // self.hop + 1
        for state_BLC in self.states(waveforms_BT):
            last_B1C = state_BLC[:, -1:]
            yield torch.cat([state_BLC, last_B1C.expand(-1, repeats, -1)], dim=1)[:, :begun]


def _choose_layers(settings: FrontEndSettings, encoder_layers: int) -> int:
    if not isinstance(settings.layer, int):
        return encoder_layers
    if settings.layer > encoder_layers:
        raise UsageError(
            f"front_end.layer = {settings.layer}: this front end has {encoder_layers} encoder "
            "layers. Choose one of them, 0 for the input of the first, 'last' or 'weighted'."
        )
    return settings.layer
