"""The encoder's layers: which are computed, which are left out of a step, and how several become one.

Invariant: in training every parameter of every computed layer gets a gradient in every step, of zeros where the layer
was dropped. So each process may drop layers of its own, as fairseq does, while none waits for a gradient that another
does not have, and the optimiser treats a step alike on any number of processes.

Shapes: B utterances, L frames, C feature values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchaudio.models.wav2vec2.components import Transformer

from asdf.networks.casting import weights_cast_together
from asdf.networks.wavlm import position_bias


class WeightedSum(nn.Module):
    """A sum of layers whose weights are learned: positive, and 1 together; equal at the start.

    It learns with the back end, also where the front end is frozen.

    Source: Yang et al., "SUPERB: Speech processing Universal PERformance Benchmark", Interspeech 2021.
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """One tensor of the shape that each of `states` has."""
        return weighted_sum(states, self.weights.softmax(dim=0))


def weighted_sum(states: Sequence[Tensor], weights: Tensor) -> Tensor:
    """The sum of `states`, each times its weight, without a copy of all of them side by side."""
    first, *others = zip(weights.unbind(), states, strict=True)
    total = first[0] * first[1]
    for weight, state in others:
        total = total + weight * state
    return total


def encoder_states(
    transformer: Transformer,
    x_BLC: Tensor,
    norm_first: bool,
    layers: int,
    drop: float,
    recompute: bool,
) -> Iterator[Tensor]:
    """The input of the first layer and the outputs of the first `layers` layers, all (batch, frames, dimension).

    Args:
        norm_first: whether the encoder is pre-norm; its final layer norm is not applied here.
        drop: probability that a layer's output is its input, in training.
        recompute: recompute the layers in the backward pass.
    """
    # Written out, since torchaudio's loop draws a random number for each layer in training, also when no layer
    # is to be dropped, and drops the layer when that number is exactly 0.
    x_BLC = x_BLC + transformer.pos_conv_embed(x_BLC)
    x_BLC = transformer.dropout(x_BLC if norm_first else transformer.layer_norm(x_BLC))
    yield x_BLC
    first = transformer.layers[0].attention if layers else None
    # WavLM's first layer has the position biases of all.
    relative = getattr(first, "rel_attn_embed", None) is not None
    bias_BHLL = position_bias(first, *x_BLC.shape[:2]) if relative else None
    dropped = _draw(layers, drop) if drop and transformer.training else [False] * layers
    for number, layer in enumerate(transformer.layers[:layers]):
        # WavLM's first layer is never dropped.
        if dropped[number] and not (relative and number == 0):
            x_BLC = (
                x_BLC
                + 0.0 * torch.stack([parameter.sum() for parameter in layer.parameters()]).sum()
            )
        elif recompute and torch.is_grad_enabled():
            x_BLC = checkpoint(
                _output,
                layer,
                x_BLC,
                bias_BHLL,
                use_reentrant=False,
                # A CUDA graph cannot go back to a state of random numbers.
                preserve_rng_state=transformer.dropout.p > 0,
            )
        else:
            x_BLC = _output(layer, x_BLC, bias_BHLL)
        yield x_BLC


def _output(layer: nn.Module, x_BLC: Tensor, bias_BHLL: Tensor | None) -> Tensor:
    with weights_cast_together(layer, x_BLC.device):
        output_BLC: Tensor = layer(x_BLC, position_bias=bias_BHLL)[0]
    return output_BLC


def _draw(layers: int, drop: float) -> list[bool]:
    # On the CPU: which layers run must be known there.
    chosen: list[bool] = (torch.rand(layers) < drop).tolist()
    return chosen
