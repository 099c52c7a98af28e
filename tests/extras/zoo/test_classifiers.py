"""Audio classifiers of transformers, read and written; transformers itself is the oracle."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from transformers import AutoModelForAudioClassification, Wav2Vec2Config, Wav2Vec2ForCTC

import asdf
from asdf.__main__ import main
from asdf.checkpoint.network_file import write_network_file
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.class_names import UnknownPolarityError, side_of
from asdf.extras.zoo.layouts.importing import import_detector
from asdf.interchange import read_detector, read_network
from asdf.networks import Wav2Vec2FrontEnd
from tests.extras.zoo.classifier_folders import (
    FAMILIES,
    logits_of,
    make_classifier,
    make_extractor,
    save_classifier,
)
from tests.unit.networks.inspection import frozen_names, names_without_gradient

OWN = ("wav2vec2", "hubert", "wavlm", "unispeech", "unispeech-sat")
# Quiet, so that what is added to its variance shows.
QUIET = 0.003


@pytest.fixture
def waveform() -> torch.Tensor:
    return QUIET * torch.randn(7000, generator=torch.Generator().manual_seed(5))


def check_logits(network, model, folder: Path, waveform: torch.Tensor) -> None:
    """Check that a network has the logits of transformers' extractor and model."""
    with torch.no_grad():
        ours = network(waveform[None])[1]
    torch.testing.assert_close(ours, logits_of(model, folder, waveform), rtol=0, atol=1e-5)


@pytest.mark.slow_but("wav2vec2", "whisper")
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_log_odds_of_transformers(family, waveform, tmp_path):
    model = save_classifier(tmp_path, family)
    theirs = logits_of(model, tmp_path, waveform)[0]
    imported = import_detector(tmp_path)
    is_own = isinstance(imported.network.front_end, Wav2Vec2FrontEnd)
    assert is_own is (family in OWN)
    assert theirs.std() > 1e-2
    check_logits(imported.network, model, tmp_path, waveform)
    # As a recording, through the file that `import` writes.
    write_network_file(tmp_path / "net.pt", imported.file)
    soundfile.write(tmp_path / "a.wav", waveform.numpy(), 16000, subtype="FLOAT")
    score = asdf.Detector(tmp_path / "net.pt", "cpu").score_trial(tmp_path / "a.wav")
    odds = theirs.log_softmax(dim=0)
    assert float(score) == pytest.approx(float(odds[1] - odds[0]), abs=2e-5)


@pytest.mark.slow_but("hubert", "whisper")
@pytest.mark.parametrize("family", ["hubert", "wav2vec2-bert", "whisper", "sew"])
def test_a_learned_sum_of_layers(family, waveform, tmp_path):
    model = save_classifier(tmp_path, family, use_weighted_layer_sum=True)
    imported = import_detector(tmp_path)
    assert imported.file.to_sections().front_end.layer == "weighted"
    check_logits(imported.network, model, tmp_path, waveform)


def test_a_batch_has_the_scores_of_its_recordings(tmp_path):
    """Of Whisper, whose recordings get silence behind them, and of other lengths."""
    model = save_classifier(tmp_path, "whisper")
    network = import_detector(tmp_path).network
    waveforms = 0.1 * torch.randn(3, 17000)
    assert network.scoring_length(17000) == 16000
    with torch.no_grad():
        ours = network(waveforms)[1]
    for row, waveform in zip(ours, waveforms, strict=True):
        theirs = logits_of(model, tmp_path, waveform)[0]
        torch.testing.assert_close(row, theirs, rtol=0, atol=1e-5)


def test_several_classes_of_each_side(waveform, tmp_path):
    labels = ("AI-generated", "human", "cloned", "bona_fide", "TTS")
    model = save_classifier(tmp_path, "hubert", labels=labels)
    read = import_detector(tmp_path)
    settings = read.file.to_sections().back_end
    assert settings.classifier_classes == labels
    assert settings.classifier_bona_fide == (1, 3)
    shares = logits_of(model, tmp_path, waveform)[0].double().softmax(dim=0)
    expected = (shares[1] + shares[3]).log() - (shares[0] + shares[2] + shares[4]).log()
    with torch.no_grad():
        spoof, bona_fide = read.network(waveform[None])[1][0]
    assert float(bona_fide - spoof) == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("bona_fide", [0, 1])
def test_the_user_names_the_class_where_names_say_nothing(bona_fide, waveform, tmp_path):
    model = save_classifier(tmp_path, "wav2vec2", labels=None)
    with pytest.raises(UnknownPolarityError) as caught:
        import_detector(tmp_path)
    reason = "its classes are 0 'LABEL_0', 1 'LABEL_1'; these do not say genuine or spoofed"
    assert reason in str(caught.value)
    assert f"import {tmp_path} OUT --bona-fide-class NUMBER" in str(caught.value)
    network = import_detector(tmp_path, bona_fide=[str(bona_fide)]).network
    theirs = logits_of(model, tmp_path, waveform)[0]
    with torch.no_grad():
        ours = network(waveform[None])[1][0]
    expected = theirs if bona_fide else theirs.flip(0)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)
    by_name = import_detector(tmp_path, bona_fide=[f"label_{bona_fide}"])
    assert by_name.file.to_sections().back_end.classifier_bona_fide == (bona_fide,)


@pytest.mark.parametrize(
    ("name", "side"),
    [
        *[(name, 1) for name in ("real", "bonafide", "bona-fide", "Bona Fide", "HumanVoice")],
        *[(name, 1) for name in ("genuine speech", "realvoice", "AUTHENTIC", "not fake")],
        *[(name, 0) for name in ("fake", "spoof", "AIVoice", "AI-generated", "synthetic")],
        *[(name, 0) for name in ("DeepFake", "aivoice", "TTS", "non-human", "1_fake")],
        *[(name, None) for name in ("LABEL_0", "0", "", "speech", "fake human", "positive", "ja")],
    ],
)
def test_what_a_name_says(name, side):
    assert side_of(name) == side


def test_folders_and_classes_that_contradict_are_refused(tmp_path):
    save_classifier(tmp_path, "hubert")
    with pytest.raises(UsageError, match="no class 'maybe': the classes are 0 'fake', 1 'real'"):
        import_detector(tmp_path, bona_fide=["maybe"])
    with pytest.raises(UsageError, match="all classes would be bona fide"):
        import_detector(tmp_path, bona_fide=["0", "1"])
    label2id = {"label2id": {"fake": 1, "real": 0}}
    id2label = {"id2label": {"0": "a", "1": "b", "2": "c"}}
    for name, change, message in (
        ("config.json", label2id, "says that class 1 is 'real', but label2id says"),
        ("config.json", id2label, "names 3 classes, but the layers have 2"),
        ("preprocessor_config.json", {"sampling_rate": 8000}, "is for audio of 8000 Hz"),
    ):
        path = tmp_path / name
        whole = path.read_text()
        path.write_text(json.dumps(json.loads(whole) | change))
        with pytest.raises(AsdfError, match=message):
            import_detector(tmp_path)
        path.write_text(whole)


def test_the_length_and_the_normalisation_are_those_of_the_folder(waveform, tmp_path):
    model = save_classifier(tmp_path, "wav2vec2")
    path = tmp_path / "preprocessor_config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "do_normalize": False, "max_length": 4000}))
    read = import_detector(tmp_path)
    said = "\n".join(read.recognised.notes)
    assert "front_end.normalize_waveforms = False, by preprocessor_config.json" in said
    assert "scored: whole, up to 0.25 s, by max_length of preprocessor_config.json" in said
    write_network_file(tmp_path / "net.pt", read.file)
    detector = asdf.Detector(tmp_path / "net.pt", "cpu")
    with torch.no_grad():
        theirs = model(waveform[None, :4000]).logits[0]
    score = float(detector.score_trial(waveform.numpy(), 16000))
    assert score == pytest.approx(float(theirs[1] - theirs[0]), abs=2e-5)
    path.unlink()
    said = "\n".join(import_detector(tmp_path).recognised.notes)
    assert (
        "front_end.normalize_waveforms = True: transformers' default, as there is no preproc"
        in said
    )
    assert "scored: whole, up to 62.5 s, as transformers' pipeline does: the folder states" in said


def test_old_files_of_pickled_weights(waveform, tmp_path):
    """As most of the hub's classifiers are saved: pytorch_model.bin, weight norm's older names."""
    model = save_classifier(tmp_path, "wav2vec2")
    state = {}
    for name, tensor in model.state_dict().items():
        name = name.replace("parametrizations.weight.original0", "weight_g")
        state[name.replace("parametrizations.weight.original1", "weight_v")] = tensor
    state["wav2vec2.masked_spec_embed"] = torch.ones(24)
    (tmp_path / "model.safetensors").unlink()
    torch.save(state, tmp_path / "pytorch_model.bin")
    read = import_detector(tmp_path)
    check_logits(read.network, model, tmp_path, waveform)
    assert list(read.recognised.left_out.values()) == [["wav2vec2.masked_spec_embed"]]


def test_what_is_missing_is_named_as_the_file_names_it(tmp_path):
    model = save_classifier(tmp_path, "wavlm")
    state = model.state_dict()
    missing = "wavlm.encoder.layers.1.feed_forward.output_dense.bias"
    del state[missing]
    state["classifier.extra"] = torch.ones(1)
    (tmp_path / "model.safetensors").unlink()
    torch.save(state, tmp_path / "pytorch_model.bin")
    with pytest.raises(AsdfError) as caught:
        import_detector(tmp_path)
    assert f"1 missing from the file: {missing}" in str(caught.value)
    assert "unknown to the network: classifier.extra" in str(caught.value)
    assert "front_end.model" not in str(caught.value)


def test_a_configuration_without_a_class_is_read_by_its_layers(waveform, tmp_path):
    model = save_classifier(tmp_path, "hubert")
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    del config["architectures"]
    path.write_text(json.dumps(config))
    check_logits(import_detector(tmp_path).network, model, tmp_path, waveform)
    model.hubert.save_pretrained(tmp_path)
    path.write_text(json.dumps(config))
    with pytest.raises(AsdfError) as caught:
        import_detector(tmp_path)
    assert "holds a network of the model type 'hubert', which ASDF does not recognise" in str(
        caught.value
    )


def test_a_folder_of_another_network_is_described_by_its_own_layers(tmp_path):
    model = Wav2Vec2ForCTC(Wav2Vec2Config(**FAMILIES["wav2vec2"], vocab_size=8))
    model.save_pretrained(tmp_path)
    with pytest.raises(AsdfError) as caught:
        asdf.Detector(tmp_path)
    message = str(caught.value)
    assert "a network of the class Wav2Vec2ForCTC (model type 'wav2vec2')" in message
    assert "lm_head.bias (8)" in message
    assert f"front_end.weights={tmp_path}" in message


@pytest.mark.slow_but("wav2vec2")
@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_loads_what_is_exported(family, waveform, tmp_path, capsys):
    model = save_classifier(tmp_path / "hub", family, labels=("real", "fake"))
    words = ["import", tmp_path / "hub", tmp_path / "net.pt"]
    assert main([str(word) for word in words]) == 0
    words = ["export", tmp_path / "net.pt", "--format", "transformers_classifier"]
    assert main([*map(str, words), "--output", str(tmp_path / "back")]) == 0
    assert "bona fide: real" in capsys.readouterr().out
    back = AutoModelForAudioClassification.from_pretrained(tmp_path / "back").eval()
    assert type(back) is type(model)
    assert back.config.id2label == {0: "real", 1: "fake"}
    theirs = logits_of(model, tmp_path / "hub", waveform)
    torch.testing.assert_close(
        logits_of(back, tmp_path / "back", waveform), theirs, rtol=0, atol=1e-5
    )
    # And it comes in again, to the last bit.
    again = import_detector(tmp_path / "back")
    state = read_network(tmp_path / "net.pt")[0].state_dict()
    for name, tensor in again.network.state_dict().items():
        assert torch.equal(tensor, state[name]), name


def test_a_sum_behind_a_final_norm_is_that_of_transformers_4(tmp_path, capsys):
    """Of the last state after the norm; transformers 5 takes it before."""
    model = save_classifier(tmp_path / "hub", "wav2vec2", use_weighted_layer_sum=True)
    with pytest.raises(AsdfError, match="of an encoder that ends with a norm"):
        import_detector(tmp_path / "hub")
    path = tmp_path / "hub" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "transformers_version": "4.48.3"}))
    waveform = torch.randn(1, 7000)
    waveform = (waveform - waveform.mean()) / waveform.std(correction=0)
    network = import_detector(tmp_path / "hub").network
    with torch.no_grad():
        outputs = model.wav2vec2(waveform, output_hidden_states=True)
        states = [*outputs.hidden_states[:-1], outputs.last_hidden_state]
        shares = model.layer_weights.softmax(dim=0)
        total = sum(share * state for share, state in zip(shares, states, strict=True))
        theirs = model.classifier(model.projector(total).mean(dim=1))
        ours = network(waveform)[1]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    main(["import", str(tmp_path / "hub"), str(tmp_path / "net.pt")])
    words = ["export", tmp_path / "net.pt", "--format", "transformers_classifier"]
    assert main([*map(str, words), "-o", str(tmp_path / "back")]) == 1
    assert "versions of transformers disagree" in capsys.readouterr().err
    assert not (tmp_path / "back").exists()


@pytest.fixture
def clips(tmp_path) -> dict[str, list[Path]]:
    """Recordings in the order of a classifier's score, three lowest and three highest of ten."""
    model = save_classifier(tmp_path / "hub", "hubert", labels=None)
    draw = np.random.default_rng(2)
    scored = []
    for number in range(10):
        waveform = (0.1 * draw.standard_normal(6000 + 500 * number)).astype(np.float32)
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, waveform, 16000, subtype="FLOAT")
        logits = logits_of(model, tmp_path / "hub", torch.from_numpy(waveform))[0]
        scored.append((float(logits[1] - logits[0]), path))
    order = [path for _, path in sorted(scored)]
    return {"low": order[:3], "high": order[-3:]}


@pytest.mark.parametrize(("genuine", "bona_fide"), [("high", 1), ("low", 0)])
def test_recordings_say_which_class_is_bona_fide(genuine, bona_fide, clips, tmp_path, capsys):
    spoofed = "low" if genuine == "high" else "high"
    words = ["import", tmp_path / "hub", tmp_path / "net.pt"]
    words += ["--genuine", *clips[genuine], "--spoofed", *clips[spoofed]]
    assert main([str(word) for word in words]) == 0
    said = capsys.readouterr().out
    assert f"bona fide: class {bona_fide} ('LABEL_{bona_fide}'), as chosen" in said
    assert "the genuine one is higher in 9 of 9 pairs" in said
    settings = read_network(tmp_path / "net.pt")[1].to_sections()
    assert settings.back_end.classifier_bona_fide == (bona_fide,)
    assert sorted(path.name for path in tmp_path.glob(".net*")) == []


def test_recordings_that_contradict_leave_no_file(clips, tmp_path, capsys):
    words = ["import", tmp_path / "hub", tmp_path / "net.pt", "--bona-fide-class", "1"]
    words += ["--genuine", *clips["low"], "--spoofed", *clips["high"]]
    assert main([str(word) for word in words]) == 1
    said = capsys.readouterr().err
    assert "the recordings contradict its bona fide output" in said
    assert "the genuine one is higher in 0 of 9 pairs" in said
    assert str(clips["low"][0]) in said
    assert not (tmp_path / "net.pt").exists()
    # Half of the pairs say nothing.
    words = ["import", tmp_path / "hub", tmp_path / "net.pt", "--genuine"]
    words += [clips["low"][0], clips["high"][2], "--spoofed", clips["low"][1], clips["high"][1]]
    assert main([str(word) for word in words]) == 1
    assert "the recordings do not show which class is bona fide" in capsys.readouterr().err


def test_recordings_of_one_kind_are_a_mistake(tmp_path, capsys, clips):
    words = ["import", tmp_path / "hub", tmp_path / "net.pt", "--genuine", clips["low"][0]]
    assert main([str(word) for word in words]) == 2
    assert "--spoofed is missing" in capsys.readouterr().err


@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin"])
def test_by_the_name_of_the_hub(weights, waveform, hub, tmp_path):
    model = save_classifier(tmp_path, "wav2vec2")
    if weights == "pytorch_model.bin":
        (tmp_path / "model.safetensors").unlink()
        torch.save(model.state_dict(), tmp_path / weights)
    names = ("config.json", "preprocessor_config.json", weights)
    files = {name: (tmp_path / name).read_bytes() for name in names}
    files |= {"modeling_evil.py": b"raise SystemExit('run')", "training_args.bin": b"\x80\x04."}
    hub.repository("org/fake-or-real").commit(files)
    network, file = read_detector("hub:org/fake-or-real")
    assert file.others["source"].startswith("hub:org/fake-or-real@")
    check_logits(network, model, tmp_path, waveform)
    fetched = [path for _, path, _ in hub.requests if "evil" in path or "training_args" in path]
    assert not fetched


def test_weights_in_parts(waveform, hub, tmp_path):
    model = make_classifier("hubert")
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    make_extractor("hubert").save_pretrained(tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sum(name.endswith(".safetensors") for name in files) > 1
    hub.repository("org/parts").commit(files)
    network, _ = read_detector("hub:org/parts")
    check_logits(network, model, tmp_path, waveform)


def test_without_transformers_the_message_names_the_extra(tmp_path, monkeypatch):
    """And the wav2vec 2.0 family needs none."""
    save_classifier(tmp_path / "own", "hubert")
    save_classifier(tmp_path / "other", "wav2vec2-bert")
    expected = import_detector(tmp_path / "own").network.state_dict()
    monkeypatch.setitem(sys.modules, "transformers", None)
    again = import_detector(tmp_path / "own").network.state_dict()
    assert expected.keys() == again.keys()
    with pytest.raises(UsageError, match=r"pip install 'asdf-antispoofing\[transformers\]'"):
        import_detector(tmp_path / "other")


@pytest.mark.slow_but("hubert")
@pytest.mark.parametrize("family", ["hubert", "sew", "whisper", "audio-spectrogram-transformer"])
def test_exactly_what_learns_gets_a_gradient(family, tmp_path):
    save_classifier(tmp_path, family)
    network = import_detector(tmp_path).network.train()
    _, logits = network(0.1 * torch.randn(2, 7000))
    logits.square().sum().backward()
    assert names_without_gradient(network) == frozen_names(network)
    assert not any(name.startswith("back_end.") for name in frozen_names(network))
