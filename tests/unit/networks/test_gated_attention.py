"""WavLM's attention as autocast gets it: torchaudio's numbers, as exact, and only where it fits."""

from collections import Counter
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torchaudio.models.wav2vec2.components import EncoderLayer, FeedForward
from torchaudio.models.wav2vec2.wavlm_attention import WavLMSelfAttention

from asdf.networks.casting import _GatedBias, can_gate, weights_cast_together
from asdf.networks.front_ends.encoder_layers import encoder_states
from asdf.networks.tuning import LowRankAttention
from tests.unit.networks.test_wavlm import make_small

CPU = torch.device("cpu")
HEADS = 4


def make_layer() -> EncoderLayer:
    torch.manual_seed(0)
    layer = EncoderLayer(WavLMSelfAttention(32, HEADS), 0.0, True, FeedForward(32, 64, 0, 0))
    nn.init.normal_(layer.attention.gru_rel_pos_const)
    return layer


def torchaudios_bias(logits_BLH8, scale_1H11, bias_1HLL):
    """Gate the bias by the formula of `WavLMSelfAttention.forward`."""
    sums_BHL2 = logits_BLH8.transpose(1, 2).unflatten(3, (2, 4)).sum(-1)
    first, second = torch.sigmoid(sums_BHL2).chunk(2, dim=-1)
    return (first * (second * scale_1H11 - 1.0) + 2.0) * bias_1HLL


@pytest.mark.parametrize(("utterances", "frames"), [(3, 17), (1, 17), (2, 1), (2, 32)])
def test_the_gated_bias_and_its_gradients_are_torchaudios(utterances, frames):
    torch.manual_seed(0)
    given = (
        torch.randn(utterances, frames, HEADS, 8),
        torch.randn(1, HEADS, 1, 1),
        torch.randn(1, HEADS, frames, frames),
    )
    factors = torch.randn(utterances, HEADS, frames, frames)
    results = []
    for compute in (_GatedBias.apply, torchaudios_bias):
        leaves = [tensor.clone().requires_grad_() for tensor in given]
        added = compute(*leaves)
        (added * factors).sum().backward()
        results.append([added.detach(), *(leaf.grad for leaf in leaves)])
    torch.testing.assert_close(*results, atol=1e-4, rtol=1e-4)


def test_attention_gets_rows_that_it_need_not_copy():
    added = _GatedBias.apply(
        torch.zeros(2, 17, HEADS, 8).bfloat16(),
        torch.ones(1, HEADS, 1, 1),
        torch.ones(1, HEADS, 17, 17),
    )
    assert added.dtype is torch.bfloat16
    assert added.shape == (2, HEADS, 17, 17)
    assert added.stride() == (HEADS * 17 * 32, 17 * 32, 32, 1)
    # Gates of a half each: 0.5 * (0.5 - 1) + 2.
    assert torch.equal(added, torch.full_like(added, 1.75))


def pass_through(layer, x_BLC, bias_1HLL, together=False, dtype=torch.bfloat16):
    """Return a layer's output and gradients, in one dictionary."""
    leaf, bias = x_BLC.clone().requires_grad_(), bias_1HLL.clone().requires_grad_()
    cast = weights_cast_together(layer, CPU) if together else nullcontext()
    with torch.autocast("cpu", dtype, enabled=dtype is not torch.float32), cast:
        assert ("forward" in vars(layer.attention)) is together
        output = layer(leaf.clone(), position_bias=bias)[0]
    output.float().square().sum().backward()
    result = {name: parameter.grad for name, parameter in layer.named_parameters()}
    layer.zero_grad(set_to_none=True)
    return {"output": output.detach(), "input": leaf.grad, "bias": bias.grad, **result}


def test_a_layer_is_as_exact_as_torchaudios_under_autocast():
    """Of ten inputs together: the errors of one differ by more than those of both ways."""
    layer = make_layer()
    errors = {"gated": Counter(), "apart": Counter()}
    for _ in range(10):
        given = (torch.randn(3, 21, 32), 3 * torch.randn(1, HEADS, 21, 21))
        exact = pass_through(layer, *given, dtype=torch.float32)
        for way, together in (("gated", True), ("apart", False)):
            result = pass_through(layer, *given, together=together)
            assert result.keys() == exact.keys()
            for name, expected in exact.items():
                error = (result[name].float() - expected).abs().mean() / expected.abs().max()
                errors[way][name] += float(error)
    for name, error in errors["gated"].items():
        assert error <= 1.4 * errors["apart"][name], name
    assert "forward" not in vars(layer.attention)


def test_attention_that_is_watched_or_has_low_rank_updates_is_torchaudios():
    layer = make_layer()
    assert can_gate(layer.attention)
    for part in (layer.attention, layer.attention.attention, layer.attention.gru_rel_pos_linear):
        handle = part.register_forward_hook(lambda *_: None)
        assert not can_gate(layer.attention)
        handle.remove()
    layer.attention.attention.__class__ = LowRankAttention
    assert not can_gate(layer.attention)
    assert not can_gate(WavLMSelfAttention(32, HEADS, gru_rel_pos=False))


def test_all_utterances_share_the_bias_under_autocast_alone():
    transformer = make_small().encoder.transformer
    seen = []
    attention = transformer.layers[1].attention
    attention.register_forward_pre_hook(
        lambda _, args, options: seen.append(options["position_bias"].shape[0]), with_kwargs=True
    )
    x_BLC = torch.randn(3, 9, 24)
    for enabled in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            list(encoder_states(transformer, x_BLC, False, 2, drop=0.0, recompute=False))
    assert seen == [1, 3]
