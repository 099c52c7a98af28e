"""`export --format transformers`: where ASDF is installed, transformers gives its verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch import nn

from asdf import Detector
from asdf.__main__ import main
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import read_safetensors, write_safetensors
from asdf.metrics.calibration import Calibration
from asdf.networks.build import build_network
from asdf.settings.sections import Sections
from tests.unit.commands.test_export_network import settings_of


def drawn(settings: Sections) -> nn.Module:
    """Return a network whose every number, statistics of norms too, is drawn."""
    torch.manual_seed(0)
    network = build_network(settings)
    for tensor in network.state_dict().values():
        if tensor.is_floating_point():
            tensor.add_(0.01 * torch.randn_like(tensor))
    return network.eval()


def export(network: Path | str, folder: Path) -> Path:
    words = ["export", str(network), "--format", "transformers", "-o", str(folder)]
    assert main(words) == 0
    return folder


def pipeline(folder: Path):
    """Return what a stranger's pipeline does, without the hub."""
    transformers = pytest.importorskip("transformers", reason="in the test extra")
    return transformers.pipeline(
        "audio-classification", model=str(folder), trust_remote_code=True, device="cpu"
    )


def shares(piped: list[dict[str, object]]) -> dict[str, float]:
    return {each["label"]: each["score"] for each in piped}


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


@pytest.fixture
def settings() -> Sections:
    settings = settings_of("SSL_Linear")
    settings.network.min_evaluation_utterance_length_in_samples = 9000
    settings.network.max_evaluation_utterance_length_in_samples = 12000
    settings.network.score = "difference"
    return settings


def written(tmp_path: Path, settings: Sections, **entries: object) -> Path:
    path = tmp_path / "net.pt"
    write_network_file(path, NetworkFile.from_network(drawn(settings), settings, **entries))
    return export(path, tmp_path / "folder")


def noises(*lengths: int) -> list[np.ndarray]:
    noise = np.random.default_rng(0)
    waveforms = []
    for number, samples in enumerate(lengths):
        waveform = noise.standard_normal(samples) * np.sin(np.arange(samples) * 0.01 * (number + 1))
        waveforms.append((0.1 * waveform).astype(np.float32))
    return waveforms


@pytest.mark.parametrize("bounds", [{}, {"lowest_llr": -1e-3, "highest_llr": 1e-3}])
@pytest.mark.parametrize("sad", ["off", "endpoint"])
def test_the_larger_share_is_the_verdict(tmp_path, settings, bounds, sad):
    """Recordings shorter than the network's length, longer, and at the threshold."""
    settings.sad.mode = sad
    network = drawn(settings)
    waveforms = noises(8500, 9001, 12000, 30000, 31000, 47000)
    path = tmp_path / "net.pt"
    write_network_file(path, NetworkFile.from_network(network, settings))
    plain = Detector(path, "cpu", parts=False, speech_check="off")
    raw = sorted(plain.score_whole(each, 16000).score for each in waveforms)
    # Between the third and the fourth, below zero.
    scale = 70.0
    offset = -scale * (raw[2] + raw[3]) / 2 - 0.25
    calibration = Calibration(scale, offset, -0.25, **bounds).content()
    folder = written(tmp_path, settings, calibration=calibration)
    detector = Detector(folder, "cpu", parts=False, speech_check="off")
    classify = pipeline(folder)
    verdicts = set()
    for waveform in waveforms:
        score = detector.score_whole(waveform, 16000)
        share = shares(classify(waveform))
        is_bona_fide = share["bonafide"] > share["spoof"]
        # Two classes have no third: beyond bounds that support little, ASDF decides nothing.
        expected = "bona fide" if is_bona_fide else "spoof"
        assert score.verdict == (
            "undecided" if bounds or abs(score.score) < np.log(2) else expected
        )
        assert is_bona_fide == (score.compared >= -0.25)
        llr = score.score if score.unbounded_llr is None else score.unbounded_llr
        expected = 1 / (1 + np.exp(-(llr + 0.25)))
        assert share["bonafide"] == pytest.approx(expected, abs=1e-4)
        verdicts.add(is_bona_fide)
    assert verdicts == {True, False}


def test_a_score_at_the_threshold_is_bona_fide(tmp_path, settings):
    calibration = Calibration(1e-30, 0.25, 0.25).content()
    share = shares(pipeline(written(tmp_path, settings, calibration=calibration))(noises(9000)[0]))
    assert share["bonafide"] > share["spoof"]


def test_without_a_calibration_the_logits_are_the_networks(tmp_path, settings):
    folder = written(tmp_path, settings)
    waveform = noises(10_000)[0]
    difference = Detector(folder, "cpu").score_trial(waveform, 16000)
    expected = 1 / (1 + np.exp(-float(difference)))
    assert shares(pipeline(folder)(waveform))["bonafide"] == pytest.approx(expected, abs=1e-5)


def test_a_batch_is_padded_and_each_recording_heard_by_itself(tmp_path, settings):
    transformers = pytest.importorskip("transformers", reason="in the test extra")
    folder = str(written(tmp_path, settings))
    extract = transformers.AutoFeatureExtractor.from_pretrained(folder)
    model = transformers.AutoModelForAudioClassification.from_pretrained(
        folder, trust_remote_code=True
    )
    waveforms = noises(4000, 13000)
    inputs = extract(waveforms, sampling_rate=16000, return_tensors="pt", padding=True)
    with torch.no_grad():
        together = model(**inputs).logits
        for waveform, logits in zip(waveforms, together, strict=True):
            alone = model(torch.from_numpy(waveform)[None]).logits[0]
            torch.testing.assert_close(logits, alone, atol=1e-6, rtol=0)


def test_front_ends_with_tables_and_trained_losses_load(tmp_path):
    """transformers would lose the tables, which no file holds."""
    settings = settings_of("ComposedDetector")
    settings.front_end.front_end_class = "lfcc"
    settings.back_end.back_end_class = "lcnn"
    folder = written(tmp_path, settings)
    waveform = noises(64600)[0]
    with torch.no_grad():
        logits = drawn(settings)(torch.from_numpy(waveform)[None])[1][0]
    expected = float(logits.softmax(0)[1])
    assert shares(pipeline(folder)(waveform))["bonafide"] == pytest.approx(expected, abs=1e-5)


CALIBRATION = Calibration(2.0, -0.5, 0.25, lowest_llr=-1.0, highest_llr=1.0).content()


def test_asdf_reads_the_folder_as_the_network_it_was(tmp_path, settings):
    folder = written(tmp_path, settings, calibration=CALIBRATION)
    waveform = noises(11000)[0]
    before = Detector(tmp_path / "net.pt", "cpu").score_trial(waveform, 16000)
    after = Detector(folder, "cpu").score_trial(waveform, 16000)
    assert (after, after.raw) == (before, before.raw)


def test_a_folder_of_before_with_tables_among_its_weights_is_read(tmp_path, settings):
    folder = written(tmp_path, settings)
    config = json.loads((folder / "config.json").read_text())
    config["asdf"]["fixed"] = ["front_end.taper"]
    (folder / "config.json").write_text(json.dumps(config))
    tensors, metadata = read_safetensors(folder / "model.safetensors")
    tensors["network.front_end.taper"] = torch.ones(3)
    write_safetensors(folder / "model.safetensors", tensors, metadata)
    waveform = noises(11000)[0]
    before = Detector(tmp_path / "net.pt", "cpu").score_trial(waveform, 16000)
    assert Detector(folder, "cpu").score_trial(waveform, 16000) == before


def test_the_folder_says_what_it_is(tmp_path, settings):
    folder = written(tmp_path, settings, calibration=CALIBRATION)
    config = json.loads((folder / "config.json").read_text())
    assert config["id2label"] == {"0": "spoof", "1": "bonafide"}
    assert "someone" not in json.dumps(config)
    card = (folder / "README.md").read_text()
    assert "library_name: transformers" in card and 'pipeline("audio-classification"' in card
    assert "pip install asdf-antispoofing" in card
    tensors, metadata = read_safetensors(folder / "model.safetensors")
    assert metadata["format"] == "pt" and all(name.startswith("network.") for name in tensors)
    assert [path.name for path in folder.glob("*.py")] == ["modeling_asdf.py"]


@pytest.mark.slow
def test_the_shipped_detector_gives_its_verdicts_on_a_corpus(shared, tmp_path):
    classify = pipeline(export("small", tmp_path / "folder"))
    detector = Detector("small", "cpu")
    counts = {"bona fide": 0, "spoof": 0}
    for path in sorted((shared / "corpora" / "mini").rglob("*.flac"))[::10]:
        waveform, rate = soundfile.read(path, dtype="float32")
        verdict = detector.score_whole(path).verdict
        # A pipeline has no class for parts, or for recordings that are not judged.
        if verdict in counts:
            best = max(classify({"raw": waveform, "sampling_rate": rate}), key=lambda x: x["score"])
            assert best["label"] == verdict.replace(" ", ""), path
            counts[verdict] += 1
    assert sum(counts.values()) > 60 and min(counts.values()) > 10
