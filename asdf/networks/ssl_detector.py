"""Networks of a front end, then a back end, and possibly a frame-level head.

Invariant: a back end gets the input that its paper describes, which it declares itself (`takes`).
Parameter names are `front_end.*` and `back_end.*`, the latter as in published checkpoints. Random
numbers are drawn in the same order by all classes, so that `ComposedDetector` with AASIST's back
end equals `SSL_AASIST`. Frame f covers the samples from f * `hop` to (f + 1) * `hop`, for every
back end before the head.

Shapes: B utterances, T samples, L or F frames, C feature values, E embedding values, 2 classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.data.batches import LENGTHS
from asdf.errors import AsdfError, UsageError
from asdf.networks.back_ends.back_end import BackEnd, Takes
from asdf.networks.casting import in_full_precision
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
from asdf.networks.interface import (
    DetectorNetwork,
    Outputs,
    Padded,
    as_outputs,
    counting_frames,
    cut_or_repeat,
    repeat_short,
)
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import describe_error, find_class
from asdf.settings.relations import that_keep_time
from asdf.settings.sections import BACK_ENDS, Localisation, Sections
from asdf.settings.sections import BackEnd as BackEndSettings
from asdf.settings.sections import FrontEnd as FrontEndSettings


class FrameHead(nn.Module):
    """A linear layer on the frames of a back end, or on means of `pooled` consecutive frames.

    Attributes:
        hop: Number of samples from the start of a frame to the start of the next.
    """

    def __init__(self, dimension: int, hop: int, pooled: int = 1) -> None:
        super().__init__()
        self.hop = hop
        self._pooled = pooled
        self.output = nn.Linear(dimension, 2)

    def forward(self, frames_BFC: Tensor) -> Tensor:
        """Return logits (batch, frames, 2), column 1 for bona fide."""
        if self._pooled > 1:
            # The last mean may be of fewer frames, so that all of them are used.
            pooled_BCF = F.avg_pool1d(
                frames_BFC.transpose(1, 2), self._pooled, self._pooled, ceil_mode=True
            )
            frames_BFC = pooled_BCF.transpose(1, 2)
        return in_full_precision(self.output, frames_BFC)


def make_frame_head(
    settings: Localisation, front_end: FrontEnd, back_end: BackEnd
) -> FrameHead | None:
    """Return the head for `back_end`; None if the settings request none.

    Raises:
        UsageError: the back end has no time axis, or `localisation.resolution` is not a multiple of
            the samples per frame.
    """
    if not settings.enabled:
        return None
    if back_end.frame_step is None:
        raise UsageError(
            f"localisation.enabled = True: {type(back_end).__name__} has no frames to classify. "
            f"Choose a back end that has: {that_keep_time()}; or derive your own from "
            "asdf.networks.TimedBackEnd."
        )
    samples = front_end.hop * back_end.frame_step
    hop = settings.resolution or samples
    if hop % samples:
        lower = hop - hop % samples
        nearest = [str(size) for size in (lower, lower + samples) if size]
        raise UsageError(
            f"localisation.resolution = {hop}: frames of {type(back_end).__name__} behind this "
            f"front end are {samples} samples long, and the resolution must be a multiple of that. "
            f"The nearest: {' and '.join(nearest)}."
        )
    return FrameHead(back_end.frame_dimension, hop, hop // samples)


FRONT_END_SETTING = "front_end.front_end_class"
BACK_END_SETTING = "back_end.back_end_class"
End = TypeVar("End", bound=nn.Module)


class SSLDetector(DetectorNetwork):
    """A front end, and the back end created by a derived class.

        class MyNetwork(SSLDetector):
            def make_back_end(self, settings):
                return MyBackEnd(self.front_end.dimension)

    Attributes:
        front_end_class: Class of the front end, unless `front_end.front_end_class` names another; a
            derived class may set its own.
        paper: Publication of the network or its back end.
    """

    front_end_class: ClassVar[type[FrontEnd]] = Wav2Vec2FrontEnd
    paper: ClassVar[str] = ""
    further_inputs: tuple[str, ...] = (LENGTHS,)

    def __init__(self, settings: Sections) -> None:
        super().__init__(settings)
        front_end_class = find_front_end_class(settings.front_end) or self.front_end_class
        self.front_end = build_end(
            FRONT_END_SETTING,
            settings.front_end.front_end_class,
            front_end_class.from_settings,
            settings,
        )
        if self.waveform_channels is None:
            self.waveform_channels = self.front_end.waveform_channels
        self.back_end = self.make_back_end(settings)
        if self.fixed_samples is None:
            self.fixed_samples = self.back_end.fixed_samples
        # After a sum of layers, a back end has no layers left to weight.
        if self.back_end.takes != "features" and settings.front_end.layer == "weighted":
            raise UsageError(
                f"front_end.layer = 'weighted': {type(self).__name__} weighs the layers itself. "
                "Leave front_end.layer at 'last', or set the highest layer that it receives."
            )
        # Draws random numbers last, so that the others are the same without it.
        self.frame_head = make_frame_head(settings.localisation, self.front_end, self.back_end)
        self.frame_hop = self.frame_head.hop if self.frame_head else None
        # Set by training if its terms need the features.
        self.gives_features = False
        # Set by training on recordings of varying length.
        self.masks_padding = True
        self.shortest_input = self.front_end.min_samples(self.back_end.shortest_frames)

    @abstractmethod
    def make_back_end(self, settings: Sections) -> BackEnd:
        """Return the back end for `self.front_end`, which already exists.

        This may set `self.fixed_samples`, if the back end does not.
        """

    def forward(self, waveforms_BT: Tensor, lengths: Tensor | None = None) -> Any:
        """Return embeddings and logits (batch, 2) of waveforms (batch, samples).

        With a frame-level head, the result is `Outputs` with the logits of frames.

        Waveforms shorter than `shortest_input` are repeated to it; with `fixed_samples`, all are
        cut or repeated to that length.

        Args:
            lengths: Samples of each recording before padding, (batch,); None without padding.
                Outputs equal those of each recording alone, unless `masks_padding` is False.
        """
        if lengths is None:
            return self.forward_features(self.front_end_features(waveforms_BT))
        shortest, masks = self.shortest_input, self.masks_padding
        padded = Padded.from_batch(waveforms_BT, lengths, shortest, masks)
        features = self._features_of(padded)
        if not masks:
            return self.forward_features(features)
        frames = [self.front_end.frames(length) for length in padded.lengths]
        return self.forward_features(features, counting_frames(frames, waveforms_BT.device))

    def front_end_features(self, waveforms_BT: Tensor) -> Tensor | list[Tensor]:
        """Compute the part of `forward` that a frozen front end leaves untrained.

        Args:
            waveforms_BT: Waveforms (batch, samples).

        Returns:
            Features (batch, frames, dimension), or a list of such tensors, one per layer, if layers
            are weighted afterwards.
        """
        if self.fixed_samples is not None:
            waveforms_BT = cut_or_repeat(waveforms_BT, self.fixed_samples)
        return self._features_of(repeat_short(waveforms_BT, self.shortest_input))

    def _features_of(self, waveforms_BT: Tensor | Padded) -> Tensor | list[Tensor]:
        if self.feature_kind == "hidden_states":
            return self.front_end.hidden_states(waveforms_BT)
        if self.feature_kind == "layer_outputs":
            return self.front_end.layer_outputs(waveforms_BT)
        return self.front_end(waveforms_BT)

    def forward_features(self, features: Any, counts_BL: Tensor | None = None) -> Any:
        """Compute the rest of `forward` from the result of `front_end_features`.

        Args:
            counts_BL: Mask that is True for frames of recordings and False for padding; None
                without padding.

        Returns:
            Embeddings (batch, anything) and logits (batch, 2); `Outputs` with a frame-level head,
            and with `features` in training that needs them.
        """
        whole = features
        if self.front_end.layer_sum is not None:
            features = self.front_end.layer_sum(features)
        outputs: Any
        if counts_BL is not None:
            outputs = self.back_end.of_padded(features, counts_BL)
        elif self.frame_head is None:
            outputs = self.back_end(features)
        else:
            embeddings_BE, logits_B2, frames_BFC = self.back_end.with_frames(features)
            outputs = Outputs(embeddings_BE, logits_B2, {"frames": self.frame_head(frames_BFC)})
        if self.gives_features and self.training:
            given = whole if isinstance(whole, Tensor) else torch.stack(whole, dim=1)
            return as_outputs(outputs).with_extra("features", given)
        return outputs

    @property
    def feature_kind(self) -> Takes:
        """The kind of features that `front_end_features` returns."""
        if self.front_end.layer_sum is not None:
            # A learned sum of layers is trained even behind a frozen front end.
            return "hidden_states"
        return self.back_end.takes

    def scoring_length(self, samples: int) -> int:
        """Return the number of samples up to the end of the front end's last whole window.

        The result is at most `fixed_samples`.
        """
        if self.fixed_samples is not None:
            return min(samples, self.fixed_samples)
        if samples < self.shortest_input:
            return samples
        # Frames that the back end's pooling drops still count, since every frame attends to them.
        return self.front_end.scoring_length(samples)

    def front_end_parameters(self) -> Iterator[nn.Parameter]:
        """Return all parameters of the front end."""
        return self.front_end.parameters()

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the encoder's final norm if the back end takes the layers' outputs without it."""
        if self.back_end.takes == "layer_outputs":
            yield from self.front_end.final_norm_parameters()


class PairedDetector(SSLDetector):
    """A network with a fixed class of back end behind any front end.

    Attributes:
        back_end_class: Class of the back end.
    """

    back_end_class: ClassVar[type[BackEnd]]

    def make_back_end(self, settings: Sections) -> BackEnd:
        """Return the back end of `back_end_class`."""
        return self.back_end_class.from_settings(settings, self.front_end)


def build_end(setting: str, value: str | None, build: Callable[..., End], *arguments: Any) -> End:
    """Build a front end or back end; an error names the setting of its class.

    Args:
        value: Value of the setting; None if the network's class provides the part and describes its
            own failures.

    Raises:
        AsdfError: its constructor fails.
    """
    try:
        return build(*arguments)
    except AsdfError:
        raise
    except Exception as error:
        if value is None:
            raise
        raise AsdfError(
            f"{setting}: {value} cannot be built: {describe_error(error, __file__)}. See "
            "asdf.networks.FrontEnd and BackEnd for what its class and constructor need."
        ) from error


def find_front_end_class(
    settings: FrontEndSettings, folder: Path | None = None
) -> type[FrontEnd] | None:
    """Return the class that `front_end.front_end_class` names; None if it is not set.

    Args:
        folder: Folder of the recipe, which is searched first. It is not needed for a class that was
            already imported from there.

    Raises:
        UsageError: the class does not exist or is not a front end.
        AsdfError: importing its module fails.
    """
    # FrontEnd is abstract, but its concrete subclasses are meant.
    return _find_end(FRONT_END_SETTING, settings.front_end_class, FrontEnd, folder)  # type: ignore[type-abstract]


def find_back_end_class(
    settings: BackEndSettings, folder: Path | None = None
) -> type[BackEnd] | None:
    """Return the class that `back_end.back_end_class` names, as `find_front_end_class` does."""
    return _find_end(BACK_END_SETTING, settings.back_end_class, BackEnd, folder)  # type: ignore[type-abstract]


def _find_end(
    setting: str, value: str | None, base: type[End], folder: Path | None
) -> type[End] | None:
    if value is None:
        return None
    return find_class(class_path_of(setting, value), folder, setting, base)


class ComposedDetector(SSLDetector):
    """The front end of `front_end.front_end_class`, the back end of `back_end.back_end_class`."""

    def make_back_end(self, settings: Sections) -> BackEnd:
        """Return the back end that the settings name.

        Raises:
            UsageError: they name none; or as in `find_back_end_class` or the back end's
                constructor.
        """
        back_end_class = find_back_end_class(settings.back_end)
        if back_end_class is None:
            raise UsageError(
                f"{BACK_END_SETTING} is None, and asdf.networks.ComposedDetector has no default "
                f"back end. Set it to one of {', '.join(BACK_ENDS)}, or the class path of your own."
            )
        value = settings.back_end.back_end_class
        build = back_end_class.from_settings
        return build_end(BACK_END_SETTING, value, build, settings, self.front_end)
