"""Passes over a minibatch: counted together, exchanged and compiled."""

import copy
import random
import shutil
from functools import partial

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.utils import counters

from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan, Window
from asdf.distributed.batch_norm import SynchronisedBatchNorm
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.networks import build_network
from asdf.networks.front_ends import encoder_layers
from asdf.settings.sections import Sections
from asdf.training.passes import (
    Compiled,
    batches_counted_together,
    compile_errors_as_usage_errors,
    compile_network,
    exchange_gradients,
    exchange_now,
)
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from tests.unit.training.test_step import SIZE, UTTERANCES, WAVEFORMS, Net


class Norms(nn.Module):
    """One that is computed twice, one that is not computed, and one without a momentum."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.BatchNorm1d(3)
        self.unused = nn.BatchNorm1d(3)
        self.averaging = nn.BatchNorm1d(3, momentum=None)
        self.once = SynchronisedBatchNorm.like(nn.BatchNorm1d(3))
        self.bare = nn.BatchNorm1d(3, track_running_stats=False)

    def forward(self, x_BC):
        x_BC = self.averaging(self.twice(self.twice(x_BC)))
        self.once.num_batches_tracked.add_(1)
        return self.bare(x_BC)


def test_counters_are_those_that_each_norm_would_have():
    torch.manual_seed(0)
    network = Norms().train()
    alone = copy.deepcopy(network)
    for _ in range(3):
        x_BC = torch.randn(4, 3)
        expected = alone(x_BC)
        with batches_counted_together(network):
            result = network(x_BC)
        assert torch.equal(result, expected)
    state = network.state_dict()
    assert {name: state[name].tolist() for name in state if "batches" in name} == {
        "twice.num_batches_tracked": 6,
        "unused.num_batches_tracked": 0,
        "averaging.num_batches_tracked": 3,
        "once.num_batches_tracked": 3,
    }
    for name, tensor in alone.state_dict().items():
        assert torch.equal(state[name], tensor), name
    assert network.twice.num_batches_tracked is network.twice._buffers["num_batches_tracked"]


def test_networks_in_evaluation_count_nothing():
    network = Norms().eval()
    with batches_counted_together(network):
        network.twice(torch.randn(4, 3))
    assert network.twice.num_batches_tracked == 0


def test_all_counters_are_one_operation(monkeypatch):
    network = nn.Sequential(*(nn.BatchNorm1d(3) for _ in range(4))).train()
    sizes = []
    add = torch._foreach_add_
    monkeypatch.setattr(
        torch, "_foreach_add_", lambda counters, n: (sizes.append(len(counters)), add(counters, n))
    )
    with batches_counted_together(network):
        network(torch.randn(4, 3))
    assert sizes == [4]
    assert [norm.num_batches_tracked.item() for norm in network] == [1, 1, 1, 1]


TWO = World(size=2)


@pytest.fixture
def group(tmp_path):
    """A process group of this process alone: layouts do not depend on the number of processes."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Ordered(nn.Module):
    """Its parameters are registered in another order than they are used; one of them is frozen."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(300, 2)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.first = nn.Linear(6, 300)
        self.norm = nn.BatchNorm1d(300)
        self.dropout = nn.Dropout(0.5)

    def forward(self, waveforms_BT):
        embeddings_BE = self.dropout(self.norm(self.first(self.frozen(waveforms_BT))))
        return embeddings_BE, self.last(embeddings_BE)


def layout(model) -> list[list[str]]:
    """The names of the parameters in the order in which they lie in each bucket."""
    names = {id(parameter): name for name, parameter in model.module.network.named_parameters()}
    buckets = model.reducer._get_zeros_like_grad_buckets()
    return [[names[id(parameter)] for parameter in bucket.parameters()] for bucket in buckets]


def take_step(model) -> list[list[str]]:
    """The layout in which the step sent its gradients."""
    output = model(torch.randn(4, 6))[1]
    used = layout(model)
    output.sum().backward()
    return used


def test_the_first_step_has_the_layout_of_every_other(group):
    model = exchange_gradients(Ordered(), TWO)
    # From the end, as gradients come, and not by the order in which forward happens to use them.
    expected = [
        ["norm.bias", "norm.weight", "first.bias", "first.weight", "last.bias", "last.weight"]
    ]
    assert [take_step(model) for _ in range(3)] == [expected] * 3


def test_the_pass_that_finds_the_layout_leaves_no_trace(group):
    network = Ordered()
    sources = (torch.manual_seed, np.random.seed, random.seed)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    drawn = []
    for exchange in (False, True):
        for source in sources:
            source(5)
        model = exchange_gradients(network, TWO) if exchange else None
        drawn.append((torch.rand(1).item(), np.random.rand(), random.random()))
    assert drawn[0] == drawn[1]
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in network.parameters())
    assert model is not None and network.norm.num_batches_tracked == 0


def test_minibatches_before_the_last_of_a_step_stay_at_home(group):
    network = Ordered()
    model = exchange_gradients(network, TWO)
    clips = torch.randn(2, 4, 6)
    network.eval()
    with exchange_now(model, False):
        model(clips[0])[1].sum().backward()
    with exchange_now(model, True):
        model(clips[1])[1].sum().backward()
    summed = network.first.weight.grad.clone()
    network.zero_grad(set_to_none=True)
    network(clips.flatten(0, 1))[1].sum().backward()
    torch.testing.assert_close(summed, network.first.weight.grad, rtol=1e-5, atol=1e-6)


def test_a_compiled_network_is_not_compiled_for_it(group):
    network = Ordered()
    compiled = Compiled(network, 4)
    calls = []
    compiled._forward = lambda waveforms_BT: (
        calls.append(len(waveforms_BT)) or network(waveforms_BT)
    )
    model = exchange_gradients(compiled, TWO)
    assert calls == []
    take_step(model)
    assert calls == [4]


def test_one_process_exchanges_nothing():
    network = Ordered()
    assert exchange_gradients(network, World()) is network
    with exchange_now(network, False):
        network(torch.randn(4, 6))[1].sum().backward()
    assert network.first.weight.grad is not None


class Counting(Net):
    """Notes how its forward is called; a compiled graph does not run Python."""

    def forward(self, waveforms_BT):
        if not torch.compiler.is_compiling():
            self.eager = getattr(self, "eager", 0) + 1
        return super().forward(waveforms_BT)


def build_step(compiles: bool, minibatch: int = 4) -> Step:
    settings = Sections()
    settings.computing.compile = compiles
    settings.network.minibatch_size, settings.network.initial_learning_rate = minibatch, 0.5
    settings.network.schedule = "constant"
    torch.manual_seed(0)
    return Step(Counting(), UTTERANCES, settings, World())


def loss_of_step(step: Step, window: Window, progress: Progress) -> float:
    """Take a step and return its loss."""
    clips = (Batch(WAVEFORMS[torch.from_numpy(share.utterances)]) for share in window.shares)
    before = progress.loss_sum
    step.take(window, clips, progress, [])
    return progress.loss_sum - before


@pytest.fixture
def backend(request):
    if request.param == "aot_eager":
        request.getfixturevalue("traced_alone")
    elif shutil.which("g++") is None:
        pytest.skip("compiling for the CPU needs g++")


@pytest.mark.slow_but("aot_eager")
@pytest.mark.parametrize("backend", ["inductor", "aot_eager"], indirect=True)
def test_losses_are_those_of_the_network_as_it_is(backend):
    compiled, eager = build_step(True), build_step(False)
    progress, eager_progress = Progress(), Progress()
    # Two epochs of 11 utterances, each with two minibatches of 4 and one of 3.
    windows = [window for epoch in (1, 2) for window in TrainingPlan(SIZE, 4).windows(epoch)]
    assert len(windows) == 6
    for window in windows:
        # From the same weights each time: differences in the last digit do not grow from step to
        # step. Sums of 1,000 products of float32 agree to about 1e-6 of their size.
        eager.network.load_state_dict(compiled.network.state_dict())
        loss = loss_of_step(compiled, window, progress)
        assert loss == pytest.approx(
            loss_of_step(eager, window, eager_progress), rel=1e-4, abs=1e-5
        )
        for name, weight in compiled.network.state_dict().items():
            expected = eager.network.state_dict()[name]
            torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-5, msg=name)
    assert list(compiled.network.state_dict()) == list(eager.network.state_dict())
    # The short minibatches and no other ran as ever; and so does what scoring calls.
    assert (compiled.network.eager, eager.network.eager) == (2, 6)
    assert type(compiled.network) is Counting
    compiled.network(WAVEFORMS)
    assert compiled.network.eager == 3


def test_a_network_owns_its_parameters_once():
    network = Net()
    names = [name for name, _ in Compiled(network, 4).named_parameters(remove_duplicate=False)]
    assert names == [f"network.{name}" for name, _ in network.named_parameters()]


@pytest.mark.slow
def test_a_missing_compiler_is_said_in_one_message():
    import torch._inductor.config as inductor

    with inductor.patch({"cpp.cxx": ("/no/such/g++",)}), pytest.raises(UsageError) as caught:
        loss_of_step(
            build_step(True, minibatch=5), next(iter(TrainingPlan(SIZE, 5).windows(1))), Progress()
        )
    text = str(caught.value)
    assert (
        text.startswith("the network could not be compiled: No working C++ compiler found")
        and "\n" not in text
    )
    assert "/no/such/g++" in text and text.endswith(
        "Set computing.compile = False to train without."
    )


class Wrong(Net):
    """Traces to a product of shapes that do not go together."""

    def forward(self, waveforms_BT):
        return super().forward(waveforms_BT @ torch.ones(3, 3))


def test_what_cannot_be_traced_is_said_with_its_explanation_and_its_location():
    compiled = Compiled(Wrong(), SIZE)
    with pytest.raises(UsageError) as caught, compile_errors_as_usage_errors(True):
        compiled(WAVEFORMS[:SIZE])
    text = str(caught.value)
    assert text.startswith("the network could not be compiled: RuntimeError when making fake tens")
    assert "Dynamo failed to run FX node" in text and "a and b must have same reduction" in text
    assert (
        f'File "{__file__}", line ' in text
        and "in forward. The network's code has something" in text
    )
    assert "\n" not in text and "g++" not in text


def test_other_failures_stay_what_they_are():
    for error in (AsdfError("an utterance without samples"), RuntimeError("out of memory")):
        with pytest.raises(type(error), match=str(error)), compile_errors_as_usage_errors(True):
            raise error


def test_layers_dropped_at_random_are_refused():
    settings = Sections()
    settings.computing.compile, settings.front_end.layer_drop = True, 0.1
    with pytest.raises(UsageError, match=r"compile = True cannot .* front_end.layer_drop = 0\.1\."):
        Step(Net(), UTTERANCES, settings, World())


@pytest.fixture
def traced_alone(monkeypatch):
    """Compile without the compiler's own back end, which takes long."""
    traced = partial(torch.compile, backend="aot_eager")
    monkeypatch.setattr(torch, "compile", traced)
    encoder_layers._compile_call.cache_clear()
    torch._dynamo.reset()
    counters.clear()
    yield
    encoder_layers._compile_call.cache_clear()


def ssl_step(compiles, **choices) -> Step:
    """A step of a tiny network with choices of the front end."""
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_MHFA"
    settings.front_end.architecture = "tiny"
    settings.computing.compile = compiles
    settings.network.minibatch_size, settings.network.schedule = 4, "constant"
    for name, value in choices.items():
        setattr(settings.front_end, name, value)
    torch.manual_seed(0)
    return Step(build_network(settings).train(), UTTERANCES, settings, World())


@pytest.mark.slow_but("plain")
@pytest.mark.parametrize(
    "choices",
    [{}, {"gradient_checkpointing": True}, {"frozen": True}, {"layer_drop": 0.5}],
    ids=lambda choices: " ".join(choices) or "plain",
)
def test_all_layers_of_an_encoder_share_one_compiled_graph(choices, traced_alone):
    compiled = ssl_step("layers", **choices)
    eager = ssl_step(False, **choices)
    progress, eager_progress = Progress(), Progress()
    clips = torch.randn(SIZE, 4000, generator=torch.Generator().manual_seed(0))
    for window in TrainingPlan(SIZE, 4).windows(1):
        batches = [Batch(clips[torch.from_numpy(share.utterances)]) for share in window.shares]
        compiled.take(window, iter(batches), progress, [])
        eager.take(window, iter(batches), eager_progress, [])
        assert progress.loss_sum == pytest.approx(eager_progress.loss_sum, rel=1e-4)
    # Of two layers, in two minibatches of 4; the one of 3 is computed without.
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]
    assert list(compiled.network.state_dict()) == list(eager.network.state_dict())
    for name, weight in compiled.network.state_dict().items():
        expected = eager.network.state_dict()[name]
        torch.testing.assert_close(weight, expected, rtol=1e-3, atol=1e-5, msg=name)


def test_a_network_without_such_layers_is_refused():
    with pytest.raises(UsageError, match=r"Net has no encoder layers of wav2vec 2\.0"):
        compile_network(Net(), "layers", 4)
