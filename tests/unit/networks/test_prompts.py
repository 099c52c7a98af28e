"""Deep prompts against attention written out, and transformers' layers called one by one."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import UsageError
from asdf.interchange import build_pretrained, read_network, write_onnx, write_torchscript
from asdf.networks import build_network
from asdf.networks.tuning.prompts import haar_transform
from asdf.settings.sections import Prompt, Sections
from tests.encoders import config_text
from tests.unit.checkpoint.test_base_weights import write_base
from tests.unit.networks.inspection import names_with_gradient, trainable_names

LAYERS = "front_end.model.encoder.transformer.layers"


def detector(settings: Sections, prompt: Prompt | None = None) -> nn.Module:
    settings.network.network_class = "asdf.networks.SSL_ASP"
    settings.prompt = prompt or Prompt()
    torch.manual_seed(3)
    return build_network(settings)


def transformers_settings(kind: str) -> Sections:
    settings = Sections()
    settings.front_end.front_end_class = "transformers"
    settings.front_end.architecture = config_text(kind)
    return settings


def layer_by_hand(layer: nn.Module, prompts_PC: Tensor, x_BLC: Tensor) -> Tensor:
    """A pre-norm layer on prompts and frames, of which the frames' outputs are left."""
    x_BLC = torch.cat([prompts_PC.expand(len(x_BLC), -1, -1), x_BLC], dim=1)
    attention = layer.attention
    normed_BLC = layer.layer_norm(x_BLC)
    heads = attention.num_heads
    parts = []
    for part in (attention.q_proj, attention.k_proj, attention.v_proj):
        projected = normed_BLC @ part.weight.T + part.bias
        parts.append(projected.unflatten(2, (heads, -1)).transpose(1, 2))
    queries, keys, values = parts
    products = queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5
    attended = (products.softmax(dim=-1) @ values).transpose(1, 2).flatten(2)
    attended = attended @ attention.out_proj.weight.T + attention.out_proj.bias
    x_BLC = x_BLC + attended
    normed_BLC = layer.final_layer_norm(x_BLC)
    dense = layer.feed_forward
    inner = F.gelu(normed_BLC @ dense.intermediate_dense.weight.T + dense.intermediate_dense.bias)
    outer = inner @ dense.output_dense.weight.T + dense.output_dense.bias
    return (x_BLC + outer)[:, len(prompts_PC) :]


def test_each_layer_attends_to_prompts_of_its_own(tiny, waveforms):
    network = detector(tiny, Prompt(tokens=3)).eval()
    front_end = network.front_end
    states = list(front_end.states(waveforms))
    layers = network.get_submodule(LAYERS)
    assert [layer.prompts.vectors.shape for layer in layers] == [(3, 64), (3, 64)]
    for layer, before, after in zip(layers, states[:-1], states[1:], strict=True):
        expected = layer_by_hand(layer, layer.prompts.vectors, before)
        torch.testing.assert_close(after, expected, rtol=0, atol=1e-5)
        other = layer_by_hand(layer, torch.zeros_like(layer.prompts.vectors), before)
        assert not torch.allclose(after, other, atol=1e-4)


def test_without_prompts_it_is_the_base_network(tiny, waveforms):
    plain = detector(tiny).eval()
    network = detector(tiny, Prompt(tokens=3)).eval()
    prompted = network(waveforms)[1]
    assert not torch.allclose(prompted, plain(waveforms)[1], atol=1e-4)
    for layer in network.get_submodule(LAYERS):
        layer.prompts.vectors = nn.Parameter(torch.empty(0, 64))
    assert torch.equal(network(waveforms)[1], plain(waveforms)[1])
    # And all other numbers were drawn as without.
    state = network.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in plain.state_dict().items())


@pytest.mark.parametrize("recompute", [False, True])
def test_prompts_and_the_back_end_learn(recompute, tiny, waveforms):
    tiny.front_end.gradient_checkpointing = recompute
    tiny.front_end.layer_drop = 0.5
    network = detector(tiny, Prompt(tokens=2, wavelet_tokens=4, dropout=0.1)).train()
    network(waveforms)[1].square().sum().backward()
    assert names_with_gradient(network) == trainable_names(network)
    names = {name for name in trainable_names(network) if name.startswith("front_end.")}
    numbers = ("vectors", "wavelet_vectors")
    expected = itertools.product(range(2), numbers)
    assert names == {f"{LAYERS}.{layer}.prompts.{number}" for layer, number in expected}


def test_the_wavelets_are_those_of_pywavelets_in_the_order_of_the_authors():
    pywt = pytest.importorskip("pywt")
    x = np.random.default_rng(0).normal(size=(6, 10))
    low, (over_prompts, over_values, both) = pywt.dwt2(x, "haar")
    expected = np.stack([low, over_prompts, over_values, both]).reshape(6, 10)
    np.testing.assert_allclose(haar_transform(torch.tensor(x)).numpy(), expected, atol=1e-12)


def test_the_wavelets_by_hand():
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 7.0, 9.0, 12.0]])
    expected = torch.tensor([[7.5, 14.0, -4.5, -7.0], [-1.5, -2.0, 0.5, 1.0]])
    assert torch.equal(haar_transform(x), expected)


def test_wavelet_prompts_come_before_the_others(tiny, waveforms):
    network = detector(tiny, Prompt(tokens=1, wavelet_tokens=2)).eval()
    front_end = network.front_end
    before, after = list(front_end.states(waveforms))[:2]
    layer = network.get_submodule(LAYERS)[0]
    prompts = torch.cat([haar_transform(layer.prompts.wavelet_vectors), layer.prompts.vectors])
    assert torch.equal(layer.prompts(2), prompts.expand(2, -1, -1)) and layer.prompts.tokens == 3
    expected = layer_by_hand(layer, prompts, before)
    torch.testing.assert_close(after, expected, rtol=0, atol=1e-5)


def test_first_numbers_are_uniform_and_differ_between_layers(tiny):
    first, second = (
        layer.prompts.vectors for layer in detector(tiny, Prompt(tokens=200)).get_submodule(LAYERS)
    )
    bound = (6 / (2 * 64)) ** 0.5
    assert 0.99 * bound < first.abs().max() <= bound
    assert first.var().item() == pytest.approx(bound**2 / 3, rel=0.05)
    assert not torch.equal(first, second)


@pytest.mark.slow_but("whisper")
@pytest.mark.parametrize("kind", ["wav2vec2", "hubert", "wavlm", "whisper"])
def test_the_layers_of_transformers_called_one_by_one_give_the_same(kind, waveforms):
    settings = transformers_settings(kind)
    network = detector(settings, Prompt(tokens=2, wavelet_tokens=2)).eval()
    plain = detector(settings).eval()
    x_BLC = plain.front_end.hidden_states(waveforms)[0]
    states = network.front_end.hidden_states(waveforms)
    assert torch.equal(states[0], x_BLC)
    bias = None
    base_layers = plain.front_end.layer_modules()
    for number, (layer, base) in enumerate(
        zip(network.front_end.layer_modules(), base_layers, strict=True), 1
    ):
        joined = torch.cat([layer.prompts(2), x_BLC], dim=1)
        if kind == "wavlm":
            output = base(joined, position_bias=bias, index=number - 1)
            bias = output[1]
        elif kind == "whisper":
            output = base(joined, None)
        else:
            output = base(joined)
        x_BLC = (output[0] if isinstance(output, tuple) else output)[:, 4:]
        final = network.front_end.final_norm(x_BLC) if number == len(base_layers) else x_BLC
        torch.testing.assert_close(states[number], final, rtol=0, atol=1e-5)


def test_wavlms_positions_go_on_before_the_frames(waveforms):
    from asdf.networks.front_ends.wavlm import position_bias

    settings = Sections()
    settings.front_end.architecture = "wavlm_base"
    settings.front_end.layer = 1
    network = detector(settings, Prompt(tokens=3)).eval()
    attention = network.get_submodule(LAYERS)[0].attention
    biases = []
    handle = attention.register_forward_pre_hook(
        lambda module, args, kwargs: biases.append(kwargs["position_bias"]), with_kwargs=True
    )
    frames = network.front_end(waveforms[:, :4000]).shape[1]
    handle.remove()
    (bias,) = biases
    assert torch.equal(bias, position_bias(attention, 2, frames + 3))


def test_masks_hide_frames_and_no_prompts(waveforms):
    settings = transformers_settings("whisper")
    settings.front_end.time_mask_proportion = 0.5
    settings.front_end.time_mask_length = 2
    network = detector(settings, Prompt(tokens=30)).train()
    seen = []
    layer = network.front_end.layer_modules()[0]
    layer.self_attn_layer_norm.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    network(waveforms)
    assert torch.equal(seen[0][:, :30], layer.prompts(2))


@pytest.mark.parametrize("weighted", [False, True])
def test_files_hold_them_alone_and_come_back(weighted, tiny, tmp_path, waveforms):
    tiny.front_end.weights = write_base(tmp_path / "base.pt")
    tiny.front_end.layer = "weighted" if weighted else 1
    tiny.network.network_class = "asdf.networks.SSL_ASP"
    tiny.prompt = Prompt(tokens=2, wavelet_tokens=2)
    network = build_pretrained(tiny).eval()
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, tiny))
    state = torch.load(tmp_path / "net.pt", weights_only=True)["model_state_dict"]
    own = [name for name in state if name.startswith("front_end.model.")]
    assert len(own) == (4 if weighted else 2) and all(".prompts." in name for name in own)
    again, file = read_network(tmp_path / "net.pt")
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])
    assert file.to_sections().prompt == tiny.prompt


def test_a_copy_has_prompts_of_its_own(tiny, waveforms):
    network = detector(tiny, Prompt(tokens=2)).eval()
    copied = copy.deepcopy(network)
    with torch.no_grad():
        for layer in copied.get_submodule(LAYERS):
            layer.prompts.vectors.neg_()
    assert not torch.allclose(copied(waveforms)[1], network(waveforms)[1], atol=1e-4)


def test_it_is_exported_as_a_graph(tiny, tmp_path):
    network = detector(tiny, Prompt(tokens=2, wavelet_tokens=2)).eval()
    # Both compare the graph with the network.
    write_torchscript(network, tmp_path / "net.ts", 4000)
    assert "of any length" in write_onnx(network, tmp_path / "net.onnx")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("wav2vec2-conformer", "layer 1 of TransformersFrontEnd has a convolution over frames"),
        ("wav2vec2-bert", "has a convolution over frames"),
        ("moonshine", "MoonshineEncoderLayer also receives position_ids, with a value per frame"),
    ],
)
def test_layers_that_mix_frames_otherwise_are_refused(kind, message, waveforms):
    with pytest.raises(UsageError, match=message):
        detector(transformers_settings(kind), Prompt(tokens=2))(waveforms)


@pytest.mark.parametrize(
    ("network_class", "values", "prompt", "message"),
    [
        ("AASIST_L", {}, Prompt(tokens=2), r"prompt\.tokens: .* has no front end"),
        ("AASIST_L", {}, Prompt(wavelet_tokens=2), r"prompt\.wavelet_tokens: .* has no front end"),
        ("SSL_ASP", {"layer": 0}, Prompt(tokens=2), "has no encoder layers to add"),
        ("SSL_ASP", {"front_end_class": "lfcc"}, Prompt(tokens=2), "LFCCFrontEnd has no encoder"),
        ("SSL_ASP", {}, Prompt(wavelet_tokens=3), r"wavelet_tokens = 3 of 64 values: the wavelet"),
    ],
)
def test_where_there_can_be_none(network_class, values, prompt, message, tiny):
    tiny.network.network_class = f"asdf.networks.{network_class}"
    tiny.prompt = prompt
    for name, value in values.items():
        setattr(tiny.front_end, name, value)
    with pytest.raises(UsageError, match=message):
        build_network(tiny)
