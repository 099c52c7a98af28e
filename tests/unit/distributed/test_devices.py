"""Which device a process computes on."""

from dataclasses import replace

import pytest

from asdf.distributed import devices
from asdf.distributed.devices import (
    Build,
    SeenGpus,
    choose_device,
    cpu_notice,
    describe_mapping,
    install_line,
    usable_gpus,
)
from asdf.distributed.launchers import Launch
from asdf.errors import UsageError
from asdf.settings.sections import Computing


@pytest.mark.parametrize(
    ("ids", "local_rank", "local_size", "device"),
    [
        (None, 0, 1, "cuda:0"),
        (None, 2, 3, "cuda:2"),
        ((0, 2, 3), 0, 3, "cuda:0"),
        ((0, 2, 3), 1, 3, "cuda:2"),
        ((0, 2, 3), 2, 3, "cuda:3"),
        ((3, 1), 0, 1, "cuda:3"),  # more GPUs than processes: the first ones
    ],
)
def test_the_local_rank_chooses_among_gpu_ids(ids, local_rank, local_size, device):
    assert choose_device(Computing(gpu_ids=ids), local_rank, local_size, gpus=4) == device


def test_fewer_gpus_than_processes_are_assumed_to_be_one_each():
    assert [choose_device(Computing(), rank, 4, gpus=1) for rank in range(4)] == ["cuda:0"] * 4
    devices = [choose_device(Computing(), rank, 4, gpus=2) for rank in range(4)]
    assert devices == ["cuda:0", "cuda:1", "cuda:0", "cuda:0"]


def test_no_usable_gpu_means_the_cpu():
    assert choose_device(Computing(gpu_ids=(0, 1)), 1, 2, gpus=0) == "cpu"


@pytest.mark.parametrize(
    ("ids", "local_size", "said"),
    [
        ((0,), 2, "2 processes on this node, but only 1 GPUs named"),
        ((1, 1), 2, "a GPU is named twice"),
        ((0, 4), 2, "GPU 4 does not exist: 4 visible, numbered from 0"),
    ],
)  # fmt: skip
def test_a_mapping_that_cannot_be_is_refused(monkeypatch, ids, local_size, said):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    with pytest.raises(UsageError) as caught:
        choose_device(Computing(gpu_ids=ids), 0, local_size, gpus=4)
    assert said in str(caught.value) and "CUDA_VISIBLE_DEVICES is 4,5,6,7" in str(caught.value)


CUDA = Build("2.14.1+cu130", "CUDA 13.0")
CPU_BUILD = Build("2.14.1+cpu", "")
ONE = SeenGpus(count=0, on_node=1, build=CUDA, driver="580.65.06")


@pytest.mark.parametrize(
    ("computing", "seen", "gpus"),
    [
        (Computing(), SeenGpus(2, 2, CUDA), 2),
        (Computing(use_gpu="required"), SeenGpus(1, 1, CUDA), 1),
        (Computing(use_gpu=False), SeenGpus(2, 2, CUDA), 0),
        (Computing(use_gpu=False), ONE, 0),
        (Computing(use_gpu=False, gpu_ids=(0,)), SeenGpus(0, 0, CUDA), 0),
        (Computing(), SeenGpus(0, 0, CUDA), 0),
        (Computing(), SeenGpus(0, 0, CPU_BUILD), 0),
        (Computing(), SeenGpus(0, 0, CUDA, other="MPS"), 0),
    ],
)
def test_the_cpu_only_if_it_was_requested_or_no_gpu_exists(computing, seen, gpus):
    assert usable_gpus(computing, seen) == gpus


NO_GPU = (
    "but no NVIDIA GPU was found. In a job ask for one (Slurm: --gres=gpu:1 or --gpus=1), or "
    "compute"
)


@pytest.mark.parametrize(
    ("computing", "seen", "said"),
    [
        (
            Computing(use_gpu="required"),
            SeenGpus(0, 0, CUDA),
            f"computing.use_gpu = 'required', {NO_GPU}",
        ),
        (
            Computing(gpu_ids=(0,)),
            SeenGpus(0, 0, CUDA),
            f"computing.gpu_ids = (0,) names GPUs, {NO_GPU}",
        ),
        (
            Computing(gpu_ids=(0,)),
            SeenGpus(0, 0, CUDA),
            "computing.use_gpu=False computing.gpu_ids=None. Seen: ",
        ),
        (
            Computing(use_gpu="required"),
            SeenGpus(0, 0, CUDA, other="MPS"),
            "but ASDF supports GPUs of NVIDIA and AMD, not MPS.",
        ),
        (
            Computing(),
            replace(ONE, build=CPU_BUILD),
            "this machine has 1 NVIDIA GPU, but the installed torch 2.14.1+cpu supports the CPU "
            f"only. Install a build for GPUs: {install_line('cu130')}, or compute on the CPU with "
            "computing.use_gpu=False. Seen: 1 NVIDIA GPU, driver 580.65.06, torch 2.14.1+cpu (for "
            "the CPU only), CUDA_VISIBLE_DEVICES not set.",
        ),
        (
            Computing(),
            replace(ONE, on_node=4, shown=""),
            "has 4 NVIDIA GPUs, but CUDA_VISIBLE_DEVICES='' hides them",
        ),
        (
            Computing(),
            replace(ONE, shown="-1"),
            "CUDA_VISIBLE_DEVICES='-1' hides them all. Unset it, or in a job",
        ),
        (
            Computing(),
            replace(ONE, driver="535.104.05"),
            "its driver 535.104.05 is older than the installed torch needs (580 for CUDA 13). "
            f"Install a build for CUDA 12: {install_line('cu126')}",
        ),
        (
            Computing(),
            replace(ONE, driver="470.82.01"),
            "its driver 470.82.01 is older than 525, which CUDA 12 needs. Update the driver",
        ),
        (
            Computing(),
            replace(ONE, failure="CUDA unknown error"),
            "CUDA cannot access any of them: CUDA unknown error. Check whether nvidia-smi lists",
        ),
        (
            Computing(),
            replace(ONE, driver=""),
            "Seen: 1 NVIDIA GPU, no driver loaded, torch 2.14.1+cu130 (CUDA 13.0)",
        ),
    ],
)
def test_a_gpu_that_cannot_be_used_ends_the_run_with_the_reason(computing, seen, said):
    with pytest.raises(UsageError) as caught:
        usable_gpus(computing, seen)
    assert said in str(caught.value)


def test_a_run_on_the_cpu_that_might_have_expected_a_gpu_says_so():
    assert cpu_notice(Computing(), "cpu") == (
        "no GPU that torch can use: computing on the CPU (computing.use_gpu='required' makes this "
        "fatal, False hides this line)"
    )
    assert cpu_notice(Computing(), "cuda") == cpu_notice(Computing(use_gpu=False), "cpu") == ""


def test_the_mapping_of_a_node_as_lines(monkeypatch):
    def see(count, on_node=4):
        monkeypatch.setattr(devices, "look_without_torch", lambda: SeenGpus(count, on_node, CUDA))

    see(4)
    two = Computing(gpu_ids=(2, 0), processes=2)
    assert describe_mapping(two, Launch()) == ["local rank 0: cuda:2", "local rank 1: cuda:0"]
    with pytest.raises(UsageError, match="GPU 4 does not exist: 4 visible"):
        describe_mapping(Computing(processes=5), Launch())
    see(1)
    assert describe_mapping(Computing(), Launch(1, 2, 1, 2, "srun", "n1", 1)) == [
        "local rank 0: cuda:0",
        "local rank 1: cuda:0",
        "(this process sees 1 of the GPUs: each process must see its own)",
    ]
    see(0, on_node=0)
    notice = cpu_notice(Computing(), "cpu")
    assert describe_mapping(Computing(), Launch()) == ["local rank 0: cpu", f"({notice})"]
    assert describe_mapping(Computing(use_gpu=False), Launch()) == ["local rank 0: cpu"]
    with pytest.raises(UsageError, match="'required', but no NVIDIA GPU was found"):
        describe_mapping(Computing(use_gpu="required"), Launch())
