"""Networks by path and by name of the hub, of ASDF and in the layouts of others."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch

import asdf
from asdf.__main__ import main
from asdf.checkpoint.network_reading import read_network_file
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.importing import import_detector
from asdf.extras.zoo.layouts.published import antideepfake_state, published_state
from asdf.interchange import find_network, read_detector
from asdf.networks import ConformerBackEnd, SSL_Conformer
from asdf.networks.build import build_network
from asdf.settings.sections import BackEnd, Sections
from tests.unit.conftest import network_settings, sound, write_small_network
from tests.unit.report.folders import make_run

LONG = sound(70000).astype(np.float32)


def published_aasist() -> bytes:
    """A file as the authors of AASIST write it, of random weights."""
    return saved(made(network_settings(network_class="asdf.networks.AASIST_L")).state_dict())


def published_antideepfake() -> bytes:
    """A file as AntiDeepfake writes it, of random weights."""
    settings = network_settings(network_class="asdf.networks.SSL_Linear", score="difference")
    settings.front_end.architecture = "tiny"
    settings.front_end.normalize_waveforms = True
    return saved(antideepfake_state(made(settings))[0])


def made(settings: Sections) -> torch.nn.Module:
    torch.manual_seed(0)
    network = build_network(settings)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.2)
    return network


def saved(state: dict[str, torch.Tensor]) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


PUBLISHED = {"AASIST-L.pth": published_aasist, "net.ckpt": published_antideepfake}


@pytest.fixture(params=PUBLISHED)
def file(request, tmp_path):
    """A published file on this machine."""
    path = tmp_path / request.param
    path.write_bytes(PUBLISHED[request.param]())
    return path


@pytest.mark.slow_but("net.ckpt")
def test_a_published_detector_of_the_hub_is_scored_as_an_imported_one(file, hub, tmp_path, caplog):
    caplog.set_level("INFO", logger="asdf")
    commit = hub.repository("org/net").commit({file.name: file.read_bytes(), "README.md": b"text"})
    imported = tmp_path / "net.pt"
    assert main(["import", str(file), str(imported)]) == 0
    expected = asdf.Detector(imported)
    detector = asdf.Detector("hub:org/net")
    assert detector.source == f"hub:org/net@{commit}"
    assert detector.settings == expected.settings
    assert detector.length == expected.length
    assert float(detector.score_trial(LONG, 16000)) == float(expected.score_trial(LONG, 16000))
    # How it is scored is the authors' choice, which the user should see.
    assert f"hub:org/net@{commit}: " in caplog.text
    assert "scored, as published: " in caplog.text
    # The file on this machine needs no import first.
    assert float(asdf.Detector(file).score_trial(LONG, 16000)) == float(
        expected.score_trial(LONG, 16000)
    )


@pytest.mark.slow_but("net.ckpt")
def test_commands_take_names_of_the_hub(file, hub, tmp_path, capsys):
    commit = hub.repository("org/net").commit({file.name: file.read_bytes()})
    name = f"hub:org/net@{commit}"
    out = tmp_path / "net.pt"
    assert main(["import", "hub:org/net", str(out)]) == 0
    imported = read_network_file(out)
    assert imported.others == {"source": name}
    assert main(["export", "hub:org/net", "--format", "safetensors", str(tmp_path / "n.st")]) == 0

    scores = tmp_path / "dev.txt"
    scores.write_text("a 1 2.0\nb 1 1.0\nc 0 1.5\nd 0 -1.0\n")
    words = ["calibrate", "hub:org/net", str(scores)]
    assert main(words) == 2
    assert "hub:org/net is on the hub and cannot be overwritten" in capsys.readouterr().err
    assert main([*words, "--out", str(tmp_path / "calibrated.pt")]) == 0
    calibrated = read_network_file(tmp_path / "calibrated.pt")
    assert calibrated.others == {"source": name}
    assert calibrated.calibration is not None
    torch.testing.assert_close(calibrated.state, imported.state, rtol=0, atol=0)


def test_a_folder_of_another_program_is_imported(hub, tmp_path):
    from safetensors.torch import save

    state = torch.load(io.BytesIO(published_antideepfake()), weights_only=True)
    files = {"config.json": b'{"model_type": "other"}', "model.safetensors": save(state)}
    hub.repository("org/net").commit(files)
    network, file = read_detector("hub:org/net")
    path = tmp_path / "net.ckpt"
    path.write_bytes(published_antideepfake())
    expected = import_detector(path)
    torch.testing.assert_close(network.state_dict(), expected.network.state_dict())
    assert file.settings == expected.file.settings


def test_what_is_no_detector_is_named(hub, tmp_path):
    content = saved({"layer.weight": torch.ones(2, 300)})
    hub.repository("org/net").commit({"net.pt": content})
    refusal = r"net.pt is not a known detector: it holds layer.weight \(2x300\)\."
    with pytest.raises(AsdfError, match=refusal):
        asdf.Detector("hub:org/net")
    path = tmp_path / "net.pt"
    path.write_bytes(content)
    with pytest.raises(AsdfError, match=refusal):
        asdf.Detector(path)


def test_a_path_that_is_missing_is_no_name_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "networks").mkdir()
    (tmp_path / "networks" / "epoch.07.pt").touch()
    (tmp_path / "mine.safetensors").touch()
    nearest = {
        "networks/epoch.7.pt": "epoch.07.pt",
        "mine.safetensor": "mine.safetensors",
        "smal": "small",
        "xls-r": "xls-r-1b-anti-deepfake",
        "AASIST-LL": "AASIST-L",
        "df_arena_500M": "DF_Arena_500M_V_1",
    }
    for missing in (*nearest, "nothing-like-it", "networks/none", "gone/net.pt"):
        with pytest.raises(UsageError) as refused:
            asdf.Detector(missing)
        words = str(refused.value)
        assert words.startswith(f"there is no file {missing} in {tmp_path}")
        assert ("and no detector of that name." in words) == ("/" not in missing)
        near = nearest.get(missing)
        assert ("Did you mean" in words) == (near is not None)
        assert near is None or f" Did you mean '{near}'? " in words
    with pytest.raises(UsageError, match=rf"there is no file {tmp_path}/net.pt\. Check the path"):
        asdf.Detector(tmp_path / "net.pt")


def test_the_folder_of_a_run_is_its_best_network(tmp_path):
    folder = make_run(tmp_path / "net", epochs=(1, 2, 10))
    with pytest.raises(AsdfError, match="has no network yet"):
        find_network(folder)
    networks = folder / "networks"
    networks.mkdir()
    for name in ("epoch.1", "epoch.2", "resume"):
        write_small_network(networks / f"{name}.pt")
    assert find_network(folder) == networks / "epoch.2.pt"
    record = {"kind": "evaluation", "step": 5, "epoch": 1, "network": "epoch.1.pt"}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({**record, "eer": {"dev": 0.01}}) + "\n")
    assert find_network(folder) == networks / "epoch.1.pt"
    detector = asdf.Detector(folder, "cpu")
    assert detector.source == str(networks / "epoch.1.pt")


def test_a_refused_file_is_described_by_its_own_layers(tmp_path):
    """It has a front end and more, so it is not called a front end."""
    state = {
        "ssl_model.model.feature_extractor.conv_layers.0.0.weight": torch.ones(4, 1, 10),
        "mamba.layers.0.weight": torch.ones(3, 2),
        "head.bias": torch.ones(2),
        "head.scale": torch.tensor(1.0),
        "other.weight": torch.ones(2),
    }
    path = tmp_path / "net.pt"
    path.write_bytes(saved(state))
    with pytest.raises(AsdfError) as caught:
        asdf.Detector(path)
    assert str(caught.value).startswith(
        f"{path} is not a known detector: it holds "
        "ssl_model.model.feature_extractor.conv_layers.0.0.weight (4x1x10), "
        "mamba.layers.0.weight (3x2), head.bias (2), head.scale (a number) and 1 more. Readable"
    )


def test_a_classifier_of_hugging_face_is_not_called_a_front_end(tmp_path):
    from safetensors.torch import save

    config = b'{"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForSequenceClassification"]}'
    (tmp_path / "config.json").write_bytes(config)
    state = {"wav2vec2.encoder.layer_norm.bias": torch.ones(4), "classifier.bias": torch.ones(2)}
    (tmp_path / "model.safetensors").write_bytes(save(state))
    with pytest.raises(AsdfError) as caught:
        asdf.Detector(tmp_path)
    message = str(caught.value)
    assert "is a Wav2Vec2ForSequenceClassification by its configuration, but it has no" in message
    assert "usable projector.weight and classifier.weight: it holds" in message
    assert "it holds classifier.bias (2), wav2vec2.encoder.layer_norm.bias (4)." in message
    assert "no detector" not in message


def test_what_is_no_detector_is_described_in_its_own_names(tmp_path):
    """A Conformer whose blocks are others, behind a front end that the file calls ssl_model."""
    back_end = ConformerBackEnd(8, BackEnd(conformer_dimension=16, conformer_blocks=2))
    state = {}
    for name, tensor in back_end.state_dict().items():
        state[name.replace(".attn.", ".mamba.")] = tensor
    state["ssl_model.model.mask_emb"] = torch.ones(4)
    del state["conformer.class_token"]
    torch.save(state, tmp_path / "a.pth")
    with pytest.raises(AsdfError) as caught:
        asdf.Detector(tmp_path / "a.pth")
    message = str(caught.value)
    assert "is not a known detector: it holds LL.weight (16x8)" in message
    assert "front_end." not in message


def test_missing_layers_of_a_published_file_have_its_names(tmp_path):
    settings = Sections()
    settings.front_end.architecture = "tiny"
    state, _ = published_state(SSL_Conformer(settings))
    for missing in (
        "ssl_model.model.encoder.layers.1.self_attn.q_proj.weight",
        "conformer.encoder_blocks.1.post_norm.bias",
    ):
        others = {name: tensor for name, tensor in state.items() if name != missing}
        torch.save(others, tmp_path / "a.pth")
        with pytest.raises(AsdfError) as caught:
            import_detector(tmp_path / "a.pth", {"front_end.architecture": "tiny"})
        assert f"1 missing from the file: {missing}." in str(caught.value)
