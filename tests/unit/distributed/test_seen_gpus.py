"""What the files of a machine say of its GPUs."""

from pathlib import Path

import pytest

from asdf.distributed.devices import driver_version, visibility_variable, visible_gpus


def machine(root: Path, nvidia: int = 0, amd: int = 0, driver: str = "") -> Path:
    """The files of a machine with these GPUs."""
    for number in range(nvidia):
        (root / f"proc/driver/nvidia/gpus/0000:0{number}:00.0").mkdir(parents=True)
    if driver:
        version = (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Mar 12\n"
            "GCC version: 12.2.0\n"
        )
        (root / "proc/driver/nvidia/version").write_text(version)
    for number, units in enumerate([0, *[440] * amd] if amd else []):  # the first is the CPU
        node = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "properties").write_text(f"cpu_cores_count 0\nsimd_count {units}\n")
    return root


@pytest.mark.parametrize(
    ("shown", "count"), [(None, 2), ("1", 1), ("0,1", 2), ("0,1,2", 2), ("", 0), ("-1", 0)]
)
def test_visible_gpus_are_those_that_are_there_and_shown(tmp_path, shown, count):
    environment = {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}
    assert visible_gpus(machine(tmp_path, nvidia=2), environment) == count
    files = tmp_path / "other"
    (files / "dev").mkdir(parents=True)
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (files / "dev" / name).touch()
    assert visible_gpus(files, environment) == count


def test_gpus_of_amd_are_counted_where_there_are_none_of_nvidia(tmp_path):
    root = machine(tmp_path, amd=4)
    assert visible_gpus(root, {}) == 4
    assert visible_gpus(root, {"ROCR_VISIBLE_DEVICES": "0,1"}) == 2
    assert visible_gpus(root, {"HIP_VISIBLE_DEVICES": "3", "ROCR_VISIBLE_DEVICES": "0,1"}) == 1
    assert visible_gpus(tmp_path / "nothing", {}) == 0
    assert visibility_variable(root) == "HIP_VISIBLE_DEVICES"
    assert visibility_variable(machine(root, nvidia=1)) == "CUDA_VISIBLE_DEVICES"
    assert visibility_variable(tmp_path / "nothing") == "CUDA_VISIBLE_DEVICES"


def test_the_driver_says_its_version(tmp_path):
    assert driver_version(machine(tmp_path, nvidia=1, driver="535.104.05")) == "535.104.05"
    assert driver_version(tmp_path / "nothing") == ""
