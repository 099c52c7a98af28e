"""bf16 on a processor without AVX-512, for which torch has no kernels: fp32, which is stated.

oneDNN reads in which instructions it may compute once, at its first call: each case is a process.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.extras.cpu.packed_weights import is_available
from tests.other_cpus import SETS
from tests.unit.conftest import small_settings, sound, write_small_network

pytestmark = pytest.mark.skipif(
    not is_available(), reason="oneDNN is not held to instructions here"
)

LOGGED = "scoring in fp32: bf16 not used: torch has no bf16 for all operations on this CPU"


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    """LCNN has recurrent layers, which oneDNN computes in bf16 with AVX-512 alone."""
    settings = small_settings(network_class="asdf.networks.SSL_LCNN")
    return write_small_network(tmp_path_factory.mktemp("network") / "network.pt", settings)


@pytest.fixture
def recording(tmp_path) -> Path:
    soundfile.write(tmp_path / "a.wav", sound(8000), 16000)
    return tmp_path / "a.wav"


def run(*words: str, held_to: str = "AVX2") -> str:
    """Run a Python that is held to a set of instructions; return both its outputs."""
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, **SETS[held_to]}
    ended = subprocess.run([sys.executable, *words], env=environment, **outputs)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.mark.slow
def test_score_logs_that_it_computes_in_fp32(network, recording, tmp_path):
    (tmp_path / "list.txt").write_text("a.wav 1\n")
    scores = {}
    for precision in ("bf16", "fp32"):
        out = tmp_path / f"{precision}.txt"
        words = (str(network), str(tmp_path / "list.txt"), "--scores", str(out))
        printed = run("-m", "asdf", "score", *words, "--precision", precision, "--device", "cpu")
        assert (LOGGED in printed) is (precision == "bf16")
        assert json.loads(out.with_suffix(".scored.json").read_text())["precision"] == "fp32"
        scores[precision] = out.read_text()
    assert scores["bf16"] == scores["fp32"]


DETECTOR = """
import sys
from asdf import Detector
detector = Detector(sys.argv[1], device="cpu", precision="bf16")
print(detector.precision, detector.score_trial(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("held_to", ["AVX2", "plain"])
def test_a_detector_states_fp32(network, recording, held_to):
    printed = run("-c", DETECTOR, str(network), str(recording), held_to=held_to)
    precision, score = printed.split()[-2:]
    assert precision == "fp32" and np.isfinite(float(score))
    assert LOGGED in printed


@pytest.mark.slow
def test_a_run_trains_and_scores_in_fp32(recipe):
    recipe.python = lambda: sys.executable
    words = ("computing.precision=bf16", "computing.scoring_precision=bf16", "recipe.end_stage=2")
    outcome = recipe.run("debug", "network.max_epochs=1", *words, **SETS["AVX2"])
    assert outcome.status == 0, outcome.output
    assert "precision fp32: bf16 not used: torch has no bf16 for all operations" in outcome.output
    assert LOGGED in outcome.output
    assert "in bf16\n" not in outcome.output
    how = recipe.system() / "scores" / "epoch.1" / "demo-eval.scored.json"
    assert json.loads(how.read_text())["precision"] == "fp32"
