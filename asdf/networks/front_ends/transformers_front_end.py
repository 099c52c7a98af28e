"""Every audio encoder that transformers builds, as a front end.

Invariant: transformers itself computes the features; nothing is downloaded, and only transformers'
own code runs. Layers above `front_end.layer` are not even built. Modules after the layers and their
norm, such as pooling or a projection to a language model, are not used, so all layers have the same
frames; only `EncoderOutputFrontEnd` ends with the output of the whole encoder.

Shapes: B utterances, T samples, L frames, C feature values, N bands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.networks.casting import without_autocast
from asdf.networks.front_ends.encoder_layers import choose_dropped
from asdf.networks.front_ends.encoder_outline import (
    FrameRule,
    Outline,
    describe_frames,
    first_tensor,
    is_whisper,
    on_meta_copy,
    outline_encoder,
    outside_modes,
    run_encoder,
    whisper_stem,
)
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.spectral import Waveforms, WhisperLogMel
from asdf.networks.front_ends.transformers_config import (
    EXTRACTOR,
    check_layer_counts,
    config_text,
    make_inputs,
    read_config,
)
from asdf.networks.functions import is_traced
from asdf.runs.log import LOG
from asdf.settings.class_path import describe_error
from asdf.settings.sections import FrontEnd as FrontEndSettings
from asdf.text import did_you_mean, shorten

INSTALL = (
    "front_end.front_end_class = 'transformers' needs the package transformers: pip install "
    "'asdf-antispoofing[transformers]'"
)
# Names in transformers of the parts before the layers.
_PARTS = {
    "convolutions": ("feature_extractor", "conv", "conv1", "conv2", "conv3", "subsampling"),
    "projection": ("feature_projection", "input_linear", "input_proj"),
    "positions": ("pos_conv_embed", "embed_positions", "position_embeddings"),
}


class TransformersFrontEnd(FrontEnd):
    """An encoder that transformers builds from a folder or from a configuration.

    Attributes:
        outline: Locations of the encoder's parts.
        inputs: Module that computes the encoder's input from waveforms.
    """

    short_name = "transformers"
    sample_rate = SAMPLE_RATE
    model: Any
    cacheable: ClassVar[bool] = True

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read the configuration in `settings.architecture`, and outline its encoder.

        Raises:
            UsageError: transformers is not installed, the configuration is not one of its, or it
                describes no audio encoder.
        """
        values = read_config(settings.architecture)
        self.architecture_setting = config_text(values)
        config = make_config(values)
        _set_dropout(config, settings.dropout)
        # Outside modes that create tensors without values, such as in a dry run.
        with outside_modes():
            self.outline = outline_encoder(config, lambda model: make_inputs(values, model))
            self.frame_rule = FrameRule(self.outline)
            for remark in describe_frames(self.outline):
                LOG.info("front end: %s: %s", values["model_type"], remark)
        self.encoder_layers = len(self.outline.model.get_submodule(self.outline.layers))
        self.dimension = self.outline.dimension
        self.layer_drop = settings.layer_drop
        self.window = self.frame_rule.window
        self.hop = self.frame_rule.hop

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return transformers' encoder with random weights.

        One layer is built even if `front_end.layer` is 0, to obtain its input.
        """
        model = self.outline.make()
        fixed = {name for name, each in model.named_parameters() if not each.requires_grad}
        # Features need neither upper layers nor the vector for masked frames, which `Masking`
        # holds.
        for each in (model, self.outline.model):
            if getattr(each, "masked_spec_embed", None) is not None:
                del each.masked_spec_embed
            modules: Any = each.get_submodule(self.outline.layers)
            del modules[max(self.layers, 1) :]
        with outside_modes():
            self.without_gradient = fixed | _unused_names(self.outline, self.layers)
        if settings.gradient_checkpointing:
            try:
                model.gradient_checkpointing_enable({"use_reentrant": False})
            except ValueError as error:
                raise UsageError(
                    "front_end.gradient_checkpointing = True: transformers cannot recompute the "
                    f"layers of {type(model).__name__} ({error}). Set it to False."
                ) from error
        # Set again: those of the outline hold values even if the network is built without.
        self.inputs = self.outline.inputs
        if list(self.inputs.buffers()):
            self.inputs = make_inputs(read_config(settings.architecture), self.outline.model)
        return model

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the input of the first layer, and each layer's output."""
        if is_whisper(self.model) and isinstance(self.inputs, WhisperLogMel):
            yield from self._whisper_states(waveforms_BT)
            return
        with self.watched() as watch:
            run_encoder(self.model, self.inputs, waveforms_BT)
        yield from watch.states[: self.layers + 1]

    def watched(self) -> _Watch:
        """Return a block that records the states of transformers' loop, and masks them."""
        return _Watch(self)

    def final_norm(self, x_BLC: Tensor) -> Tensor:
        """Return the norm that ends the encoder, if it has one and all layers are computed."""
        norm = self._final_norm()
        if norm is None or self.layers < self.encoder_layers:
            return x_BLC
        return norm(x_BLC)

    def final_norm_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the norm that ends the encoder."""
        norm = self._final_norm()
        if norm is not None:
            yield from norm.parameters()

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield parameters that features do not depend on, and fixed ones (Whisper's positions)."""
        for name, parameter in self.model.named_parameters():
            if name in self.without_gradient:
                yield parameter

    def layer_modules(self) -> list[nn.Module]:
        """Return the encoder layers that were built."""
        return list(self.model.get_submodule(self.outline.layers))

    def part_modules(self) -> dict[str, list[nn.Module]]:
        """Return the modules before the layers."""
        in_layers = f"{self.outline.layers}."
        parts: dict[str, list[nn.Module]] = {part: [] for part in _PARTS}
        for path, module in self.model.named_modules():
            for part, names in _PARTS.items():
                if path.rpartition(".")[2] in names and not path.startswith(in_layers):
                    parts[part].append(module)
        return parts

    def frames(self, samples: int) -> int:
        """Return the number of frames for `samples` samples."""
        return self.frame_rule.frames(samples)

    def min_samples(self, frames: int) -> int:
        """Return the minimum number of samples for `frames` frames."""
        return self.frame_rule.min_samples(frames)

    def used_samples(self, samples: int) -> int:
        """Return the number of leading samples that frames depend on."""
        inputs: Any = self.inputs
        return inputs.used_samples(samples)

    def feature_settings(self) -> dict[str, Any]:
        """Return the base class's settings and the version of transformers."""
        import transformers

        return {**super().feature_settings(), "transformers": transformers.__version__}

    @property
    def takes_waveforms(self) -> bool:
        """Whether the encoder takes waveforms rather than features."""
        return isinstance(self.inputs, Waveforms)

    def _final_norm(self) -> nn.Module | None:
        path = self.outline.norm
        return self.model.get_submodule(path) if path else None

    def _whisper_states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield Whisper's states, computed separately for each 30 s of longer recordings.

        Written out, since transformers' loop takes exactly 30 s.
        """
        whole = self.used_samples(waveforms_BT.shape[1])
        longest = self.hop * self.model.embed_positions.num_embeddings
        # Parts of up to 30 s, without samples that no frame depends on. A graph has a fixed number
        # of parts: with one it takes any length up to 30 s, and fails beyond the last position.
        divided = [waveforms_BT[:, :whole]]
        if not is_traced() or int(whole) > longest:
            divided = list(waveforms_BT[:, : int(whole)].split(longest, dim=1))
        parts = []
        for part_BT in divided:
            with without_autocast(part_BT):
                bands_BNL = self.inputs(part_BT.float())
            parts.append(self.mask(whisper_stem(self.model, bands_BNL)))
        yield torch.cat(parts, dim=1)
        layers = self.layer_modules()[: self.layers]
        dropped = choose_dropped(len(layers), self.layer_drop, self.training)
        for layer, is_dropped in zip(layers, dropped, strict=True):
            outputs = [first_tensor(layer(part_BLC, None)) for part_BLC in parts]
            if is_dropped:
                # Gradients are zero, so that no process waits for them.
                pairs = zip(parts, outputs, strict=True)
                outputs = [part_BLC + 0.0 * output_BLC for part_BLC, output_BLC in pairs]
            parts = outputs
            yield torch.cat(parts, dim=1)


class _Watch:
    """Records the states in transformers' loop, masks its input, and drops layers.

    Attributes:
        states: First layer's input, followed by every layer's output.
    """

    def __init__(self, front_end: TransformersFrontEnd) -> None:
        self.front_end = front_end
        self.states: list[Tensor] = []
        self._hooks = ExitStack()

    def __enter__(self) -> _Watch:
        front_end = self.front_end
        layers = front_end.layer_modules()
        dropped = choose_dropped(len(layers), front_end.layer_drop, front_end.training)
        # WavLM's first layer is never dropped, since it computes the position biases for all
        # layers.
        dropped[0] = dropped[0] and front_end.model.config.model_type != "wavlm"
        projection = getattr(front_end.model, "feature_projection", None)
        handles = []
        if front_end.masking is not None and projection is None:
            handles.append(layers[0].register_forward_pre_hook(self._mask_input, with_kwargs=True))
        handles.append(layers[0].register_forward_pre_hook(self._take_input, with_kwargs=True))
        for layer, is_dropped in zip(layers, dropped, strict=True):
            hook = self._leave_out if is_dropped else self._take_output
            handles.append(layer.register_forward_hook(hook))
        if front_end.masking is not None and projection is not None:
            # As in pretraining, before the convolutions of positions.
            handles.append(projection.register_forward_hook(self._mask))
        for handle in handles:
            self._hooks.callback(handle.remove)
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.close()

    def _mask(self, module: nn.Module, args: Any, output: Any) -> Any:
        # Some projections also return their input, which only pretraining uses.
        if isinstance(output, tuple):
            return (self.front_end.mask(output[0]), *output[1:])
        return self.front_end.mask(output)

    def _mask_input(self, layer: nn.Module, args: Any, kwargs: Any) -> Any:
        if args:
            return (self.front_end.mask(args[0]), *args[1:]), kwargs
        name = next(name for name, value in kwargs.items() if isinstance(value, Tensor))
        return args, {**kwargs, name: self.front_end.mask(kwargs[name])}

    def _take_input(self, layer: nn.Module, args: Any, kwargs: Any) -> None:
        self.states.append(first_tensor((*args, *kwargs.values())))

    def _take_output(self, layer: nn.Module, args: Any, output: Any) -> None:
        self.states.append(first_tensor(output))

    def _leave_out(self, layer: nn.Module, args: Any, output: Any) -> Any:
        x_BLC = self.states[-1] + 0.0 * first_tensor(output)
        self.states.append(x_BLC)
        if isinstance(output, tuple):
            return (x_BLC, *output[1:])
        return x_BLC


def make_config(values: dict[str, Any]) -> Any:
    try:
        from transformers import CONFIG_MAPPING, AutoConfig
    except ImportError as error:
        raise UsageError(f"{INSTALL} ({error}).") from error
    kind = values["model_type"]
    if kind not in CONFIG_MAPPING:
        raise UsageError(
            f"front_end.architecture: the model type {shorten(kind)!r} is not known."
            f"{did_you_mean(kind, list(CONFIG_MAPPING))} It may need another version of "
            "transformers."
        )
    check_layer_counts(values)
    described = {name: value for name, value in values.items() if name != EXTRACTOR}
    try:
        return AutoConfig.for_model(**described)
    except Exception as error:
        raise UsageError(
            "front_end.architecture: transformers rejects the configuration: "
            f"{describe_error(error, __file__)}."
        ) from error


def _unused_names(outline: Outline, layers: int) -> set[str]:
    """Return the names of parameters that features do not depend on, as they get no gradient."""
    model = outline.model
    states: list[Tensor] = []

    def record(layer: nn.Module, args: Any, kwargs: Any, output: Any = None) -> None:
        # A layer's output, or before the first layer its input.
        value = (*args, *kwargs.values()) if output is None else output
        states.append(first_tensor(value))

    modules: Any = model.get_submodule(outline.layers)
    handles = [modules[0].register_forward_pre_hook(record, with_kwargs=True)]
    handles += [layer.register_forward_hook(record, with_kwargs=True) for layer in modules]
    waveforms_BT = torch.empty(2, 16000, device="meta")
    # The network may be built without gradients, which this finds unused parameters by.
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        run_encoder(model, on_meta_copy(outline.inputs), waveforms_BT)
        last_BLC = states[layers]
        if outline.norm and layers == outline.count:
            last_BLC = model.get_submodule(outline.norm)(last_BLC)
        last_BLC.sum().backward()
    for handle in handles:
        handle.remove()
    return {name for name, parameter in model.named_parameters() if parameter.grad is None}


def _set_dropout(config: Any, dropout: float) -> None:
    """Set all dropouts of a configuration and of nested ones."""
    for name, value in vars(config).items():
        if name.endswith("dropout") and isinstance(value, int | float):
            setattr(config, name, dropout)
        elif hasattr(value, "model_type"):
            _set_dropout(value, dropout)


class EncoderOutputFrontEnd(TransformersFrontEnd):
    """An encoder of transformers with all modules after its layers, such as SEW's upsampling.

    The frames of its features are those of the encoder's input; `frames` and frame-level heads
    count the frames of its layers.
    """

    short_name = "encoder_output"
    cacheable: ClassVar[bool] = True

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return transformers' encoder with random weights, all of which are trained."""
        model = super().make_model(settings)
        # Parameters after the layers, which the gradient of their last output does not reach.
        self.without_gradient = {
            name for name in self.without_gradient if ".upsample." not in f".{name}"
        }
        return model

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the first layer's input, all outputs but the last, and the encoder's output."""
        with self.watched() as watch:
            output = run_encoder(self.model, self.inputs, waveforms_BT)
        yield from watch.states[: self.layers]
        yield first_tensor(output)

    def final_norm(self, x_BLC: Tensor) -> Tensor:
        """Return the encoder's output unchanged."""
        return x_BLC
