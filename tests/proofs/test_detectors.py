"""What detectors of every kind write: score files, tables, calibrations, answers of a service."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile

import asdf
from asdf.__main__ import main
from asdf.settings.sections import Sections
from tests.extras.service.conftest import as_file, as_form, running
from tests.proofs.frozen import compare
from tests.proofs.test_scores import ABSOLUTE, RELATIVE
from tests.unit.conftest import small_settings, sound, write_small_network

SSL = ("AASIST", "ConformerTCM", "ECAPA", "Linear", "MHFA", "Nes2NetX", "ResNet18", "SLS")
CLASSES = {
    "AASIST": "AASIST",
    "RawNet2": "RawNet2",
    "lfcc-lcnn": "SSL_LCNN",
    "frames": "SSL_Linear",
    **{f"SSL_{name}": f"SSL_{name}" for name in SSL},
}
SIZES = {
    "mhfa_heads": 4,
    "mhfa_embedding": 24,
    "sls_hidden": 32,
    "sls_samples": 8000,
    "conformer_dimension": 16,
    "conformer_blocks": 2,
    "lcnn_projection": 32,
    "resnet_projection": 20,
    "resnet_embedding": 40,
    "ecapa_channels": 16,
    "rawnet2_recurrent": 32,
    "rawnet2_embedding": 32,
}
# The name of the program is the one that was typed, and calibrations have their day.
PASSING = re.compile(r'(?<="command": ")[^"]*?(?=score )|\d{4}-\d\d-\d\d(?=[;"])')


def settings_of(kind: str) -> Sections:
    settings = small_settings(network_class=f"asdf.networks.{CLASSES[kind]}")
    for name, value in SIZES.items():
        setattr(settings.back_end, name, value)
    if kind == "lfcc-lcnn":
        settings.front_end.front_end_class = "lfcc"
    if kind == "frames":
        settings.front_end.front_end_class = "log_mel"
        settings.localisation.enabled = True
    return settings


def call(*words: object) -> None:
    assert main([str(word) for word in words]) == 0, words


def write_labelled(path: Path, seed: int) -> None:
    """Write a score file of recordings that are not here."""
    rng = np.random.default_rng(seed)
    lines = [f"{i}-away.wav {i % 2} {rng.normal() + 2 * (i % 2):.4f}\n" for i in range(80)]
    path.write_text("".join(lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Networks of all kinds, three recordings and a list of them."""
    folder = tmp_path_factory.mktemp("detectors")
    lines = []
    for number, samples in enumerate((3000, 20_001, 150_000)):
        soundfile.write(folder / f"{number}.wav", sound(samples, number), 16000, subtype="PCM_16")
        lines.append(f"{number}.wav {number % 2}\n")
    (folder / "list.txt").write_text("".join(lines))
    for kind in CLASSES:
        write_small_network(folder / f"{kind}.pt", settings_of(kind))
    scored = [folder / "first.txt", folder / "second.txt"]
    for seed, path in enumerate(scored):
        write_labelled(path, seed)
    networks = [folder / "calibrated.pt", folder / "SSL_Linear.pt"]
    call("calibrate", folder / "AASIST.pt", scored[0], "-o", networks[0])
    call("fuse", *scored, "--networks", *networks, "-o", folder / "fused.json", "--replicates", 0)
    return folder


@pytest.fixture
def outputs(tmp_path, folder, monkeypatch) -> Path:
    """An empty folder for what is written; the current one is that of the networks."""
    monkeypatch.chdir(folder)
    (tmp_path / "outputs").mkdir()
    return tmp_path / "outputs"


def compare_outputs(outputs: Path, name: str) -> None:
    for path in outputs.iterdir():
        text = PASSING.sub("", path.read_text())
        path.write_text(text.replace(str(outputs), "OUTPUTS").replace(str(Path.cwd()), "FOLDER"))
    compare(outputs, name, RELATIVE, ABSOLUTE)


# The numbers of each class are those of test_scores.py.
@pytest.mark.slow_but("AASIST", "lfcc-lcnn", "frames", "SSL_MHFA", "calibrated", "fused")
@pytest.mark.parametrize("kind", [*CLASSES, "calibrated", "fused"])
def test_what_is_written_of_scores_is_as_before(kind, outputs, tmp_path) -> None:
    network = f"{kind}.json" if kind == "fused" else f"{kind}.pt"
    common = ["score", network, "--threads", 1]
    trials = ["list.txt", "--scores", tmp_path / "list.txt", "--csv", outputs / "list.csv"]
    call(*common, *trials)
    (outputs / "list.txt").write_bytes((tmp_path / "list.txt").read_bytes())
    whole = ["1.wav", "2.wav", "--csv", outputs / "whole.csv", "--json", outputs / "whole.json"]
    call(*common, *whole, *(["--threshold", 0.5] if kind == "AASIST" else []))
    if kind == "frames":
        call(*common, "1.wav", "--segments", tmp_path / "parts")
        for suffix in ("rttm", "json"):
            (outputs / f"parts.{suffix}").write_text((tmp_path / f"parts.{suffix}").read_text())
    compare_outputs(outputs, f"detectors/{kind}")


def test_calibrations_and_fused_systems_are_as_before(
    outputs, folder, tmp_path, capsys, monkeypatch
) -> None:
    # What columns learn of a set is the subject of their own tests.
    monkeypatch.setattr("asdf.extras.COLUMNS", {})
    costs = ["--costs", "p_spoof=0.05,cost_fa=10", "--method", "regularised"]
    call("calibrate", "AASIST.pt", "first.txt", "-o", tmp_path / "net.pt", *costs)
    (outputs / "screen.txt").write_text(capsys.readouterr().out.replace(str(tmp_path), "OUTPUTS"))
    content = asdf.Detector(tmp_path / "net.pt", "cpu").calibration.content()
    content |= {"replicates": content["replicates"][:2], "date": None}
    (outputs / "calibration.json").write_text(json.dumps(content, indent=2))
    fused = json.loads((folder / "fused.json").read_text())
    del fused["calibration"]["replicates"]
    for network in fused["networks"]:
        del network["sha256"]
    (outputs / "fused.json").write_text(json.dumps(fused, indent=2))
    compare_outputs(outputs, "calibrations")


def test_answers_of_a_service_are_as_before(outputs) -> None:
    recording = as_file(sound(20_001, 1))
    form, kind = as_form(recording, "call.wav")
    detector = asdf.Detector("calibrated.pt", "cpu", threads=1)
    with running(detector) as service:
        answers = {
            "file": service.score(form, Content_Type=kind),
            "windows": service.score(recording, "?window=0.5&hop=0.3"),
            "trial": service.score(recording, "?trial=true"),
            "empty": service.score(b""),
        }
    for name, answer in answers.items():
        text = json.dumps(answer.json, indent=2)
        (outputs / f"{name}.json").write_text(f"{answer.status}\n{text}\n")
    compare_outputs(outputs, "service")
