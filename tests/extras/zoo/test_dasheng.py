"""Dasheng equals its authors' code, from both layouts of weights; and what a front end keeps."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from asdf.errors import AsdfError
from asdf.extras.zoo.networks.dasheng import DashengSizes
from asdf.interchange import build_pretrained
from asdf.networks import build_network
from asdf.settings.sections import Sections
from tests.unit.networks.inspection import trainable_names
from tests.unit.networks.official import official_case

TINY = DashengSizes(layers=3, dimension=16, heads=2, feed_forward=24, positions=4)
ENCODER = {
    "embed_dim": 16,
    "depth": 3,
    "num_heads": 2,
    "mlp_ratio": 1.5,
    "target_length": 16,
    "patch_size": [64, 4],
    "patch_stride": [64, 4],
}
POSITIONS = "encoder.time_pos_embed"


def write_published(folder, encoder=None, model_type="dasheng", **layers) -> str:
    """A folder of the hub, which holds no filter bank, and layers behind a prefix."""
    state = {f"encoder.{name}": tensor for name, tensor in official_case("dasheng").state.items()}
    config = {
        "model_type": model_type,
        "name": "dasheng-base",
        "loss": "BCELoss",
        "encoder_kwargs": {**ENCODER, **(encoder or {})},
        "auto_map": {"AutoModel": "modeling_dasheng.DashengModel"},
    }
    folder.mkdir()
    save_file({**state, **layers}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def write_file(path, **config) -> str:
    """A file of the package, with the filter bank and counts of batches that torchaudio keeps."""
    state = {
        **official_case("dasheng").state,
        "front_end.0.spectrogram.window": torch.hann_window(512),
        "init_bn.1.num_batches_tracked": torch.tensor(7),
    }
    content = {"model": state, "config": {**ENCODER, "patch_size": (64, 4), **config}}
    torch.save(content, path)
    return str(path)


def tiny_settings(weights: str | None = None) -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_ASP"
    settings.front_end.front_end_class = "dasheng"
    if weights is None:
        settings.front_end.architecture = TINY.to_text()
    settings.front_end.weights = weights
    return settings


@pytest.mark.parametrize("write", [write_published, write_file])
def test_published_weights_give_the_authors_features_of_every_layer(write, tmp_path):
    """In 7 chunks, with silence that the range of 120 dB cuts off, and a last frame left over."""
    case = official_case("dasheng")
    # The sizes are those of the weights.
    network = build_pretrained(tiny_settings(write(tmp_path / "weights"))).eval()
    front_end = network.front_end
    assert front_end.sizes == TINY
    bank = front_end.model.filter_bank(case.inputs)
    torch.testing.assert_close(bank[:, 50:80], case.outputs["filter_bank"], rtol=0, atol=1e-3)
    states = torch.stack(front_end.hidden_states(case.inputs))
    expected = case.outputs["states"]
    assert states.shape == expected.shape == (4, 1, 25, 16)
    torch.testing.assert_close(states, expected, rtol=0, atol=5e-4)
    assert torch.equal(front_end(case.inputs), states[-1])
    # Short of the last layer there is no final norm.
    settings = tiny_settings(write(tmp_path / "again"))
    settings.front_end.layer = 2
    second = build_pretrained(settings).eval().front_end(case.inputs)
    torch.testing.assert_close(second, expected[2], rtol=0, atol=5e-4)


def test_chunks_do_not_attend_to_each_other():
    """A change in the second chunk changes no patch of the others, but for its mirrored edges."""
    torch.manual_seed(0)
    front_end = build_network(tiny_settings()).eval().front_end
    waveforms = 0.1 * torch.randn(1, 8000)
    changed = waveforms.clone()
    # Patches 5 and 6 of 12 are of windows from 2944 to 4736.
    changed[:, 3400:3800] *= 2
    with torch.no_grad():
        difference = (front_end(changed) - front_end(waveforms)).abs().amax(dim=(0, 2))
    assert (difference[4:8] > 1e-4).all()
    assert difference[:4].eq(0).all() and difference[8:].eq(0).all()


@pytest.mark.parametrize(
    ("encoder", "layers", "message"),
    [
        ({"patch_stride": [32, 4]}, {}, r"has patch_stride = \[32, 4\] .* ASDF supports \[64, 4\]"),
        ({"pooling": "token"}, {}, "has pooling = 'token'"),
        ({"num_heads": 3}, {}, "is invalid: heads = 3 does not match the other sizes"),
        ({"depth": "x"}, {}, "is invalid"),
        ({"depth": 90000}, {}, "states 90,000 layers of 16 and 24 values, but its weights have 3"),
        ({"mlp_ratio": 2.0}, {}, r"16 and 32 values, .* the first of \(24, 16\)"),
        ({}, {"encoder.norm.weight": torch.zeros(2)}, r"1 of another shape: norm\.weight"),
        ({}, {"encoder.cls_token": torch.zeros(2)}, "1 unknown to the network: cls_token"),
    ],
)
def test_folders_that_are_others_are_refused(encoder, layers, message, tmp_path):
    folder = write_published(tmp_path / "dasheng", encoder, **layers)
    with pytest.raises(AsdfError, match=message):
        build_pretrained(tiny_settings(folder))


def test_what_is_none_is_refused_and_dasheng_is_told_apart(tmp_path):
    for write in (write_published, write_file):
        settings = tiny_settings(write(tmp_path / write.__name__))
        settings.front_end.front_end_class = None
        with pytest.raises(AsdfError, match=r"[Ss]et front_end\.front_end_class = 'dasheng'"):
            build_pretrained(settings)
    folder = write_published(tmp_path / "other", model_type="ced")
    with pytest.raises(AsdfError, match="is of the model type 'ced', not Dasheng"):
        build_pretrained(tiny_settings(folder))
    torch.save({"model": {"x": torch.zeros(1)}}, tmp_path / "x.pt")
    with pytest.raises(AsdfError, match="are not Dasheng's: a folder of the hub has"):
        build_pretrained(tiny_settings(str(tmp_path / "x.pt")))


def test_heads_that_a_file_does_not_state_are_the_authors(tmp_path):
    path = write_file(tmp_path / "base.pt")
    content = torch.load(path)
    del content["config"]["num_heads"]
    torch.save(content, path)
    # Of 16 values none are published: 12 is the base network's, which 16 does not divide into.
    with pytest.raises(AsdfError, match="heads = 12 does not match"):
        build_pretrained(tiny_settings(path))


def test_lengths_and_independence_of_utterances():
    torch.manual_seed(0)
    waveforms = 0.1 * torch.randn(2, 12000)
    waveforms[0] *= 50
    front_end = build_network(tiny_settings()).eval().front_end
    for samples, frames in ((480, 1), (1119, 1), (1120, 2), (12000, 19)):
        features = front_end(waveforms[:, :samples])
        assert features.shape == (2, frames, 16) and front_end.frames(samples) == frames
        assert front_end.min_samples(frames) <= samples
        assert front_end.scoring_length(samples) == samples
    # The strongest band is that of each recording, and not of its batch.
    torch.testing.assert_close(front_end(waveforms[1:]), features[1:], rtol=0, atol=1e-5)


def test_frames_follow_each_other_so_that_they_can_be_localised():
    settings = tiny_settings()
    settings.network.network_class = "asdf.networks.SSL_Linear"
    settings.localisation.enabled = True
    front_end = build_network(settings).front_end
    assert (front_end.hop, front_end.frames(16000)) == (640, 25)


def test_statistics_of_bands_stay_in_training():
    network = build_network(tiny_settings()).train()
    norm = network.front_end.model.band_norm
    network(torch.randn(2, 4000))
    assert torch.equal(norm.running_mean, torch.zeros(64))
    assert not any("running" in name for name in trainable_names(network))
