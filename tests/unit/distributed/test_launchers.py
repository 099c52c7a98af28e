"""Every launcher is understood or refused: this process's rank, their number, rank 0's address."""

import hashlib
import os

import pytest

from asdf.distributed import launchers
from asdf.distributed.launchers import Launch, first_host, name_port, read_launch
from asdf.errors import UsageError

MASTER = {"MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
    "GROUP_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x", **MASTER,
}  # fmt: skip
# What Slurm 22.05 sets for the third of three tasks on two nodes.
STEP = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1", "SLURM_NTASKS": "3", "SLURM_STEP_NUM_TASKS": "3", "SLURM_GTIDS": "2",
    "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2,1", "SLURM_JOB_NUM_NODES": "2",
}  # fmt: skip
# What it sets in the batch script of a job with --ntasks=3, which is one process.
BATCH = {
    "SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
    "SLURM_NTASKS": "3", "SLURM_GTIDS": "0", "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_TASKS_PER_NODE": "2,1",
}  # fmt: skip
ONE_NODE = {
    **STEP, "SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_NODES": "1", "SLURM_GTIDS": "0,1,2", "SLURM_STEP_TASKS_PER_NODE": "3",
    "SLURM_STEP_NODELIST": "n1",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "1445724161", "PMIX_RANK": "1",
}  # fmt: skip
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
ALONE = Launch(launcher="srun")
BY_HAND = {"RANK": "1", "WORLD_SIZE": "2", **MASTER}


@pytest.mark.parametrize(
    ("environment", "launch"),
    [
        ({}, Launch()),
        ({"WORLD_SIZE": "1"}, Launch()),
        (TORCHRUN, Launch(3, 4, 1, 2, "torchrun", "node1", 29500)),
        (BY_HAND, Launch(1, 2, None, None, "RANK and WORLD_SIZE", "node1", 29500)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, Launch(0, 1, None, None, "RANK and WORLD_SIZE")),
        (STEP, Launch(2, 3, 0, 1, "srun", "n1", name_port("7.0"))),
        (ONE_NODE, Launch(1, 3, 1, 3, "srun", "127.0.0.1", name_port("7.0"))),
        ({**STEP, **MASTER}, Launch(2, 3, 0, 1, "srun", "node1", 29500)),
        (BATCH, Launch()),
        # srun torchrun: one torchrun per node
        ({**ONE_NODE, **TORCHRUN, "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2",
          "SLURM_GTIDS": "0,1", "SLURM_STEP_TASKS_PER_NODE": "2"},
         Launch(3, 4, 1, 2, "torchrun", "node1", 29500)),
        # a wrapper that hands on Slurm's rank and no local rank
        ({**ONE_NODE, "RANK": "1", "WORLD_SIZE": "3"},
         Launch(1, 3, 1, 3, "RANK and WORLD_SIZE", "127.0.0.1", name_port("7.0"))),
        (OPEN_MPI, Launch(1, 2, 1, 2, "mpirun", "127.0.0.1", name_port("1445724161"))),
        # mpirun from a batch script of Slurm
        ({**BATCH, **OPEN_MPI}, Launch(1, 2, 1, 2, "mpirun", "127.0.0.1", name_port("1445724161"))),
        ({**HYDRA, **MASTER}, Launch(1, 2, 1, 2, "mpiexec", "node1", 29500)),
        # a script that sets LOCAL_RANK as if nothing had started it
        ({**HYDRA, **MASTER, "LOCAL_RANK": "-1"}, Launch(1, 2, 1, 2, "mpiexec", "node1", 29500)),
        ({**HYDRA, "MASTER_PORT": "29501"}, Launch(1, 2, 1, 2, "mpiexec", "127.0.0.1", 29501)),
        # srun --mpi=pmi2
        ({**ONE_NODE, "PMI_RANK": "1", "PMI_SIZE": "3"},
         Launch(1, 3, 1, 3, "srun", "127.0.0.1", name_port("7.0"))),
        # mpiexec from an srun of one task per node
        ({**ONE_NODE, **HYDRA, **MASTER}, Launch(1, 2, 1, 2, "mpiexec", "node1", 29500)),
        # an interactive job of four tasks: the shell is a step of one
        ({**ONE_NODE, "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0",
          "PMIX_RANK": "0"}, ALONE),
        # srun --mpi=pmix
        ({**ONE_NODE, "PMIX_RANK": "1"}, Launch(1, 3, 1, 3, "srun", "127.0.0.1", name_port("7.0"))),
    ],
)  # fmt: skip
def test_what_each_launcher_says(environment, launch):
    assert read_launch(environment) == launch


def test_a_step_of_one_task_is_one_process_that_may_start_several():
    step = {**STEP, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "1",
           "SLURM_GTIDS": "0", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_NODEID": "0"}  # fmt: skip
    launch = read_launch(step)
    assert (launch.size, launch.is_in_torch_world) == (1, False)
    assert read_launch({"RANK": "0", "WORLD_SIZE": "1"}).is_in_torch_world


@pytest.mark.parametrize(
    "own",
    [
        {"SLURM_NTASKS": "1"},
        {"SLURM_GTIDS": "0,1"},
        {"SLURM_NODEID": "2"},
        {"SLURM_JOB_NUM_NODES": "1"},
    ],
)
def test_a_job_submitted_from_within_a_step_is_no_task_of_that_step(own):
    """Slurm hands the step's variables on to the job's script and replaces only some of them."""
    assert read_launch({**STEP, **own, "PMIX_RANK": "2"}) == ALONE


@pytest.mark.parametrize("empty", ["", " "])
def test_empty_variables_are_not_set(empty):
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    assert read_launch(dict.fromkeys(names, empty)) == Launch()


def test_what_is_typed_in_a_terminal_of_srun_runs_once(monkeypatch):
    shell = {**ONE_NODE, "SLURM_PTY_PORT": "36021", "SLURM_TASK_PID": "1"}
    monkeypatch.setattr(launchers.os, "open", lambda path, flags: os.dup(0))
    assert read_launch(shell) == ALONE
    assert read_launch({**shell, "PMI_RANK": "0", "PMI_SIZE": "3"}) == ALONE
    assert read_launch({**shell, "SLURM_TASK_PID": str(os.getpid())}).size == 3

    def refuse(path, flags):
        raise OSError("no terminal")

    monkeypatch.setattr(launchers.os, "open", refuse)  # an srun that was typed there
    assert read_launch(shell).size == 3


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE set in the environment, but RANK not"),
        ({"RANK": "0"}, "RANK set in the environment, but WORLD_SIZE not"),
        ({"RANK": "first", "WORLD_SIZE": "2"}, "RANK=first, which is not a whole number"),
        ({"RANK": "", "WORLD_SIZE": "2"}, "WORLD_SIZE set in the environment, but RANK not"),
        ({**BY_HAND, "MASTER_PORT": "99999"}, "MASTER_PORT=99999; ports end at 65535"),
        ({**BY_HAND, "RANK": "2"}, "rank 2 of 2, local rank None of None, which is out of range"),
        ({**TORCHRUN, "LOCAL_RANK": "2"}, "local rank 2 of 2, which is out of range"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "5"}, "local rank 1 of 5, which is out of range"),
        ({"LOCAL_RANK": "1"}, "LOCAL_RANK=1 is set, so this process is one of several"),
        ({"PMIX_RANK": "1"}, "PMIX_RANK=1 is set"),
        ({"PMI_RANK": "1"}, "PMI_RANK=1 is set"),
        (
            {"RANK": "1", "WORLD_SIZE": "2"},
            "RANK and WORLD_SIZE started 2 processes without MASTER_ADDR and MASTER_PORT: ",
        ),
        (HYDRA, "mpiexec started 2 processes without MASTER_PORT: "),
        (
            {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "4"},
            "mpirun -x MASTER_ADDR=node1 -x MASTER_PORT=29500",
        ),
        (
            {**ONE_NODE, "RANK": "0", "WORLD_SIZE": "1"},
            "RANK=0 and WORLD_SIZE=1 are set, but srun started this process as rank 1 of 3",
        ),
        ({**ONE_NODE, **BY_HAND}, "but srun started this process as rank 1 of 3"),
        (
            {**OPEN_MPI, **TORCHRUN, "GROUP_WORLD_SIZE": "1"},
            "mpirun started 2 torchruns that are not connected",
        ),
    ],
)
def test_what_is_incomplete_or_contradictory_is_refused_with_the_reason(environment, said):
    with pytest.raises(UsageError) as caught:
        read_launch(environment)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("n1", "n1"),
        ("n[1-2]", "n1"),
        ("r01c[007-012,15],login", "r01c007"),
        ("gpu3,gpu[5-6]", "gpu3"),
        ("r[01-03,7]n[11-12]-ib", "r01n11-ib"),
        ("", ""),
    ],
)
def test_the_first_host_of_a_node_list(nodes, host):
    assert first_host(nodes) == host


def test_a_port_follows_from_the_job_and_is_no_port_that_systems_hand_out():
    ports = {name_port(f"{job}.{step}") for job in range(40) for step in range(5)}
    assert len(ports) > 190 and min(ports) >= 10_000 and max(ports) < 30_000
    # The first 32 bits of its SHA-256, by the number of ports.
    first = hashlib.sha256(b"7.0").hexdigest()[:8]
    assert name_port("7.0") == 10_000 + int(first, 16) % 20_000
