"""Passes over a minibatch as CUDA graphs, as far as a CPU shows them; tests/gpu captures them."""

import logging
from dataclasses import replace

import pytest
import torch
from torch import nn

from asdf.data.training_plan import TrainingPlan
from asdf.errors import UsageError
from asdf.settings.sections import assign
from asdf.training import graphs as room
from asdf.training.graphs import Buckets, GraphedPasses, is_near, obstacle_to_graphs
from asdf.training.losses import CrossEntropy
from asdf.training.passes import Passes, exchange_gradients, exchange_now
from asdf.training.step import Step
from tests.distributed.worlds import compute_in_worlds
from tests.unit.training.test_passes import Ordered
from tests.unit.training.test_step import SIZE, WAVEFORMS, make, take


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


@pytest.fixture(autouse=True)
def moves_ends(monkeypatch):
    """As in the newest torch, whatever is installed."""
    monkeypatch.setattr(room, "_MOVE_ENDS", lambda now: None)


def obstacle(changes: dict[str, object] | None = None, processes: int = 1, **options) -> str:
    step = make()
    assign(step.settings, changes or {})
    loss = options.pop("loss", CrossEntropy)
    network = options.pop("network", step.network)
    return obstacle_to_graphs(network, step.settings, processes, loss, **options)


class OfWhole(CrossEntropy):
    is_joint = True


class OfAttacks(CrossEntropy):
    columns = ("attack",)


class Informed(nn.Linear):
    further_inputs = ("references",)


NORMED = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


@pytest.mark.parametrize(
    ("changes", "options", "reason"),
    [
        ({"computing.cuda_graphs": False}, {}, "computing.cuda_graphs = False"),
        ({"computing.compile": True}, {}, "computing.compile joins"),
        ({"computing.profile_steps": (3, 4)}, {}, "computing.profile_steps shows"),
        ({"front_end.layer_drop": 0.1}, {}, "front_end.layer_drop draws on the host"),
        ({"front_end.time_mask_proportion": 0.1}, {}, "the masks of front_end draw"),
        ({"front_end.channel_mask_proportion": 0.1}, {}, "the masks of front_end draw"),
        ({}, {"once": False}, "network.training_step passes over a minibatch in its own way"),
        ({}, {"network": Informed(2, 2)}, "the network takes references besides waveforms"),
        ({}, {"loss": OfWhole}, "the loss is that of a whole step"),
        ({}, {"loss": OfAttacks}, "the loss takes columns of the training list"),
        ({}, {"network": NORMED, "processes": 2}, "batch norm exchanges statistics"),
    ],
)
def test_a_step_without_graphs_has_a_reason(changes, options, reason):
    assert obstacle(changes, **options).startswith(reason)


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({}, {"processes": 2}),
        ({}, {"network": NORMED}),
        ({"computing.cuda_graphs": True}, {"network": NORMED, "processes": 2}),
        ({"computing.sync_batch_norm": False}, {"network": NORMED, "processes": 2}),
        ({"front_end.dropout": 0.1, "network.callbacks": ("my.Callback",)}, {}),
    ],
)
def test_whatever_else_a_step_has_is_tried(changes, options):
    assert obstacle(changes, **options) == ""


def test_several_processes_need_a_torch_that_moves_the_ends_of_the_backward_pass(monkeypatch):
    monkeypatch.setattr(room, "_MOVE_ENDS", None)
    assert obstacle() == ""
    assert obstacle(processes=2) == "this version of torch does not capture on several processes"


def make_passes(step: Step, **options) -> GraphedPasses:
    eager = Passes(step.network, step.precision, step.update.scaler, step.objective)
    return GraphedPasses(eager, 4, **options)


def test_hooks_and_what_changes_on_the_host_are_refused(monkeypatch):
    """What a pass does besides operations of the device, a replay does not."""
    step = make()
    passes = make_passes(step, gives_up=True)
    module = next(step.network.children())

    def capture(change):
        monkeypatch.setattr(passes, "_capture", change)
        with pytest.raises(UsageError) as refused:
            passes._capture_checked()
        return str(refused.value)

    assert "draws random numbers on the host" in capture(lambda: torch.rand(1))
    changed = capture(lambda: setattr(module, "passes", 1))
    assert changed.startswith("in training the network changes attributes that are no buffers")
    module.register_forward_hook(lambda *_: None)
    assert capture(lambda: None) == "a graph does not call the hooks of modules"
    # On request they are captured.
    requested = make_passes(step)
    monkeypatch.setattr(requested, "_capture", lambda: setattr(module, "passes", 2))
    assert requested._capture_checked() is None and module.passes == 2


class Stepping(CrossEntropy):
    def begin_step(self, epochs):
        self.strength = epochs


def test_a_loss_that_sets_numbers_before_each_step_is_refused():
    step = make()
    passes = make_passes(step)
    passes.eager = replace(
        passes.eager, objective=replace(step.objective, loss=Stepping.__new__(Stepping))
    )
    with pytest.raises(UsageError, match=r"would keep what Stepping\.begin_step sets on the host"):
        passes._compare(WAVEFORMS, None)


def test_a_replay_is_near_a_pass_if_it_differs_by_less_than_a_hundredth():
    ones = [torch.ones(3), torch.ones(1, dtype=torch.bfloat16)]
    assert is_near([1.005 * ones[0], ones[1]], ones)
    assert not is_near([1.03 * ones[0], ones[1]], ones)
    assert not is_near([ones[0], torch.full((1,), torch.nan)], ones)


def gradients_in_buckets(world):
    """Gradients of two minibatches by DistributedDataParallel's hooks, and without, in pairs."""
    torch.manual_seed(0)
    network = Ordered()
    model = exchange_gradients(network, world)
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]

    def compute(called, minibatch):
        torch.manual_seed(10 * world.rank + minibatch)
        called(torch.randn(4, 6))[1].square().sum().backward()

    def take() -> list[torch.Tensor]:
        gradients = [parameter.grad.clone() for parameter in learning]
        network.zero_grad(set_to_none=True)
        return gradients

    with exchange_now(model, False):
        compute(model, 0)
    compute(model, 1)
    by_hooks = take()
    buckets = Buckets(model, world)
    for minibatch in range(2):
        compute(network, minibatch)
    buckets.fill([(parameter, parameter.grad) for parameter in learning])
    buckets.exchange()
    without = take()
    # The hooks still work on the same memory.
    with exchange_now(model, False):
        compute(model, 0)
    compute(model, 1)
    return {"by hooks": by_hooks, "without": without, "again": take()}


def test_gradients_sent_without_hooks_have_the_same_bits(tmp_path):
    for results in compute_in_worlds(gradients_in_buckets, tmp_path).values():
        for by_hook, without, again in zip(*results.values(), strict=True):
            assert by_hook.abs().sum() > 0
            assert torch.equal(by_hook, without) and torch.equal(by_hook, again)


def test_passes_that_cannot_be_captured_are_computed_without(monkeypatch, caplog):
    step, plain = make(), make()
    window = next(TrainingPlan(SIZE, 4).windows(1))
    take(step, TrainingPlan(SIZE, 4))
    passes = GraphedPasses(step._parts.eager, len(window.shares[0].utterances), gives_up=True)

    def fail():
        torch.rand(1)
        raise UsageError("computing.cuda_graphs = True: no.")

    monkeypatch.setattr(room, "_has_room", lambda device: True)
    monkeypatch.setattr(room, "_capturing_stream", lambda device: None)
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


@pytest.mark.parametrize(("free", "is_enough"), [(27, True), (26, False)])
def test_graphs_leave_a_quarter_of_the_memory_for_scoring(free, is_enough, monkeypatch):
    # Of 80 held are 10, of 14 reserved; a step took up to 21: 11 more than is held between two.
    for name, value in {
        "mem_get_info": (free, 80),
        "memory_allocated": 10,
        "memory_reserved": 14,
        "max_memory_allocated": 21,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert room._has_room(torch.device("cuda", 0)) is is_enough
