"""Which layers the features come from, and what layer drop does."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torchaudio.models.wav2vec2.utils import import_huggingface_model

from asdf.interchange import build_front_end
from asdf.networks import Wav2Vec2FrontEnd, build_network, front_end_parameters
from asdf.networks.front_ends.architectures import Architecture, stem
from asdf.settings.sections import FrontEnd
from tests.unit.networks.inspection import (
    gradients_by_name,
    ids,
    max_gradient,
    names_with_gradient,
    names_without_gradient,
)

PRE_NORM = Architecture(stem(16), "layer_norm", True, 24, 3, 2, 48, True, 16, 4)
POST_NORM = Architecture(stem(16), "group_norm", False, 24, 3, 2, 48, False, 16, 4)
WAVLM = replace(POST_NORM, relative_positions=(32, 64))
BOTH = pytest.mark.parametrize("architecture", [PRE_NORM, POST_NORM], ids=["pre_norm", "post_norm"])


def front_end(architecture: Architecture = PRE_NORM, **settings) -> Wav2Vec2FrontEnd:
    torch.manual_seed(0)
    return build_front_end(FrontEnd(architecture=architecture.to_text(), **settings))


@BOTH
def test_hidden_states_are_transformers(architecture, tmp_path, waveforms):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.Wav2Vec2Config(
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=48,
        conv_dim=(16,) * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        do_stable_layer_norm=architecture.layer_norm_first,
        feat_extract_norm="layer" if architecture.layer_norm_first else "group",
        conv_bias=architecture.conv_bias,
    )
    original = transformers.Wav2Vec2Model(config).eval()
    weights = str(tmp_path / "weights.pt")
    torch.save(import_huggingface_model(original).state_dict(), weights)
    model = front_end(architecture, weights=weights).eval()
    with torch.no_grad():
        outputs = original(waveforms, output_hidden_states=True)
        # Whether the last of them is taken before or after the final norm depends on the version.
        expected = [*outputs.hidden_states[:-1], outputs.last_hidden_state]
        states = model.hidden_states(waveforms)
        assert len(states) == len(expected) == 4
        for number in range(4):
            torch.testing.assert_close(states[number], expected[number], atol=2e-5, rtol=0)
            chosen = front_end(architecture, weights=weights, layer=number).eval()
            torch.testing.assert_close(chosen(waveforms), expected[number], atol=2e-5, rtol=0)


@BOTH
def test_layer_outputs_are_without_the_final_norm(architecture, waveforms):
    model = front_end(architecture).eval()
    states = model.hidden_states(waveforms)
    outputs = model.layer_outputs(waveforms)
    assert len(outputs) == 3
    torch.testing.assert_close(outputs[:-1], states[1:-1], rtol=0, atol=0)
    last = outputs[-1]
    if architecture.layer_norm_first:
        last = model.model.encoder.transformer.layer_norm(last)
    assert torch.equal(last, states[-1])
    assert torch.equal(states[-1], model(waveforms))


@BOTH
def test_a_weighted_sum_is_its_formula(architecture, waveforms):
    model = front_end(architecture, layer="weighted").eval()
    states = torch.stack(model.hidden_states(waveforms))
    torch.testing.assert_close(model(waveforms), states.mean(dim=0), atol=3e-6, rtol=0)
    logs = torch.tensor([0.0, 1.0, -2.0, 0.5])
    model.layer_sum.weights.data.copy_(logs)
    weights = logs.exp() / logs.exp().sum()
    expected = (states * weights[:, None, None, None]).sum(dim=0)
    torch.testing.assert_close(model(waveforms), expected, atol=3e-6, rtol=0)


def test_the_weights_of_the_sum_learn_with_the_back_end(tiny, waveforms):
    tiny.front_end.layer = "weighted"
    tiny.front_end.frozen = True
    network = build_network(tiny).train()
    network(waveforms)[1].square().sum().backward()
    weights = network.front_end.layer_sum.weights
    assert weights.grad is not None and weights.grad.abs().max() > 0
    assert names_with_gradient(network.front_end) == ["layer_sum.weights"]
    assert id(weights) not in ids(front_end_parameters(network))


@BOTH
@pytest.mark.parametrize("layer", [0, 1, 3])
def test_layers_above_the_chosen_one_are_neither_computed_nor_trained(
    architecture, layer, tiny, waveforms
):
    tiny.front_end.architecture = architecture.to_text()
    tiny.front_end.layer = layer
    network = build_network(tiny).train()
    called = []
    for number, module in enumerate(network.front_end.model.encoder.transformer.layers):
        module.register_forward_hook(lambda *_, number=number: called.append(number))
    network(waveforms)[1].square().sum().backward()
    assert called == list(range(layer))
    prefix = "front_end.model.encoder.transformer."
    above = tuple(f"{prefix}layers.{number}." for number in range(layer, 3))
    if architecture.layer_norm_first and layer < 3:
        above += (f"{prefix}layer_norm.",)
    for name, parameter in network.front_end.named_parameters(prefix="front_end"):
        assert (parameter.grad is None) == name.startswith(above), name
        assert parameter.requires_grad != name.startswith(above), name


def test_layer_drop_leaves_layers_out_and_gives_all_of_them_gradients(waveforms):
    model = front_end(layer_drop=0.5).train()
    torch.manual_seed(11)
    dropped = (torch.rand(3) < 0.5).tolist()
    assert dropped == [True, True, False]
    torch.manual_seed(11)
    features = model(waveforms)
    features.pow(3).sum().backward()
    remaining = copy.deepcopy(model)
    transformer = remaining.model.encoder.transformer
    del transformer.layers[:2]
    remaining.layers = 1
    remaining.layer_drop = 0.0
    last = remaining.layer_outputs(waveforms)[-1]
    assert torch.equal(transformer.layer_norm(last), features)
    for number, layer in enumerate(model.model.encoder.transformer.layers):
        for name, parameter in layer.named_parameters():
            assert parameter.grad is not None
            # A key's bias never changes an attention.
            if not name.endswith("k_proj.bias"):
                assert bool(parameter.grad.any()) != dropped[number], (number, name)


def test_nothing_is_dropped_in_evaluation_or_while_frozen(waveforms):
    expected = front_end().eval()(waveforms)
    assert torch.equal(front_end(layer_drop=1.0).eval()(waveforms), expected)
    assert torch.equal(front_end(layer_drop=1.0, frozen=True).train()(waveforms), expected)
    assert not torch.allclose(front_end(layer_drop=1.0).train()(waveforms), expected)


def test_wavlms_first_layer_is_never_dropped_for_the_position_biases_of_the_others(waveforms):
    model = front_end(WAVLM, layer_drop=1.0).train()
    model(waveforms).pow(3).sum().backward()
    first, *others = model.model.encoder.transformer.layers
    assert names_without_gradient(model) == []
    assert first.attention.rel_attn_embed.weight.grad.abs().max() > 0
    for layer in others:
        assert max_gradient(gradients_by_name(layer).values()) == 0


@pytest.mark.parametrize("architecture", [PRE_NORM, WAVLM], ids=["wav2vec2", "wavlm"])
def test_recomputing_layers_that_are_dropped_changes_nothing_but_rounding(architecture, waveforms):
    gradients = []
    for recompute in (False, True):
        model = front_end(
            architecture, layer_drop=0.4, dropout=0.2, gradient_checkpointing=recompute
        ).train()
        torch.manual_seed(5)
        model(waveforms).square().mean().backward()
        gradients.append(list(gradients_by_name(model).values()))
    # The stem's are summed over the batch in another order; some of its sums all but cancel out.
    rounding = 3e-6 * max_gradient(gradients[0])
    for plain, saving in zip(*gradients, strict=True):
        torch.testing.assert_close(saving, plain, rtol=1e-4, atol=rounding)
