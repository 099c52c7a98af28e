"""CUDA graphs are refused or left out on the CPU and with several processes.

The rest is in tests/gpu.
"""

import logging
from dataclasses import replace

import pytest
import torch

from asdf.data.training_plan import TrainingPlan
from asdf.distributed.devices import check_one_process
from asdf.errors import UsageError
from asdf.settings.sections import Computing, assign
from asdf.training import captured_passes
from asdf.training.captured_passes import GraphedPasses, _suits_graphs
from asdf.training.passes import Passes
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
    with pytest.raises(UsageError, match="cuda_graphs = True cannot be combined with 4 processes"):
        check_one_process(computing, 4)


def test_too_little_memory_for_a_capture_is_not_blamed_on_the_network(monkeypatch):
    step = make()
    eager = Passes(step.network, step.precision, step.update.scaler, step.objective)
    passes = GraphedPasses(eager, 4)

    def capture():
        try:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    monkeypatch.setattr(passes, "_capture", capture)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 2 GiB"):
        passes._capture_checked()


def suits(changes: dict[str, object] | None = None, watched: bool = False) -> bool:
    step = make()
    assign(step.settings, changes or {})
    network = step.network
    if watched:
        next(network.children()).register_forward_hook(lambda *_: None)
    return _suits_graphs(network, step.settings, step.world, step.objective)


def test_of_themselves_graphs_are_used_where_nothing_of_a_pass_is_on_the_host():
    # The network of these tests is theirs, not ASDF's.
    assert not suits()


@pytest.mark.parametrize(
    "changes",
    [
        {"computing.compile": True},
        {"computing.profile_steps": (3, 4)},
        {"front_end.layer_drop": 0.1},
        {"front_end.time_mask_proportion": 0.1},
        {"front_end.channel_mask_proportion": 0.1},
        {"front_end.gradient_checkpointing": True, "front_end.dropout": 0.1},
        {"network.callbacks": ("my.Callback",)},
    ],
)
def test_what_graphs_cannot_repeat_leaves_them_out(changes, monkeypatch):
    monkeypatch.setattr(captured_passes, "_KNOWN", ("asdf", "torch", "torchaudio", "tests"))
    assert suits() and suits({"front_end.dropout": 0.1}) and not suits(watched=True)
    assert suits({"network.callbacks": ("asdf.training.callbacks.TensorBoard",)})
    assert not suits(changes)


def test_passes_that_cannot_be_captured_are_computed_without(monkeypatch, caplog):
    step, plain = make(), make()
    window = next(TrainingPlan(SIZE, 4).windows(1))
    take(step, TrainingPlan(SIZE, 4))
    passes = GraphedPasses(step._parts.eager, len(window.shares[0].utterances), gives_up=True)

    def fail():
        torch.rand(1)
        raise UsageError("computing.cuda_graphs = True: no.")

    monkeypatch.setattr(captured_passes, "_has_room", lambda device: True)
    monkeypatch.setattr(captured_passes, "_capturing_stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(passes, "_capture", fail)
    step._parts = replace(step._parts, graphed=passes)
    plain_gradients = [take(plain, TrainingPlan(SIZE, 4)) for _ in range(6)][1:]
    with caplog.at_level(logging.INFO):
        gradients = [take(step, TrainingPlan(SIZE, 4)) for _ in range(5)]
    said = [record.getMessage() for record in caplog.records]
    assert said[-1] == "CUDA graphs not used: computing.cuda_graphs = True: no."
    for gradient, expected in zip(gradients, plain_gradients, strict=True):
        assert all(bool((gradient[name] == expected[name]).all()) for name in gradient)


@pytest.mark.parametrize(("free", "room"), [(27, True), (26, False)])
def test_graphs_leave_a_quarter_of_the_memory_for_scoring(free, room, monkeypatch):
    # Of 80 held are 10, of 14 reserved; a step took up to 21: 11 more than is held between two.
    for name, value in {
        "mem_get_info": (free, 80),
        "memory_allocated": 10,
        "memory_reserved": 14,
        "max_memory_allocated": 21,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert captured_passes._has_room(torch.device("cuda", 0)) is room
