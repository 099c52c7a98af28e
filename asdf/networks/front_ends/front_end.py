"""The interface of front ends, which map waveforms to features of one layer or of all.

Invariant: in `eval()` mode, an utterance's features depend only on that utterance, and a frozen
front end is always in that mode. The common parts of all front ends are implemented here: the
choice of layers, freezing, masks, short and normalised waveforms, and used samples. Masks depend
only on torch's generator on the CPU, which is seeded in each step, so a resumed run draws the same
masks on any device; outside training, and at proportions of 0, nothing is drawn or changed.

Parts that are trained while the others are frozen are sets of parameter names, which stay valid
when parameters are replaced. A part without parameters is an error.

Source of the masks: Park et al., "SpecAugment", Interspeech 2019; Baevski et al., "wav2vec 2.0",
NeurIPS 2020, and fairseq.

Shapes: B utterances, T samples, L frames, C feature values; R rows of S positions, N possible
starts of spans.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor, library, nn

from asdf.errors import AsdfError, UsageError
from asdf.networks.front_ends.encoder_layers import WeightedSum
from asdf.networks.functions import VARIANCE_FLOOR, normalize_rows
from asdf.networks.interface import Padded, pad_rows, repeat_short
from asdf.settings.front_end_values import is_pattern, read_layer_range
from asdf.settings.sections import FrontEnd as FrontEndSettings
from asdf.settings.sections import Sections
from asdf.text import and_more, did_you_mean

_PARTS = "front_end.trained_parts"
_SHOWN = 4
_MODEL = "model."
_MASKING = "masking."


class Masking(nn.Module):
    """Masks of frames, replaced by a learned vector, and of bands of values, replaced by 0."""

    def __init__(self, settings: FrontEndSettings, dimension: int) -> None:
        super().__init__()
        self.time_proportion = settings.time_mask_proportion
        self.time_length = settings.time_mask_length
        self.channel_proportion = settings.channel_mask_proportion
        self.channel_length = settings.channel_mask_length
        if self.time_proportion:
            self.embedding = nn.Parameter(torch.rand(dimension))

    def load_embedding(self, embedding: Tensor) -> None:
        """Load the vector (dimension,) that pretraining used for masked frames."""
        if self.time_proportion:
            self.embedding.data.copy_(embedding)

    def forward(self, x_BLC: Tensor) -> Tensor:
        """Mask features (batch, frames, dimension); the masks of utterances are independent."""
        if not self.training:
            return x_BLC
        batch, frames, dimension = x_BLC.shape
        device = x_BLC.device
        if self.time_proportion:
            mask_BL = draw_spans_on(device, batch, frames, self.time_proportion, self.time_length)
            embedding_C = self.embedding.to(x_BLC.dtype)
            # With `where`, the vector gets a gradient even if no frame is masked.
            x_BLC = torch.where(mask_BL.unsqueeze(2), embedding_C, x_BLC)
        if self.channel_proportion:
            mask_BC = draw_spans_on(
                device, batch, dimension, self.channel_proportion, self.channel_length
            )
            x_BLC = x_BLC.masked_fill(mask_BC.unsqueeze(1), 0.0)
        return x_BLC


def draw_spans(rows: int, size: int, proportion: float, length: int) -> Tensor:
    """Draw a mask (rows, size), True inside the spans of each row.

    The number of spans per row is proportion * size / length, randomly rounded up or down to this
    mean, with distinct starts. Spans may overlap, so fewer than `proportion` of the values are
    masked. fairseq equalises the number of masked frames in a batch and masks at least two spans;
    here rows are drawn independently.
    """
    length = min(length, size)
    starts = size - length + 1
    mean_count = proportion * size / length
    counts_R = (mean_count + torch.rand(rows)).int()
    counts_R = counts_R.clamp(max=starts)
    # Rank all possible starts randomly; the first `counts_R` of them are used.
    ranks_RN = torch.rand(rows, starts).argsort(dim=1)
    begins_RS = torch.zeros(rows, size, dtype=torch.long)
    begins_RS[:, :starts] = ranks_RN < counts_R.unsqueeze(1)
    # A value is masked if a span begins at it or up to `length` - 1 before it.
    spans_RS = begins_RS.cumsum(dim=1)
    ended_RS = spans_RS[:, :-length].clone()
    spans_RS[:, length:] -= ended_RS
    return spans_RS > 0


# A compiler would draw other numbers and cannot trace a copy through pinned memory, so this is a
# single operation with a known result shape. The tag for randomness prevents two calls from being
# merged.
@library.custom_op("asdf::draw_spans", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def draw_spans_on(
    device: torch.device, rows: int, size: int, proportion: float, length: int
) -> Tensor:
    """Call `draw_spans` on the CPU and copy the result to `device` without blocking the host."""
    mask_RS = draw_spans(rows, size, proportion, length)
    if device.type != "cuda":
        return mask_RS.to(device)
    return mask_RS.pin_memory().to(device, non_blocking=True)


@draw_spans_on.register_fake
def _(device: torch.device, rows: int, size: int, proportion: float, length: int) -> Tensor:
    return torch.empty(rows, size, dtype=torch.bool, device=device)


class FrontEnd(nn.Module, ABC):
    """Base class of front ends, the project's and your own.

    Your class sets its sizes, creates the module with its weights, and computes states.

    Settings in a section that it declares as `own_settings` are available as `self.sections`, such
    as `self.sections.my_section.bands`, from `set_sizes` on.

    Attributes:
        sections: Sections of the settings.
        dimension: Number of values per frame, C.
        window: Number of samples that the first frame needs.
        hop: Number of samples from the start of a frame to the start of the next.
        encoder_layers: Number of encoder layers; there is one more state, the first layer's input.
        layers: Number of computed layers; `front_end.layer` may leave the upper ones out.
        cacheable: Whether features depend only on the waveform, the weights of `model`, the code of
            its module and `feature_settings()`, so that those of a frozen front end may be cached.
            Derived classes do not inherit this and must set it again.
        architecture_setting: Value of `front_end.architecture` that builds it again.
        unloaded_weights: Pretrained weights still to be loaded, as `front_end.weights` names them;
            None once they are loaded, or if there are none.
        pretrained: Repository and commit on the hub that its weights come from, as
            'hub:ORG/NAME@COMMIT'; None if there is none or it is unknown.
        resting: Names of parameters that are never trained, according to `front_end.trained_parts`.
        variance_floor: Number added to a waveform's variance if waveforms are normalised.
        repeats_last_frame: Whether frames continue to the end of a waveform, as in s3prl.
        frozen: Whether its weights are frozen; see `freeze`.
        sample_rate: Sampling rate, in Hz, that it is made for; None for any, given by
            `self.sections.audio.sample_rate`.
        waveform_channels: Number of channels of waveforms (batch, channels, samples) that it takes
            with `audio.channels = 'all'`; None for waveforms (batch, samples).

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

    def __init__(self, settings: FrontEndSettings, sections: Sections | None = None) -> None:
        """Build it with random weights; `asdf.interchange.load_pretrained` loads pretrained ones.

        Args:
            sections: Sections of all settings; None for the defaults with `settings` as front end.

        Raises:
            UsageError: the settings name an unsuitable architecture, or a layer that does not
                exist.
        """
        super().__init__()
        self.sections = sections or Sections(front_end=settings)
        self.architecture_setting = settings.architecture
        self.unloaded_weights = settings.weights
        self.pretrained: str | None = None
        self.normalize_waveforms = settings.normalize_waveforms
        self.repeats_last_frame = settings.repeat_last_frame
        self.set_sizes(settings)
        # Checked before the model is built, which may take gigabytes.
        self.layers = self.encoder_layers
        if isinstance(settings.layer, int):
            self.layers = settings.layer
        if self.layers > self.encoder_layers:
            raise UsageError(
                f"front_end.layer = {self.layers}: this front end has {self.encoder_layers} "
                "encoder layers. Set the number of a layer, 0 for the input of the first, 'last' "
                "or 'weighted'."
            )
        # The order of these three determines the order of random draws.
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
    def from_settings(cls, sections: Sections) -> FrontEnd:
        """Build it from all sections, even if its constructor takes only `sections.front_end`.

        Raises:
            UsageError: as in the constructor.
        """
        if "sections" in signature(cls).parameters:
            return cls(sections.front_end, sections)
        return cls(sections.front_end)

    @classmethod
    def own_rate(cls, settings: FrontEndSettings) -> int | None:
        """Return the sampling rate for these settings, known before it is built; None for any."""
        return cls.sample_rate

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Set `dimension`, `window`, `hop` and `encoder_layers`, if the settings determine them."""

    @abstractmethod
    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the module with all weights of the front end, which is trained and frozen."""

    @abstractmethod
    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the input of the first layer, and the output of each of `layers` layers.

        Args:
            waveforms_BT: Waveforms (batch, samples), float32 at `audio.sample_rate`, with at least
                `window` samples.

        Yields:
            States (batch, frames, dimension), `layers` + 1 times. Call `mask` before the first
            layer.
        """

    def padded_states(self, recordings: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the states of recordings of varying length, padded with zeros to the longest.

        A recording's states equal those that it has alone: by default each is computed separately.
        A front end that masks padding overrides this.

        Args:
            recordings: Waveforms, each (1, samples), as in `states`.

        Yields:
            States (batch, frames of the longest, dimension), `layers` + 1 times.

        Raises:
            AsdfError: a recording has another number of frames than `frames` states, so masks would
                be wrong.
        """
        of_each = [list(self._ended_states(recording)) for recording in recordings]
        for recording, (first_1LC, *_) in zip(recordings, of_each, strict=True):
            samples = recording.shape[1]
            if first_1LC.shape[1] != self.frames(samples):
                raise AsdfError(
                    f"{type(self).__qualname__} gives {first_1LC.shape[1]} frames of {samples} "
                    f"samples, but its frames({samples}) returns {self.frames(samples)}: padding "
                    "could not be masked. Correct its window and hop, or its method frames."
                )
        for states in zip(*of_each, strict=True):
            yield pad_rows(states)

    def final_norm(self, x_BLC: Tensor) -> Tensor:
        """Apply the norm that ends the encoder, if any, to the last layer's output."""
        return x_BLC

    def final_norm_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of `final_norm`, which `layer_outputs` does not use."""
        return iter(())

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of layers that `front_end.layer` leaves out."""
        return iter(())

    def part_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        """Return the modules of the parts that `front_end.trained_parts` may name.

        The part 'layers' is `layer_modules`; norms, biases and masks need no method.
        """
        return {}

    def layer_modules(self) -> Sequence[nn.Module]:
        """Return the encoder's layers: the first list of `encoder_layers` modules in `model`."""
        for module in self.model.modules():
            if isinstance(module, nn.ModuleList) and len(module) == self.encoder_layers:
                return list(module)
        return ()

    def untrained_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters that are never trained: unused ones and `resting` ones."""
        yield from self.unused_parameters()
        if self.resting:
            for name, parameter in all_parameters(self):
                if name in self.resting:
                    yield parameter

    def feature_settings(self) -> dict[str, Any]:
        """Return plain values of everything besides the weights that features depend on."""
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

    @classmethod
    def architecture_of(cls, weights: str) -> str | None:
        """Return the value of `front_end.architecture` for weights; None: that of the settings.

        Raises:
            AsdfError: the weights cannot be read or downloaded.
        """
        return None

    def load_weights(self, weights: str) -> None:
        """Load the pretrained weights that `front_end.weights` names.

        Raises:
            UsageError: this kind of front end has no pretrained weights.
        """
        raise UsageError(
            f"front_end.weights = {weights!r}: {type(self).__name__} does not support pretrained "
            "weights. Set front_end.weights = None, or implement load_weights(weights) in the "
            "class."
        )

    def train(self, mode: bool = True) -> FrontEnd:
        """Set training mode, unless it is frozen, which keeps dropout and masks off."""
        return super().train(mode and not self.frozen)

    def freeze(self, frozen: bool) -> None:
        """Freeze or unfreeze its weights; a learned sum of layers is always trained.

        Parameters in `resting` are frozen in any case.
        """
        self.frozen = frozen
        untrained = {id(parameter) for parameter in self.untrained_parameters()}
        for _, parameter in all_parameters(self):
            parameter.requires_grad_(not frozen and id(parameter) not in untrained)
        if frozen:
            self.train(False)

    def forward(self, waveforms_BT: Tensor | Padded) -> Tensor:
        """Return features (batch, frames, dimension) of the layers that `front_end.layer` selects.

        It takes waveforms (batch, samples) at `audio.sample_rate`, or recordings of varying length;
        those shorter than `window` are repeated.
        """
        if self.layer_sum is not None:
            return self.layer_sum(self.hidden_states(waveforms_BT))
        with self._gradients(waveforms_BT):
            # Keeps one state at a time, rather than all until the last is computed.
            last_BLC = deque(self._prepared_states(waveforms_BT), maxlen=1).pop()
            return self.final_norm(last_BLC)

    def hidden_states(self, waveforms_BT: Tensor | Padded) -> list[Tensor]:
        """Return the first layer's input and the outputs of `layers` layers.

        As in SUPERB, the last layer's output is taken after the encoder's final layer norm. Each is
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
        """Return features (batch, frames, dimension), masked in training as configured."""
        if self.masking is None:
            return x_BLC
        return self.masking(x_BLC)

    def frames(self, samples: int) -> int:
        """Return the number of frames for `samples` samples."""
        if samples < self.window:
            return 0
        if self.repeats_last_frame:
            return (samples + self.hop - 1) // self.hop
        return (samples - self.window) // self.hop + 1

    def min_samples(self, frames: int) -> int:
        """Return the minimum number of samples for `frames` frames."""
        return (frames - 1) * self.hop + self.window

    def scoring_length(self, samples: int) -> int:
        """Return the number of leading samples that the features of `samples` samples depend on."""
        depends_on_all = self.normalize_waveforms or self.repeats_last_frame
        if depends_on_all or samples < self.window:
            return samples
        return self.used_samples(samples)

    def used_samples(self, samples: int) -> int:
        """Return the leading samples that frames depend on, for at least `window` samples."""
        return self.min_samples(self.frames(samples))

    def check_loaded(self) -> None:
        """Check that the pretrained weights of the settings are loaded before they are used.

        Raises:
            AsdfError: they are not loaded, so the weights would be random.
        """
        if self.unloaded_weights is not None:
            raise AsdfError(
                f"front_end.weights = {self.unloaded_weights!r} are not loaded: the front end has "
                "random values. Build the network with "
                "asdf.interchange.build_pretrained(settings), or call load_pretrained(network) "
                "from the same module first."
            )

    def _gradients(self, waveforms_BT: Tensor | Padded) -> torch.set_grad_enabled:
        # Frozen weights need no gradient, but samples may require one.
        is_needed = not self.frozen or waveforms_BT.requires_grad
        return torch.set_grad_enabled(torch.is_grad_enabled() and is_needed)

    def _prepared_states(self, waveforms_BT: Tensor | Padded) -> Iterator[Tensor]:
        self.check_loaded()
        if isinstance(waveforms_BT, Tensor):
            return self._ended_states(self._prepared(waveforms_BT))
        recordings = [self._prepared(recording) for recording in waveforms_BT.recordings]
        if waveforms_BT.masks:
            return self.padded_states(recordings)
        # Silence is added after normalisation, since it would change a recording's mean and
        # variance.
        return self._ended_states(pad_rows(recordings))

    def _prepared(self, waveforms_BT: Tensor) -> Tensor:
        """Return waveforms with at least `window` samples, normalised if the settings say so."""
        waveforms_BT = repeat_short(waveforms_BT, self.window)
        if self.normalize_waveforms:
            # Each row separately, although torchaudio's bundles normalise a batch as a whole.
            waveforms_BT = normalize_rows(waveforms_BT, self.variance_floor)
        return waveforms_BT

    def _ended_states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield states, with the last frame repeated if there is to be one for every hop begun.

        Source: s3prl, `S3PRLUpstream._match_length`.
        """
        if not self.repeats_last_frame:
            yield from self.states(waveforms_BT)
            return
        begun = (waveforms_BT.shape[1] + self.hop - 1) // self.hop
        # An upper bound for missing frames; surplus ones are cut off, as a graph of any length
        # needs.
        repeats = (self.window - 1) // self.hop + 1
        for state_BLC in self.states(waveforms_BT):
            last_B1C = state_BLC[:, -1:]
            yield torch.cat([state_BLC, last_B1C.expand(-1, repeats, -1)], dim=1)[:, :begun]


def resting_names(front_end: FrontEnd, parts: tuple[str, ...]) -> frozenset[str]:
    """Return the state dict names of the parameters that are in none of `parts`.

    Raises:
        UsageError: the front end lacks a part, or `front_end.layer` leaves all of it out.
    """
    unused = {id(parameter) for parameter in front_end.unused_parameters()}
    trained: set[str] = set()
    for part in parts:
        named = dict(_named_parameters(front_end, part))
        if not named:
            names = [name.removeprefix(_MODEL) for name, _ in all_parameters(front_end)]
            kind = type(front_end).__name__
            problem = f"{kind} has no part {part!r}. Select its parameters by a pattern instead."
            if is_pattern(part):
                problem = f"no parameter of {kind} fits {part!r}.{did_you_mean(part, names)}"
            raise UsageError(f"{_PARTS}: {problem} Its parameters are {and_more(names, _SHOWN)}.")
        used = [name for name, parameter in named.items() if id(parameter) not in unused]
        if not used:
            raise UsageError(
                f"{_PARTS}: front_end.layer leaves out all of {part!r}, so it cannot be trained. "
                f"The front end computes {front_end.layers} of {front_end.encoder_layers} layers."
            )
        trained.update(used)
    return frozenset(name for name, _ in all_parameters(front_end) if name not in trained)


def all_parameters(front_end: FrontEnd) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield name and parameter of everything that `FrontEnd.freeze` affects: model and masks."""
    for prefix, module in ((_MODEL, front_end.model), (_MASKING, front_end.masking)):
        if module is not None:
            for name, parameter in module.named_parameters():
                yield prefix + name, parameter


def _named_parameters(front_end: FrontEnd, part: str) -> Iterator[tuple[str, nn.Parameter]]:
    layers = read_layer_range(part)
    if layers is not None:
        modules = front_end.layer_modules()
        if layers.last is not None and layers.last > len(modules):
            raise UsageError(
                f"{_PARTS}: {part!r}: {type(front_end).__name__} has {len(modules)} encoder "
                "layers, counted from 1."
            )
        indices = layers.indices(len(modules))
        return _parameters_of(front_end, [modules[index] for index in indices])
    if part == "masks":
        return _parameters_of(front_end, filter(None, [front_end.masking]))
    if part == "norms":
        modules = list(front_end.model.modules())
        # By class name, since libraries have their own layer norms, such as RMS norms.
        norms = [module for module in modules if "norm" in type(module).__name__.lower()]
        return _parameters_of(front_end, norms)
    named = all_parameters(front_end)
    if part == "biases":
        return ((name, parameter) for name, parameter in named if name.endswith("bias"))
    if is_pattern(part):
        return (pair for pair in named if fnmatchcase(pair[0].removeprefix(_MODEL), part))
    return _parameters_of(front_end, front_end.part_modules().get(part, ()))


def _parameters_of(
    front_end: FrontEnd, modules: Iterable[nn.Module]
) -> Iterator[tuple[str, nn.Parameter]]:
    wanted = {id(parameter) for module in modules for parameter in module.parameters()}
    for name, parameter in all_parameters(front_end):
        if id(parameter) in wanted:
            yield name, parameter
