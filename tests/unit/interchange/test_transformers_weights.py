"""Folders of Hugging Face for the front end that transformers computes, held against itself."""

from __future__ import annotations

import json
import logging
import shutil

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSpeechSeq2Seq, Wav2Vec2ForCTC

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import AsdfError
from asdf.interchange import build_front_end, build_pretrained, read_network
from asdf.settings.sections import FrontEnd, Sections
from tests.encoders import ENCODERS, OTHERS, hidden_states, make_encoder, save_encoder
from tests.unit.networks.test_encoder_outline import computed_by_transformers

# Their extractors round to float32 on the way (networks/test_extractors.py), which layers then
# amplify.
TOLERANCE = {"wav2vec2-bert": 6e-5, "whisper": 6e-6}


def build(folder, **settings):
    torch.manual_seed(1)
    named = {"front_end_class": "transformers", "weights": str(folder), **settings}
    return build_front_end(FrontEnd(**named)).eval()


def settings_of(folder, network_class: str = "SSL_ASP") -> Sections:
    settings = Sections()
    settings.network.network_class = f"asdf.networks.{network_class}"
    settings.front_end.front_end_class = "transformers"
    settings.front_end.weights = str(folder)
    return settings


@pytest.mark.slow_but("wavlm", "whisper")
@pytest.mark.parametrize("model_type", ENCODERS)
def test_states_are_those_of_transformers(model_type, waveforms, tmp_path):
    model = save_encoder(tmp_path, model_type)
    front_end = build(tmp_path)
    expected = hidden_states(model, waveforms)
    with torch.no_grad():
        states = front_end.hidden_states(waveforms)
        features = front_end(waveforms)
    assert len(states) == len(expected) == 4
    frames = front_end.frames(waveforms.shape[1])
    tolerance = TOLERANCE.get(model_type, 3e-6)
    for ours, theirs in zip(states, expected, strict=True):
        # w2v-BERT's extractor appends a frame that it then masks.
        torch.testing.assert_close(ours, theirs[:, :frames], rtol=0, atol=tolerance)
    assert torch.equal(features, states[-1])


@pytest.mark.slow_but("audio-spectrogram-transformer", "qwen2_audio_encoder", "voxtral_encoder")
@pytest.mark.parametrize("model_type", OTHERS)
def test_a_folder_of_any_encoder_gives_the_states_of_transformers(model_type, waveforms, tmp_path):
    torch.manual_seed(0)
    values = {name: value for name, value in OTHERS[model_type].items() if "extractor" not in name}
    # The model that transformers makes of SpeechT5's configuration alone takes no audio.
    auto = AutoModelForSpeechSeq2Seq if model_type == "speecht5" else AutoModel
    model = auto.from_config(AutoConfig.for_model(model_type, **values)).eval()
    model.save_pretrained(tmp_path)
    extractor = OTHERS[model_type].get("feature_extractor")
    if extractor:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(extractor))
    base = getattr(model, "speecht5", model)
    encoder = base if model_type == "sew" else getattr(base, "encoder", base)
    expected = computed_by_transformers(model_type, encoder, waveforms)
    with torch.no_grad():
        states = build(tmp_path).hidden_states(waveforms)
    for ours, theirs in list(zip(states, expected, strict=False))[:3]:
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-6)


@pytest.mark.slow_but("wav2vec2-bert-2", "whisper-0", "whisper-2")
@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("model_type", ["wav2vec2", "wavlm", "wav2vec2-bert", "whisper"])
def test_a_lower_layer_is_loaded_without_those_above(model_type, layer, waveforms, tmp_path):
    model = save_encoder(tmp_path, model_type)
    front_end = build(tmp_path, layer=layer)
    assert len(front_end.layer_modules()) == max(layer, 1)
    frames = front_end.frames(waveforms.shape[1])
    expected = hidden_states(model, waveforms)[layer][:, :frames]
    with torch.no_grad():
        torch.testing.assert_close(
            front_end(waveforms), expected, rtol=0, atol=TOLERANCE.get(model_type, 3e-6)
        )


@pytest.mark.slow_but("hubert")
@pytest.mark.parametrize("model_type", ["wav2vec2", "hubert", "wavlm"])
def test_it_is_the_projects_front_end_on_the_same_folder(model_type, waveforms, tmp_path):
    save_encoder(tmp_path, model_type)
    ours = build(tmp_path, front_end_class="wav2vec2")
    theirs = build(tmp_path)
    assert (ours.window, ours.hop, ours.dimension) == (theirs.window, theirs.hop, theirs.dimension)
    for samples in (400, 719, 720, 7999):
        assert ours.frames(samples) == theirs.frames(samples)
        assert ours.scoring_length(samples) == theirs.scoring_length(samples)
    with torch.no_grad():
        pairs = zip(ours.hidden_states(waveforms), theirs.hidden_states(waveforms), strict=True)
        for first, second in pairs:
            torch.testing.assert_close(first, second, rtol=0, atol=1e-5)
        outputs = zip(ours.layer_outputs(waveforms), theirs.layer_outputs(waveforms), strict=True)
        for first, second in outputs:
            torch.testing.assert_close(first, second, rtol=0, atol=1e-5)


def test_a_fine_tuned_network_gives_its_encoder_and_the_rest_is_logged(waveforms, tmp_path, caplog):
    torch.manual_seed(0)
    config = AutoConfig.for_model("wav2vec2", **ENCODERS["wav2vec2"], vocab_size=10)
    model = Wav2Vec2ForCTC(config).eval()
    model.save_pretrained(tmp_path)
    # As older versions of transformers named the parts of the weight norm.
    state = {}
    for name, tensor in model.state_dict().items():
        name = name.replace("parametrizations.weight.original0", "weight_g")
        state[name.replace("parametrizations.weight.original1", "weight_v")] = tensor.clone()
    (tmp_path / "model.safetensors").unlink()
    torch.save(state, tmp_path / "pytorch_model.bin")
    with caplog.at_level(logging.INFO):
        front_end = build(tmp_path, time_mask_proportion=0.5)
    assert "not loaded from" in caplog.text and "lm_head" in caplog.text
    expected = model.wav2vec2(waveforms).last_hidden_state
    torch.testing.assert_close(front_end(waveforms), expected, rtol=0, atol=1e-6)
    vector = state["wav2vec2.masked_spec_embed"]
    assert torch.equal(front_end.masking.embedding, vector)


def test_how_waveforms_were_normalised_is_logged(tmp_path, caplog):
    save_encoder(tmp_path, "hubert")
    content = json.dumps({"do_normalize": True})
    (tmp_path / "preprocessor_config.json").write_text(content)
    with caplog.at_level(logging.INFO):
        build(tmp_path)
    assert "front_end.normalize_waveforms = True matches its training" in caplog.text


@pytest.mark.slow_but("SSL_SLS-whisper")
@pytest.mark.parametrize("model_type", ["wav2vec2-bert", "whisper", "hubert"])
@pytest.mark.parametrize("network_class", ["SSL_MHFA", "SSL_SLS"])
def test_a_network_comes_back_from_its_file_without_the_folder(
    model_type, network_class, waveforms, tmp_path
):
    folder = tmp_path / "encoder"
    save_encoder(folder, model_type)
    settings = settings_of(folder, network_class)
    settings.back_end.sls_samples = 8000
    network = build_pretrained(settings).eval()
    path = tmp_path / "net.pt"
    write_network_file(path, NetworkFile.from_network(network, settings))
    shutil.rmtree(folder)
    again, file = read_network(path)
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])
    assert str(tmp_path) not in str(file.description()["settings"]["front_end"])


def test_another_encoder_learns_by_lora_and_comes_back_without_its_folder(waveforms, tmp_path):
    values = OTHERS["glmasr_encoder"]
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.for_model("glmasr_encoder", **values))
    model.save_pretrained(tmp_path / "encoder")
    settings = settings_of(tmp_path / "encoder")
    settings.network.save_only_trained = False
    settings.lora.rank = 2
    network = build_pretrained(settings).train()
    optimiser = torch.optim.SGD([w for w in network.parameters() if w.requires_grad], 0.1)
    network(waveforms)[1].square().sum().backward()
    optimiser.step()
    updates = [w for name, w in network.named_parameters() if "lora_B" in name]
    assert updates and all(update.any() for update in updates)
    network.eval()
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    shutil.rmtree(tmp_path / "encoder")
    again, _ = read_network(tmp_path / "net.pt")
    torch.testing.assert_close(again(waveforms)[1], network(waveforms)[1], rtol=0, atol=1e-5)


def test_a_file_cannot_describe_more_layers_than_it_holds(tmp_path):
    save_encoder(tmp_path / "encoder", "hubert")
    settings = settings_of(tmp_path / "encoder")
    file = NetworkFile.from_network(build_pretrained(settings), settings)
    config = json.loads(file.settings["front_end"]["architecture"])
    config["num_hidden_layers"] = 90_000
    file.settings["front_end"]["architecture"] = json.dumps(config)
    write_network_file(tmp_path / "net.pt", file)
    with pytest.raises(AsdfError, match="num_hidden_layers = 90000 exceeds the limit of 1,000"):
        read_network(tmp_path / "net.pt")


def test_a_path_that_looks_like_a_name_of_the_hub_is_answered_with_how_to_write_it(tmp_path):
    with pytest.raises(AsdfError, match=r"set front_end\.weights='hub:facebook/w2v-bert-2\.0'"):
        build(tmp_path / "facebook" / "w2v-bert-2.0")


def test_what_is_no_folder_of_an_encoder_is_refused(tmp_path):
    torch.save({}, tmp_path / "net.pt")
    with pytest.raises(AsdfError, match=r"needs a Hugging Face folder with its config\.json"):
        build(tmp_path / "net.pt")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(
        AsdfError, match=r"the type 'bert' of transformers is not an .* Seen: BertModel"
    ):
        build(tmp_path)
    save_encoder(tmp_path, "hubert")
    state = make_encoder("hubert").state_dict()
    (tmp_path / "model.safetensors").unlink()
    del state["encoder.layers.1.attention.k_proj.weight"]
    torch.save({**state, "encoder.layers.0.other.weight": torch.zeros(1)}, tmp_path / "m.bin")
    (tmp_path / "m.bin").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(AsdfError, match=r"1 missing from the file: .*; 1 unknown to the network"):
        build(tmp_path)
    torch.save({"a": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(AsdfError, match=r"should hold one encoder .* they hold 0 of them"):
        build(tmp_path)


def test_code_that_a_folder_names_is_not_run(tmp_path):
    save_encoder(tmp_path, "hubert")
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "evil.Evil", "AutoConfig": "evil.EvilConfig"}
    config["_attn_implementation"] = "someone/kernels"
    config["dtype"] = "float16"
    (tmp_path / "config.json").write_text(json.dumps(config))
    trace = tmp_path / "trace"
    (tmp_path / "evil.py").write_text(f"import pathlib\npathlib.Path({str(trace)!r}).touch()\n")
    front_end = build(tmp_path)
    assert not trace.exists()
    assert "evil" not in front_end.architecture_setting
    assert next(front_end.parameters()).dtype == torch.float32
