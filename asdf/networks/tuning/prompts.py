"""Deep prompts: learned vectors that the layers of a frozen front end attend to.

Invariant: a layer gets its prompts before its frames and returns as many frames as it got: the
outputs at its prompts are dropped, and the next layer has prompts of its own. A layer keeps the
interface of its class, and the names and values of its weights. Unlike other additions, prompts
change a network's results from the start.

Source: Jia et al., "Visual Prompt Tuning", ECCV 2022 (VPT-deep); for detectors, and with wavelet
prompts, Xie et al., "Detect All-Type Deepfake Audio: Wavelet Prompt Tuning for Enhanced Auditory
Perception", AAAI 2026.

Shapes: B utterances, L frames, C feature values, P prompts, W wavelet prompts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.first_numbers import draw_uniform
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.traced_sizes import is_traced
from asdf.settings.sections import Prompt

# WavLM's position biases, which already include the prompts' positions.
_WITH_PROMPTS = "position_bias"


class Prompts(nn.Module):
    """The prompts of one layer, and their dropout in training.

    Attributes:
        vectors: Prompts, (P, C).
        wavelet_vectors: Values whose wavelet transform gives further prompts, (W, C).
        tokens: Number of prompts, P + W.
    """

    def __init__(self, prompt: Prompt, dimension: int, name: str) -> None:
        super().__init__()
        self.vectors = _draw_vectors(prompt.tokens, dimension, name)
        self.wavelet_vectors = _draw_vectors(prompt.wavelet_tokens, dimension, f"{name}, wavelet")
        self.prompt_dropout = prompt.dropout
        self.tokens = prompt.tokens + prompt.wavelet_tokens

    def forward(self, utterances: int) -> Tensor:
        """Return prompts for each utterance: (B, W + P, C)."""
        parts = []
        if self.wavelet_vectors is not None:
            parts.append(haar_transform(self.wavelet_vectors))
        if self.vectors is not None:
            parts.append(self.vectors)
        prompts_BPC = torch.cat(parts).expand(utterances, -1, -1)
        return F.dropout(prompts_BPC, self.prompt_dropout, self.training)


class PromptedLayer(nn.Module):
    """An encoder layer with prompts; `add_prompts` turns a plain layer into one.

    Its `Prompts` are the submodule `prompts`, without an annotation, which TorchScript would
    resolve in the file of the plain class.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the layer on (B, P + L, C), and return its output for the L frames."""
        name = "" if args else next(iter(kwargs))
        x_BLC: Tensor = args[0] if args else kwargs[name]
        self._check_others(x_BLC, args[1:], {**kwargs, name: None})
        prompts_BPC: Tensor = self.get_submodule("prompts")(x_BLC.shape[0])
        prompts_BPC = prompts_BPC.to(x_BLC.dtype)
        tokens = prompts_BPC.shape[1]
        x_BLC = torch.cat([prompts_BPC, x_BLC], dim=1)
        if args:
            output = super().forward(x_BLC, *args[1:], **kwargs)
        else:
            output = super().forward(**{**kwargs, name: x_BLC})
        if isinstance(output, tuple):
            return (output[0][:, tokens:], *output[1:])
        return output[:, tokens:]

    def _check_others(self, x_BLC: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Check that the layer gets no other argument with a value for each frame.

        Raises:
            UsageError: it does, and prompts have no such value.
        """
        if is_traced():
            return
        named = {**{f"argument {number}": value for number, value in enumerate(args, 2)}, **kwargs}
        for name, value in named.items():
            for tensor in _tensors_in(value):
                # Not the first dimension: a batch may have as many utterances as there are frames.
                if x_BLC.shape[1] in tensor.shape[1:] and name != _WITH_PROMPTS:
                    layer = type(self).__name__.removeprefix(_PREFIX)
                    raise UsageError(
                        f"prompt.tokens: a {layer} also receives {name}, with a value per frame, "
                        "which prompts do not have. Set prompt.tokens = 0 and "
                        "prompt.wavelet_tokens = 0; lora and adapter work with this front end."
                    )


_PREFIX = "Prompted"
_CLASSES: dict[type[nn.Module], type[nn.Module]] = {}


def add_prompts(front_end: FrontEnd, prompt: Prompt) -> None:
    """Add prompts to each of the computed encoder layers.

    Raises:
        UsageError: the front end computes no layers, or its layers would mix prompts with frames
            other than by attention; or wavelets of these sizes do not exist.
    """
    layers = list(front_end.layer_modules())[: front_end.layers]
    kind = type(front_end).__name__
    if not layers:
        raise UsageError(
            f"prompt.tokens: {kind} has no encoder layers to add prompts to. Set prompt.tokens = 0 "
            "and prompt.wavelet_tokens = 0."
        )
    if prompt.wavelet_tokens % 2 or (prompt.wavelet_tokens and front_end.dimension % 2):
        raise UsageError(
            f"prompt.wavelet_tokens = {prompt.wavelet_tokens} of {front_end.dimension} values: the "
            "wavelet transform needs an even number of prompts and of values."
        )
    for number, layer in enumerate(layers, 1):
        if any(isinstance(module, nn.Conv1d | nn.Conv2d) for module in layer.modules()):
            raise UsageError(
                f"prompt.tokens: layer {number} of {kind} has a convolution over frames, which "
                "would treat prompts as speech. Set prompt.tokens = 0 and prompt.wavelet_tokens = "
                "0; lora and adapter work with this front end."
            )
        prompts = Prompts(prompt, front_end.dimension, f"layer {number}")
        plain = type(layer)
        # One class for all layers of a kind, since compiled graphs are selected by class.
        if plain not in _CLASSES:
            _CLASSES[plain] = type(f"{_PREFIX}{plain.__name__}", (PromptedLayer, plain), {})
        layer.__class__ = _CLASSES[plain]
        layer.add_module("prompts", prompts)


def has_prompts(network: nn.Module) -> bool:
    """Return whether a layer of the network has prompts."""
    return any(isinstance(module, PromptedLayer) for module in network.modules())


def haar_transform(x_WC: Tensor) -> Tensor:
    """Return one level of the two-dimensional Haar transform, over prompts and values: (W, C).

    Its four bands (W/2, C/2), low-low, high over prompts, high over values and high-high, are
    contiguous in memory, as in the authors' code: with four or more prompts, a prompt holds two
    rows of one band.
    """
    sums_WC = (x_WC[0::2] + x_WC[1::2]) / 2
    differences_WC = (x_WC[0::2] - x_WC[1::2]) / 2
    low_WC = sums_WC[:, 0::2] + sums_WC[:, 1::2]
    high_prompts_WC = differences_WC[:, 0::2] + differences_WC[:, 1::2]
    high_values_WC = sums_WC[:, 0::2] - sums_WC[:, 1::2]
    high_WC = differences_WC[:, 0::2] - differences_WC[:, 1::2]
    bands = [low_WC, high_prompts_WC, high_values_WC, high_WC]
    return torch.stack(bands).reshape(x_WC.shape)


def _draw_vectors(tokens: int, dimension: int, name: str) -> nn.Parameter | None:
    if not tokens:
        return None
    vectors_PC = draw_uniform(torch.empty(tokens, dimension), "prompt", name)
    # The authors' bound is the root of 3 / C, that of `draw_uniform` the root of 1 / C.
    return nn.Parameter(vectors_PC * math.sqrt(3))


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors_in(each)
