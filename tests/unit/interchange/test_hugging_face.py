"""Hugging Face's front ends: the features of transformers, and messages for what is not read."""

from __future__ import annotations

import json
import logging
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from asdf.checkpoint.network_reading import read_safetensors, write_safetensors
from asdf.errors import AsdfError, UsageError
from asdf.interchange import build_front_end, build_pretrained
from asdf.networks import Wav2Vec2FrontEnd
from asdf.settings.sections import Audio, FrontEnd, Sections

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="in the test extra")

KINDS = {
    "wav2vec2": (transformers.Wav2Vec2Config, transformers.Wav2Vec2Model),
    "hubert": (transformers.HubertConfig, transformers.HubertModel),
    "wavlm": (transformers.WavLMConfig, transformers.WavLMModel),
}


def sizes(seed: int, pre_norm: bool) -> dict[str, object]:
    """A small configuration, drawn."""
    draw = np.random.default_rng(seed)
    heads, width = int(draw.choice([2, 4])), int(draw.choice([8, 16]))
    return {
        "hidden_size": heads * width,
        "num_attention_heads": heads,
        "num_hidden_layers": int(draw.integers(1, 4)),
        "intermediate_size": int(draw.choice([24, 48])),
        "conv_dim": [int(draw.choice([8, 16]))] * 7,
        "num_conv_pos_embeddings": int(draw.choice([16, 17, 32])),
        "num_conv_pos_embedding_groups": int(draw.choice([2, 4])),
        "conv_bias": bool(draw.integers(2)),
        "feat_extract_norm": "layer" if pre_norm else "group",
        "do_stable_layer_norm": pre_norm,
        "num_buckets": int(draw.choice([32, 320])),
        "max_bucket_distance": int(draw.choice([40, 800])),
    }


def make(kind: str, seed: int, pre_norm: bool) -> torch.nn.Module:
    """A network of transformers whose every weight is drawn, norms and biases too."""
    config, model = KINDS[kind]
    chosen = sizes(seed, pre_norm)
    if kind != "wavlm":
        del chosen["num_buckets"], chosen["max_bucket_distance"]
    torch.manual_seed(seed)
    network = model(config(**chosen)).eval()
    for name, parameter in network.named_parameters():
        if "norm" in name or "bias" in name or "gru" in name or "rel_attn" in name:
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return network


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder of a small WavLM."""
    make("wavlm", 1, True).save_pretrained(tmp_path / "wavlm")
    return tmp_path / "wavlm"


def build(path: Path | str, **settings) -> Wav2Vec2FrontEnd:
    return build_front_end(FrontEnd(weights=str(path), **settings)).eval()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("pre_norm", [False, True], ids=["group_norm", "layer_norm"])
@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_transformers(kind, pre_norm, seed, tmp_path, waveforms):
    network = make(kind, seed, pre_norm)
    network.save_pretrained(tmp_path)
    front_end = build(tmp_path)
    with torch.no_grad():
        expected = network(waveforms, output_hidden_states=True)
        features = front_end(waveforms)
        states = front_end.hidden_states(waveforms)
    assert features.std() > 0.1
    torch.testing.assert_close(features, expected.last_hidden_state, atol=1e-4, rtol=0)
    assert len(states) == len(expected.hidden_states)
    # Versions of transformers give the last state before or after the final norm.
    for ours, theirs in zip(states[:-1], expected.hidden_states[:-1], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_folder_of_mert_for_16_khz_is_read_as_the_hubert_that_it_is(
    pre_norm, tmp_path, waveforms
):
    """Without CQT and deep norm, MERT's own class computes what HubertModel does."""
    network = make("hubert", 3, pre_norm)
    network.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    own = {
        "model_type": "mert_model",
        "architectures": ["MERTModel"],
        "sample_rate": 16000,
        "feature_extractor_cqt": False,
        "attention_relax": -1.0,
        "deepnorm": False,
        "auto_map": {"AutoModel": "modeling_MERT.MERTModel"},
    }
    (tmp_path / "config.json").write_text(json.dumps({**config, **own}))
    preprocessor = {"do_normalize": True, "sampling_rate": 16000}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    with torch.no_grad():
        expected = network(waveforms).last_hidden_state
    torch.testing.assert_close(build(tmp_path)(waveforms), expected, atol=1e-4, rtol=0)
    preprocessor["sampling_rate"] = 24000
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    with pytest.raises(AsdfError, match="conflicting or invalid sampling rates: 16000 and 24000"):
        build(tmp_path)
    # As most of them: of 24 kHz, which the front end then is of.
    (tmp_path / "config.json").write_text(json.dumps({**config, **own, "sample_rate": 24_000}))
    music = build(tmp_path)
    assert music.sample_rate == 24_000
    torch.testing.assert_close(music(waveforms), expected, atol=1e-4, rtol=0)
    settings = Sections(audio=Audio(24_000))
    settings.network.network_class = "asdf.networks.SSL_ASP"
    settings.front_end.weights = str(tmp_path)
    network = build_pretrained(settings)
    assert network.front_end.sample_rate == 24_000
    settings.audio.sample_rate = 16_000
    with pytest.raises(UsageError, match=r"Wav2Vec2FrontEnd supports only 24,000 Hz"):
        build_pretrained(settings)


@pytest.mark.parametrize("name", ["fairseq_xlsr_like", "fairseq_base_like"])
def test_a_fairseq_and_a_hugging_face_checkpoint_of_one_network_agree(
    name, reference, recorded, tmp_path
):
    ours = build(reference(f"{name}.pt"))
    architecture = ours.architecture
    channels, kernels, strides = (
        list(values) for values in zip(*architecture.conv_layers, strict=True)
    )
    config = transformers.Wav2Vec2Config(
        conv_dim=channels,
        conv_kernel=kernels,
        conv_stride=strides,
        conv_bias=architecture.conv_bias,
        feat_extract_norm=architecture.extractor_mode.removesuffix("_norm"),
        hidden_size=architecture.dimension,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        intermediate_size=architecture.feed_forward,
        do_stable_layer_norm=architecture.layer_norm_first,
        num_conv_pos_embeddings=architecture.pos_conv_kernel,
        num_conv_pos_embedding_groups=architecture.pos_conv_groups,
    )
    network = transformers.Wav2Vec2Model(config).eval()
    state = {
        name.removeprefix("encoder.")
        if "projection" in name
        else name.replace("encoder.transformer", "encoder"): tensor
        for name, tensor in ours.model.state_dict().items()
    }
    state = {name.replace("self_attn", "attention"): tensor for name, tensor in state.items()}
    assert network.load_state_dict(state, strict=False).unexpected_keys == []
    network.save_pretrained(tmp_path)
    read, expected = build(tmp_path), recorded(f"{name}.npz")
    assert read.architecture == architecture
    torch.testing.assert_close(read.model.state_dict(), ours.model.state_dict(), rtol=0, atol=0)
    with torch.no_grad():
        torch.testing.assert_close(
            read(expected["waveforms"]), expected["features"], atol=1e-4, rtol=0
        )
        theirs = network(expected["waveforms"]).last_hidden_state
    torch.testing.assert_close(theirs, expected["features"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("layout", ["file", "bin", "parts", "bin_parts", "prefixed"])
def test_every_layout_gives_the_same_layers(layout, folder, tmp_path):
    expected = build(folder).model.state_dict()
    state, _ = read_safetensors(folder / "model.safetensors")
    state = {name: tensor.clone() for name, tensor in state.items()}
    path = folder
    if layout == "file":
        path = folder / "model.safetensors"
    else:
        (folder / "model.safetensors").unlink()
    halves = [dict(list(state.items())[:20]), dict(list(state.items())[20:])]
    if layout == "bin":
        torch.save(state, folder / "pytorch_model.bin")
    elif layout == "parts":
        parts = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
        for half, part in zip(halves, parts, strict=True):
            write_safetensors(folder / part, half, {"format": "pt"})
        where = {name: part for half, part in zip(halves, parts, strict=True) for name in half}
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": where})
        )
    elif layout == "bin_parts":
        for number, half in enumerate(halves):
            torch.save(half, folder / f"{number}.bin")
        where = {name: f"{number}.bin" for number, half in enumerate(halves) for name in half}
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": where}))
        path = folder / "pytorch_model.bin.index.json"
    elif layout == "prefixed":
        fine_tuned = {f"wavlm.{name}": tensor for name, tensor in state.items()}
        extra = {"lm_head.weight": torch.zeros(3, 4), "layer_weights": torch.zeros(3)}
        write_safetensors(folder / "model.safetensors", fine_tuned | extra, {})
    torch.testing.assert_close(build(path).model.state_dict(), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    "kind",
    [
        "Wav2Vec2ForCTC",
        "HubertForSequenceClassification",
        "WavLMForXVector",
        "Wav2Vec2ForPreTraining",
    ],
)
def test_fine_tuned_networks_lend_their_front_end(kind, tmp_path, waveforms):
    model = getattr(transformers, kind)
    torch.manual_seed(0)
    chosen = {name: value for name, value in sizes(3, False).items() if "bucket" not in name}
    network = model(model.config_class(**chosen)).eval()
    network.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = getattr(network, network.base_model_prefix)(waveforms).last_hidden_state
        torch.testing.assert_close(build(tmp_path)(waveforms), expected, atol=1e-4, rtol=0)


def test_wavlms_own_checkpoints_are_read(folder, tmp_path, waveforms):
    """Microsoft's files: fairseq's names and options, mapped as transformers' script maps them."""
    config = json.loads((folder / "config.json").read_text())
    state, _ = read_safetensors(folder / "model.safetensors")
    renames = [
        ("feature_projection.projection.", "post_extract_proj."),
        ("feature_projection.layer_norm", "layer_norm"),
        ("pos_conv_embed.conv.parametrizations.weight.original0", "pos_conv.0.weight_g"),
        ("pos_conv_embed.conv.parametrizations.weight.original1", "pos_conv.0.weight_v"),
        ("pos_conv_embed.conv.", "pos_conv.0."),
        (".attention.", ".self_attn."),
        ("gru_rel_pos_linear", "grep_linear"),
        ("gru_rel_pos_const", "grep_a"),
        ("rel_attn_embed", "relative_attention_bias"),
        ("feed_forward.intermediate_dense", "fc1"),
        ("feed_forward.output_dense", "fc2"),
        ("masked_spec_embed", "mask_emb"),
    ]
    original = {}
    for name, tensor in state.items():
        if ".layers." in name and ".layer_norm." in name and "final" not in name:
            name = name.replace(".layer_norm.", ".self_attn_layer_norm.")
        if "feature_extractor" in name:
            name = name.replace(".conv.", ".0.").replace(".layer_norm.", ".2.1.")
        for old, new in renames:
            name = name.replace(old, new)
        original[name] = tensor.clone()
    convolutions = list(
        zip(config["conv_dim"], config["conv_kernel"], config["conv_stride"], strict=True)
    )
    options = {
        "extractor_mode": "layer_norm",
        "encoder_layers": config["num_hidden_layers"],
        "normalize": True,
        "encoder_embed_dim": config["hidden_size"],
        "encoder_ffn_embed_dim": config["intermediate_size"],
        "encoder_attention_heads": config["num_attention_heads"],
        "activation_fn": "gelu",
        "layer_norm_first": True,
        "conv_feature_layers": repr(convolutions),
        "conv_bias": config["conv_bias"],
        "conv_pos": config["num_conv_pos_embeddings"],
        "max_distance": config["max_bucket_distance"],
        "conv_pos_groups": config["num_conv_pos_embedding_groups"],
        "relative_position_embedding": True,
        "num_buckets": config["num_buckets"],
        "gru_rel_pos": True,
    }
    torch.save({"cfg": options, "model": original}, tmp_path / "WavLM.pt")
    expected = build(folder)
    read = build(tmp_path / "WavLM.pt")
    assert read.architecture == expected.architecture
    torch.testing.assert_close(read.model.state_dict(), expected.model.state_dict(), rtol=0, atol=0)
    torch.save({"cfg": {**options, "gru_rel_pos": False}, "model": original}, tmp_path / "WavLM.pt")
    with pytest.raises(AsdfError, match="its option gru_rel_pos is False"):
        build(tmp_path / "WavLM.pt")


def test_a_detector_of_any_front_end_keeps_it_in_its_settings(folder, tmp_path, waveforms):
    from asdf.checkpoint.network_file import NetworkFile, write_network_file
    from asdf.interchange import read_network

    settings = Sections()
    settings.front_end.weights = str(folder)
    network = build_pretrained(settings).eval()
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    read, _ = read_network(tmp_path / "net.pt")
    assert read.front_end.architecture == network.front_end.architecture
    assert read.front_end.architecture.relative_positions is not None
    with torch.no_grad():
        assert torch.equal(read(waveforms)[1], network(waveforms)[1])


@pytest.mark.parametrize("checkpointing", [False, True])
def test_wavlm_learns_in_every_layer(folder, checkpointing, waveforms):
    front_end = build(folder, gradient_checkpointing=checkpointing).train()
    front_end(waveforms).square().sum().backward()
    without = [name for name, parameter in front_end.named_parameters() if parameter.grad is None]
    assert without == []


@pytest.mark.parametrize(
    ("normalizes", "setting", "said"),
    [(True, False, True), (False, False, False), (True, True, False), (False, True, True)],
)
def test_it_is_logged_when_waveforms_come_otherwise_than_in_pretraining(
    normalizes, setting, said, folder, caplog
):
    (folder / "preprocessor_config.json").write_text(json.dumps({"do_normalize": normalizes}))
    with caplog.at_level(logging.INFO, logger="asdf"):
        build(folder, normalize_waveforms=setting)
    assert (
        f"front_end.normalize_waveforms = {normalizes} matches its training" in caplog.text
    ) is said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"model_type": "whisper"},
            "has the model type 'whisper'; a front end is one of wav2vec2, hubert, wavlm, mert",
        ),
        ({"hidden_act": "relu"}, "has hidden_act = 'relu'; this front end only supports 'gelu'"),
        ({"adapter_attn_dim": 16}, "has adapter_attn_dim = 16"),
        ({"feature_extractor_cqt": True}, "has feature_extractor_cqt = True; this front end only"),
        ({"deepnorm": True}, "has deepnorm = True"),
        (
            {"model_type": "mert_model", "sample_rate": 24000.5},
            "conflicting or invalid sampling rates: 24000.5",
        ),
        ({"feat_proj_layer_norm": False}, "has feat_proj_layer_norm = False"),
        ({"conv_dim": [8]}, "is invalid"),
        ({"hidden_size": "x"}, "is invalid"),
        ({"num_attention_heads": 7}, "is invalid: dimension"),
        ({"feat_extract_norm": "batch"}, "is invalid: extractor_mode is 'batch'"),
        (
            {"num_hidden_layers": 9},
            "do not fit the architecture that they name; nothing was loaded",
        ),
    ],
)
def test_configurations_of_other_networks_are_reported(change, said, folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(AsdfError, match=said):
        build(folder)


def test_what_is_missing_or_damaged_is_reported(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(AsdfError, match=r"there is no config\.json in it"):
        build(tmp_path / "empty")
    (folder / "model.safetensors").rename(tmp_path / "lonely.safetensors")
    with pytest.raises(AsdfError, match=r"there is no config\.json next to it"):
        build(tmp_path / "lonely.safetensors")
    with pytest.raises(AsdfError, match=r"holds no weights: none of model\.safetensors"):
        build(folder)
    index = folder / "model.safetensors.index.json"
    for content, said in (
        ({"weight_map": {"a": "../../etc/passwd"}}, "which is not a file next to it"),
        ({"weight_map": {"a": "gone.safetensors"}}, "names gone.safetensors, which is missing"),
        ({"weight_map": {"a": 3}}, "holds no weight_map"),
        ([], "is not a dictionary"),
    ):
        index.write_text(json.dumps(content))
        with pytest.raises(AsdfError, match=said):
            build(folder)
    write_safetensors(folder / "a.safetensors", {"b": torch.ones(1)}, {})
    index.write_text(json.dumps({"weight_map": {"a": "a.safetensors"}}))
    with pytest.raises(AsdfError, match="names 1 layers that its files lack, a among them"):
        build(folder)
    (folder / "config.json").write_text("{" * 100_000)
    with pytest.raises(AsdfError, match=r"config\.json is damaged"):
        build(folder)


def test_code_in_a_folder_is_not_run(folder, tmp_path):
    class Malicious:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "trace"),)

    (folder / "model.safetensors").unlink()
    torch.save({"a": torch.ones(1), "b": Malicious()}, folder / "pytorch_model.bin")
    with pytest.raises(AsdfError, match="nothing in it was run"):
        build(folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Malicious()))
    with pytest.raises(AsdfError):
        build(folder)
    assert not (tmp_path / "trace").exists()
