"""The shipped detector by its graph: no torch before the answer, and the network's scores."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import soundfile
import torch

from asdf import Detector
from asdf.errors import UsageError
from asdf.interchange import read_network
from asdf.shipped import NETWORK
from tests.unit.conftest import small_settings, sound, write_small_network

pytest.importorskip("onnxruntime")

# Of a score; float32 gives the network itself 7e-6 beside double precision.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def by_graph() -> Detector:
    return Detector()


@pytest.fixture(scope="module")
def by_torch() -> Detector:
    return Detector(engine="plain")


@pytest.mark.parametrize("rate", [16000, 44100])
def test_a_first_answer_imports_no_torch(tmp_path, rate) -> None:
    soundfile.write(tmp_path / "call.flac", sound(3 * rate, 1), rate)
    code = (
        "import sys\n"
        "from asdf.__main__ import main\n"
        "status = main(['score', sys.argv[1], '--json', sys.argv[2]])\n"
        "loaded = [name for name in sys.modules if name.partition('.')[0] == 'asdf']\n"
        "print(status, 'torch' in sys.modules, len(loaded))\n"
    )
    command = [sys.executable, "-c", code, tmp_path / "call.flac", tmp_path / "answer.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    status, torch_loaded, modules = done.stdout.split()[-3:]
    assert (status, torch_loaded) == ("0", "False")
    assert int(modules) <= 200
    assert '"engine": "graph"' in (tmp_path / "answer.json").read_text()
    assert "without torch" in (tmp_path / "answer.json").read_text()


def test_its_scores_are_those_of_the_network(by_graph, by_torch) -> None:
    assert (by_graph.engine, by_torch.engine) == ("graph", "plain")
    lengths = (9000, 16000, 52_345, 64_600, 52_345)
    waveforms = [sound(samples, seed).astype("f4") for seed, samples in enumerate(lengths)]
    ours = by_graph.pipeline.scorer.score_waveforms(waveforms, ["embedding"])
    theirs = by_torch.pipeline.scorer.score_waveforms(waveforms, ["embedding"])
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=0, atol=TOLERANCE)
    for row, expected in zip(ours.extras["embedding"], theirs.extras["embedding"], strict=True):
        np.testing.assert_allclose(row, expected, rtol=0, atol=2 * TOLERANCE)
    double = copy.deepcopy(read_network(NETWORK)[0]).double()
    with torch.no_grad():
        logits_12 = double(torch.from_numpy(waveforms[3])[None].double())[1]
    assert ours.scores[3] == pytest.approx(logits_12[0, 1].item(), abs=TOLERANCE)


def test_the_detector_is_the_same(by_graph, by_torch, tmp_path) -> None:
    assert by_graph.settings == by_torch.settings
    assert by_graph.calibration == by_torch.calibration
    for name in ("source", "threshold", "precision", "device", "threads", "length", "remark"):
        assert getattr(by_graph, name) == getattr(by_torch, name), name
    assert by_graph.window_samples == by_torch.window_samples
    soundfile.write(tmp_path / "long.wav", sound(70 * 16000, 3), 16000)
    ours, theirs = by_graph.score(tmp_path / "long.wav"), by_torch.score(tmp_path / "long.wav")
    # The calibration makes a likelihood ratio of it, four times as large.
    assert float(ours) == pytest.approx(float(theirs), abs=4 * TOLERANCE)
    assert (ours.verdict, ours.seconds_scored) == (theirs.verdict, theirs.seconds_scored)


def test_a_copy_has_the_same_engine(by_graph) -> None:
    copied = pickle.loads(pickle.dumps(by_graph))
    assert copied.engine == "graph"
    assert copied.score(sound(20_000, 2), 16000) == by_graph.score(sound(20_000, 2), 16000)


def test_gradients_need_torch(by_graph) -> None:
    with pytest.raises(UsageError, match="engine 'graph' has no gradients"):
        by_graph.pipeline.scorer.score_with_gradients(torch.zeros(1, 16000))


def test_windows_are_advised_instead_of_frames(by_graph) -> None:
    with pytest.raises(UsageError, match=r"scores no frames: .* by any network: `score --window`"):
        by_graph.score(sound(20_000, 2), 16000, frames=True)


@pytest.mark.parametrize("options", [{"full_length": True}, {"precision": "bf16"}])
def test_torch_computes_what_the_graph_does_not(options) -> None:
    assert Detector(**options).engine in ("packed", "plain")
    with pytest.raises(UsageError, match="engine 'graph' computes the detector 'small' on a CPU"):
        Detector(engine="graph", **options)


def test_other_networks_have_no_graph(tmp_path) -> None:
    network = write_small_network(tmp_path / "network.pt", small_settings())
    with pytest.raises(UsageError, match="Leave the engine out"):
        Detector(network, engine="graph")


def test_without_the_runtime_torch_computes(monkeypatch) -> None:
    # The import raises ImportError, as that of a broken installation.
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert Detector().engine in ("packed", "plain")
    with pytest.raises(UsageError, match="by the package onnxruntime"):
        Detector(engine="graph")


def test_a_folder_that_does_not_exist_is_refused(tmp_path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        Detector(network_folder=tmp_path / "missing")
