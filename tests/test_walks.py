"""How many files a reader enters who follows one action: each is a room to get to know.

The limits are today's numbers. They may fall, and must not rise: who needs one more file for the
same thought should look for one that can go.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import soundfile

import asdf
from asdf.__main__ import main
from asdf.evaluation import write_scores
from tests.unit.conftest import small_settings, sound, write_small_network

PACKAGE = Path(asdf.__file__).parent


def entered(action: Callable[[], object]) -> list[str]:
    """Return the files of ASDF whose functions `action` calls, in any thread.

    It runs once before: what is imported or built at first is no part of the way.
    """
    action()
    files = set()

    def see(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_name != "<module>" and PACKAGE in path.parents:
            files.add(str(path.relative_to(PACKAGE)))

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(files)


def test_the_score_of_a_recording(tmp_path) -> None:
    write_small_network(tmp_path / "network.pt", small_settings())
    soundfile.write(tmp_path / "one.wav", sound(20_000, 1), 16000)
    detector = asdf.Detector(tmp_path / "network.pt", "cpu")
    files = entered(lambda: detector.score(tmp_path / "one.wav"))
    assert "scoring/hearing.py" in files
    assert len(files) <= 43, files


def test_the_metrics_of_a_score_file(tmp_path) -> None:
    labels = np.arange(60) % 2
    scores = np.random.default_rng(0).normal(size=60) + labels
    write_scores(tmp_path / "eval.txt", [str(index) for index in range(60)], labels, scores)

    def evaluate() -> None:
        with redirect_stdout(StringIO()):
            assert main(["evaluate", str(tmp_path / "eval.txt")]) == 0

    files = entered(evaluate)
    assert "metrics/detection.py" in files
    assert len(files) <= 39, files


def test_the_plan_of_a_run(recipe, capsys) -> None:
    def plan() -> None:
        assert recipe.call(capsys, "debug", "--dry-run").status == 0

    files = entered(plan)
    assert "recipe/dry_run.py" in files
    assert len(files) <= 93, files
