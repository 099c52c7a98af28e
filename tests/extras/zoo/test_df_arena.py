"""DF-Arena's detectors equal the published classes, in and out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from asdf.__main__ import main
from asdf.checkpoint.network_reading import read_safetensors, write_safetensors
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.importing import import_detector
from asdf.networks import SSL_GatedConformer
from asdf.networks.casting import without_numbers
from asdf.networks.front_ends.architectures import KNOWN
from asdf.settings.sections import Sections
from asdf.shipped import NETWORK
from tests.unit.networks.inspection import count_parameters
from tests.unit.networks.official import official_case

SMALL = {
    "front_end.architecture": str(
        {
            "conv_layers": ((16, 10, 5), *[(16, 3, 2)] * 4, *[(16, 2, 2)] * 2),
            "extractor_mode": "layer_norm",
            "conv_bias": True,
            "dimension": 32,
            "layers": 3,
            "heads": 4,
            "feed_forward": 48,
            "layer_norm_first": True,
            "pos_conv_kernel": 16,
            "pos_conv_groups": 4,
        }
    )
}
CONFIG = {
    "architectures": ["DF-Arena-1B-V0.1"],
    "model_type": "antispoofing",
    "id2label": {"1": "bonafide", "0": "spoof"},
    "auto_map": {"AutoModel": "modeling_antispoofing.DF_Arena_1B_Antispoofing"},
}


@pytest.fixture
def published(tmp_path) -> Path:
    """The folder of a small one, with the positions that its files hold."""
    state = official_case("df_arena").state
    state["backbone.conformer.positional_emb"] = torch.zeros(1, 10_000, 32)
    state["backbone.ssl_model.masked_spec_embed"] = torch.ones(32)
    for block in range(4):
        state[f"backbone.conformer.encoder_blocks.{block}.conv.net.5.num_batches_tracked"] = (
            torch.tensor(3)
        )
    state["backbone.first_bn.num_batches_tracked"] = torch.tensor(3)
    folder = tmp_path / "hub"
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", state, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def test_it_scores_as_the_published_classes(published):
    case = official_case("df_arena")
    read = import_detector(published, SMALL)
    with torch.no_grad():
        logits = read.network(case.inputs)[1]
        short = read.network(case.inputs[:, :3000])[1]
    assert case.outputs["logits"].std() > 0.1
    torch.testing.assert_close(logits, case.outputs["logits"], rtol=0, atol=2e-5)
    torch.testing.assert_close(short, case.outputs["short"], rtol=0, atol=2e-5)
    notes = "\n".join(read.recognised.notes)
    assert "scored, as published: first 64,600 samples" in notes
    settings = read.file.to_sections()
    assert settings.network.score == "difference"
    assert settings.front_end.normalize_waveforms is False
    assert settings.back_end.conformer_kernel == 31


def test_layers_may_have_no_wrapper_and_all_have_to_be_there(published, tmp_path):
    state, _ = read_safetensors(published / "model.safetensors")
    # As the class without the wrapper saves them.
    bare = {layer.removeprefix("backbone."): tensor for layer, tensor in state.items()}
    torch.save(bare, tmp_path / "model.pt")
    network = import_detector(tmp_path / "model.pt", SMALL).network
    wrapped = import_detector(published, SMALL).network
    torch.testing.assert_close(network.state_dict(), wrapped.state_dict(), rtol=0, atol=0)
    # What is there besides, or missing, is named as the file names it.
    write_safetensors(published / "model.safetensors", {**state, "decay": torch.zeros(1)}, {})
    with pytest.raises(AsdfError, match="1 unknown to the network: decay"):
        import_detector(published, SMALL)
    missing = "backbone.ssl_model.encoder.layers.2.attention.k_proj.weight"
    del state[missing]
    write_safetensors(published / "model.safetensors", state, {"format": "pt"})
    with pytest.raises(AsdfError, match=f"1 missing from the file: {re.escape(missing)}\\."):
        import_detector(published, SMALL)


@pytest.mark.slow_but("back.pth")
@pytest.mark.parametrize("name", ["back.safetensors", "back.pth"])
def test_it_goes_out_as_it_came(name, published, tmp_path, capsys):
    words = [published, tmp_path / "net.pt", f"front_end.architecture={SMALL[next(iter(SMALL))]}"]
    assert main(["import", *map(str, words)]) == 0
    words = [tmp_path / "net.pt", "--format", "df_arena", "-o", tmp_path / name]
    assert main(["export", *map(str, words)]) == 0
    assert "does not include DF-Arena's config.json and code" in capsys.readouterr().out
    if name.endswith(".pth"):
        back = torch.load(tmp_path / name, weights_only=True)
    else:
        back, _ = read_safetensors(tmp_path / name)
    first, _ = read_safetensors(published / "model.safetensors")
    # The vector of masked frames is of the pretraining.
    assert set(first) - set(back) == {"backbone.ssl_model.masked_spec_embed"}
    assert not set(back) - set(first)
    for layer, tensor in back.items():
        if not layer.endswith("positional_emb"):
            assert torch.equal(tensor, first[layer]), layer
    # Published files hold these sines and cosines, of which the test's have zeros.
    positions = back["backbone.conformer.positional_emb"]
    assert positions.shape == (1, 10_000, 32)
    assert positions[0, 3, :2].tolist() == pytest.approx([0.14112, -0.98999], abs=1e-5)


def test_another_network_has_no_such_layout(tmp_path, capsys):
    words = [str(NETWORK), "--format", "df_arena", "-o", str(tmp_path / "out.pth")]
    assert main(["export", *words]) == 1
    assert "ComposedDetector has no layout df_arena" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("architecture", "millions"), [("wav2vec2_xlsr_300m", 436), ("wav2vec2_xlsr_1b", 1148)]
)
def test_the_sizes_are_the_published_ones(architecture, millions):
    """The Arena states them with the 10,000 positions that its files hold."""
    settings = Sections()
    settings.front_end.architecture = architecture
    with without_numbers():
        network = SSL_GatedConformer(settings)
    positions = 10_000 * KNOWN[architecture].dimension
    assert round((count_parameters(network) + positions) / 1e6) == millions
