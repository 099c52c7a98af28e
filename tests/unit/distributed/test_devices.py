"""Which device a process computes on."""

import pytest

from asdf.distributed import devices
from asdf.distributed.devices import choose_device, describe_mapping, visible_gpus
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


def test_the_cpu_where_there_is_no_gpu_or_none_is_wanted():
    assert choose_device(Computing(gpu_ids=(0, 1)), 1, 2, gpus=0) == "cpu"
    assert choose_device(Computing(use_gpu=False), 0, 1, gpus=4) == "cpu"


@pytest.mark.parametrize(
    ("ids", "local_size", "said"),
    [
        ((0,), 2, "2 processes on this node, but only 1 GPUs named. The mapping would have been: "
                  "local rank 0 -> cuda:0, local rank 1 -> nothing"),
        ((1, 1), 2, "a GPU is named twice"),
        ((0, 4), 2, "GPU 4 is not there: 4 visible, numbered from 0"),
        (None, 5, "GPU 4 is not there"),
    ],
)  # fmt: skip
def test_a_mapping_that_cannot_be_is_shown_with_the_mistake(monkeypatch, ids, local_size, said):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    with pytest.raises(UsageError) as told:
        choose_device(Computing(gpu_ids=ids), 0, local_size, gpus=4)
    assert said in str(told.value) and "CUDA_VISIBLE_DEVICES is 4,5,6,7" in str(told.value)


@pytest.mark.parametrize(("shown", "count"), [(None, 2), ("1", 1), ("0,1", 2), ("0,1,2", 2), ("", 0), ("-1", 0)])
def test_visible_gpus_are_those_that_are_there_and_shown(monkeypatch, tmp_path, shown, count):
    for name in ("0000:01", "0000:02"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(devices, "Path", lambda _: tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert visible_gpus() == count


def test_the_mapping_of_a_node_as_lines(monkeypatch):
    monkeypatch.setattr(devices, "visible_gpus", lambda: 4)
    assert describe_mapping(Computing(gpu_ids=(2, 0)), 2) == ["local rank 0: cuda:2", "local rank 1: cuda:0"]
    monkeypatch.setattr(devices, "visible_gpus", lambda: 0)
    lines = describe_mapping(Computing(), 1)
    assert lines == ["local rank 0: cpu", "(no NVIDIA GPU is visible here, so the CPU)"]
    assert describe_mapping(Computing(use_gpu=False), 1) == ["local rank 0: cpu"]
