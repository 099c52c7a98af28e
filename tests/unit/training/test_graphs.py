"""CUDA graphs are refused or left out on the CPU and with several processes.

The rest is in tests/gpu.
"""

import logging

import pytest
import torch

from asdf.data.training_plan import TrainingPlan
from asdf.distributed.devices import check_one_process
from asdf.errors import UsageError
from asdf.settings.sections import Computing
from asdf.training.captured_passes import GraphedPasses
from tests.unit.training.test_step import SIZE, make, take


def test_on_the_cpu_there_are_none_which_is_logged_once(caplog):
    plain, step = make(), make()
    step.settings.computing.cuda_graphs = True
    with caplog.at_level(logging.INFO):
        gradients = [take(step, TrainingPlan(SIZE, 4)) for _ in range(2)]
    expected = [take(plain, TrainingPlan(SIZE, 4)) for _ in range(2)]
    assert [record.getMessage() for record in caplog.records] == ["CUDA graphs not used: no GPU"]
    for gradient, plain_gradient in zip(gradients, expected, strict=True):
        assert gradient.keys() == plain_gradient.keys()
        assert all(bool((gradient[name] == plain_gradient[name]).all()) for name in gradient)


def test_several_processes_are_refused():
    computing = Computing(cuda_graphs=True)
    check_one_process(computing, 1)
    check_one_process(Computing(), 4)
    with pytest.raises(UsageError) as caught:
        check_one_process(computing, 4)
    assert str(caught.value) == (
        "computing.cuda_graphs = True and 4 processes do not go together: where one process "
        "fails, the others would wait without end inside a graph. Set computing.cuda_graphs = "
        "False, or train with one process."
    )


def test_too_little_memory_for_a_capture_is_not_blamed_on_the_network(monkeypatch):
    passes = GraphedPasses(make()._passes, 4)

    def capture():
        try:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    monkeypatch.setattr(passes, "_capture", capture)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 2 GiB"):
        passes._capture_checked()
