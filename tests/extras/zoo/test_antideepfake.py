"""AntiDeepfake's detectors: read to the scores of its formulas, written back byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import asdf
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.implied_settings import class_of_layers, find_architecture
from asdf.extras.zoo.layouts.published import antideepfake_state, rename_published
from asdf.interchange import build_front_end, read_network
from asdf.networks import SSL_AASIST, SSL_Linear
from asdf.networks.attached import attach_loss
from asdf.networks.build import build_network
from asdf.settings.sections import FrontEnd, Sections
from asdf.training import losses
from tests.extras.zoo.antideepfake_cases import PREFIX, Case, make_case

KINDS = ("group norm", "layer norm", "hubert")
ARCHITECTURE = "front_end.architecture"
MIN_LENGTH = "network.min_evaluation_utterance_length_in_samples"


def recordings() -> list[Tensor]:
    """Loud, quiet and off zero; shorter than our usual second, and longer than 64,600 samples."""
    torch.manual_seed(3)
    short_T = 0.5 * torch.randn(6000)
    off_T = 0.01 * torch.randn(16001) + 0.3
    times_T = torch.arange(70000) / 16000
    long_T = 0.1 * torch.sin(6000 * times_T * times_T) + 0.02 * torch.randn(70000)
    return [short_T, off_T, long_T]


def save(case: Case, path: Path) -> Path:
    """Write a detector as AntiDeepfake does: by torch.save or as safetensors."""
    if path.suffix == ".safetensors":
        save_file(case.state(), path, {"format": "pt"})
    else:
        torch.save(case.state(), path)
    return path


def check_scores(network: Path, case: Case) -> None:
    detector = asdf.Detector(network, "cpu", threads=1)
    for waveform_T in recordings():
        logits_2 = case.logits(waveform_T)
        score = detector.score_trial(waveform_T.numpy(), 16000)
        if case.bias is None:
            assert score == pytest.approx(logits_2[1].item(), abs=3e-6)
        else:
            assert score == pytest.approx((logits_2[1] - logits_2[0]).item(), abs=3e-6)
            real = torch.softmax(logits_2, dim=0)[1].item()
            assert torch.sigmoid(torch.tensor(score)).item() == pytest.approx(real, abs=3e-6)


@pytest.mark.parametrize("name", ["net.ckpt", "model.safetensors"])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_the_published_ones_and_the_way_back_is_exact(kind, name, done, tmp_path):
    case = make_case(kind)
    file = save(case, tmp_path / name)
    architecture = f"{ARCHITECTURE}={case.architecture}"
    said = done("import", file, tmp_path / "net.pt", architecture)
    mapped = len(case.state()) - len(case.pretraining)
    assert said.startswith(
        "recognised: AntiDeepfake: a self-supervised front end, the mean over time and a linear "
        "layer\n"
        "front_end.normalize_waveforms = True, as published\n"
        "network.score = 'difference', as published\n"
        f"scored, as published: whole, up to 62.5 s ({MIN_LENGTH} = 400)\n"
        f"layers mapped: {mapped}\n"
        "left out, of the front end's pretraining; scores do not depend on them: "
    )
    names = said.partition("depend on them: ")[2].partition("\n")[0]
    expected = {"mask_emb", "quantizer.*", "project_q.*", "final_proj.*"}
    if kind == "hubert":
        expected = {"mask_emb", "label_embs_concat", "final_proj.*"}
    left_out, _, count = names.rpartition(" ")
    assert set(left_out.split(", ")) == expected
    assert count == f"({len(case.pretraining)})"
    assert f"{names}\nmissing: nothing\n" in said
    check_scores(tmp_path / "net.pt", case)
    out = tmp_path / f"out{file.suffix}"
    said = done("export", tmp_path / "net.pt", "--format", "antideepfake", out)
    assert "layers used only in pretraining the front end are missing" in said
    written = load_file(out) if out.suffix == ".safetensors" else torch.load(out)
    state = case.state()
    assert set(written) == {
        layer for layer in state if layer.removeprefix(PREFIX) not in case.pretraining
    }
    for layer, tensor in written.items():
        assert torch.equal(tensor, state[layer]), layer


@pytest.mark.parametrize("kind", ["group norm", "layer norm"])
def test_the_one_class_variant_scores_by_its_cosine(kind, done, tmp_path):
    case = make_case(kind, one_class=True)
    file = save(case, tmp_path / "net.ckpt")
    architecture = f"{ARCHITECTURE}={case.architecture}"
    said = done("import", file, tmp_path / "net.pt", architecture)
    assert "recognised: AntiDeepfake's one-class variant" in said
    assert "network.score = 'bona_fide', as published\n" in said
    assert "network.loss = 'oc_softmax', as published\n" in said
    assert f"layers mapped: {len(case.state()) - 8}\n" in said
    assert "depend on them: back_end.proj_fc.weight, back_end.proj_fc.bias (2)\n" in said
    network, described = read_network(tmp_path / "net.pt")
    assert described.loss == {
        "class": "asdf.training.losses.OCSoftmax",
        "dimension": 48,
        "gives_logits": True,
    }
    assert described.to_sections().network.loss == "oc_softmax"
    check_scores(tmp_path / "net.pt", case)
    with torch.no_grad():
        logits_B2 = network(recordings()[0].unsqueeze(0))[1]
    torch.testing.assert_close(logits_B2[0], case.logits(recordings()[0]), atol=1e-6, rtol=0)
    out = tmp_path / "out.ckpt"
    done("export", tmp_path / "net.pt", "--format", "antideepfake", out)
    written = torch.load(out)
    assert "proj_fc.bias" not in written
    assert written["proj_fc.weight"].shape == (48, 1)
    assert torch.equal(written["proj_fc.weight"], case.weight)


def test_what_the_user_sets_counts_more_than_what_is_published(done, tmp_path):
    case = make_case("layer norm")
    words = ["import", save(case, tmp_path / "net.ckpt"), tmp_path / "net.pt"]
    words += ["network.score=bona_fide", "front_end.normalize_waveforms=False"]
    said = done(*words, f"{ARCHITECTURE}={case.architecture}", f"{MIN_LENGTH}=16000")
    assert "as published" not in said
    settings = read_network(tmp_path / "net.pt")[1].to_sections()
    assert settings.network.score == "bona_fide"
    assert not settings.front_end.normalize_waveforms
    assert settings.network.min_evaluation_utterance_length_in_samples == 16000


@pytest.mark.parametrize("wrapped", ["net.ckpt", "model.safetensors", "folder"])
def test_its_front_end_starts_a_network_and_scoring_sends_to_import(wrapped, caplog, tmp_path):
    case = make_case("layer norm")
    weights = tmp_path / wrapped
    if wrapped == "folder":
        weights.mkdir()
        save(case, weights / "model.safetensors")
        (weights / "config.json").write_text("{}")
    else:
        save(case, weights)
    settings = FrontEnd(weights=str(weights), architecture=case.architecture)
    with caplog.at_level("INFO"):
        front_end = build_front_end(settings).eval()
    assert "was trained on waveforms of zero mean and unit variance" in caplog.text
    assert "proj_fc.*" in caplog.text
    waveform_T = recordings()[0]
    with torch.no_grad():
        expected = case.ssl(waveform_T.unsqueeze(0)).last_hidden_state
        features = front_end(waveform_T.unsqueeze(0))
    torch.testing.assert_close(features, expected, atol=1e-5, rtol=0)
    with pytest.raises(AsdfError) as caught:
        read_network(weights)
    assert f"python -m asdf import {weights} OUT" in str(caught.value)


# Numbers of parameters as counted by hand of models/*_configs.py of AntiDeepfake, whose README
# has their millions: of fairseq's networks, such as 95,044,608 and 317,390,592, and of the head.
PUBLISHED = {
    "w2v_small": ("wav2vec2_base", 768, 95_046_146),
    "w2v_large, mms_300m": ("wav2vec2_xlsr_300m", 1024, 317_392_642),
    "mms_1b, xlsr_1b": ("wav2vec2_xlsr_1b", 1280, 965_517_314),
    "xlsr_2b": ("wav2vec2_xlsr_2b", 1920, 2_162_936_194),
    "hubert_xtralarge_ll60k": ("hubert_xlarge", 1280, 964_324_226),
}


@pytest.mark.slow_but("w2v_small", "w2v_large, mms_300m")
@pytest.mark.parametrize("size", PUBLISHED)
def test_published_sizes_are_known_by_their_shapes(size):
    """On torch's meta device: no memory is taken for the numbers."""
    architecture, dimension, parameters = PUBLISHED[size]
    settings = linear_settings(architecture=architecture)
    with torch.device("meta"):
        state, filled = antideepfake_state(build_network(settings))
    assert len(filled) == (4 if size.startswith("hubert") else 8)
    assert sum(tensor.numel() for tensor in state.values()) == parameters
    assert state["proj_fc.weight"].shape == (2, dimension)
    assert state["proj_fc.bias"].shape == (2,)
    renamed, not_used = rename_published(state)
    assert not_used == filled
    assert class_of_layers(renamed) == "SSL_Linear"
    assert find_architecture(Path(size), renamed) == architecture
    assert all(tensor.is_meta for tensor in renamed.values())


WEIGHT, BIAS = "proj_fc.weight", "proj_fc.bias"
LAYER = f"{PREFIX}encoder.layers.1.fc1.bias"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {WEIGHT: None, BIAS: None},
            "holds AntiDeepfake's front end (m_ssl.model.*) without proj_fc",
        ),
        ({BIAS: None}, "1 missing from the file: proj_fc.bias"),
        (
            {WEIGHT: torch.zeros(3, 48), BIAS: torch.zeros(3)},
            "2 of another shape: proj_fc.weight (3x48 in the file, 2x48 in the network)",
        ),
        (
            {WEIGHT: torch.zeros(40, 1), BIAS: None},
            "1 of another shape: proj_fc.weight (2x40 in the file, 2x48 in the network)",
        ),
        (
            {BIAS: torch.tensor([0.0, torch.nan]), LAYER: torch.full((96,), torch.inf)},
            f"not finite, so it would give no scores. They are in 2 layers: {LAYER}, proj_fc.bias",
        ),
        ({LAYER: None}, f"1 missing from the file: {LAYER}."),
        ({WEIGHT: torch.zeros(1).expand(2, 10**9)}, "is refused: its tensors claim 8,000,"),
    ],
)
def test_a_damaged_file_is_one_message(changes, said, failed, tmp_path):
    case = make_case("layer norm")
    state = case.state() | changes
    torch.save({name: each for name, each in state.items() if each is not None}, tmp_path / "a.pt")
    words = [tmp_path / "a.pt", tmp_path / "net.pt", f"{ARCHITECTURE}={case.architecture}"]
    errors = failed(1, "import", *words)
    assert said in errors and errors.count("error:") == 1 and "Traceback" not in errors
    assert not (tmp_path / "net.pt").exists()


def test_a_head_without_a_front_end_is_no_detector(failed, tmp_path):
    head = {name: make_case("layer norm").state()[name] for name in (WEIGHT, BIAS)}
    torch.save(head, tmp_path / "head.pt")
    said = "is not a known detector: it holds proj_fc.weight (2x48), proj_fc.bias (2)."
    assert said in failed(1, "import", tmp_path / "head.pt", tmp_path / "net.pt")


def linear_settings(**front_end: object) -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_Linear"
    settings.front_end.architecture = "tiny"
    settings.front_end.normalize_waveforms = True
    for name, value in front_end.items():
        setattr(settings.front_end, name, value)
    return settings


def test_what_their_program_would_score_otherwise_is_not_exported():
    cases = [
        (linear_settings(normalize_waveforms=False), "scales every recording to zero mean"),
        (linear_settings(layer=1), "this network reads layer 1 of 2 (front_end.layer)"),
        (linear_settings(layer="weighted"), "has no layer for front_end.layer_sum.weights"),
        (
            linear_settings(front_end_class="log_mel"),
            "LogMelFrontEnd cannot be written in the layout",
        ),
    ]
    for settings, said in cases:
        with pytest.raises(AsdfError) as caught:
            antideepfake_state(SSL_Linear(settings))
        assert said in str(caught.value)
    with pytest.raises(AsdfError, match="SSL_AASIST cannot be written in AntiDeepfake"):
        antideepfake_state(SSL_AASIST(linear_settings()))


def with_loss(name: str) -> SSL_Linear:
    torch.manual_seed(5)
    settings = linear_settings()
    network = SSL_Linear(settings)
    attach_loss(network, getattr(losses, name)(settings, 64))
    return network


def test_a_network_trained_here_by_oc_softmax_is_their_one_class_variant(done, tmp_path):
    """Its vector is a column there, and its linear layer, which nothing reads, has no name."""
    settings = linear_settings()
    settings.network.loss = "oc_softmax"
    network = with_loss("OCSoftmax").eval()
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    out = tmp_path / "out.safetensors"
    done("export", tmp_path / "net.pt", "--format", "antideepfake", out)
    state = load_file(out)
    assert torch.equal(state["proj_fc.weight"][:, 0], network.trained_loss.weight_1E[0])
    done("import", out, tmp_path / "again.pt", f"{ARCHITECTURE}=tiny")
    waveforms_BT = recordings()[0].unsqueeze(0)
    with torch.no_grad():
        expected = network(waveforms_BT)
        again = read_network(tmp_path / "again.pt")[0](waveforms_BT)
    assert torch.equal(again[0], expected[0]) and torch.equal(again[1], expected[1])


def test_other_losses_that_give_scores_have_no_layer_there(failed, tmp_path):
    settings = linear_settings()
    file = NetworkFile.from_network(with_loss("AAMSoftmax"), settings)
    write_network_file(tmp_path / "net.pt", file)
    words = ["export", tmp_path / "net.pt", "--format", "antideepfake", tmp_path / "out.ckpt"]
    assert "was trained with AAMSoftmax" in failed(2, *words)
    with pytest.raises(AsdfError, match=r"has no layer for trained_loss\.weight_2E"):
        antideepfake_state(with_loss("AAMSoftmax"))
