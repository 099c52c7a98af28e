"""A run that is killed while it scores a list goes on from what it has saved of it."""

import os
import shutil
import signal
import sys
import time

import pytest

from tests.conftest import PATIENCE_S

WAITING = """
import os
import time
from pathlib import Path

from asdf.runs import parts
from small_networks import Plain

FOLDER = os.environ.get("TEST_WAIT_FOR_PARTS_IN")
if FOLDER:
    parts.SAVED_EVERY_S = -1


class Waiting(Plain):
    def forward(self, waveforms):
        # The test kills it here, or ends it with itself.
        while FOLDER and len(list(Path(FOLDER).glob(".*.npz"))) >= 2:
            time.sleep(0.1)
        return super().forward(waveforms)
"""


def wait_for_parts(folder, process) -> list[str]:
    """Return the names of the two parts that the run saves before it waits."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        names = [path.name for path in folder.glob(".*.npz")]
        if len(names) >= 2:
            return names
        time.sleep(0.1)
    process.kill()
    raise AssertionError(process.communicate()[0])


@pytest.mark.slow
def test_a_run_killed_in_stage_2_goes_on_to_the_same_bytes(recipe, capsys):
    (recipe.folder / "waiting.py").write_text(WAITING)
    options = ("debug", "network.network_class=waiting.Waiting", "network.max_epochs=1")
    options += ("recipe.evaluation_sets=('demo-eval',)",)
    recipe.call(capsys, *options, "recipe.end_stage=1").ok()
    shutil.copytree(recipe.system(), recipe.system("whole"))
    recipe.call(capsys, *options, "paths.system_folder=whole").ok()

    scores = recipe.system() / "scores" / "epoch.1"
    # A process that was not forked from another: the kill reaches it itself.
    recipe.python, warm = lambda: sys.executable, recipe.python
    process = recipe.start(*options, TEST_WAIT_FOR_PARTS_IN=str(scores))
    wait_for_parts(scores, process)
    os.killpg(process.pid, signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL, output
    assert not (scores / "demo-eval.txt").exists()

    recipe.python = warm
    again = recipe.run(*options).ok()
    assert "scoring demo-eval resumes: 2 of 8 trials are scored already" in again.output
    whole = recipe.system("whole") / "scores" / "epoch.1" / "demo-eval.txt"
    assert (scores / "demo-eval.txt").read_bytes() == whole.read_bytes()
    assert len(whole.read_text().splitlines()) == 8
    assert not list(scores.glob(".*"))
