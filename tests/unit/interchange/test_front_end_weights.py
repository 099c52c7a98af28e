"""Loading a front end's weights: every layer, or an error that names the layers."""

from __future__ import annotations

import argparse
import logging
from dataclasses import replace

import pytest
import torch

from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.importing import load_detector_weights
from asdf.interchange import build_front_end, build_pretrained
from asdf.interchange.fairseq import architecture_from_options, conv_layers
from asdf.interchange.front_end_weights import read_front_end_weights
from asdf.networks import SSL_AASIST, Wav2Vec2FrontEnd
from asdf.networks.front_ends.architectures import KNOWN
from asdf.settings.sections import FrontEnd, Sections


@pytest.fixture
def checkpoint(reference):
    return torch.load(reference("fairseq_xlsr_like.pt"), weights_only=True)


@pytest.fixture
def expected(reference, recorded):
    """What the checkpoint's features are."""
    return recorded("fairseq_xlsr_like.npz")


def load(content, tmp_path, **settings) -> Wav2Vec2FrontEnd:
    torch.save(content, tmp_path / "weights.pt")
    return build_front_end(FrontEnd(weights=str(tmp_path / "weights.pt"), **settings)).eval()


def check(model, expected):
    with torch.no_grad():
        torch.testing.assert_close(
            model(expected["waveforms"]), expected["features"], atol=3e-5, rtol=0
        )


def test_options_of_older_and_of_fine_tuned_networks_are_read(checkpoint, expected, tmp_path):
    options = checkpoint["cfg"]["model"]
    stated = architecture_from_options(checkpoint)
    assert stated is not None
    # As a truth value, since the literal stands in network files.
    assert "'layer_norm_first': True" in stated.to_text()
    for content in (
        {"args": argparse.Namespace(**options), "cfg": None},
        {"cfg": {"model": argparse.Namespace(**options)}},
        {"cfg": {"model": {"_name": "wav2vec_ctc", "w2v_args": {"model": options}}}},
        {"args": argparse.Namespace(w2v_args=argparse.Namespace(**options))},
    ):
        assert architecture_from_options(content) == stated
    assert architecture_from_options({"model": {}}) is None
    fine_tuned = {
        f"w2v_encoder.w2v_model.{name}": tensor for name, tensor in checkpoint["model"].items()
    }
    fine_tuned["w2v_encoder.proj.weight"] = torch.zeros(3, 48)
    check(load({**checkpoint, "model": fine_tuned}, tmp_path), expected)


def test_published_detectors_lend_their_front_end(checkpoint, expected, tmp_path, caplog):
    state = {
        f"module.ssl_model.model.{name}": tensor for name, tensor in checkpoint["model"].items()
    }
    state["module.LL.weight"] = torch.zeros(128, 48)
    architecture = architecture_from_options(checkpoint)
    assert architecture is not None
    with caplog.at_level(logging.INFO, logger="asdf"):
        check(load(state, tmp_path, architecture=architecture.to_text()), expected)
    assert "mask_emb, quantizer.*, project_q.*, final_proj.*, LL.weight" in caplog.text


@pytest.mark.parametrize("old_names", [False, True])
def test_torchaudios_state_dicts_load(old_names, tmp_path, waveforms):
    torch.manual_seed(0)
    model = Wav2Vec2FrontEnd(FrontEnd(architecture="tiny")).eval()
    state = {**model.model.state_dict(), "aux.weight": torch.zeros(3, 64)}
    if old_names:
        for new, old in (
            ("parametrizations.weight.original0", "weight_g"),
            ("parametrizations.weight.original1", "weight_v"),
        ):
            prefix = "encoder.transformer.pos_conv_embed.conv."
            state[prefix + old] = state.pop(prefix + new)
    loaded = load(state, tmp_path, architecture="small")
    assert loaded.architecture == KNOWN["tiny"]
    with torch.no_grad():
        assert torch.equal(loaded(waveforms), model(waveforms))


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        ("1.fc2.weight", None, r"1 missing from the file: \S*s\.1\.feed_forward\.output_dense\.w"),
        ("0.fc1.weight", (95, 48), r"s\.0\.\S*intermediate_dense\.weight \(95x48 in the file, 96x"),
        ("0.lora.W_a", (2,), r"1 unknown to the network: encoder\.layers\.0\.lora\.W_a"),
    ],
)
def test_layers_that_do_not_fit_are_named(checkpoint, tmp_path, layer, shape, message):
    name = f"encoder.layers.{layer}"
    if shape is None:
        del checkpoint["model"][name]
    else:
        checkpoint["model"][name] = torch.zeros(shape)
    with pytest.raises(AsdfError, match=message):
        load(checkpoint, tmp_path)


def test_weights_of_another_architecture_are_refused(checkpoint, tmp_path):
    with pytest.raises(AsdfError, match=r"and \d+ more"):
        load(checkpoint["model"], tmp_path, architecture="tiny")


def test_a_file_without_a_front_end_is_reported(tmp_path):
    with pytest.raises(
        AsdfError, match=r"should hold one wav2vec 2\.0 front end; it holds layers a, b"
    ):
        load({"a": torch.zeros(1), "b": torch.zeros(1)}, tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("activation_fn", "relu"), ("layer_type", "conformer"), ("pos_conv_depth", 5)],
)
def test_options_that_the_network_cannot_follow_are_reported(name, value, checkpoint, tmp_path):
    checkpoint["cfg"]["model"][name] = value
    with pytest.raises(
        AsdfError, match=f"weights.pt cannot be used: its option {name} is {value!r}"
    ):
        load(checkpoint, tmp_path)


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        (
            "[(512, 10, 5)] + [(512, 3, 2)] * 2 + [(512,2,2)]",
            ((512, 10, 5), (512, 3, 2), (512, 3, 2), (512, 2, 2)),
        ),
        ("[(8, 10, 5), (4, 3, 2)]", ((8, 10, 5), (4, 3, 2))),
    ],
)
def test_conv_layers_are_read(text, layers):
    assert conv_layers(text) == layers


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "[(1, 2, 3)] * 10**9",
        "[(1, 2)]",
        "[(1, 2, 0)]",
        "[(1, 2, 'a')]",
        "[]",
        "[(",
    ],
)
def test_conv_layers_are_not_run(text):
    with pytest.raises((ValueError, SyntaxError)):
        conv_layers(text)


def test_conv_layers_that_cannot_be_read_are_reported(checkpoint, tmp_path):
    checkpoint["cfg"]["model"]["conv_feature_layers"] = "[("
    with pytest.raises(AsdfError, match="its options are invalid"):
        load(checkpoint, tmp_path)


def test_half_precision_weights_are_loaded_in_full_precision(checkpoint, tmp_path):
    state = {name: tensor.half() for name, tensor in checkpoint["model"].items()}
    model = load({**checkpoint, "model": state}, tmp_path)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    loaded = model.model.encoder.feature_projection.projection.weight
    assert torch.equal(loaded, state["post_extract_proj.weight"].float())


def test_the_back_end_is_the_same_with_and_without_pretrained_weights(reference):
    settings = Sections()
    settings.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    torch.manual_seed(3)
    pretrained = build_pretrained(settings)
    settings.front_end = replace(
        settings.front_end, weights=None, architecture=pretrained.front_end.architecture.to_text()
    )
    torch.manual_seed(3)
    afresh = SSL_AASIST(settings)
    for name, tensor in pretrained.back_end.state_dict().items():
        assert torch.equal(tensor, afresh.back_end.state_dict()[name]), name
    weight = "front_end.model.encoder.feature_projection.projection.weight"
    assert not torch.equal(pretrained.state_dict()[weight], afresh.state_dict()[weight])


def test_a_networks_own_state_dict_loads(tiny, tmp_path, waveforms):
    torch.manual_seed(1)
    network = SSL_AASIST(tiny).eval()
    torch.save({"network": network.state_dict(), "epoch": 3}, tmp_path / "epoch.3.pt")
    torch.manual_seed(2)
    other = SSL_AASIST(tiny).eval()
    assert load_detector_weights(other, tmp_path / "epoch.3.pt") == ()
    assert torch.equal(other(waveforms)[1], network(waveforms)[1])
    weights = read_front_end_weights(str(tmp_path / "epoch.3.pt"), KNOWN["tiny"])
    assert torch.equal(
        weights.layers["encoder.feature_projection.projection.weight"],
        network.front_end.model.encoder.feature_projection.projection.weight,
    )


def test_a_detector_that_does_not_fit_is_left_as_it_was(tiny, reference):
    network = SSL_AASIST(tiny)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    with pytest.raises(AsdfError, match="do not fit SSL_AASIST; nothing was loaded"):
        load_detector_weights(network, reference("AASIST-L.pth"))
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
