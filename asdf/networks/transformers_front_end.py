"""Every speech encoder of transformers as a front end: wav2vec 2.0's family, w2v-BERT, Whisper.

Invariant: features are those of transformers itself, which computes them; nothing is fetched, and
no code but transformers' own runs. Layers above `front_end.layer` are not even built.

Shapes: B utterances, T samples, L frames, C feature values, N bands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.architectures import first_inputs, needed_samples
from asdf.networks.encoder_inputs import HOP, WINDOW, StackedFilterBank, WhisperLogMel
from asdf.networks.front_end import FrontEnd
from asdf.networks.full_precision import without_autocast
from asdf.networks.layers import choose_dropped
from asdf.networks.transformers_config import KINDS, config_text, count_layers, read_config
from asdf.settings.class_path import describe_error
from asdf.settings.sections import FrontEnd as FrontEndSettings

INSTALL = (
    "front_end.front_end_class = 'transformers' needs the package transformers: pip install "
    "'asdf-antispoofing[transformers]'"
)


class TransformersFrontEnd(FrontEnd):
    """An encoder that transformers loads, from a folder or from a configuration.

    Attributes:
        kind: what it takes, and where in it things are.
        config: transformers' configuration of it.
    """

    model: Any
    cacheable: ClassVar[bool] = True

    @classmethod
    def min_layers(cls, settings: FrontEndSettings) -> int:
        """Return how many layers of any kind the configuration describes."""
        return count_layers(read_config(settings.architecture))

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read the configuration in `settings.architecture`.

        Raises:
            UsageError: transformers is not installed, or the configuration is not one of its.
        """
        values = read_config(settings.architecture)
        self.architecture_setting = config_text(values)
        self.kind = KINDS[values["model_type"]]
        self.config = _make_config(values)
        self.encoder_layers = int(getattr(self.config, self.kind.layers))
        self.dimension = int(getattr(self.config, self.kind.width))
        self.layer_drop = settings.layer_drop
        if self.kind.inputs == "waveforms":
            self.window, second = (needed_samples(self._convolutions(), n) for n in (1, 2))
            self.hop = second - self.window
        elif self.kind.inputs == "log_mel":
            # Two windows of 10 ms, of which the encoder's convolutions make a frame.
            self.window = self.hop = 2 * HOP
        else:
            self.window = WINDOW + HOP
            self.hop = 2 * HOP

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return transformers' encoder with random weights.

        One layer is built also where `front_end.layer` is 0: it shows what enters it.
        """
        _set_dropout(self.config, settings.dropout)
        model = _make_encoder(self.config)
        if hasattr(model, "masked_spec_embed"):
            # `Masking` has this vector, where there are masks.
            del model.masked_spec_embed
        layers = _encoder_of(model).layers
        del layers[max(self.layers, 1) :]
        if settings.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        self.inputs = self._make_inputs()
        built: nn.Module = model
        return built

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield what enters the first layer, and each layer's output."""
        if self.kind.inputs == "log_mel":
            yield from self._whisper_states(waveforms_BT)
            return
        inputs = waveforms_BT
        if self.inputs is not None:
            with without_autocast(waveforms_BT):
                inputs = self.inputs(waveforms_BT.float())
        with _Watch(self) as watch:
            self.model(inputs)
        yield from watch.states[: self.layers + 1]

    def final_norm(self, x_BLC: Tensor) -> Tensor:
        """Return the norm that ends the encoder, if it has one and all layers are computed."""
        norm = self._final_norm()
        if norm is None or self.layers < self.encoder_layers:
            return x_BLC
        normed_BLC: Tensor = norm(x_BLC)
        return normed_BLC

    def final_norm_parameters(self) -> Iterator[nn.Parameter]:
        """Yield those of the norm that ends the encoder."""
        norm = self._final_norm()
        if norm is not None:
            yield from norm.parameters()

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield what `front_end.layer` leaves out, and Whisper's positions, which are fixed."""
        for name, parameter in self.model.named_parameters():
            if name.startswith("embed_positions."):
                yield parameter
        if self.layers < self.encoder_layers:
            yield from self.final_norm_parameters()
        if self.layers == 0:
            yield from self.layer_modules()[0].parameters()

    def layer_modules(self) -> list[nn.Module]:
        """Return the encoder's layers that were built."""
        return list(_encoder_of(self.model).layers)

    def part_modules(self) -> dict[str, list[nn.Module]]:
        """Return what precedes the layers."""
        names = {
            "convolutions": ("feature_extractor", "conv1", "conv2"),
            "projection": ("feature_projection",),
            "positions": ("encoder.pos_conv_embed", "encoder.embed_positions"),
        }
        modules = dict(self.model.named_modules())
        parts = {}
        for part, candidates in names.items():
            parts[part] = [modules[name] for name in candidates if name in modules]
        return parts

    def used_samples(self, samples: int) -> int:
        """Return how many leading samples the frames look at."""
        if self.kind.inputs == "waveforms":
            layers = self._convolutions()
            # A group norm looks at all outputs of the first convolution.
            has_group_norm = getattr(self.config, "feat_extract_norm", "layer") == "group"
            return first_inputs(layers, samples, 1 if has_group_norm else len(layers))
        if self.kind.inputs == "log_mel":
            return self.min_samples(self.frames(samples))
        # The mean over time sees a last window that has no neighbour, too.
        return samples - (samples - WINDOW) % HOP

    def feature_settings(self) -> dict[str, Any]:
        """Return the base class's, and the version of transformers, which computes them."""
        import transformers

        return {**super().feature_settings(), "transformers": transformers.__version__}

    def _convolutions(self) -> tuple[tuple[int, int, int], ...]:
        config = self.config
        sizes = zip(config.conv_dim, config.conv_kernel, config.conv_stride, strict=True)
        return tuple(sizes)

    def _make_inputs(self) -> nn.Module | None:
        if not self.kind.bands:
            return None
        bands = int(getattr(self.config, self.kind.bands))
        if self.kind.inputs == "log_mel":
            return WhisperLogMel(bands)
        return StackedFilterBank(bands // 2)

    def _final_norm(self) -> nn.Module | None:
        path = self.kind.norm
        if getattr(self.config, "do_stable_layer_norm", False):
            path = "encoder.layer_norm"
        norm: nn.Module | None = self.model.get_submodule(path) if path else None
        return norm

    def _whisper_states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield Whisper's states; of each 30 s by itself, where there are more.

        Written out, since transformers' loop takes exactly 30 s.
        """
        # int: ONNX wants a constant.
        whole = self.min_samples(self.frames(int(waveforms_BT.shape[1])))
        longest = self.hop * self.model.embed_positions.num_embeddings
        parts = []
        for start in range(0, whole, longest):
            part_BT = waveforms_BT[:, start : min(start + longest, whole)]
            parts.append(self.mask(self._whisper_stem(part_BT)))
        yield torch.cat(parts, dim=1)
        layers = self.layer_modules()[: self.layers]
        dropped = choose_dropped(len(layers), self.layer_drop, self.training)
        for layer, is_dropped in zip(layers, dropped, strict=True):
            parts = [_run_layer(layer, part_BLC, is_dropped) for part_BLC in parts]
            yield torch.cat(parts, dim=1)

    def _whisper_stem(self, waveforms_BT: Tensor) -> Tensor:
        model = self.model
        assert self.inputs is not None
        with without_autocast(waveforms_BT):
            bands_BNL = self.inputs(waveforms_BT.float())
        x_BCL = F.gelu(model.conv2(F.gelu(model.conv1(bands_BNL))))
        positions_LC = model.embed_positions.weight[: x_BCL.shape[2]]
        x_BLC = x_BCL.transpose(1, 2) + positions_LC
        return F.dropout(x_BLC, model.dropout, self.training)


class _Watch:
    """Takes the states out of transformers' loop, masks its input, and drops layers.

    Attributes:
        states: the first layer's input and every layer's output.
    """

    def __init__(self, front_end: TransformersFrontEnd) -> None:
        self.front_end = front_end
        self.states: list[Tensor] = []
        self._hooks = ExitStack()

    def __enter__(self) -> _Watch:
        front_end = self.front_end
        layers = front_end.layer_modules()
        dropped = choose_dropped(len(layers), front_end.layer_drop, front_end.training)
        # WavLM's first layer is never dropped: it computes the position biases of all.
        dropped[0] = dropped[0] and front_end.config.model_type != "wavlm"
        handles = [layers[0].register_forward_pre_hook(self._take_input, with_kwargs=True)]
        for layer, is_dropped in zip(layers, dropped, strict=True):
            hook = self._leave_out if is_dropped else self._take_output
            handles.append(layer.register_forward_hook(hook))
        if front_end.masking is not None:
            projection = front_end.model.feature_projection
            handles.append(projection.register_forward_hook(self._mask))
        for handle in handles:
            self._hooks.callback(handle.remove)
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.close()

    def _mask(self, module: nn.Module, args: Any, output: Any) -> Any:
        # Some projections also return their input, which only pretraining looks at.
        if isinstance(output, tuple):
            return (self.front_end.mask(output[0]), *output[1:])
        return self.front_end.mask(output)

    def _take_input(self, layer: nn.Module, args: Any, kwargs: Any) -> None:
        self.states.append(args[0] if args else kwargs["hidden_states"])

    def _take_output(self, layer: nn.Module, args: Any, output: Any) -> None:
        self.states.append(_first_of(output))

    def _leave_out(self, layer: nn.Module, args: Any, output: Any) -> Any:
        x_BLC = self.states[-1] + 0.0 * _first_of(output)
        self.states.append(x_BLC)
        if isinstance(output, tuple):
            return (x_BLC, *output[1:])
        return x_BLC


def _first_of(output: Any) -> Tensor:
    first: Tensor = output[0] if isinstance(output, tuple) else output
    return first


def _run_layer(layer: nn.Module, x_BLC: Tensor, is_dropped: bool) -> Tensor:
    output_BLC = _first_of(layer(x_BLC, None))
    if is_dropped:
        # Its gradients are zeros, so that no process waits for them.
        return x_BLC + 0.0 * output_BLC
    return output_BLC


def _encoder_of(model: nn.Module) -> Any:
    """Return the module that has the list of layers: Whisper's encoder is the model itself."""
    return getattr(model, "encoder", model)


def _make_config(values: dict[str, Any]) -> Any:
    try:
        from transformers import AutoConfig
    except ImportError as error:
        raise UsageError(f"{INSTALL} ({error}).") from error
    try:
        return AutoConfig.for_model(**values)
    except Exception as error:
        raise UsageError(
            f"front_end.architecture: transformers does not take the configuration: "
            f"{describe_error(error, __file__)}."
        ) from error


def _make_encoder(config: Any) -> Any:
    from transformers import AutoModel
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    try:
        if config.model_type == "whisper":
            # Without its decoder.
            return WhisperEncoder(config)
        return AutoModel.from_config(config, trust_remote_code=False)
    except Exception as error:
        raise UsageError(
            f"front_end.architecture: transformers makes no encoder of the configuration: "
            f"{describe_error(error, __file__)}."
        ) from error


def _set_dropout(config: Any, dropout: float) -> None:
    for name, value in config.to_dict().items():
        if name.endswith("dropout") and isinstance(value, int | float):
            setattr(config, name, dropout)
