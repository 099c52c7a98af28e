"""How many files a reader enters who follows one action: each is a room to get to know.

The limits are today's numbers. They may fall, and must not rise: who needs one more file for the
same thought should look for one that can go.
"""

import json
import subprocess

import numpy as np
import pytest
import soundfile

from asdf.evaluation import write_scores
from tests.conftest import ROOT
from tests.unit.conftest import small_settings, sound, write_small_network


def entered(warm, *words: object) -> list[str]:
    """Return the files of ASDF that an action of `tests.walked` enters."""
    command = [warm(), "-m", "tests.walked", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files: list[str] = json.loads(done.stdout)
    return files


def test_the_score_of_a_recording(tmp_path, warm) -> None:
    settings = small_settings(network_class="asdf.networks.AASIST_L")
    network = write_small_network(tmp_path / "network.pt", settings)
    soundfile.write(tmp_path / "one.wav", sound(20_000, 1), 16000)
    files = entered(warm, "score", network, tmp_path / "one.wav")
    assert "scoring/pipeline.py" in files
    assert len(files) <= 26, files


def test_the_metrics_of_a_score_file(tmp_path, warm) -> None:
    labels = np.arange(60) % 2
    scores = np.random.default_rng(0).normal(size=60) + labels
    write_scores(tmp_path / "eval.txt", [str(index) for index in range(60)], labels, scores)
    files = entered(warm, "evaluate", tmp_path / "eval.txt")
    assert "metrics/detection.py" in files
    assert len(files) <= 30, files


@pytest.mark.slow
def test_the_plan_of_a_run(recipe, warm) -> None:
    files = entered(warm, "plan", recipe.folder, "debug")
    assert "recipe/dry_run.py" in files
    assert len(files) <= 71, files
