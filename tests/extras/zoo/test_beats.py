"""BEATs equals its authors' code, from a file in their layout; and what a front end has to keep."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import torch

from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.networks.beats import BEATsSizes
from asdf.interchange import build_pretrained
from asdf.networks import BEATsFrontEnd, build_network
from asdf.settings.sections import Lora, Sections
from tests.unit.networks.inspection import names_with_gradient, trainable_names
from tests.unit.networks.official import official_case

TINY = BEATsSizes(
    layers=3,
    dimension=16,
    heads=2,
    feed_forward=24,
    patch_dimension=8,
    pos_conv_kernel=16,
    pos_conv_groups=4,
    buckets=16,
    max_distance=40,
)
CONFIG = {
    "input_patch_size": 16,
    "embed_dim": 8,
    "conv_bias": False,
    "encoder_layers": 3,
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24,
    "encoder_attention_heads": 2,
    "activation_fn": "gelu",
    "layer_norm_first": False,
    "deep_norm": True,
    "conv_pos": 16,
    "conv_pos_groups": 4,
    "relative_position_embedding": True,
    "num_buckets": 16,
    "max_distance": 40,
    "gru_rel_pos": True,
    "finetuned_model": False,
}
BIASES = "self_attn.relative_attention_bias.weight"


def published_state() -> dict[str, torch.Tensor]:
    state = official_case("beats").state
    # The authors' layers share the first one's biases, and their files repeat them.
    for layer in (1, 2):
        state[f"encoder.layers.{layer}.{BIASES}"] = state[f"encoder.layers.0.{BIASES}"]
    return state


def write_published(path, config=None, **layers) -> str:
    content = {"cfg": {**CONFIG, **(config or {})}, "model": {**published_state(), **layers}}
    torch.save(content, path)
    return str(path)


def tiny_settings(weights: str | None = None) -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_ASP"
    settings.front_end.front_end_class = "beats"
    settings.front_end.architecture = TINY.to_text()
    settings.front_end.weights = weights
    return settings


def test_a_published_file_gives_the_authors_features_of_every_layer(tmp_path):
    case = official_case("beats")
    network = build_pretrained(tiny_settings(write_published(tmp_path / "beats.pt"))).eval()
    front_end = network.front_end
    bank = front_end.model.filter_bank(case.inputs)
    torch.testing.assert_close(bank[:, :20], case.outputs["filter_bank"], rtol=0, atol=1e-4)
    states = front_end.hidden_states(case.inputs)
    assert len(states) == 4 and states[0].shape == (1, 24, 16)
    torch.testing.assert_close(torch.stack(states), case.outputs["states"], rtol=0, atol=2e-4)
    assert torch.equal(front_end(case.inputs), states[-1])


def test_a_fine_tuned_file_is_read_without_its_head(tmp_path):
    head = {"predictor.weight": torch.zeros(527, 16), "predictor.bias": torch.zeros(527)}
    path = write_published(tmp_path / "tuned.pt", {"finetuned_model": True}, **head)
    whole = build_pretrained(tiny_settings(path))
    plain = build_pretrained(tiny_settings(write_published(tmp_path / "plain.pt")))
    state = whole.front_end.state_dict()
    for name, value in plain.front_end.state_dict().items():
        assert torch.equal(value, state[name])


@pytest.mark.parametrize(
    ("config", "layers", "message"),
    [
        ({"encoder_layers": 4}, {}, "states 4 layers of 16 and 24 values, but its weights have 3"),
        ({"layer_norm_first": True}, {}, "has layer_norm_first = True in its configuration"),
        ({"max_distance": None}, {}, "its configuration lacks the number max_distance"),
        ({}, {"decoder.weight": torch.zeros(2)}, r"1 unknown to the network: decoder\.weight"),
        (
            {},
            {f"encoder.layers.2.{BIASES}": torch.zeros(16, 2)},
            "1 unknown to the network: layers.2.attention.relative",
        ),
    ],
)
def test_files_that_are_others_are_refused(config, layers, message, tmp_path):
    path = write_published(tmp_path / "beats.pt", config, **layers)
    with pytest.raises(AsdfError, match=message):
        build_pretrained(tiny_settings(path))


def test_files_of_other_networks_are_told_apart(tmp_path):
    settings = tiny_settings(write_published(tmp_path / "beats.pt"))
    settings.front_end.front_end_class = None
    settings.front_end.architecture = "tiny"
    with pytest.raises(
        AsdfError, match=r"not of the wav2vec 2.0 family. Set front_end\.front_end_class = 'beats'"
    ):
        build_pretrained(settings)
    torch.save({"model": {"a": torch.zeros(2)}}, tmp_path / "other.pt")
    with pytest.raises(AsdfError, match="is not a BEATs file: it lacks the configuration"):
        build_pretrained(tiny_settings(str(tmp_path / "other.pt")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'layers': 2}", "is not the literal of BEATs' sizes"),
        ('{"depth": 2}', "is not the literal of BEATs' sizes"),
        ('{"layers": 0}', r"is not the literal of BEATs' sizes \(layers is 0\)"),
        ('{"heads": 5}', "heads = 5 does not match the other sizes"),
        ('{"patch": 30}', "patch = 30 does not match the other sizes"),
        ('{"deep_norm": 1}', "deep_norm is 1"),
        ('{"buckets": 3200}', "buckets = 3200 does not match the other sizes"),
    ],
)
def test_sizes_that_no_network_has_are_refused(text, message):
    settings = replace(tiny_settings().front_end, architecture=text)
    with pytest.raises(UsageError, match=message):
        BEATsFrontEnd(settings)
    assert BEATsSizes.from_text(json.dumps(asdict(TINY))) == TINY


def test_lengths_and_independence_of_utterances():
    torch.manual_seed(0)
    waveforms = 0.1 * torch.randn(2, 12000)
    front_end = build_network(tiny_settings()).eval().front_end
    assert (front_end.window, front_end.hop) == (2800, 320)
    for samples, patches in ((2800, 8), (5359, 8), (5360, 16), (12000, 32)):
        features = front_end(waveforms[:, :samples])
        assert features.shape == (2, front_end.frames(samples), 16) and features.shape[1] == patches
        used = front_end.scoring_length(samples)
        torch.testing.assert_close(front_end(waveforms[:, :used]), features, rtol=0, atol=1e-5)
        assert front_end.min_samples(patches) == used
    features = front_end(waveforms)
    torch.testing.assert_close(front_end(waveforms[1:]), features[1:], rtol=0, atol=1e-5)


@pytest.mark.parametrize("back_end", ["aasist", "mhfa", "lcnn", "linear"])
@pytest.mark.parametrize("recompute", [False, True])
def test_all_of_it_learns_before_back_ends(back_end, recompute):
    settings = tiny_settings()
    settings.network.network_class = "asdf.networks.ComposedDetector"
    settings.back_end.back_end_class = back_end
    settings.front_end.gradient_checkpointing = recompute
    settings.front_end.layer_drop = 0.5
    settings.front_end.time_mask_proportion = 0.2
    network = build_network(settings).train()
    network(0.1 * torch.randn(2, 12000))[1].square().sum().backward()
    assert names_with_gradient(network) == trainable_names(network)


def test_fewer_layers_parts_and_updates():
    torch.manual_seed(0)
    waveforms = 0.1 * torch.randn(2, 8000)
    settings = tiny_settings()
    settings.front_end.layer = 2
    settings.front_end.trained_parts = ("positions", "layers:2-2")
    settings.lora = Lora(rank=2)
    network = build_network(settings).train()
    network(waveforms)[1].square().sum().backward()
    assert names_with_gradient(network) == trainable_names(network)
    names = {name for name in trainable_names(network) if name.startswith("front_end.")}
    assert any("pos" in name for name in names) and not any(".layers.2." in name for name in names)
    assert any("q_proj.lora_A" in name for name in names)
    assert not any("pos_gate.lora" in name for name in names)
    layer = network.front_end.layer_modules()[0]
    seen = []
    layer.attention.register_forward_pre_hook(lambda _, args: seen.append(args[1].shape))
    network.eval()(waveforms)
    # Three columns of eight patches.
    assert seen == [(1, 2, 24, 24)]


def test_frames_are_no_times():
    settings = tiny_settings()
    settings.localisation.enabled = True
    with pytest.raises(UsageError, match="are patches of time and frequency, which do not"):
        build_network(settings)
