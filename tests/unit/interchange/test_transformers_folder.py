"""`export --format transformers`: what a program without ASDF computes is what the network does."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

import asdf.networks
from asdf import Detector
from asdf.__main__ import main
from asdf.audio.speech import repeat_to
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.safetensors import read_safetensors
from asdf.errors import AsdfError
from asdf.interchange.portable_network import portable_network
from asdf.interchange.transformers_folder import _imported
from asdf.metrics.calibration import Calibration
from asdf.networks.build import build_network
from asdf.networks.front_ends.architectures import KNOWN
from asdf.networks.trained_loss import attach_loss
from asdf.settings.sections import Sections
from asdf.training.losses.cosine import OCSoftmax
from tests.unit.commands.test_export_network import settings_of

KINDS = [
    "AASIST",
    "AASIST_L",
    "RawNet2",
    "SSL_AASIST",
    "SSL_SLS",
    "SSL_Nes2NetX",
    "SSL_Conformer",
    "SSL_ConformerTCM",
    "SSL_MHFA",
    "SSL_ECAPA",
    "SSL_ResNet18",
]


def drawn(settings: Sections) -> nn.Module:
    """Return a network whose every number, statistics of norms too, is drawn."""
    torch.manual_seed(0)
    network = build_network(settings)
    for tensor in network.state_dict().values():
        if tensor.is_floating_point():
            tensor.add_(0.01 * torch.randn_like(tensor))
    return network.eval()


def composed(front_end: str, back_end: str) -> Sections:
    settings = settings_of("ComposedDetector")
    settings.front_end.front_end_class = front_end
    settings.back_end.back_end_class = back_end
    return settings


def differences(network: nn.Module, lengths: tuple[int, ...]) -> list[float]:
    """Return by how much the code, which sees no ASDF, differs from the network."""
    portable = portable_network(network, "0")
    assert "asdf." not in portable.source
    with _imported(portable.source) as module:
        copy = module.build_network().eval()
        copy.load_state_dict(portable.state)
        results = []
        for samples in lengths:
            waveforms_BT = 0.1 * torch.randn(2, samples)
            with torch.no_grad():
                pairs = zip(network(waveforms_BT), copy(waveforms_BT), strict=True)
                results += [float((one - other).abs().max()) for one, other in pairs]
    return results


@pytest.mark.slow_but("SSL_AASIST")
@pytest.mark.parametrize("kind", KINDS)
def test_the_code_gives_the_numbers_of_the_network(kind):
    assert max(differences(drawn(settings_of(kind)), (300, 5000, 20011))) < 1e-6


@pytest.mark.slow_but("lfcc-lcnn")
@pytest.mark.parametrize(
    ("front_end", "back_end"),
    [("lfcc", "lcnn"), ("log_mel", "ecapa"), ("spectrogram", "resnet18"), ("mfcc", "asp")],
)
def test_spectral_front_ends_have_their_filters_among_the_weights(front_end, back_end):
    network = drawn(composed(front_end, back_end))
    assert max(differences(network, (5000, 20011))) < 1e-6
    fixed = portable_network(network, "0").fixed
    assert "front_end.model.taper" in fixed and not set(fixed) & set(network.state_dict())


@pytest.mark.parametrize("weighted", [False, True])
def test_wavlm_has_its_table_of_distances_and_a_sum_of_layers_its_weights(weighted):
    settings = settings_of("SSL_Linear")
    wavlm = replace(KNOWN["tiny"], relative_positions=(8, 20))
    settings.front_end.architecture = wavlm.to_text()
    settings.front_end.layer = "weighted" if weighted else 1
    settings.front_end.normalize_waveforms = True
    network = drawn(settings)
    assert network.front_end.architecture.relative_positions == (8, 20)
    assert max(differences(network, (5000, 20011))) < 1e-6
    table = "front_end.model.encoder.transformer.layers.0.attention.buckets"
    assert portable_network(network, "0").fixed == (table,)


def test_a_loss_that_scores_is_a_part_of_the_code():
    settings = settings_of("SSL_Linear")
    network = drawn(settings)
    dimension = network(torch.zeros(1, 4000))[0].shape[1]
    attach_loss(network, OCSoftmax(settings, dimension))
    portable = portable_network(network.eval(), "0")
    with _imported(portable.source) as module:
        copy = module.build_network().eval()
        copy.load_state_dict(portable.state)
        embeddings_BE, logits_B2 = copy(0.1 * torch.randn(3, 4000))
    vector_1E = network.trained_loss.weight_1E
    cosines_B = torch.cosine_similarity(embeddings_BE, vector_1E)
    torch.testing.assert_close(logits_B2[:, 1], cosines_B)
    torch.testing.assert_close(logits_B2[:, 0], -cosines_B)


def test_gradients_reach_every_number_that_the_network_trains():
    network = drawn(settings_of("SSL_AASIST"))
    portable = portable_network(network, "0")
    with _imported(portable.source) as module:
        copy = module.build_network()
        copy.load_state_dict(portable.state)
        copy.train()(0.1 * torch.randn(3, 8000))[1].sum().backward()
    unused = {id(each) for each in network.unused_parameters()}
    unused |= {id(each) for each in network.back_end.unused_parameters()}
    trained = {name for name, each in network.named_parameters() if id(each) not in unused}
    with_gradient = {name for name, each in copy.named_parameters() if each.grad is not None}
    assert trained <= with_gradient


def written(tmp_path: Path, settings: Sections, **entries: object) -> tuple[nn.Module, Path]:
    network = drawn(settings)
    path = tmp_path / "net.pt"
    write_network_file(path, NetworkFile.from_network(network, settings, **entries))
    folder = tmp_path / "folder"
    assert main(["export", str(path), "--format", "transformers", "-o", str(folder)]) == 0
    return network, folder


CALIBRATION = Calibration(2.0, -0.5, 0.25, lowest_llr=-1.0, highest_llr=1.0).content()


@pytest.fixture
def settings() -> Sections:
    settings = settings_of("SSL_Linear")
    settings.network.min_evaluation_utterance_length_in_samples = 9000
    settings.network.max_evaluation_utterance_length_in_samples = 12000
    settings.network.score = "difference"
    return settings


def test_asdf_reads_the_folder_as_the_network_it_was(tmp_path, settings, capsys):
    written(tmp_path, settings, calibration=CALIBRATION)
    folder = tmp_path / "folder"
    assert "but not ASDF" in capsys.readouterr().out
    waveform = 0.1 * np.random.default_rng(0).standard_normal(11000).astype(np.float32)
    before = Detector(tmp_path / "net.pt", "cpu").score(waveform, 16000)
    after = Detector(folder, "cpu").score(waveform, 16000)
    assert (after, after.raw) == (before, before.raw)


def test_the_folder_says_what_it_is(tmp_path, settings):
    _, folder = written(tmp_path, settings, calibration=CALIBRATION)
    config = json.loads((folder / "config.json").read_text())
    assert config["id2label"] == {"0": "spoof", "1": "bonafide"}
    assert (config["min_samples"], config["max_samples"]) == (9000, 12000)
    assert config["calibration"]["scale"] == 2.0 and config["threshold"] == 0.25
    assert "someone" not in json.dumps(config)
    card = (folder / "README.md").read_text()
    assert "library_name: transformers" in card and 'pipeline("audio-classification"' in card
    assert "up to its first 12,000 samples" in card and "less that of spoof" in card
    tensors, metadata = read_safetensors(folder / "model.safetensors")
    assert metadata["format"] == "pt" and all(name.startswith("network.") for name in tensors)
    for path in folder.glob("*.py"):
        names = {
            alias.name if isinstance(node, ast.Import) else node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not any(str(name).split(".")[0] == "asdf" for name in names)


def test_in_process_the_model_hears_and_scores_by_the_stated_rule(tmp_path, settings):
    network, folder = written(tmp_path, settings, calibration=CALIBRATION)
    modeling = load_modeling(folder)
    config = modeling.AsdfDetectorConfig(**json.loads((folder / "config.json").read_text()))
    model = modeling.AsdfDetector(config)
    tensors, _ = read_safetensors(folder / "model.safetensors")
    model.load_state_dict(tensors)
    model.eval()
    waveforms = [0.1 * torch.randn(samples) for samples in (4000, 10000, 13000)]
    batch = nn.utils.rnn.pad_sequence(waveforms, batch_first=True)
    mask = torch.stack([torch.arange(13000) < len(waveform) for waveform in waveforms])
    outputs = model(batch, mask.long(), labels=torch.tensor([0, 1, 1]))
    heard = [waveforms[0].repeat(3)[:9000], waveforms[1], waveforms[2][:12000]]
    with torch.no_grad():
        logits_B2 = torch.cat([network(waveform[None])[1] for waveform in heard])
    scores_B = logits_B2[:, 1] - logits_B2[:, 0]
    torch.testing.assert_close(outputs.logits, logits_B2, atol=1e-6, rtol=0)
    torch.testing.assert_close(outputs.scores, scores_B, atol=1e-6, rtol=0)
    llrs_B = (2 * scores_B - 0.5).clamp(-1, 1).double()
    torch.testing.assert_close(outputs.llrs, llrs_B, atol=1e-5, rtol=0)
    expected = -logits_B2.log_softmax(1)[range(3), [0, 1, 1]].mean()
    torch.testing.assert_close(outputs.loss, expected)
    with pytest.raises(ValueError, match="without samples"):
        model(batch, torch.zeros_like(mask).long())


def load_modeling(folder: Path) -> ModuleType:
    """Import the folder's code as a package, as transformers does."""
    package = ModuleType("exported_detector")
    package.__path__ = [str(folder)]
    for name in [name for name in sys.modules if name.startswith("exported_detector")]:
        del sys.modules[name]
    sys.modules["exported_detector"] = package
    return __import__("exported_detector.modeling_asdf", fromlist=["AsdfDetector"])


STRANGER = """
import sys
sys.modules["asdf"] = None  # importing it fails
import numpy, torch
from transformers import AutoFeatureExtractor, AutoModelForAudioClassification, pipeline
model = AutoModelForAudioClassification.from_pretrained("folder", trust_remote_code=True)
extract = AutoFeatureExtractor.from_pretrained("folder")
waveforms = list(numpy.load("waveforms.npz").values())
inputs = extract(waveforms, sampling_rate=16000, return_tensors="pt", padding=True)
with torch.no_grad():
    scores = model(**inputs).scores
detector = pipeline("audio-classification", model="folder", trust_remote_code=True)
piped = [{each["label"]: each["score"] for each in detector(one)} for one in waveforms]
model.save_pretrained("again")
numpy.savez("results", scores=scores.numpy(), piped=[each["bonafide"] for each in piped])
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SSL_AASIST", "AASIST", "lfcc"])
def test_transformers_loads_it_where_there_is_no_asdf(kind, tmp_path):
    settings = composed("lfcc", "lcnn") if kind == "lfcc" else settings_of(kind)
    network = written(tmp_path, settings)[0]
    noise = np.random.default_rng(0)
    lengths = (7000, 64600, 70001)
    waveforms = [(0.1 * noise.standard_normal(each)).astype(np.float32) for each in lengths]
    np.savez(tmp_path / "waveforms", *waveforms)
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-c", STRANGER]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    results = np.load(tmp_path / "results.npz")
    # Shorter ones are repeated, as in scoring.
    shortest = settings.network.min_evaluation_utterance_length_in_samples
    heard = [repeat_to(each, max(len(each), shortest)) for each in waveforms]
    with torch.no_grad():
        logits = [network(torch.from_numpy(each)[None])[1][0] for each in heard]
    expected = [float(each[1]) for each in logits]
    np.testing.assert_allclose(results["scores"], expected, atol=1e-6)
    shares = [float(each.softmax(0)[1]) for each in logits]
    np.testing.assert_allclose(results["piped"], shares, atol=1e-6)
    again = Detector(tmp_path / "again", "cpu").score(waveforms[1], 16000)
    assert again == pytest.approx(expected[1], abs=1e-6)


def test_what_cannot_be_written_is_refused_by_name(tmp_path, monkeypatch):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(2, 2)

    network = drawn(settings_of("SSL_Linear"))
    network.back_end.extra = Own()
    with pytest.raises(AsdfError, match=r"\(back_end.extra\) is a .*Own"):
        portable_network(network, "0")
    whisper = asdf.networks.TransformersFrontEnd.__new__(asdf.networks.TransformersFrontEnd)
    nn.Module.__init__(whisper)
    whisper.model = nn.Linear(1, 1)
    network = drawn(settings_of("SSL_Linear"))
    network.front_end = whisper
    with pytest.raises(AsdfError, match=r"front end \(front_end\) is transformers' Linear"):
        portable_network(network, "0")


def test_silence_that_a_network_does_not_hear_is_refused(tmp_path, settings, capsys):
    settings.sad.mode = "on"
    path = tmp_path / "net.pt"
    write_network_file(path, NetworkFile.from_network(drawn(settings), settings))
    out = tmp_path / "folder"
    assert main(["export", str(path), "--format", "transformers", "-o", str(out)]) == 2
    assert "sad.mode" in capsys.readouterr().err and not out.exists()
