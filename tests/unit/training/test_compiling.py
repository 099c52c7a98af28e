"""A compiled network trains to the same losses; scoring and checkpoints see no difference."""

import shutil
from functools import partial

import pytest
import torch
from torch._dynamo.utils import counters

from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan, Window
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.networks import build_network
from asdf.networks.front_ends import encoder_layers
from asdf.settings.sections import Sections
from asdf.training.passes import Compiled, compile_errors_as_usage_errors, compile_network
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from tests.unit.training.test_step import SIZE, UTTERANCES, WAVEFORMS, Net


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


def take(step: Step, window: Window, progress: Progress) -> float:
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
        loss = take(compiled, window, progress)
        assert loss == pytest.approx(take(eager, window, eager_progress), rel=1e-4, abs=1e-5)
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
        take(
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
    with pytest.raises(
        UsageError,
        match=r"computing\.compile = True .* cannot be combined with front_end\.layer_drop = "
        r"0\.1\.",
    ):
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
    with pytest.raises(UsageError, match=r"layers of wav2vec 2\.0, HuBERT and WavLM, and Net has"):
        compile_network(Net(), "layers", 4)
