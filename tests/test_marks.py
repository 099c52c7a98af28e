"""`pytest` leaves slow tests out, `pytest -m slow` runs them alone, and CI does both, once."""

import os
import shutil
import subprocess
import sys
from functools import partial

import pytest

from tests.conftest import ROOT

CASES = """
import pytest

@pytest.mark.slow_but("quick")
@pytest.mark.parametrize("case", ["quick", "long"])
def test_cases(case):
    pass
"""


@pytest.mark.slow
def test_a_case_stands_for_the_slow_ones_of_its_test(tmp_path):
    shutil.copyfile(ROOT / "tests" / "conftest.py", tmp_path / "conftest.py")
    (tmp_path / "test_cases.py").write_text(CASES)
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-n", "0", "-v"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = partial(subprocess.run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    quick = ran(command)
    assert "test_cases[quick] PASSED" in quick.stdout and "1 deselected" in quick.stdout
    assert "test_cases[long] PASSED" in ran([*command, "-m", "slow"]).stdout
    (tmp_path / "test_cases.py").write_text(CASES.replace('slow_but("quick")', 'slow_but("quik")'))
    wrong = ran(command)
    assert wrong.returncode == pytest.ExitCode.USAGE_ERROR
    assert "slow_but names ['quik']" in wrong.stdout + wrong.stderr


def test_what_processes_import_is_compiled_once():
    program = "import sys; print(sys.dont_write_bytecode)"
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True
    ).stdout
    assert (sys.dont_write_bytecode, printed) == (False, b"False\n")


def test_slow_tests_are_a_call_of_their_own_and_ci_runs_both_once():
    assert "-m 'not slow'" in (ROOT / "pyproject.toml").read_text()
    script = (ROOT / ".ci" / "run").read_text()
    assert "pytest -m slow" in script
    assert "--last-failed" not in script
