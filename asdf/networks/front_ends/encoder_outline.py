"""The audio encoder in a network of transformers: its location, its layers, its number of frames.

Invariant: the result depends on what the network computes, tested on torch's meta device, where
tensors have no values: a configuration takes no memory until it has shown an encoder. A module that
computes (batch, frames, values) from waveforms, layer by layer, is an encoder. The number of frames
is exact: if they are equally spaced, as almost always, a formula gives it; otherwise, for example
with padded windows, the encoder is outlined for each length.

Shapes: B utterances, T samples, L frames, C feature values.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from asdf.errors import UsageError
from asdf.networks.casting import without_autocast
from asdf.networks.front_ends.spectral import HOP
from asdf.settings.class_path import describe_error
from asdf.text import shorten

# The first includes parts before and after an encoder; the others fit some networks' inputs.
_AUTO_CLASSES = ("AutoModel", "AutoModelForSpeechSeq2Seq", "AutoModelForCTC")
# Parameter names of networks that take text or images, decode, or classify.
_NOT_AUDIO = ("input_ids", "pixel_values", "decoder_", "labels", "query_embeds", "inputs_embeds")
_SECOND = 16000
# Nearly all encoders of speech have windows of 25 ms every 20 ms.
_USUAL_WINDOW = 400
_USUAL_HOP = 320
# 30 s, the maximum input of most encoders that have a limit.
_LONGEST = 30 * _SECOND


@dataclass(frozen=True)
class Outline:
    """An encoder without values, and the location of its parts.

    Attributes:
        model: Encoder, on the meta device.
        make: Function that builds it with random weights.
        inputs: Module that computes its input from waveforms.
        layers: Path of the list of layers in it.
        norm: Path of the norm after the last layer; '' if there is none.
        count: Number of layers.
        dimension: Number of values of a frame, C.
    """

    model: Any
    make: Callable[[], Any]
    inputs: nn.Module
    layers: str
    norm: str
    count: int
    dimension: int


def outline_encoder(config: Any, make_inputs: Callable[[Any], nn.Module]) -> Outline:
    """Return the first audio encoder in the networks that transformers builds from `config`.

    Args:
        make_inputs: Function that returns the input module of an encoder.

    Raises:
        UsageError: there is none; the message lists the networks that were tried.
    """
    seen: list[str] = []
    for model, make in _candidates(config, seen):
        inputs = make_inputs(model)
        try:
            layers, norm, dimension = _find_parts(model, on_meta_copy(inputs))
        except _NoEncoderError as error:
            seen.append(f"{type(model).__name__}: {error}")
            continue
        count = len(model.get_submodule(layers))
        return Outline(model, make, inputs, layers, norm, count, dimension)
    raise UsageError(
        f"front_end.architecture: the type {shorten(config.model_type)!r} of transformers is not "
        "an encoder that turns audio into (batch, frames, values), layer by layer. Seen: "
        f"{'; '.join(seen) or 'networks for text or images only'}."
    )


def run_encoder(model: Any, inputs: nn.Module, waveforms_BT: Tensor) -> Any:
    """Return the output of the encoder for waveforms (batch, samples)."""
    with without_autocast(waveforms_BT):
        features = inputs(waveforms_BT.float())
    if not isinstance(features, dict):
        if is_whisper(model):
            # Two windows of 10 ms for each position.
            return run_whisper(model, features[:, :, : 2 * model.embed_positions.num_embeddings])
        return model(features)
    accepted = inspect.signature(model.forward).parameters
    main, *others = features
    extra = {name: features[name] for name in others if name in accepted}
    return model(features[main], **extra)


def is_whisper(model: Any) -> bool:
    """Return whether the encoder has Whisper's form and therefore takes exactly 30 s."""
    names = ("conv1", "conv2", "embed_positions", "layers")
    return all(hasattr(model, name) for name in names)


def whisper_stem(model: Any, bands_BNL: Tensor) -> Tensor:
    """Return the input of Whisper's first layer, (batch, frames, dimension)."""
    x_BCL = F.gelu(model.conv2(F.gelu(model.conv1(bands_BNL))))
    positions_LC = model.embed_positions.weight[: x_BCL.shape[2]]
    x_BLC = x_BCL.transpose(1, 2) + positions_LC
    return F.dropout(x_BLC, model.dropout, model.training)


def run_whisper(model: Any, bands_BNL: Tensor) -> Tensor:
    """Return the final state of an encoder of Whisper's form, for any number of frames."""
    x_BLC = whisper_stem(model, bands_BNL)
    for layer in model.layers:
        x_BLC = first_tensor(layer(x_BLC, None))
    return model.layer_norm(x_BLC)


def first_tensor(value: Any) -> Tensor:
    """Return the first tensor in a module's inputs or outputs."""
    if isinstance(value, Tensor):
        return value
    values = value.values() if isinstance(value, dict) else value
    for each in values:
        if isinstance(each, Tensor):
            return each
    raise TypeError("no value is a tensor")


def count_frames(outline: Outline, samples: int) -> int:
    """Return the number of frames in the first layer; 0 if waveforms are too short."""

    def stop(layer: nn.Module, args: Any, kwargs: Any) -> None:
        raise _Enough(first_tensor((*args, *kwargs.values())))

    first = outline.model.get_submodule(outline.layers)[0]
    handle = first.register_forward_pre_hook(stop, with_kwargs=True)
    waveforms_BT = torch.empty(1, samples, device="meta")
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            run_encoder(outline.model, on_meta_copy(outline.inputs), waveforms_BT)
    except _Enough as enough:
        return enough.state_BLC.shape[1]
    except Exception:
        # Any error: convolutions, windows and positions raise different ones.
        return 0
    finally:
        handle.remove()
    return 0


def describe_frames(outline: Outline) -> list[str]:
    """Return remarks on unexpected properties of an encoder's frames."""
    frames = count_frames(outline, _SECOND)
    remarks = []
    if frames and frames == count_frames(outline, 2 * _SECOND):
        remarks.append(f"every recording is padded or cut to one length, of {frames} frames")
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        inputs = on_meta_copy(outline.inputs)
        waveforms_BT = torch.empty(2, _SECOND, device="meta")
        output = first_tensor(run_encoder(outline.model, inputs, waveforms_BT))
    if output.dim() == 3 and output.shape[1] != frames:
        remarks.append(
            f"features are the frames of the layers, {frames} in 1 s, of which transformers makes "
            f"{output.shape[1]} at the end"
        )
    return remarks


class _NoEncoderError(Exception):
    """The reason why a network contains no encoder."""


class _Enough(Exception):
    """Ends a computation once the input of the first layer is known."""

    def __init__(self, state_BLC: Tensor) -> None:
        self.state_BLC = state_BLC


@dataclass(frozen=True)
class _Call:
    """A call of a module: its path, its first input, its first output."""

    path: str
    input: Tensor
    output: Tensor


def _candidates(config: Any, seen: list[str]) -> Iterator[tuple[Any, Callable[[], Any]]]:
    """Yield networks that may take audio, outermost first, with a function that builds each."""
    import transformers

    for auto_name in _AUTO_CLASSES:
        auto_class = getattr(transformers, auto_name)
        if type(config) not in auto_class._model_mapping:
            continue

        # Bound as a default: the function is called after the loop has moved on.
        def make_whole(auto_class: Any = auto_class) -> Any:
            return auto_class.from_config(config, trust_remote_code=False)

        try:
            whole = on_meta(make_whole)
        except Exception as error:
            # The others have heads, which may need what the configuration of an encoder lacks.
            if auto_name != _AUTO_CLASSES[0]:
                continue
            raise UsageError(
                "front_end.architecture: transformers cannot build an encoder from the "
                f"configuration: {describe_error(error, __file__)}."
            ) from error
        for path, module in whole.named_modules():
            if not isinstance(module, transformers.PreTrainedModel) or "decoder" in path:
                continue
            names = list(inspect.signature(module.forward).parameters)
            takes_text = any(name.startswith(("decoder_", "labels", "input_ids")) for name in names)
            if takes_text or any(name.startswith(_NOT_AUDIO) for name in names[:1]):
                seen.append(type(module).__name__)
                continue
            part = make_whole
            if path:
                part = partial(type(module)._from_config, module.config)
            yield on_meta(part).eval(), part


def outside_modes() -> AbstractContextManager[object]:
    """Return a block in which tensors have values, even while a network's memory is measured."""
    return _disable_current_modes()


def on_meta_copy(module: nn.Module) -> nn.Module:
    """Return a copy of a module without values."""
    return copy.deepcopy(module).to("meta")


def on_meta(function: Callable[[], Any]) -> Any:
    """Return the result of `function`, without values and without advancing the random state."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return function()


def _find_parts(model: Any, inputs: nn.Module) -> tuple[str, str, int]:
    """Return the paths of the layers and of their final norm, and the number of values."""
    try:
        calls = _record_calls(model, inputs, _SECOND)
        longer = _record_calls(model, inputs, 2 * _SECOND)
    except Exception as error:
        raise _NoEncoderError(describe_error(error, __file__)) from error
    # A size that grows with the waveform is not the number of values.
    widths = {(call.path, call.output.shape[-1]) for call in longer if call.output.dim() == 3}
    layers = _find_layers(model, calls, widths)
    order = [call.path for call in calls]
    last = order.index(f"{layers}.{len(model.get_submodule(layers)) - 1}")
    return layers, _find_norm(calls, last, layers), calls[last].output.shape[2]


def _record_calls(model: Any, inputs: nn.Module, samples: int) -> list[_Call]:
    calls: list[_Call] = []
    with ExitStack() as hooks, torch.no_grad(), torch.random.fork_rng(devices=[]):
        for path, module in model.named_modules():

            def record(_: nn.Module, args: Any, kwargs: Any, output: Any, path: str = path) -> None:
                # A module without tensors, such as one that only creates masks, is no layer.
                with suppress(TypeError):
                    entering = first_tensor((*args, *kwargs.values()))
                    calls.append(_Call(path, entering, first_tensor(output)))

            handle = module.register_forward_hook(record, with_kwargs=True)
            hooks.callback(handle.remove)
        # Two waveforms, to distinguish the batch from dimensions of size 1.
        run_encoder(model, inputs, torch.empty(2, samples, device="meta"))
    return calls


def _find_layers(model: Any, calls: list[_Call], widths: set[tuple[str, int]]) -> str:
    """Return the path of the largest list of equal blocks that preserve (batch, frames, values)."""
    by_path: dict[str, list[_Call]] = {}
    for call in calls:
        by_path.setdefault(call.path, []).append(call)
    shapes = []
    largest = ""
    largest_size = 0
    for path, modules in model.named_modules():
        if not isinstance(modules, nn.ModuleList) or len({type(each) for each in modules}) != 1:
            continue
        inner = [by_path.get(f"{path}.{index}", []) for index in range(len(modules))]
        if any(len(each) != 1 for each in inner):
            continue
        states = [inner[0][0].input, *(each[0].output for each in inner)]
        sizes = {tuple(state.shape) for state in states}
        shapes.append(f"{path} gives {sorted(sizes)}")
        is_kept = len(sizes) == 1 and states[0].dim() == 3 and states[0].shape[0] == 2
        is_kept = is_kept and (f"{path}.0", states[0].shape[-1]) in widths
        # Compare by weights, since stems and positions may have more, but smaller, blocks.
        size = sum(parameter.numel() for parameter in modules.parameters())
        if is_kept and size > largest_size:
            largest = path
            largest_size = size
    if largest:
        return largest
    lists = ", ".join(shapes) or "no list of equal blocks is used"
    raise _NoEncoderError(f"of 2 waveforms of 1 s {shorten(lists, 300)}")


def _find_norm(calls: list[_Call], last: int, layers: str) -> str:
    """Return the path of the norm after the last layer's output, or next to the list of layers."""
    output = calls[last].output
    parent = layers.rpartition(".")[0]
    for call in calls[last + 1 :]:
        is_next = call.path.rpartition(".")[0] == parent or call.input is output
        is_norm = "norm" in call.path.rpartition(".")[2].lower()
        if is_next and is_norm and call.output.shape[2:] == output.shape[2:]:
            return call.path
    return ""


class FrameRule:
    """The number of frames of an encoder as a function of the number of samples.

    Attributes:
        window: Number of samples that the first frame needs.
        hop: Number of samples from the start of a frame to the start of the next.
        is_regular: Whether `window` and `hop` determine all numbers of frames.
    """

    def __init__(self, outline: Outline) -> None:
        if is_whisper(outline.model):
            # Longer waveforms are computed in parts.
            self.window = self.hop = 2 * HOP
            self.is_regular = True
            return
        self._count = lru_cache(maxsize=1024)(lambda samples: count_frames(outline, samples))
        self.window = self._fewest_samples(1, _SECOND, _USUAL_WINDOW)
        two_frames = self._fewest_samples(2, 2 * _SECOND, self.window + _USUAL_HOP)
        self.hop = max(two_frames - self.window, 1)
        # Just enough samples for some counts, and one fewer: there a wrong formula would show.
        edges = [self.window + count * self.hop for count in (2, 5, 9)]
        lengths = [*edges, *(edge - 1 for edge in edges), _SECOND, 2 * _SECOND - 1]
        self.is_regular = all(self._count(n) == self._formula(n) for n in lengths)

    def frames(self, samples: int) -> int:
        """Return the number of frames for `samples` samples."""
        return self._formula(samples) if self.is_regular else self._count(samples)

    def min_samples(self, frames: int) -> int:
        """Return the minimum number of samples for `frames` frames.

        Raises:
            UsageError: 30 s are not enough.
        """
        if self.is_regular:
            return (frames - 1) * self.hop + self.window
        if self._count(_LONGEST) < frames:
            raise UsageError(
                f"the front end makes {self._count(_LONGEST)} frames of 30 s, but the back end "
                f"needs {frames}. Choose another front_end or another back end."
            )
        return self._fewest_samples(frames, _LONGEST, (frames - 1) * self.hop + self.window)

    def _formula(self, samples: int) -> int:
        if samples < self.window:
            return 0
        return (samples - self.window) // self.hop + 1

    def _fewest_samples(self, frames: int, enough: int, guess: int) -> int:
        """Return the minimum samples, up to `enough`, for `frames` frames, by bisection.

        Args:
            guess: Number that is tried first, since each count runs a part of the encoder.
        """
        too_few = 0
        for samples in (guess, guess - 1):
            if too_few < samples < enough:
                if self._count(samples) >= frames:
                    enough = samples
                else:
                    too_few = samples
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            if self._count(middle) >= frames:
                enough = middle
            else:
                too_few = middle
        return enough
