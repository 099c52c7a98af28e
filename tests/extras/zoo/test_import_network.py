"""`import`: a published detector is read layer by layer and scores as published.

What cannot be imported is an error that says why.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.extras.zoo.layouts.implied_settings import find_architecture
from asdf.interchange import read_network
from asdf.interchange.fairseq import fairseq_names
from asdf.networks import SSL_AASIST, SSL_Nes2NetX
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.settings.sections import Sections
from tests.extras.zoo.test_any_checkpoint import with_counts
from tests.unit.networks.official import official_case

SMALL = (
    "{'conv_layers': ((32, 10, 5), (32, 3, 2), (32, 3, 2), (32, 3, 2), (32, 3, 2), (32, 2, 2), "
    "(32, 2, 2)), 'extractor_mode': 'layer_norm', 'conv_bias': True, 'dimension': 48, "
    "'layers': 2, 'heads': 4, 'feed_forward': 96, 'layer_norm_first': True, "
    "'pos_conv_kernel': 32, 'pos_conv_groups': 4, 'relative_positions': None}"
)


def check_scores(network: torch.nn.Module, path: Path, entry: str = "logits") -> None:
    expected = np.load(path)
    with torch.no_grad():
        got = network(torch.from_numpy(expected["waveforms"]))[1]
    np.testing.assert_allclose(got.numpy(), expected[entry], atol=1e-4, rtol=0)


@pytest.mark.slow_but("AASIST-L-85,306")
@pytest.mark.parametrize(("name", "parameters"), [("AASIST", "297,866"), ("AASIST-L", "85,306")])
def test_published_aasist(name, parameters, reference, done, tmp_path):
    """Of longer recordings the first 64,600 samples; the default lengths would take all."""
    said = done("import", reference(f"{name}.pth"), tmp_path / "net.pt")
    assert said.splitlines()[0] == f"recognised: raw-waveform {name}"
    assert (
        "scored, as published: first 64,600 samples "
        "(network.min_evaluation_utterance_length_in_samples = 64600 and "
        "network.max_evaluation_utterance_length_in_samples = 64600)\nlayers mapped: 229\n"
    ) in said
    assert "left out: nothing\nmissing: nothing\n" in said
    assert said.endswith(
        f"net.pt: asdf.networks.{name.replace('-', '_')}, {parameters} parameters\n"
    )
    check_scores(read_network(tmp_path / "net.pt")[0], reference(f"{name}.npz"))
    case = np.load(reference(f"{name}.npz"))
    detector = asdf.Detector(tmp_path / "net.pt", "cpu")
    for waveform, logits in zip(case["waveforms"], case["logits"], strict=True):
        assert len(waveform) == 64600
        longer = np.concatenate([waveform, waveform[:30000][::-1]])
        soundfile.write(tmp_path / "longer.wav", longer, 16000, subtype="FLOAT")
        assert detector.score_trial(tmp_path / "longer.wav") == pytest.approx(logits[1], abs=1e-4)
    half = case["waveforms"][0][:32300]
    assert detector.score_trial(half, 16000) == pytest.approx(
        detector.score_trial(np.concatenate([half, half]), 16000), abs=1e-5
    )


def scored_lengths(path: Path) -> tuple[int, int]:
    network = read_network(path)[1].to_sections().network
    return (
        network.min_evaluation_utterance_length_in_samples,
        network.max_evaluation_utterance_length_in_samples,
    )


def test_lengths_that_are_set_count_more_than_the_published_ones(reference, done, tmp_path):
    words = ["import", reference("AASIST-L.pth"), tmp_path / "net.pt"]
    least, most = (
        f"network.{name}_evaluation_utterance_length_in_samples" for name in ("min", "max")
    )
    for options, lengths, said in (
        ([f"{least}=16000", f"{most}=1000000"], (16000, 1000000), None),
        ([f"{most}=32000"], (32000, 32000), "scored: first 32,000 samples"),
        ([f"{least}=80000"], (80000, 80000), "scored: first 80,000 samples"),
        ([f"{least}=16000"], (16000, 64600), "scored: whole, up to 4.0375 s"),
    ):
        out = done(*words, *options)
        assert scored_lengths(tmp_path / "net.pt") == lengths
        assert ("scored" not in out) if said is None else (said in out)
        (tmp_path / "net.pt").unlink()


def test_published_ssl_anti_spoofing(reference, done, failed, tmp_path):
    state = torch.load(reference("ssl_aasist.pth"), weights_only=True, map_location="cpu")
    torch.save(state, tmp_path / "published.pth")
    words = ["import", tmp_path / "published.pth", tmp_path / "net.pt"]
    assert (
        "Set front_end.architecture to a name or a literal. The shapes suggest:\n"
        f'front_end.architecture="{SMALL}"'
    ) in failed(1, *words)
    assert not (tmp_path / "net.pt").exists()
    said = done(*words, f"front_end.architecture={SMALL}")
    recognised = "SSL_Anti-spoofing: wav2vec 2.0 and AASIST\n"
    assert said.startswith(f"recognised: {recognised}")
    pretraining = (
        "pretraining; scores do not depend on them: mask_emb, quantizer.*, project_q.*, "
        "final_proj.* (8)"
    )
    assert pretraining in said and "of the training that made it" not in said
    assert scored_lengths(tmp_path / "net.pt") == (64600, 64600)
    network = read_network(tmp_path / "net.pt")[0]
    check_scores(network, reference("ssl_aasist.npz"))
    case = np.load(reference("ssl_aasist.npz"))
    longer = np.concatenate([case["waveforms"][0], case["waveforms"][1]])
    score = asdf.Detector(tmp_path / "net.pt", "cpu").score_trial(longer, 16000)
    assert score == pytest.approx(case["logits"][0, 1], abs=1e-4)
    # A checkpoint of the original ASDF has the same layers. It scored whole recordings.
    content: dict[str, object] = {f"module.{name}": tensor for name, tensor in state.items()}
    content |= {"training_loss": torch.tensor(0.3), "consecutive_lr_updates": 1}
    content = {"model_state_dict": content, "optimizer_state_dict": {"state": {}}}
    torch.save(content, tmp_path / "original.pth")
    words = ["import", tmp_path / "original.pth", tmp_path / "original.pt"]
    said = done(*words, f"front_end.architecture={SMALL}")
    assert said.startswith(f"recognised: a checkpoint of the original ASDF; {recognised}")
    training = "optimizer_state_dict, training_loss, consecutive_lr_updates (3)"
    assert pretraining in said and f"of the training that made it: {training}" in said
    assert scored_lengths(tmp_path / "original.pt") == (16000, 1000000)
    original = read_network(tmp_path / "original.pt")[0]
    torch.testing.assert_close(original.state_dict(), network.state_dict(), rtol=0, atol=0)


def test_a_norm_that_the_published_code_does_not_use_is_named_and_left_out(
    reference, done, tmp_path
):
    state = torch.load(reference("ssl_aasist.pth"), weights_only=True, map_location="cpu")
    parts = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    norm = {f"encoder.0.0.bn1.{part}": torch.rand(1) for part in parts}
    torch.save({**state, **norm}, tmp_path / "LA_model.pth")
    words = ["import", tmp_path / "LA_model.pth", tmp_path / "net.pt"]
    said = done(*words, f"front_end.architecture={SMALL}")
    assert (
        "left out, of a norm whose output the published code does not use; scores do not depend "
        "on them: encoder.0.0.bn1.* (5)\n"
    ) in said
    check_scores(read_network(tmp_path / "net.pt")[0], reference("ssl_aasist.npz"))


def test_published_sls(reference, done, tmp_path):
    words = ["import", reference("sls.pth"), tmp_path / "net.pt", f"front_end.architecture={SMALL}"]
    said = done(*words)
    assert "back_end.sls_hidden = 64, by the shapes" in said
    assert (
        "back_end.sls_samples = 15440, the shortest length that gives the 16 times it reads" in said
    )
    assert scored_lengths(tmp_path / "net.pt") == (15440, 15440)
    (tmp_path / "net.pt").unlink()
    done(*words, "back_end.sls_samples=16000")
    assert scored_lengths(tmp_path / "net.pt") == (16000, 16000)
    check_scores(read_network(tmp_path / "net.pt")[0], reference("sls.npz"), "log_probabilities")


@pytest.mark.slow_but("astp")
@pytest.mark.parametrize("pooling", ["mean", "astp"])
def test_published_nes2net(pooling, reference, done, tmp_path):
    """Its published back end behind a front end of the width that it needs."""
    back_end = torch.load(
        reference(f"nes2net_x_{pooling}.pth"), weights_only=True, map_location="cpu"
    )
    tiny = KNOWN["tiny"]
    architecture = Architecture(tiny.conv_layers, "layer_norm", True, 1024, 1, 2, 8, True, 16, 64)
    front_end = fairseq_names(architecture.build().state_dict(), architecture)
    state = {f"ssl_model.model.{name}": tensor for name, tensor in front_end.items()}
    state |= {f"Nested_Res2Net_TDNN.{name}": tensor for name, tensor in back_end.items()}
    torch.save(state, tmp_path / "published.pth")
    words = ["import", tmp_path / "published.pth", tmp_path / "net.pt"]
    said = done(*words, f"front_end.architecture={architecture.to_text()}")
    assert "recognised: Nes2Net-X: wav2vec 2.0 and Nes2Net-X" in said
    assert "back_end.nes2net_splits = (8, 8), by the shapes" in said
    assert "back_end.nes2net_dilation = 2, as published; no shape shows it" in said
    assert scored_lengths(tmp_path / "net.pt") == (64600, 64600)
    network = read_network(tmp_path / "net.pt")[0]
    assert isinstance(network, SSL_Nes2NetX)
    expected = np.load(reference(f"nes2net_x_{pooling}.npz"))
    with torch.no_grad():
        logits = network.back_end(torch.from_numpy(expected["features"]).transpose(1, 2))[1]
    np.testing.assert_allclose(logits.numpy(), expected["logits"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["conformer", "conformer_tcm"])
def test_published_conformers(name, done, tmp_path):
    """The published back end behind a front end of the width that its case has."""
    case = official_case(name)
    tiny = replace(KNOWN["tiny"], dimension=8, layers=1, feed_forward=16)
    front_end = fairseq_names(tiny.build().state_dict(), tiny)
    state = {f"ssl_model.model.{layer}": tensor for layer, tensor in front_end.items()}
    state |= with_counts(case.state)
    if name == "conformer_tcm":
        state["conformer.positional_emb"] = torch.zeros(1, 10_000, 16)
    torch.save(state, tmp_path / "published.pth")
    words = ["import", tmp_path / "published.pth", tmp_path / "net.pt"]
    said = done(*words, f"front_end.architecture={tiny.to_text()}")
    assert "a Conformer with" in said.splitlines()[0]
    for size in ("dimension = 16", "blocks = 2", "heads = 4", "kernel = 6"):
        assert f"back_end.conformer_{size}, by the shapes of the layers\n" in said
    positions = "left out, of positions, which the network computes: conformer.positional_emb (1)"
    assert (positions in said) is (name == "conformer_tcm")
    # Unlike all others their authors cut at 66,800 samples.
    assert scored_lengths(tmp_path / "net.pt") == (66800, 66800)
    assert "scored, as published: first 66,800 samples" in said
    network = read_network(tmp_path / "net.pt")[0]
    with torch.no_grad():
        logits = network.back_end(case.inputs)[1]
    torch.testing.assert_close(logits, case.outputs["logits"], atol=2e-5, rtol=0)


def test_published_rawnet2(done, tmp_path):
    case = official_case("rawnet2")
    torch.save(case.state, tmp_path / "published.pth")
    words = ["import", tmp_path / "published.pth", tmp_path / "net.pt"]
    said = done(*words, "back_end.rawnet2_taps=32")
    assert "do not depend on them: block0.0.bn2.num_batches_tracked, " in said
    (tmp_path / "net.pt").unlink()
    state = with_counts(case.state)
    torch.save(state, tmp_path / "published.pth")
    said = done(*words, "back_end.rawnet2_taps=32")
    assert "recognised: raw-waveform RawNet2\n" in said
    assert "back_end.rawnet2_channels = 6, by the shapes of the layers\n" in said
    assert "left out: nothing" in said
    assert scored_lengths(tmp_path / "net.pt") == (64600, 64600)
    network = read_network(tmp_path / "net.pt")[0]
    with torch.no_grad():
        logits = network(case.inputs)[1]
    torch.testing.assert_close(logits, case.outputs["log_probabilities"], atol=1e-5, rtol=0)
    detector = asdf.Detector(tmp_path / "net.pt", "cpu")
    clip = np.resize(case.inputs[0].numpy(), 64600)
    longer = np.concatenate([clip, clip[:5000]])
    assert detector.score_trial(longer, 16000) == pytest.approx(detector.score_trial(clip, 16000))


def test_xlsr_is_known_by_its_shapes():
    for name in ("wav2vec2_xlsr_300m", "wav2vec2_base", "wavlm_base"):
        shapes = KNOWN[name].shapes()
        state = {
            f"front_end.model.{layer}": torch.empty(shape, device="meta")
            for layer, shape in shapes.items()
        }
        assert find_architecture(Path("x"), state) == name


def test_a_checkpoint_of_asdf_leaves_its_training_behind(done, tmp_path):
    settings = Sections()
    settings.front_end.architecture, settings.front_end.layer = "tiny", "weighted"
    network = SSL_AASIST(settings)
    checkpoint = NetworkFile.from_network(
        network, settings, optimiser_state={}, progress={"step": 3}, calibration={"scale": 1.0}
    )
    write_network_file(tmp_path / "epoch.1.pt", checkpoint)
    said = done("import", tmp_path / "epoch.1.pt", tmp_path / "net.pt")
    assert "of the training that made it: optimizer_state_dict, progress (2)" in said
    read, file = read_network(tmp_path / "net.pt")
    torch.testing.assert_close(read.state_dict(), network.state_dict(), rtol=0, atol=0)
    assert file.calibration == {"scale": 1.0} and file.progress is None
    assert file.to_sections().front_end == settings.front_end
    assert scored_lengths(tmp_path / "net.pt") == (16000, 1000000) and "scored" not in said


def test_what_is_no_detector_is_reported(reference, failed, tmp_path):
    def errors_of(path: object, *settings: str) -> str:
        return failed(1, "import", path, tmp_path / "net.pt", *settings)

    # Front ends alone are sent to training.
    front_end = reference("fairseq_xlsr_like.pt")
    errors = errors_of(front_end)
    assert "a front end, not a detector" in errors
    assert f"front_end.weights={front_end} in a config" in errors
    (tmp_path / "config.json").write_text('{"model_type": "wavlm"}')
    assert "holds no weights: none of model.safetensors" in errors_of(tmp_path)
    assert "is a bundle of torchaudio: a front end" in errors_of("torchaudio:WAVLM_BASE")
    back_end = errors_of(reference("nes2net_x_mean.pth"))
    assert "holds the back end of SSL_Nes2NetX alone" in back_end
    torch.save({"a": torch.ones(1)}, tmp_path / "a.pth")
    errors = errors_of(tmp_path / "a.pth")
    assert "is not a known detector: it holds a (1). Readable are a network of ASDF" in errors
    convolution = "ssl_model.model.feature_extractor.conv_layers.0.0.weight"
    names = ("fc0.weight", "fc1.weight", "fc3.weight", convolution)
    torch.save({name: torch.ones(1) for name in names}, tmp_path / "b.pth")
    errors = errors_of(tmp_path / "b.pth", "front_end.architecture=tiny")
    assert "but impossible shapes" in errors
    (tmp_path / "c.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    errors = errors_of(tmp_path / "c.safetensors")
    assert "cannot be read: " in errors and "header too large" in errors


def test_mistakes_on_the_command_line(reference, failed, tmp_path):
    words = ["import", reference("AASIST-L.pth"), tmp_path / "net.pt"]
    errors = failed(2, *words, "front_end.architectur=tiny")
    assert "the nearest is 'front_end.architecture'" in errors
    (tmp_path / "net.pt").write_text("mine")
    assert "exists already and is not overwritten" in failed(2, *words)
    assert (tmp_path / "net.pt").read_text() == "mine"
    gone = tmp_path / "gone.pth"
    assert f"there is no file {gone}. " in failed(2, "import", gone, tmp_path / "other.pt")


@pytest.mark.parametrize("claim", [{"dimension": 2**20, "feed_forward": 2**30}, {"layers": 10**9}])
def test_settings_cannot_ask_for_more_memory_than_the_file_brings(claim, failed, tmp_path):
    settings = Sections()
    settings.front_end.architecture = "tiny"
    file = NetworkFile.from_network(SSL_AASIST(settings), settings)
    write_network_file(tmp_path / "net.pt", file)
    content = torch.load(tmp_path / "net.pt", weights_only=True, map_location="cpu")
    content["settings"]["front_end"]["architecture"] = repr({**asdict(KNOWN["tiny"]), **claim})
    torch.save(content, tmp_path / "net.pt")
    for command in (
        ["import", tmp_path / "net.pt"],
        ["export", tmp_path / "net.pt", "--format", "safetensors"],
    ):
        said = "is described with far more layers than" if "layers" in claim else "1048576"
        assert said in failed(1, *command, tmp_path / "out")
