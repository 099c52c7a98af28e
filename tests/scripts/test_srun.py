"""A run whose processes srun starts, one per GPU, on a real Slurm of two nodes."""

import sys

import pytest

from tests.distributed.test_exactness import assert_equal_runs

SCRIPT = """#!/bin/bash
"{python}" -c 'from asdf.distributed.launchers import read_launch; print("script", read_launch())'
srun --kill-on-bad-exit=1 "{python}" "$@"
"""


@pytest.mark.slow
def test_srun_starts_one_run_of_all_its_tasks(lab, recipe):
    """Two tasks on each of two nodes train what four processes of torchrun train."""
    options = ("debug", "network.max_epochs=1", "recipe.end_stage=2")
    script = lab.folder / "job.sh"
    script.write_text(SCRIPT.format(python=sys.executable))
    job = lab.submit(
        str(script),
        ["--nodes=2", "--ntasks-per-node=2"],
        str(recipe.folder / "run.py"),
        *options,
        "paths.system_folder=srun",
    )
    assert job.wait().state == "COMPLETED", job.output
    # The script sees the number of tasks as well, and is one process.
    assert "script Launch(rank=0, size=1, local_rank=0, local_size=1, launcher=''" in job.output
    for line in ("rank 0 of 4: host n1, local rank 0", "rank 3 of 4: host n2, local rank 1"):
        assert line in job.output
    recipe.run(*options, "paths.system_folder=torchrun", processes=4).ok()
    assert_equal_runs(recipe.system("srun"), recipe.system("torchrun"))
