"""What a resume takes of memory, on each process of a node."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import PATIENCE_S, ROOT
from tests.distributed import resume_memory

MB = 1_000_000


@pytest.mark.slow
def test_no_process_holds_the_whole_checkpoint_in_memory_of_its_own(tmp_path):
    resume_memory.write(tmp_path)
    assert (tmp_path / "networks" / "epoch.1.pt").stat().st_size > 100 * MB
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run(
        [sys.executable, *torchrun, "-m", "tests.distributed.resume_memory", str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    # The moments of the trained part take 8 MB.
    assert all(grown < 40 * MB for grown, _ in results), results
    assert [mapped for _, mapped in results] == [False, False]
