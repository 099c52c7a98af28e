"""Importance of the parts of a front end for the scores of some recordings.

Invariant: the network is unchanged; importance is a sum over recordings, each processed as in
scoring, and depends on no random number.

The importance of a channel of the convolutions, or of a unit of a feed-forward network, is the
first-order change of the loss if its output were 0: the mean of |sum over time of activation *
gradient|. The importance of a layer is the change of direction of its input: 1 minus the mean
cosine between its input and its output.

Source: Molchanov et al., "Importance Estimation for Neural Network Pruning", CVPR 2019, for
activations; Men et al., "ShortGPT: Layers in Large Language Models are More Redundant Than You
Expect", 2024, for layers.

Shapes: B utterances, T samples, L frames, C channels or values, F units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
from asdf.networks.interface import as_outputs


@dataclass(frozen=True)
class Importance:
    """The importance of each part; larger numbers matter more.

    Attributes:
        channels: Importance of the channels of each convolution of the stem, (channels,).
        units: Importance of the units of each encoder layer's feed-forward network, (units,).
        layers: Importance of the encoder layers, (layers,).
        utterances: Number of utterances used for measuring.
    """

    channels: list[Tensor]
    units: list[Tensor]
    layers: Tensor
    utterances: int


def prunable_front_end(network: nn.Module) -> Wav2Vec2FrontEnd:
    """Return the front end whose parts can be removed.

    Raises:
        UsageError: the network has none; the message names its front end.
    """
    front_end = getattr(network, "front_end", None)
    if type(front_end) is Wav2Vec2FrontEnd:
        return front_end
    has = f"the front end {type(front_end).__name__}" if front_end is not None else "no front end"
    raise UsageError(
        f"{type(network).__name__} has {has}: only wav2vec 2.0, HuBERT and WavLM can be pruned, "
        "which hold most of a large detector's parameters. Train a small network by distillation "
        "instead: docs/small_networks.md."
    )


def measure_importance(network: nn.Module, trials: Iterable[tuple[Tensor, int]]) -> Importance:
    """Measure the importance of the parts of a network in eval mode.

    Args:
        trials: Waveforms (samples,), as scored, and labels, 1 bona fide and 0 spoof.

    Raises:
        UsageError: the network has no prunable front end, or there are no trials.
    """
    front_end = prunable_front_end(network)
    encoder = front_end.model.encoder.transformer
    stem = front_end.model.feature_extractor.conv_layers
    channels = [torch.zeros(layer.conv.out_channels) for layer in stem]
    denses = [layer.feed_forward.intermediate_dense for layer in encoder.layers]
    units = [torch.zeros(dense.out_features) for dense in denses]
    cosines = torch.zeros(len(encoder.layers))
    count = 0
    with _all_learning(network, front_end), ExitStack() as hooks:
        for number, layer in enumerate(stem):
            hook = _adding(channels[number], (2,), lambda output: output[0])
            hooks.callback(layer.register_forward_hook(hook).remove)
        for number, layer in enumerate(encoder.layers):
            hook = _adding(units[number], (1,), None)
            dense = layer.feed_forward.output_dense
            hooks.callback(dense.register_forward_hook(hook).remove)
            hooks.callback(layer.register_forward_hook(_turning(cosines, number)).remove)
        for waveform_T, label in trials:
            logits_12 = as_outputs(network(waveform_T.unsqueeze(0))).logits_B2
            F.cross_entropy(logits_12.float(), torch.tensor([label])).backward()
            count += 1
    if not count:
        raise UsageError("the list has no trials with labels, which measuring importance needs.")
    channels = [each / count for each in channels]
    units = [each / count for each in units]
    return Importance(channels, units, 1 - cosines / count, count)


def _adding(total: Tensor, time: tuple[int, ...], choose: Any) -> Any:
    """Return a hook that accumulates the change of the loss if a layer's values were 0.

    Args:
        total: Sum to which the changes are added, (C,).
        time: Time dimensions of the values.
        choose: Function that selects the values from an output; None: they are the layer's input.
    """

    def hook(module: nn.Module, inputs: Any, outputs: Any) -> None:
        values = inputs[0] if choose is None else choose(outputs)
        # The values alone, without the graph that leads to them.
        held = values.detach()

        def add(gradient: Tensor) -> None:
            total.add_((held * gradient).sum(dim=time).abs().sum(dim=0).cpu())

        values.register_hook(add)

    return hook


def _turning(cosines: Tensor, number: int) -> Any:
    """Return a hook that accumulates the mean cosine between a layer's input and its output."""

    def hook(module: nn.Module, inputs: Any, outputs: Any) -> None:
        before_BLC = inputs[0].detach()
        after_BLC = outputs[0].detach()
        cosines[number] += F.cosine_similarity(before_BLC, after_BLC, dim=2).mean().cpu()

    return hook


@contextmanager
def _all_learning(network: nn.Module, front_end: Wav2Vec2FrontEnd) -> Iterator[None]:
    """Enable gradients for every parameter of the network, otherwise unchanged."""
    required = [(each, each.requires_grad) for each in network.parameters()]
    frozen = front_end.frozen
    # A frozen front end computes without gradients.
    front_end.frozen = False
    network.requires_grad_(True)
    try:
        with torch.enable_grad():
            yield
    finally:
        front_end.frozen = frozen
        for parameter, before in required:
            parameter.requires_grad_(before)
            # Gradients of weights are not needed, and take as much memory as the network.
            parameter.grad = None
