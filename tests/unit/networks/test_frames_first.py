"""The convolutions of a GPU beside torch's: the same numbers and gradients, in float64."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torchaudio.models import wav2vec2_model
from torchaudio.models.wav2vec2.components import ConvolutionalPositionalEmbedding

from asdf.networks.back_ends import graph_back_end
from asdf.networks.front_ends import encoder_layers
from asdf.networks.front_ends.encoder_layers import (
    GroupedConvolution,
    computes_frames_first,
    convolve_frames,
    encode_positions,
)
from asdf.networks.functions import multiply_long


def gradients_of(module: nn.Module, output: Tensor) -> list[Tensor]:
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).double()
    return list(torch.autograd.grad((output * weights).sum(), list(module.parameters())))


def stem_of(mode: str) -> nn.Module:
    torch.manual_seed(0)
    layers = [(12, 10, 5), (12, 3, 2), (12, 2, 2)]
    model = wav2vec2_model(
        mode, layers, True, 24, 0.0, 8, 4, 0, 2, 0.0, 0.0, 24, 0.0, False, 0.0, None
    )
    return model.feature_extractor.double()


@pytest.mark.parametrize("mode", ["layer_norm", "group_norm"])
def test_the_stem_has_the_numbers_of_torchaudios(mode: str) -> None:
    stem = stem_of(mode)
    waveforms_BT = torch.randn(3, 1203).double()
    expected, result = stem(waveforms_BT, None)[0], convolve_frames(stem, waveforms_BT, False)
    torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-12)
    pairs = zip(gradients_of(stem, result), gradients_of(stem, expected), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_norms_of_short_weights_compute_in_their_format() -> None:
    stem = stem_of("layer_norm").float()
    for layer in stem.conv_layers:  # type: ignore[union-attr]
        layer.layer_norm.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert convolve_frames(stem, torch.randn(1, 800), True).dtype is torch.bfloat16


@pytest.mark.parametrize("taps", [8, 5])
@pytest.mark.parametrize("block", [1, 3, 17, 20])
def test_grouped_convolutions_are_torchs(
    taps: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_layers, "_BLOCK", block)
    generator = torch.Generator().manual_seed(0)
    x_BLC, weight, bias = (
        torch.randn(shape, generator=generator).double().requires_grad_()
        for shape in ((2, 17, 12), (8, 3, taps), (8,))
    )
    result = GroupedConvolution.apply(x_BLC, weight, bias, 4)
    convolved = torch.conv1d(x_BLC.mT, weight, bias, padding=taps // 2, groups=4)
    expected = convolved[..., :17].mT
    torch.testing.assert_close(result, expected)
    factors = torch.randn(result.shape, generator=generator).double()
    inputs = (x_BLC, weight, bias)
    ours = torch.autograd.grad((result * factors).sum(), inputs)
    theirs = torch.autograd.grad((expected * factors).sum(), inputs)
    torch.testing.assert_close(ours, theirs)


def embedding_of(positions: int) -> ConvolutionalPositionalEmbedding:
    torch.manual_seed(0)
    return ConvolutionalPositionalEmbedding(12, positions, 4).double()


@pytest.mark.parametrize("positions", [8, 5])
def test_positions_are_encoded_as_torchaudio_does(
    positions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = embedding_of(positions)
    x_BLC = torch.randn(2, 9, 12).double()
    expected = module(x_BLC)
    of_expected = gradients_of(module, expected)
    assert torch.equal(encode_positions(module, x_BLC), expected)
    monkeypatch.setattr(encoder_layers, "is_short_on_gpu", lambda x: True)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float64)
    result = encode_positions(module, x_BLC)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(gradients_of(module, result), of_expected)
    # Its weight without the norm, as exported networks have it.
    plain = copy.deepcopy(module)
    torch.nn.utils.parametrize.remove_parametrizations(plain.conv, "weight")
    torch.testing.assert_close(encode_positions(plain, x_BLC), expected)


def test_maps_have_their_channels_last_and_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(1).double()
    blocks = graph_back_end.residual_encoder((1, 4, 6), pool=True).double()
    x_B1FT = torch.randn(2, 1, 6, 27).double().requires_grad_()
    plain = blocks(norm(x_B1FT))
    monkeypatch.setattr(graph_back_end, "is_short_on_gpu", lambda x: True)
    seen = []
    norm.register_forward_hook(lambda _, inputs, output: seen.append(inputs[0].stride()))
    blocks[0][0].bn2.register_forward_hook(  # type: ignore[index]
        lambda _, inputs, output: seen.append(inputs[0].stride())
    )
    normed = graph_back_end.normalize_map(norm, x_B1FT)
    result = blocks(normed)
    assert seen == [(162, 1, 27, 1), (756, 1, 108, 4)] and normed.stride()[1] == 162
    torch.testing.assert_close(result, plain)
    factors = torch.randn_like(plain)
    ours = torch.autograd.grad((result * factors).sum(), x_B1FT)
    torch.testing.assert_close(ours, torch.autograd.grad((plain * factors).sum(), x_B1FT))


def test_what_is_watched_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_layers, "is_short_on_gpu", lambda x: True)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float64)
    module, stem = embedding_of(8), stem_of("layer_norm")
    calls = []
    module.conv.register_forward_hook(lambda *_: calls.append("positions"))
    stem.conv_layers[1].register_forward_hook(lambda *_: calls.append("stem"))  # type: ignore
    encode_positions(module, torch.randn(1, 9, 12).double())
    assert calls == ["positions"]
    assert not computes_frames_first(stem, torch.randn(1, 800))
    assert computes_frames_first(stem_of("layer_norm"), torch.randn(1, 800))


@pytest.mark.parametrize("terms", [100, 8192, 14 * 1350, 8209])
def test_long_products_are_sums_of_parts(terms: int) -> None:
    first, second = torch.randn(2, 3, terms).double(), torch.randn(2, terms, 4).double()
    torch.testing.assert_close(multiply_long(first, second), first @ second)
