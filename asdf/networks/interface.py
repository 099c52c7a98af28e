"""The interface of network classes to training and scoring, with defaults for simpler classes.

Invariant: a network needs only a constructor that takes the settings and a `forward`. Everything
else is read through the functions below, which provide defaults for classes that lack it. Whatever
a network adds to its outputs, they still iterate, index and count as the pair (embeddings, logits).
A network depends only on the sections of networks and on those declared by a user's class, never on
lists, folders or the machine.

Shapes: B utterances, T samples, E embedding values, F or L frames, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.utils import _pytree

from asdf.data.batches import LENGTHS, REFERENCES
from asdf.errors import AsdfError, UsageError
from asdf.networks.front_ends.encoder_layers import WeightedSum
from asdf.networks.functions import at_least, is_traced
from asdf.settings.sections import USUAL_AUDIO, Audio, Sections

_NOTED = "_heard_audio"
COLUMNS = "columns"
FURTHER_INPUTS = (LENGTHS, REFERENCES, COLUMNS)


# Tensors compare elementwise, so a generated comparison would have no single truth value.
@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of a network for some utterances; a network may also return the pair alone.

    Attributes:
        embeddings: First output of the network, usually of shape (B, anything).
        logits_B2: Logits of the utterances, column 1 for bona fide.
        extras: Tensors of the network's heads, (B, ...), by key: 'frames' for logits of the
            utterances' frames (B, F, 2), column 1 for bona fide; 'sources' for natural-log odds of
            classes, up to a constant per utterance.

    Examples:
        >>> import torch
        >>> from asdf.networks import Outputs
        >>> extras = {"frames": torch.zeros(4, 50, 2)}
        >>> outputs = Outputs(torch.zeros(4, 8), torch.zeros(4, 2), extras)
        >>> embeddings_BE, logits_B2 = outputs  # as the pair that a network may return alone
        >>> outputs.first(3).extras["frames"].shape
        torch.Size([3, 50, 2])
    """

    embeddings: Any
    logits_B2: Tensor
    extras: Mapping[str, Tensor] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Any]:
        yield self.embeddings
        yield self.logits_B2

    def __getitem__(self, index: int) -> Any:
        return (self.embeddings, self.logits_B2)[index]

    def __len__(self) -> int:
        return 2

    def first(self, utterances: int) -> Outputs:
        """Return the outputs of the first utterances; the embeddings must be a tensor."""
        extras = {name: values[:utterances] for name, values in self.extras.items()}
        return Outputs(self.embeddings[:utterances], self.logits_B2[:utterances], extras)

    def with_extra(self, name: str, values: Tensor) -> Outputs:
        """Return the outputs with one more extra."""
        return replace(self, extras={**self.extras, name: values})


def as_outputs(value: Any) -> Outputs:
    """Return the outputs of a network, a pair or `Outputs`, as `Outputs`."""
    if isinstance(value, Outputs):
        # Networks of earlier versions returned the logits of frames as the third value.
        if isinstance(value.extras, Tensor):
            return replace(value, extras={"frames": value.extras})
        return value
    embeddings, logits_B2 = value
    return Outputs(embeddings, logits_B2)


def _flatten(outputs: Outputs) -> tuple[list[Any], tuple[str, ...]]:
    whole = as_outputs(outputs)
    parts = [whole.embeddings, whole.logits_B2, *whole.extras.values()]
    return parts, tuple(whole.extras)


def _unflatten(parts: Any, names: tuple[str, ...]) -> Outputs:
    embeddings, logits_B2, *extras = parts
    return Outputs(embeddings, logits_B2, dict(zip(names, extras, strict=True)))


# torch looks for tensors in the outputs, for example to export or to compile a network.
_pytree.register_pytree_node(Outputs, _flatten, _unflatten)


class DetectorNetwork(nn.Module, ABC):
    """Base class of networks that separate bona fide from spoofed utterances.

    Your own class may derive from it or from `torch.nn.Module` alone. Name it in
    `network.network_class = 'my_network.MyNetwork'`, with `my_network.py` in the recipe's folder.

    Attributes:
        fixed_samples: Fixed length of waveforms that the network takes, in samples; None for any
            length. Recordings are cut or repeated to it for scoring, and training clips must have
            it.
        frame_hop: Number of samples between frames of `Outputs.extras['frames']`, the output of a
            frame-level head; None without one. Frame f covers the samples from f * frame_hop on;
            the last frames of a recording may be missing.
        sample_rate: Sampling rate, in Hz, that the network is made for; None for any, given by
            `settings.audio.sample_rate`.
        waveform_channels: Number of channels of waveforms (batch, channels, samples) that it takes
            with `audio.channels = 'all'`; None for waveforms (batch, samples).
        further_inputs: Names of keyword arguments that training passes to `forward` besides the
            waveforms: 'lengths' (B,), the samples of each recording before padding; 'references',
            waveforms of the column `reference` of the list, of the shape of the waveforms, zeros
            for a trial without one, in scoring, too; 'columns', texts of the utterances by column
            name. Their defaults are None, with which `forward` must work, too.
        input_columns: Columns of the training list that 'columns' contains.

    Examples:
        >>> import torch
        >>> from asdf.networks import DetectorNetwork, Wav2Vec2FrontEnd
        >>> from asdf.settings import Sections
        >>> class MyNetwork(DetectorNetwork):
        ...     def __init__(self, settings):
        ...         super().__init__(settings)
        ...         self.front_end = Wav2Vec2FrontEnd(settings.front_end)
        ...         self.output = torch.nn.Linear(self.front_end.dimension, 2)
        ...
        ...     def forward(self, waveforms_BT):
        ...         embeddings_BE = self.front_end(waveforms_BT).mean(dim=1)
        ...         return embeddings_BE, self.output(embeddings_BE)
        >>> settings = Sections()
        >>> settings.front_end.architecture = "tiny"
        >>> embeddings_BE, logits_B2 = MyNetwork(settings)(torch.zeros(3, 8000))
        >>> logits_B2.shape
        torch.Size([3, 2])
    """

    fixed_samples: int | None = None
    frame_hop: int | None = None
    sample_rate: int | None = None
    waveform_channels: int | None = None
    further_inputs: tuple[str, ...] = ()
    input_columns: tuple[str, ...] = ()

    def __init__(self, settings: Sections) -> None:
        """Build the network with random weights drawn from torch's default generator.

        Args:
            settings: Sections of the settings as plain dataclasses: `settings.network`,
                `settings.front_end` and so on.
        """
        super().__init__()

    @abstractmethod
    def forward(self, waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings and logits of utterances of equal length.

        Args:
            waveforms_BT: Waveforms (batch, samples), float32 at `audio.sample_rate`, or (batch,
                channels, samples) for a network with `waveform_channels`. Utterances may have any
                length but are not empty.

        Returns:
            Embeddings (batch, anything) and logits (batch, 2), column 1 for bona fide. In `eval()`
            mode, an utterance's row must not depend on the other rows, so that a score does not
            depend on its batch.
        """

    def scoring_length(self, samples: int) -> int:
        """Return how many of the first `samples` samples an utterance's score is computed from.

        Utterances with equal values may share a scoring batch, in which each is cut to this length.
        """
        return samples

    def front_end_parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters that learn with `front_end.learning_rate`."""
        return ()

    def unused_parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters that `forward` does not use; submodules may have this method.

        The builder freezes them, so that DistributedDataParallel does not wait for gradients that
        never arrive and need not search the graph in every step.
        """
        return ()


def scoring_length(network: nn.Module, samples: int) -> int:
    """Return `network.scoring_length(samples)`, or `samples` for a class without this method.

    Raises:
        AsdfError: the class returns anything other than a number from 1 to `samples`.
    """
    network = _unwrap(network)
    method = getattr(network, "scoring_length", None)
    if not callable(method):
        return samples
    length = method(samples)
    # bool is a subclass of int.
    is_number = isinstance(length, int) and not isinstance(length, bool)
    if not is_number or not 1 <= length <= samples:
        raise AsdfError(
            f"{type(network).__qualname__}.scoring_length({samples}) gave {length!r}. It must give "
            "the number of leading samples that the score is computed from, an int from 1 to "
            f"{samples}. Remove the method if the score is computed from all of them."
        )
    return int(length)


def fixed_samples(network: nn.Module) -> int | None:
    """Return the only length, in samples, that the network takes; None if it takes any."""
    samples = getattr(_unwrap(network), "fixed_samples", None)
    return None if samples is None else int(samples)


def frame_hop(network: nn.Module) -> int | None:
    """Return the samples between frames of the network's frame-level head; None without one.

    Raises:
        AsdfError: the class has a value that is not a number of samples.
    """
    what = "the number of samples from one frame of its frame logits to the next"
    try:
        return declared_count(_unwrap(network), "frame_hop", what)
    # Also asked of networks in use, where it is no mistake in a config.
    except UsageError as error:
        raise AsdfError(str(error)) from None


def further_inputs(network: nn.Module) -> tuple[str, ...]:
    """Return the names of the network's keyword inputs besides the waveforms.

    Raises:
        AsdfError: the class names an input that does not exist.
    """
    network = _unwrap(network)
    names = tuple(getattr(network, "further_inputs", ()))
    unknown = [name for name in names if name not in FURTHER_INPUTS]
    if unknown:
        raise AsdfError(
            f"{type(network).__qualname__}.further_inputs has {unknown[0]!r}. There are: "
            f"{', '.join(FURTHER_INPUTS)}."
        )
    return names


def takes_references(network: nn.Module | type[nn.Module]) -> bool:
    """Return whether a network, or a class of networks, takes references beside recordings."""
    if isinstance(network, nn.Module):
        return REFERENCES in further_inputs(network)
    return REFERENCES in tuple(getattr(network, "further_inputs", ()))


def inputs_on_noise(network: nn.Module, waveforms_BT: Tensor) -> dict[str, Tensor]:
    """Return the keyword inputs that `network` requires, for waveforms of noise.

    References are the time-reversed waveforms, which differ from them and have equal rows.
    """
    if REFERENCES not in further_inputs(network):
        return {}
    return {REFERENCES: waveforms_BT.flip(-1)}


def input_columns(network: nn.Module) -> tuple[str, ...]:
    """Return the columns of the training list whose texts the network takes."""
    if COLUMNS not in further_inputs(network):
        return ()
    return tuple(getattr(_unwrap(network), "input_columns", ()))


def waveform_channels(network: nn.Module | type[nn.Module]) -> int | None:
    """Return the channels of waveforms (batch, channels, samples); None for (batch, samples).

    Raises:
        UsageError: as `declared_count`.
    """
    if isinstance(network, nn.Module):
        network = _unwrap(network)
    kind: Any = network
    if getattr(network, "waveform_channels", None) is None:
        kind = getattr(network, "front_end_class", None)
    what = "the number of channels of the waveforms (batch, channels, samples) that it takes"
    return declared_count(kind, "waveform_channels", what)


def declared_count(kind: nn.Module | type[nn.Module], name: str, what: str) -> int | None:
    """Return an attribute of a network or of a class, of any base; None without one.

    Args:
        what: Meaning of the attribute, for the message.

    Raises:
        UsageError: it is not a positive int.
    """
    count: Any = getattr(kind, name, None)
    # bool is a subclass of int.
    if count is not None and (type(count) is not int or count < 1):
        raise UsageError(
            f"{class_name(kind)}.{name} is {count!r}. It must be {what}, an int, or None."
        )
    return count


def class_name(kind: nn.Module | type[nn.Module]) -> str:
    """Return the name of a class, or of the class of a network, for messages."""
    return kind.__qualname__ if isinstance(kind, type) else type(kind).__qualname__


def waveform_shape(network: nn.Module, utterances: int, samples: int) -> tuple[int, ...]:
    """Return the shape of waveforms for a network, with its channels if it takes several."""
    channels = waveform_channels(network)
    if channels is None:
        return utterances, samples
    return utterances, channels, samples


def note_audio(network: nn.Module, audio: Audio) -> None:
    """Store the audio format of a built network, for exported graphs and programs."""
    vars(network)[_NOTED] = audio


def audio_of(network: nn.Module) -> Audio:
    """Return the audio format stored by `note_audio`."""
    return vars(network).get(_NOTED, USUAL_AUDIO)


def front_end_parameters(network: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that the class names for `front_end.learning_rate`.

    The weights of a learned sum of layers are never included: they learn with the back end, even if
    the front end is frozen.
    """
    in_sums = {id(each.weights) for each in network.modules() if isinstance(each, WeightedSum)}
    named = _read_parameters(_unwrap(network), "front_end_parameters")
    return [parameter for parameter in named if id(parameter) not in in_sums]


def unused_parameters(network: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that the network, or a submodule, names as unused."""
    return _named_by(network, "unused_parameters")


def untrained_parameters(network: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are never trained: unused and resting ones."""
    return _named_by(network, "unused_parameters", "untrained_parameters")


def repeat_short(waveforms_BT: Tensor, min_samples: int) -> Tensor:
    """Repeat waveforms from their start until they have `min_samples` samples.

    Longer waveforms are returned unchanged.

    Raises:
        AsdfError: the waveforms are empty.
    """
    samples = waveforms_BT.shape[-1]
    if not is_traced() and samples >= min_samples:
        return waveforms_BT
    if samples == 0:
        raise AsdfError(
            "an utterance without samples reached the network. Its file is empty, or speech "
            "activity detection left nothing of it. Take it off the list."
        )
    repeats = (min_samples + samples - 1) // samples  # rounded up
    # While tracing, longer waveforms take this path as well and are repeated once.
    once = [1] * (waveforms_BT.dim() - 1)
    return waveforms_BT.repeat(*once, repeats)[..., : at_least(samples, min_samples)]


def cut_or_repeat(waveforms_BT: Tensor, samples: int) -> Tensor:
    """Return waveforms (batch, any) as (batch, samples): cut, or repeated from their start.

    Raises:
        AsdfError: the waveforms are empty.
    """
    return repeat_short(waveforms_BT, samples)[..., :samples]


def _named_by(network: nn.Module, *methods: str) -> list[nn.Parameter]:
    # Several modules may name the same parameter.
    named: dict[int, nn.Parameter] = {}
    for method in methods:
        for module in network.modules():
            named |= {id(each): each for each in _read_parameters(module, method)}
    return list(named.values())


def _read_parameters(module: nn.Module, method_name: str) -> list[nn.Parameter]:
    method = getattr(module, method_name, None)
    return list(method()) if callable(method) else []


def _unwrap(network: nn.Module) -> nn.Module:
    return network.module if isinstance(network, DistributedDataParallel) else network


@dataclass(frozen=True)
class Padded:
    """A batch of recordings of varying length, which a front end takes instead of one tensor.

    Attributes:
        recordings: Waveforms, each (1, samples).
        masks: Whether features equal those of each recording alone, padded with zeros; False for
            those of recordings padded with silence.
    """

    recordings: Sequence[Tensor]
    masks: bool = True

    @classmethod
    def from_batch(
        cls, waveforms_BT: Tensor, lengths_B: Tensor, shortest: int, masks: bool
    ) -> Padded:
        """Return the recordings of a padded batch, repeating those below `shortest` samples."""
        rows = zip(waveforms_BT.split(1), lengths_B.tolist(), strict=True)
        return cls([repeat_short(row_1T[:, :length], shortest) for row_1T, length in rows], masks)

    @property
    def lengths(self) -> list[int]:
        """The number of samples of each recording."""
        return [recording.shape[1] for recording in self.recordings]

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient with respect to the samples is required."""
        return any(recording.requires_grad for recording in self.recordings)


def pad_rows(rows: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors (1, any, ...), padded with zeros: (batch, longest, ...)."""
    return pad_sequence([row[0] for row in rows], batch_first=True)


def counting_frames(frames: Sequence[int], device: torch.device) -> Tensor:
    """Return a mask (B, L) that is True for frames of recordings and False for padding."""
    numbers_L = torch.arange(max(frames), device=device)
    return numbers_L < torch.tensor(frames, device=device)[:, None]


def mean_over_frames(features_BLC: Tensor, counts_BL: Tensor) -> Tensor:
    """Return the mean over the frames that are not padding, (B, C)."""
    kept_BLC = features_BLC * counts_BL[:, :, None]
    return kept_BLC.sum(dim=1) / counts_BL.sum(dim=1)[:, None]


def softmax_over_frames(scores_BLH: Tensor, counts_BL: Tensor) -> Tensor:
    """Return the softmax over the frames that are not padding, 0 for padding: (B, L, H)."""
    return scores_BLH.masked_fill(~counts_BL[:, :, None], -torch.inf).softmax(dim=1)
