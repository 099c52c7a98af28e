"""EAT equals its authors' code, from a folder in their layout; and what a front end has to keep."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from asdf.errors import AsdfError
from asdf.extras.zoo.networks.eat import EATSizes, make_positions
from asdf.interchange import build_pretrained
from asdf.networks import build_network
from asdf.settings.sections import Sections
from tests.unit.networks.official import official_case

TINY = EATSizes(layers=3, dimension=16, heads=2, feed_forward=24)
CONFIG = {
    "model_type": "eat",
    "embed_dim": 16,
    "depth": 3,
    "num_heads": 2,
    "mlp_ratio": 1.5,
    "patch_size": 16,
    "stride": 16,
    "mel_bins": 128,
    "layer_norm_first": False,
    "auto_map": {"AutoModel": "modeling_eat.EATModel"},
}
POSITIONS = "model.fixed_positional_encoder.positions"


def write_published(folder, config=None, **layers) -> str:
    case = official_case("eat")
    state = {**case.state, POSITIONS: case.outputs["positions"], **layers}
    folder.mkdir()
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    return str(folder)


def tiny_settings(weights: str | None = None) -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_ASP"
    settings.front_end.front_end_class = "eat"
    if weights is None:
        settings.front_end.architecture = TINY.to_text()
    settings.front_end.weights = weights
    return settings


def test_a_published_folder_gives_the_authors_features_of_every_layer(tmp_path):
    case = official_case("eat")
    # The sizes are the folder's.
    network = build_pretrained(tiny_settings(write_published(tmp_path / "eat"))).eval()
    front_end = network.front_end
    assert front_end.sizes == TINY
    bank = front_end.model.filter_bank(case.inputs)
    torch.testing.assert_close(bank[:, :20], case.outputs["filter_bank"], rtol=0, atol=1e-4)
    states = torch.stack(front_end.hidden_states(case.inputs))
    # Without the token of the whole recording, which is first.
    expected = case.outputs["states"][:, :, 1:]
    assert states.shape == expected.shape == (4, 1, 24, 16)
    torch.testing.assert_close(states, expected, rtol=0, atol=2e-4)
    assert torch.equal(front_end(case.inputs), states[-1])


def test_positions_are_those_of_the_file_and_go_on():
    positions = official_case("eat").outputs["positions"][0]
    ours = make_positions(TINY, 20, torch.device("cpu"))
    torch.testing.assert_close(ours[: len(positions)], positions, rtol=0, atol=1e-5)
    assert len(ours) == 160


def test_a_fine_tuned_folder_is_read_without_its_head(tmp_path):
    head = {"model.head.weight": torch.zeros(5, 16), "model.fc_norm.bias": torch.zeros(16)}
    tuned = write_published(tmp_path / "tuned", {"model_variant": "finetune"}, **head)
    whole = build_pretrained(tiny_settings(tuned))
    plain = build_pretrained(tiny_settings(write_published(tmp_path / "plain")))
    state = whole.front_end.state_dict()
    for name, value in plain.front_end.state_dict().items():
        assert torch.equal(value, state[name])


@pytest.mark.parametrize(
    ("config", "layers", "message"),
    [
        ({"model_type": "hubert"}, {}, "is of the model type 'hubert', not EAT"),
        ({"layer_norm_first": True}, {}, "has layer_norm_first = True in its config"),
        ({"num_heads": 3}, {}, "is invalid: heads = 3 does not match the other sizes"),
        ({"depth": "x"}, {}, "is invalid"),
        ({"depth": 90000}, {}, "states 90,000 layers of 16 and 24 values, but its weights have 3"),
        ({"mlp_ratio": 2.0}, {}, r"16 and 32 values, .* the first of \(24, 16\)"),
        ({}, {"model.pre_norm.weight": torch.zeros(2)}, r"1 of another shape: pre_norm\.weight"),
        ({}, {"model.decoder": torch.zeros(2)}, "1 unknown to the network: decoder"),
        ({}, {POSITIONS: torch.zeros(1, 96, 16)}, "have positions other than EAT's sines"),
    ],
)
def test_folders_that_are_others_are_refused(config, layers, message, tmp_path):
    folder = write_published(tmp_path / "eat", config, **layers)
    with pytest.raises(AsdfError, match=message):
        build_pretrained(tiny_settings(folder))


def test_what_is_no_folder_is_refused_and_a_folder_is_told_apart(tmp_path):
    settings = tiny_settings(write_published(tmp_path / "folder"))
    settings.front_end.front_end_class = None
    with pytest.raises(AsdfError, match=r"Set front_end\.front_end_class = 'eat'"):
        build_pretrained(settings)
    with pytest.raises(AsdfError, match=r"are not a folder of EAT: it contains no config\.json"):
        build_pretrained(tiny_settings(str(tmp_path)))


def test_lengths_and_independence_of_utterances():
    torch.manual_seed(0)
    waveforms = 0.1 * torch.randn(2, 12000)
    front_end = build_network(tiny_settings()).eval().front_end
    for samples, patches in ((2800, 8), (5359, 8), (5360, 16), (12000, 32)):
        features = front_end(waveforms[:, :samples])
        assert features.shape == (2, patches, 16) and front_end.frames(samples) == patches
        used = front_end.scoring_length(samples)
        torch.testing.assert_close(front_end(waveforms[:, :used]), features, rtol=0, atol=1e-5)
    torch.testing.assert_close(front_end(waveforms[1:]), features[1:], rtol=0, atol=1e-5)
