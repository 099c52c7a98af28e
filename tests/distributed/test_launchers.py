"""Real processes that several launchers start: each is one run, and the same run as torchrun's."""

import itertools
import os
import shutil
import socket

import pytest

from tests.conftest import PATIENCE_S, Outcome, RecipeFolder
from tests.distributed.test_exactness import assert_equal_runs

OPTIONS = ("debug", "network.max_epochs=1", "recipe.end_stage=2")


# Between the ports that follow from a job's name and those that the system hands out: a program
# that requests any port gets none of these. Test workers begin at different ones.
PORTS = itertools.count(97 * os.getpid())


def free_port() -> str:
    while True:
        port = 30_000 + next(PORTS) % 2_700
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return str(port)


def torch_variables(rank: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}


def slurm_variables(rank: int) -> dict[str, str]:
    """Of a step of two tasks on one node; the job's number gives the port."""
    return {
        "SLURM_JOB_ID": f"{os.getpid()}",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_GTIDS": "0,1",
        "SLURM_STEP_NODELIST": "n1",
    }


def open_mpi_variables(rank: int) -> dict[str, str]:
    names = {"RANK": rank, "SIZE": 2, "LOCAL_RANK": rank, "LOCAL_SIZE": 2}
    variables = {f"OMPI_COMM_WORLD_{name}": str(value) for name, value in names.items()}
    return variables | {"PMIX_NAMESPACE": f"{os.getpid()}"}


def hydra_variables(rank: int) -> dict[str, str]:
    names = {"PMI_RANK": rank, "PMI_SIZE": 2, "MPI_LOCALRANKID": rank, "MPI_LOCALNRANKS": 2}
    return {name: str(value) for name, value in names.items()}


def run_pair(recipe: RecipeFolder, variables, *words: str) -> list[Outcome]:
    """Two processes, each with what `variables` says of its rank."""
    port = free_port()
    needs_port = variables in (torch_variables, hydra_variables)
    shared = {"MASTER_PORT": port} if needs_port else {}
    command = recipe.command(*words)
    pair = [recipe.start_command(command, **variables(rank), **shared) for rank in range(2)]
    outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in pair]
    return [
        Outcome(process.returncode, output) for process, output in zip(pair, outputs, strict=True)
    ]


def check_pair(outcomes: list[Outcome]) -> None:
    assert [outcome.status for outcome in outcomes] == [0, 0], outcomes
    assert "rank 1 of 2: host " in outcomes[0].output
    assert "local rank 1, device cpu" in outcomes[0].output


@pytest.mark.slow
def test_processes_of_other_launchers_train_what_those_of_torchrun_train(recipe):
    recipe.run(*OPTIONS, "paths.system_folder=torchrun", processes=2).ok()
    for variables in (torch_variables, slurm_variables):
        folder = f"paths.system_folder={variables.__name__}"
        check_pair(run_pair(recipe, variables, *OPTIONS, folder))
        assert_equal_runs(recipe.system("torchrun"), recipe.system(variables.__name__))
    # This one adds --local-rank to the words of each process.
    launcher = ["-m", "torch.distributed.launch", "--nproc_per_node=2", "--nnodes=1"]
    nodes = ["--node_rank=0", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    words = [str(recipe.folder / "run.py"), *OPTIONS, "paths.system_folder=launch"]
    recipe.run_command([recipe.python(), *launcher, *nodes, *words]).ok()
    assert_equal_runs(recipe.system("torchrun"), recipe.system("launch"))


@pytest.mark.slow
def test_a_task_of_srun_that_does_not_start_is_named(recipe):
    """Ranks 1 and 3 of four ended before they joined; the others say so.

    The wait is far longer than a busy machine takes to start the two that come.
    """
    command = recipe.command(*OPTIONS, "computing.timeout_s=20")
    changed = {"SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_TASKS_PER_NODE": "4"}
    changed["SLURM_GTIDS"] = "0,1,2,3"
    started = [
        recipe.start_command(command, **{**slurm_variables(rank), **changed}) for rank in (0, 2)
    ]
    outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in started]
    assert [process.returncode for process in started] == [1, 1], outputs
    said = "rank 0 waited 20 s for the other processes of this run: ranks 1, 3 of 4 did not arrive."
    assert outputs[0].count(said) == 1, outputs
    assert "--kill-on-bad-exit=1" in outputs[0]
    assert "Traceback" not in outputs[0] + outputs[1]
    # The main rank says it for all.
    assert "did not arrive" not in outputs[1]
    assert not recipe.output.exists()


@pytest.mark.slow_but("hydra_variables")
@pytest.mark.parametrize("variables", [open_mpi_variables, hydra_variables])
def test_processes_of_an_mpi_are_one_run(recipe, variables):
    check_pair(run_pair(recipe, variables, "debug", "recipe.end_stage=0"))


def test_mpirun_starts_one_run(recipe):
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun here")
    command = ["mpirun", "--oversubscribe", "-n", "2", *recipe.command(*OPTIONS)]
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    outcome = recipe.run_command(command, **as_root).ok()
    assert outcome.output.count("rank 1 of 2: host ") == 1
    assert outcome.output.count("another run is using") == 0


def test_processes_with_different_configs_are_refused_by_all_of_them(recipe):
    """As `srun -n2` would start them that is meant to run a config in each task."""
    port = free_port()
    pair = [
        recipe.start_command(recipe.command(config), **torch_variables(rank), MASTER_PORT=port)
        for rank, config in enumerate(("debug", "normed"))
    ]
    outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in pair]
    assert [process.returncode for process in pair] == [2, 2], outputs
    assert "do not run the same config" in outputs[0]
    assert "rank 0 runs debug, rank 1 runs normed. For separate runs" in outputs[0]
    assert not recipe.output.exists()


def test_a_contradictory_environment_starts_nothing(recipe):
    outcome = recipe.run("debug", RANK="0", WORLD_SIZE="1", **slurm_variables(1))
    assert outcome.status == 2
    assert "but srun started this process as rank 1 of 2" in outcome.output
    assert not recipe.output.exists()
