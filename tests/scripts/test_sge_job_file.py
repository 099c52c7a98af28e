"""The job file for SGE and UGE, without SGE: signals as its soft limit sends them."""

import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import PATIENCE_S, ROOT

# Stands in for torchrun, which dies of SIGUSR1 like any program that does not care for it.
TORCHRUN = """#!{python}
import os, sys, time
print(sys.argv[1:], flush=True)
while "wait" in sys.argv and not os.path.exists(os.environ["ASDF_STOP_FILE"]):
    time.sleep(0.05)
sys.exit(4 if "fail" in sys.argv else 0)
"""


@pytest.fixture
def start(tmp_path):
    script = ROOT / "puhti_slurm_scripts" / "other" / "asdf.sge.sh"
    (tmp_path / "job.sh").write_text(script.read_text())
    (tmp_path / "torchrun").write_text(TORCHRUN.format(python=sys.executable))
    (tmp_path / "torchrun").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    def start(*words: str) -> subprocess.Popen:
        return subprocess.Popen(
            ["bash", "job.sh", *words],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "JOB_ID": "7"},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    return start


def test_the_soft_limit_sends_the_job_back_into_the_queue(start, tmp_path):
    job = start("a b", "wait")
    assert "'a b', 'wait'" in job.stdout.readline()
    os.killpg(job.pid, signal.SIGUSR1)
    assert job.wait(PATIENCE_S) == 99
    assert not (tmp_path / ".asdf-stop-7").exists()


@pytest.mark.parametrize(("word", "status"), [("done", 0), ("fail", 4)])
def test_the_status_of_the_run_is_the_jobs(start, word, status):
    assert start(word).wait(PATIENCE_S) == status


def test_a_failure_after_the_signal_is_not_tried_again(start):
    job = start("wait", "fail")
    job.stdout.readline()
    os.killpg(job.pid, signal.SIGUSR1)
    assert job.wait(PATIENCE_S) == 4
