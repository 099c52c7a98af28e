"""What a run makes of the GPUs and of the cores next to them."""

import pytest

from tests.conftest import PATIENCE_S, Outcome
from tests.distributed.test_launchers import free_port, torch_variables
from tests.gpu.conftest import run_module


@pytest.fixture(scope="module")
def described(on_null_gpu):
    return on_null_gpu("describe_process", "[16, 10, 2]", count=4, capability=80)


def test_the_precision_is_what_the_tensor_cores_compute_in(on_null_gpu, described):
    """Of compute capability 9.0 it is in the log of whole runs."""
    precision = described["by_cores"][0]["precision"]
    assert precision == "precision bf16: compute capability 8.0"
    older = on_null_gpu("describe_process", "[4]", capability=75)["by_cores"][0]["precision"]
    reason = "compute capability 7.5, bf16 needs 8.0"
    assert older == f"precision fp16 with loss scaling: {reason}"


def test_two_cores_are_left_to_the_main_process_which_takes_one_thread(described):
    taken = [(cores["threads"], cores["workers"]) for cores in described["by_cores"]]
    assert taken == [(1, 10), (1, 8), (1, 1)]


def test_a_launch_counts_the_gpus_that_torch_counts(described):
    """All of four, some of them, none, and a part of one (MIG)."""
    counts = {"0,1,2,3": 4, "2": 1, "3,1": 2, "": 0, "-1": 0, "MIG-6f3e1b1c": 1}
    assert described["counts"] == {shown: [count] * 2 for shown, count in counts.items()}


def test_a_gpu_without_kernels_in_the_installed_torch_is_refused(null_gpu, warm):
    outcome = run_module(warm(), null_gpu(capability=70), "describe_process", "[4]")
    assert outcome.status == 1
    assert "Null GPU has compute capability 7.0, and the installed torch" in outcome.output
    assert "download.pytorch.org/whl/cu126" in outcome.output


def start_on_gpus(recipe, null_gpu, gpus: tuple[str, str]) -> list[Outcome]:
    """Two processes, each of which sees one of `gpus` alone."""
    command, port = recipe.command("debug", "recipe.end_stage=0"), free_port()
    processes = []
    for rank, gpu in enumerate(gpus):
        variables = {**null_gpu(count=4), **torch_variables(rank), "MASTER_PORT": port}
        variables["CUDA_VISIBLE_DEVICES"] = gpu
        processes.append(recipe.start_command(command, **variables))
    outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
    statuses = [process.returncode for process in processes]
    return [Outcome(*ends) for ends in zip(statuses, outputs, strict=True)]


def test_each_task_may_see_one_gpu_but_not_the_same(recipe, null_gpu):
    first, second = start_on_gpus(recipe, null_gpu, ("2", "3"))
    assert (first.status, second.status) == (0, 0), first.output + second.output
    assert "rank 1 of 2: host " in first.output
    assert first.output.count("device cuda:0 (Null GPU)") == 2
    first, second = start_on_gpus(recipe, null_gpu, ("2", "2"))
    assert (first.status, second.status) == (2, 2), first.output + second.output
    assert "ranks 0 and 1 would use the same GPU:\n  rank 0: host " in first.output
    assert "cuda:0 = GPU 00000000-0000-0000-0000-000000000000 at 0000:03:00\n" in first.output
