"""What a run makes of the GPU and of the cores next to it."""

import pytest

from tests.gpu.conftest import run_module


@pytest.mark.parametrize(
    ("capability", "precision"),
    [
        (90, "precision bf16: compute capability 9.0"),
        (80, "precision bf16: compute capability 8.0"),
        (75, "precision fp16 with loss scaling: compute capability 7.5, bf16 needs 8.0"),
    ],
)
def test_the_precision_is_what_the_tensor_cores_compute_in(on_null_gpu, capability, precision):
    described = on_null_gpu("describe_process", "4", capability=capability)
    assert described["precision"] == precision


@pytest.mark.parametrize(("cores", "workers"), [(16, 10), (10, 8), (2, 1)])
def test_two_cores_are_left_to_the_main_process_which_takes_one_thread(on_null_gpu, cores, workers):
    described = on_null_gpu("describe_process", str(cores))
    assert (described["threads"], described["workers"]) == (1, workers)


def test_a_gpu_without_kernels_in_the_installed_torch_is_refused(null_gpu):
    outcome = run_module(null_gpu(capability=70), "describe_process", "4")
    assert outcome.status == 1
    assert "Null GPU has compute capability 7.0, and the installed torch" in outcome.output
    assert "download.pytorch.org/whl/cu126" in outcome.output
