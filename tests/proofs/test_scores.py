"""Scores of recordings by every way to them, and the network files that they are computed from."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch import nn

import asdf
from asdf.__main__ import main
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import read_network_file
from asdf.networks import build_network
from asdf.settings.sections import Sections
from tests.encoders import config_text
from tests.proofs.frozen import compare
from tests.unit.conftest import small_settings, sound, write_small_network
from tests.unit.scoring.test_stream import chunks
from tests.unit.scoring.test_stream import run as run_stream
from tests.unit.scoring.test_whole_recording import score_in_pieces

# float32 through a hundred layers.
RELATIVE, ABSOLUTE = 1e-4, 2e-5
LENGTHS = (1000, 5000, 8000, 8000, 20001)
CLASSES = (
    *("AASIST", "AASIST_L", "RawNet2", "SSL_AASIST", "SSL_AASIST_L", "SSL_ASP", "SSL_Conformer"),
    *("SSL_ConformerTCM", "SSL_ECAPA", "SSL_LCNN", "SSL_Linear", "SSL_MHFA", "SSL_Nes2NetX"),
    *("SSL_ResNet18", "SSL_SLS"),
)

FRONT_ENDS = (
    *(
        "wav2vec2",
        "raw",
        "spectrogram",
        "filter_bank",
        "log_mel",
        "lfcc",
        "mfcc",
        "sinc",
        "cqt",
        "cqcc",
    ),
    *("moments", "transformers"),
)


@pytest.fixture
def recordings(tmp_path) -> list[Path]:
    paths = []
    for number, samples in enumerate(LENGTHS):
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, sound(samples, number), 16000, subtype="PCM_16")
        paths.append(path)
    return paths


def lines_of(detector: asdf.Detector, recordings: list[Path]) -> Iterator[str]:
    for path in recordings:
        samples, rate = soundfile.read(path, dtype="float32")
        yield f"{path.name} trial {detector.score_trial(path):.9e}"
        whole = detector.score_whole(path)
        lowest = f"{whole.lowest.start_s} {whole.lowest.score:.9e}" if whole.lowest else "-"
        yield f"{path.name} whole {whole.score:.9e} {whole.windows} lowest {lowest}"
        for window in detector.score_over_time(path, 0.3, 0.15):
            yield f"{path.name} window {window.start_s} {window.end_s} {window.score:.9e}"
        stream = detector.stream(rate, 0.3, 0.15)
        for window in run_stream(stream, chunks(samples, [777])):
            yield f"{path.name} stream {window.start_s} {window.end_s} {window.score:.9e}"
        result, _ = score_in_pieces(detector, samples)
        yield f"{path.name} pieces {result.score:.9e}"


@pytest.mark.parametrize("engine", ["packed", "plain"])
def test_scores_by_every_way_are_as_before(tmp_path, recordings, engine, capsys) -> None:
    settings = small_settings(network_class="asdf.networks.AASIST_L")
    network = write_small_network(tmp_path / "network.pt", settings)
    folder = tmp_path / "outputs"
    folder.mkdir()
    detector = asdf.Detector(network, "cpu", threads=1, engine=engine)
    (folder / "detector.txt").write_text("".join(f"{x}\n" for x in lines_of(detector, recordings)))
    labels = "".join(f"{path.name} {number % 2}\n" for number, path in enumerate(recordings))
    (tmp_path / "list.txt").write_text(labels)
    words = ["score", network, tmp_path / "list.txt", "--trial", "--threads", "1"]
    outputs = ["--scores", folder / "list.txt", "--csv", tmp_path / "out.csv", "--engine", engine]
    assert main([str(word) for word in (*words, *outputs)]) == 0
    for path in folder.iterdir():
        if path.name not in ("detector.txt", "list.txt"):
            path.unlink()
    text = (tmp_path / "out.csv").read_text().replace(str(tmp_path), "FOLDER")
    (folder / "table.csv").write_text(text)
    compare(folder, f"scores/{engine}", RELATIVE, ABSOLUTE)


def description(path: Path, network: nn.Module, settings: Sections, waveforms: torch.Tensor) -> str:
    """Write a network file; return names, shapes, types of what is in it, and its logits."""
    write_network_file(path, NetworkFile.from_network(network, settings))
    content = torch.load(path, weights_only=True)
    lines = [f"entries {sorted(content)}", f"version {content['version']}"]
    for key, value in content["model_state_dict"].items():
        lines.append(f"{key} {tuple(value.shape)} {value.dtype}")
    with torch.inference_mode():
        logits = network(waveforms)[1].flatten().tolist()
    lines.append(f"logits {' '.join(f'{logit:.9e}' for logit in logits)}")
    state = read_network_file(path).state
    assert all(torch.equal(value, content["model_state_dict"][k]) for k, value in state.items())
    return "\n".join(lines) + "\n"


def test_network_files_of_every_class_are_as_before(tmp_path) -> None:
    folder = tmp_path / "outputs"
    folder.mkdir()
    waveforms = torch.from_numpy(np.stack([sound(8000, seed) for seed in range(2)])).float()
    for name in CLASSES:
        settings = small_settings(network_class=f"asdf.networks.{name}")
        torch.manual_seed(0)
        network = build_network(settings).eval()
        path = tmp_path / f"{name}.pt"
        (folder / f"{name}.txt").write_text(description(path, network, settings, waveforms))
    compare(folder, "networks", RELATIVE, ABSOLUTE)


def test_network_files_of_every_front_end_are_as_before(tmp_path) -> None:
    folder = tmp_path / "outputs"
    folder.mkdir()
    waveforms = torch.from_numpy(np.stack([sound(8000, seed) for seed in range(2)])).float()
    for name in FRONT_ENDS:
        settings = small_settings(network_class="asdf.networks.SSL_Linear")
        settings.front_end.front_end_class = name
        if name == "transformers":
            settings.front_end.architecture = config_text("wav2vec2")
        torch.manual_seed(0)
        network = build_network(settings).eval()
        path = tmp_path / f"{name}.pt"
        (folder / f"{name}.txt").write_text(description(path, network, settings, waveforms))
    compare(folder, "front_ends", RELATIVE, ABSOLUTE)


def test_a_network_of_the_first_version_scores_as_before(tmp_path, recordings, shared) -> None:
    """Its settings lack most of today's, and its training state is read too."""
    network = shared / "reference/v0.1/quickstart/networks/epoch.1.pt"
    folder = tmp_path / "outputs"
    folder.mkdir()
    detector = asdf.Detector(network, "cpu", threads=1)
    read = read_network_file(network)
    lines = [f"version {read.version}", f"class {read.network_class}", f"{read.progress}"]
    lines += [f"{name} {tuple(value.shape)} {value.dtype}" for name, value in read.state.items()]
    (folder / "network.txt").write_text("\n".join(lines) + "\n")
    (folder / "detector.txt").write_text("".join(f"{x}\n" for x in lines_of(detector, recordings)))
    words = ["score", network, recordings[0], recordings[4], "--csv", folder / "table.csv"]
    assert main([str(word) for word in (*words, "--threads", 1)]) == 0
    text = (folder / "table.csv").read_text().replace(str(tmp_path), "FOLDER")
    (folder / "table.csv").write_text(text)
    compare(folder, "first_version", RELATIVE, ABSOLUTE)
