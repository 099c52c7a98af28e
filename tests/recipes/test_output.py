"""What a run does where its screen cannot show what it says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S


def run(recipe, shell: str, *words: str, **environment: str) -> subprocess.CompletedProcess:
    """Run `shell`, in which "$@" is run.py with `words`, on a Python that makes its own streams."""
    recipe.python = lambda: sys.executable
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell}", "bash", *recipe.command("debug", *words)],
        capture_output=True,
        env={**os.environ, "PYTHONUNBUFFERED": "", **environment},
        timeout=PATIENCE_S,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_ends_a_run_with_one_message(recipe):
    ended = run(recipe, '"$@" > /dev/full', "recipe.end_stage=0")
    message = (
        "error: cannot write to standard output: No space left on device. The output there is "
        "incomplete. Free some space or redirect it, then start the same command again.\n"
    )
    assert (ended.returncode, ended.stderr.decode()) == (1, message)
    assert not (recipe.system() / "owner.lock").exists()


@pytest.mark.slow
def test_a_name_that_the_terminal_lacks_letters_for_is_escaped_on_the_screen_alone(recipe):
    words = ("recipe.end_stage=0", "paths.system_folder='Täter 漢'")
    ended = run(recipe, '"$@"', *words, PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert rf"system folder {recipe.output}/T\xe4ter \u6f22" in ended.stdout.decode("ascii")
    assert "Täter 漢" in (recipe.system("Täter 漢") / "log.txt").read_text()


@pytest.mark.slow
def test_a_run_whose_output_nobody_reads_on_ends_quietly(recipe):
    ended = run(recipe, '"$@" | head -n 1', "recipe.end_stage=0")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b"loading torch")
