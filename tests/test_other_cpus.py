"""The sets of instructions that tests are held to are those that torch and oneDNN then use."""

import os
import subprocess
import sys

import pytest

from asdf.extras.cpu.packed_weights import is_available
from tests.conftest import ROOT
from tests.other_cpus import NUMBERS, SETS, SHORT

SHOW = """
import torch
from asdf.distributed.arithmetic import computes_bfloat16
print(torch.backends.cpu.get_cpu_capability(), computes_bfloat16())
"""


@pytest.mark.slow
@pytest.mark.skipif(not is_available(), reason="oneDNN is not held to instructions here")
@pytest.mark.parametrize(("name", "capability"), [("plain", "DEFAULT"), ("AVX2", "AVX2")])
def test_a_set_holds_torch_and_onednn(name, capability):
    command = [sys.executable, "-c", SHOW]
    environment = {**os.environ, **SETS[name]}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [capability, "False"]


@pytest.mark.slow
def test_a_failure_under_one_set_is_the_status_of_all(tmp_path):
    test = "import os\ndef test_it():\n    assert os.environ.get('ATEN_CPU_CAPABILITY') != 'avx2'\n"
    (tmp_path / "test_held.py").write_text(test)
    words = ["-n", "0", "-p", "no:cacheprovider", str(tmp_path / "test_held.py")]
    command = [sys.executable, "-m", "tests.other_cpus", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stdout.count("1 passed") == ended.stdout.count("1 failed") == 2


def test_what_is_held_exists_and_ci_holds_the_selection():
    for path in (*NUMBERS, *SHORT):
        assert (ROOT / path).exists(), path
    assert "python -m tests.other_cpus --short" in (ROOT / ".ci" / "run").read_text()
