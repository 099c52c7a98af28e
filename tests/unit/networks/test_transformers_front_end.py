"""The front end that transformers computes: all that front ends do, it does."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from asdf.errors import UsageError
from asdf.interchange import write_onnx, write_torchscript
from asdf.networks import TransformersFrontEnd, build_network
from asdf.networks.front_ends.transformers_config import read_config
from asdf.networks.output_check import check_outputs
from asdf.networks.split import FromFeatures, feature_identity
from asdf.networks.tuning import freeze_front_end
from asdf.settings.sections import FrontEnd, Sections
from tests.encoders import ENCODERS, config_text
from tests.unit.networks.inspection import (
    frozen_names,
    gradients_by_name,
    names_without_gradient,
    trainable_names,
)

# One of each way to compute: a layer norm at the end, position biases, and other inputs.
KINDS = ("wav2vec2", "wavlm", "wav2vec2-bert", "whisper")


def front_end(model_type: str, **settings) -> TransformersFrontEnd:
    torch.manual_seed(0)
    return TransformersFrontEnd(FrontEnd(architecture=config_text(model_type), **settings))


def detector(
    model_type: str, network: str = "SSL_ASP", text: str = "", **settings
) -> torch.nn.Module:
    sections = Sections()
    sections.network.network_class = f"asdf.networks.{network}"
    sections.front_end = FrontEnd(
        front_end_class="transformers", architecture=text or config_text(model_type), **settings
    )
    sections.back_end.sls_samples = 8000
    torch.manual_seed(0)
    return build_network(sections)


@pytest.mark.slow_but("unispeech-sat", "wav2vec2-bert", "whisper")
@pytest.mark.parametrize("model_type", ENCODERS)
def test_features_end_with_the_scoring_length(model_type, waveforms):
    model = front_end(model_type).eval()
    with torch.no_grad():
        for samples in (model.window, 1000, 5279, 5280, 7999):
            used = model.scoring_length(samples)
            features = model(waveforms[:, :samples])
            assert features.shape == (2, model.frames(samples), 24)
            assert used <= samples
            torch.testing.assert_close(model(waveforms[:, :used]), features, rtol=0, atol=3e-6)
            torch.testing.assert_close(
                model(waveforms[1:, :samples]), features[1:], rtol=0, atol=2e-5
            )


@pytest.mark.parametrize("model_type", KINDS)
def test_the_scoring_length_is_the_last_sample_that_features_depend_on(model_type, waveforms):
    model = front_end(model_type).eval()
    waveform_1T = waveforms[:1, :5200].clone().requires_grad_()
    model(waveform_1T).pow(3).sum().backward()
    assert waveform_1T.grad is not None
    assert model.scoring_length(5200) == int(waveform_1T.grad[0].nonzero().max()) + 1


def test_whisper_hears_more_than_30_s_in_parts(waveforms):
    model = front_end("whisper").eval()
    long_BT = torch.cat([waveforms, waveforms[:, :3000]], dim=1)
    with torch.no_grad():
        states = model.hidden_states(long_BT)
        first = model.hidden_states(waveforms)
        second = model.hidden_states(waveforms[:, :2880])
    assert states[0].shape == (2, 25 + 9, 24)
    for whole, start, end in zip(states, first, second, strict=True):
        torch.testing.assert_close(whole, torch.cat([start, end], dim=1), rtol=0, atol=1e-5)


@pytest.mark.slow_but("whisper-0", "whisper-2", "whisper-last")
@pytest.mark.parametrize("layer", ["last", 2, 0, "weighted"])
@pytest.mark.parametrize("model_type", KINDS)
def test_exactly_what_learns_gets_a_gradient(model_type, layer, waveforms):
    model = detector(model_type, layer=layer, dropout=0.1, time_mask_proportion=0.2).train()
    model(waveforms)[1].square().sum().backward()
    assert names_without_gradient(model) == frozen_names(model)
    if layer == 0:
        assert any(".layers.0." in name for name in frozen_names(model))
    is_fixed = model_type == "whisper"
    assert ("front_end.model.embed_positions.weight" in frozen_names(model)) == is_fixed


@pytest.mark.slow_but("whisper-SSL_AASIST", "whisper-SSL_MHFA", "whisper-SSL_SLS")
@pytest.mark.parametrize("network", ["SSL_MHFA", "SSL_SLS", "SSL_AASIST"])
@pytest.mark.parametrize("model_type", KINDS)
def test_it_goes_before_back_ends_that_take_layers(model_type, network, waveforms):
    model = detector(model_type, network).eval()
    logits = model(waveforms)[1]
    assert logits.shape == (2, 2) and torch.isfinite(logits).all()
    settings = Sections()
    settings.network.train_clip_size = 8000
    check_outputs(model, settings.network, torch.device("cpu"))


@pytest.mark.slow_but("whisper", "wavlm")
@pytest.mark.parametrize("model_type", (*KINDS, "parakeet_encoder"))
def test_frozen_it_does_not_change_and_its_features_can_be_cached(model_type, waveforms):
    model = detector(model_type, frozen=True, dropout=0.5, layer_drop=0.5).train()
    assert not any(name.startswith("front_end.") for name in trainable_names(model))
    features = model.front_end_features(waveforms)
    assert torch.equal(features, model.front_end_features(waveforms))
    torch.testing.assert_close(FromFeatures(model)(features)[1], model(waveforms)[1])
    identity = feature_identity(model)
    assert "transformers" in identity and identity["weights"]
    freeze_front_end(model, False)
    assert not torch.equal(model.front_end_features(waveforms), features)


@pytest.mark.slow_but("glmasr_encoder", "whisper")
@pytest.mark.parametrize("model_type", (*KINDS, "glmasr_encoder"))
def test_recomputed_layers_have_the_same_gradients(model_type, waveforms):
    gradients = []
    for recompute in (False, True):
        model = detector(model_type, gradient_checkpointing=recompute, dropout=0.2).train()
        torch.manual_seed(1)
        model(waveforms)[1].square().sum().backward()
        gradients.append(gradients_by_name(model))
    for name, expected in gradients[0].items():
        if expected is not None:
            torch.testing.assert_close(gradients[1][name], expected, rtol=0, atol=1e-6)


@pytest.mark.slow_but("whisper")
@pytest.mark.parametrize("model_type", KINDS)
def test_a_dropped_layer_passes_its_input_on_and_has_gradients_of_zeros(model_type, waveforms):
    model = front_end(model_type, layer_drop=1.0).train()
    states = model.hidden_states(waveforms)
    is_wavlm = model_type == "wavlm"
    assert torch.equal(states[1], states[0]) != is_wavlm
    assert torch.equal(states[2], states[1])
    states[2].square().sum().backward()
    gradients = [weight.grad for weight in model.layer_modules()[1].parameters()]
    zeros = [gradient is not None and not gradient.any() for gradient in gradients]
    # WavLM's later layers have gates of their own for the biases that the first one computes.
    assert all(zeros)
    kept = front_end(model_type).train()
    torch.testing.assert_close(kept(waveforms), front_end(model_type).eval()(waveforms))


@pytest.mark.slow_but("whisper")
@pytest.mark.parametrize("model_type", KINDS)
def test_masks_are_put_before_the_first_layer_in_training(model_type, waveforms):
    settings = {"time_mask_proportion": 0.5, "time_mask_length": 2}
    model = front_end(model_type, **settings)
    seen: list[Tensor] = []
    model.masking.register_forward_hook(lambda module, args, output: seen.append(output))
    masked_BLC = model.train()(waveforms)
    (output_BLC,) = seen
    assert (output_BLC == model.masking.embedding).all(dim=2).any()
    assert not torch.equal(masked_BLC, front_end(model_type).train()(waveforms))
    torch.testing.assert_close(model.eval()(waveforms), front_end(model_type).eval()(waveforms))


def test_parts_that_learn_are_named(waveforms):
    model = front_end("hubert", trained_parts=("layers:2-",))
    names = trainable_names(model)
    assert names and all(".layers.1." in name or ".layers.2." in name for name in names)
    model = front_end("whisper", trained_parts=("convolutions",))
    assert {name.split(".")[1] for name in trainable_names(model)} == {"conv1", "conv2"}


@pytest.mark.slow_but("whisper")
@pytest.mark.parametrize("model_type", ["hubert", "wav2vec2-bert", "whisper"])
def test_it_is_exported_as_a_graph(model_type, tmp_path):
    # Whisper's graphs take what it hears at once: here half a second, and 5 s in the second.
    network = detector(model_type).eval()
    # Both compare the graph with the network.
    write_torchscript(network, tmp_path / "net.ts", 4070)
    if model_type == "whisper":
        write_onnx(network, tmp_path / "net.onnx", 4070)
        text = config_text(model_type).replace('_positions": 25', '_positions": 250')
        network = detector(model_type, text=text).eval()
    assert "of any length" in write_onnx(network, tmp_path / "net.onnx")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "wav2vec2_xlsr_300m",
            "is not a configuration of transformers .* Set front_end.weights to",
        ),
        ("[1]", "it is not a dictionary"),
        (json.dumps({"model_type": "wav2vec"}), "not known. Did you mean 'wav2vec2'"),
        (
            json.dumps({"model_type": "hubert", "hidden_size": 10**9}),
            "hidden_size = 1000000000 exceeds",
        ),
        (
            json.dumps({"model_type": "whisper", "num_mel_bins": 5000}),
            "num_mel_bins = 5000 exceeds the limit of 2,048",
        ),
        (
            json.dumps({"model_type": "hubert", "hidden_size": 25}),
            "transformers cannot build an encoder from the configuration",
        ),
        (
            json.dumps({"model_type": "hubert", "hidden_size": "many"}),
            "transformers (rejects|cannot build an encoder from) the configuration",
        ),
    ],
)
def test_a_text_that_describes_no_encoder_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        TransformersFrontEnd(FrontEnd(architecture=text))


def test_a_configuration_chooses_neither_code_nor_training():
    config = {"model_type": "hubert", "auto_map": {}, "_attn_implementation": "x", "dtype": "half"}
    chosen = read_config(json.dumps({**config, "layerdrop": 0.5, "mask_time_prob": 0.9}))
    assert not {"auto_map", "_attn_implementation", "dtype"} & chosen.keys()
    assert chosen["layerdrop"] == 0 and chosen["mask_time_prob"] == 0
