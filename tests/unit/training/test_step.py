"""A step's gradient is that of the mean loss over its window, or over a part, however divided."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from asdf.audio.rawboost_batch import Unboosted
from asdf.checkpoint.network_file import NetworkFile
from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.arithmetic import computes_bfloat16
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.settings.sections import Sections
from asdf.training.gradients import MAX_SKIPPED, LastStep, choose_precision
from asdf.training.objective import step_memory_errors_as_messages
from asdf.training.profile import FORWARD
from asdf.training.step import Step
from asdf.training.steps import TrainingStep
from asdf.training.training_progress import Progress, seed_step
from asdf.trials.trial_list import UNLABELLED, TrialList
from tests.unit.conftest import network_settings
from tests.unit.training.conftest import BY_GRADIENT, step_and_gradient

SIZE = 11
WAVEFORMS = torch.randn(SIZE, 6, generator=torch.Generator().manual_seed(1))
LABELS = np.array([0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0], np.int8)
UTTERANCES = TrialList([f"{i}.wav" for i in range(SIZE)], LABELS, name="mine")


class Net(nn.Module):
    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.hidden, self.output, self.dropout = (
            nn.Linear(6, 5),
            nn.Linear(5, 2),
            nn.Dropout(dropout),
        )

    def forward(self, waveforms_BT):
        embeddings = self.dropout(torch.tanh(self.hidden(waveforms_BT)))
        return embeddings, self.output(embeddings)


def make(dropout: float = 0.0, **network) -> Step:
    torch.manual_seed(0)
    settings = network_settings(**{**BY_GRADIENT, **network})
    return Step(Net(dropout), UTTERANCES, settings, World())


def take(
    step: Step, plan: TrainingPlan, progress: Progress | None = None, waveforms=WAVEFORMS
) -> dict:
    """Take the first step of epoch 1 with SGD of rate 1: the weights change by the gradient."""
    return step_and_gradient(step, next(plan.windows(1)), waveforms, progress)[0]


WEIGHTS = torch.tensor([0.1, 0.9])


def expected_of(utterances: np.ndarray) -> tuple[dict, float]:
    """The gradient of torch's own weighted cross-entropy over utterances at once, and its value."""
    network = make().network
    chosen = torch.from_numpy(utterances)
    labels = torch.from_numpy(LABELS).long()[chosen]
    loss = F.cross_entropy(network(WAVEFORMS[chosen])[1], labels, WEIGHTS)
    loss.backward()
    return {name: value.grad for name, value in network.named_parameters()}, float(loss.detach())


def expected(plan: TrainingPlan) -> dict:
    return expected_of(next(plan.windows(1)).utterances)[0]


@pytest.mark.parametrize(
    "plan",
    [
        TrainingPlan(SIZE, 4),
        TrainingPlan(SIZE, 4, 2),
        TrainingPlan(SIZE, 4, 3),
        TrainingPlan(SIZE, 2, 6),
        TrainingPlan(SIZE, 1, 11),
    ],
)
def test_the_gradient_is_that_of_the_weighted_mean_over_the_window(plan):
    torch.testing.assert_close(take(make(), plan), expected(plan), rtol=1e-5, atol=1e-6)


def test_progress_counts_the_step_its_turns_and_its_loss():
    plan, progress, step = TrainingPlan(SIZE, 4, 2), Progress(), make()
    window = next(plan.windows(1))
    with torch.no_grad():
        logits = step.network(WAVEFORMS[window.utterances])[1]
    losses = nn.functional.cross_entropy(
        logits, step.targets.labels[window.utterances], reduction="none"
    )
    weights = torch.tensor([0.1, 0.9])[step.targets.labels[window.utterances]]
    take(step, plan, progress)
    assert (progress.step, progress.position) == (1, 8)
    assert progress.loss_sum == pytest.approx(float((losses * weights).sum()), rel=1e-5)
    assert progress.weight_sum == pytest.approx(float(weights.sum()))


def test_gradients_are_scaled_down_to_the_norm_and_never_up():
    plan = TrainingPlan(SIZE, 4, 2)
    whole = expected(plan)
    norm = torch.cat([gradient.flatten() for gradient in whole.values()]).norm()
    clipped = take(make(gradient_clip_norm=float(norm) / 4), plan)
    torch.testing.assert_close(
        clipped, {name: gradient / 4 for name, gradient in whole.items()}, rtol=1e-4, atol=1e-6
    )
    torch.testing.assert_close(
        take(make(gradient_clip_norm=4 * float(norm)), plan), whole, rtol=1e-5, atol=1e-6
    )


def test_a_loss_that_is_not_finite_names_its_utterances_and_changes_nothing():
    waveforms = WAVEFORMS.clone()
    plan = TrainingPlan(SIZE, 4, 2)
    wrong = next(plan.windows(1)).utterances[[1, 6]]
    waveforms[wrong] = torch.nan
    step, progress = make(), Progress(step=4)
    before = {name: weight.clone() for name, weight in step.network.state_dict().items()}
    with pytest.raises(AsdfError) as caught:
        take(step, plan, progress, waveforms)
    text = str(caught.value)
    assert text.startswith("the loss of step 5 is not a finite number for 2 utterances: ")
    assert (
        f"{wrong[0]}.wav, {wrong[1]}.wav. Nothing was saved" in text
        and "network.gradient_clip_norm" in text
    )
    torch.testing.assert_close(step.network.state_dict(), before, rtol=0, atol=0)
    assert progress == Progress(step=4)


def test_dropout_follows_from_seed_and_step_not_from_what_was_drawn_before():
    plan = TrainingPlan(SIZE, 4, 2)
    first = take(make(dropout=0.5), plan, Progress(step=3))
    step = make(dropout=0.5)
    torch.rand(100)
    again = take(step, plan, Progress(step=3))
    other = take(make(dropout=0.5), plan, Progress(step=4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_seeds_differ_between_steps_minibatches_and_ranks():
    drawn = set()
    for key in ((1, 2, 3, 4), (1, 3, 2, 4), (2, 2, 3, 4), (1, 2, 3, 5), (1, 2, 4, 3)):
        seed_step(*key)
        drawn.add((torch.rand(1).item(), np.random.rand()))
    assert len({t for t, _ in drawn}) == len({n for _, n in drawn}) == 5


def test_the_loss_scale_goes_on_and_a_run_without_one_can_get_one():
    """The latter is computing.precision = 'fp16' from some epoch on."""
    for scale_before, expected_scale in (
        (torch.amp.GradScaler("cpu", enabled=False), 64.0),
        (torch.amp.GradScaler("cpu", init_scale=8.0), 8.0),
    ):
        step = make()
        step.update.scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        checkpoint = NetworkFile(
            state={},
            optimiser_state=make().update.optimiser.state_dict(),
            scaler_state=scale_before.state_dict(),
        )
        step.load_state(checkpoint)
        assert step.update.scaler.get_scale() == expected_scale


def test_a_checkpoint_without_the_state_of_an_optimiser_is_refused():
    """As an exported or averaged network under the name of a checkpoint: it cannot be resumed."""
    step = make()
    checkpoint = NetworkFile(state=step.network.state_dict())
    with pytest.raises(AsdfError, match=r"another optimiser.*or give this run another paths\.sys"):
        step.load_state(checkpoint)
    assert not step.update.optimiser.state_dict()["state"]


SCALED = "fp16 with loss scaling"


@pytest.mark.parametrize(
    ("requested", "capability", "dtype", "reason"),
    [
        ("auto", None, None, "fp32: no GPU"),
        ("fp16", None, None, "fp32: fp16 not used: it needs a GPU"),
        ("fp32", None, None, "fp32: as requested"),
        ("auto", (9, 0), torch.bfloat16, "bf16: compute capability 9.0"),
        ("auto", (7, 0), torch.float16, f"{SCALED}: compute capability 7.0, bf16 needs 8.0"),
        ("auto", (6, 1), None, "fp32: bf16 not used: compute capability 6.1, it needs 8.0"),
        ("bf16", (7, 5), None, "fp32: bf16 not used: compute capability 7.5, it needs 8.0"),
        ("fp16", (7, 0), torch.float16, f"{SCALED}, as requested"),
        ("fp32", (9, 0), None, "fp32, as requested"),
    ],
)
def test_the_precision_and_its_reason(monkeypatch, requested, capability, dtype, reason):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    chosen = choose_precision(requested, torch.device("cuda" if capability else "cpu"))
    assert (chosen.dtype, chosen.reason) == (dtype, f"precision {reason}")


def test_training_on_a_cpu_is_in_bf16_where_torch_can_and_says_where_not():
    chosen = choose_precision("bf16", torch.device("cpu"))
    if computes_bfloat16():
        assert (chosen.dtype, chosen.reason) == (torch.bfloat16, "precision bf16, as requested")
    else:
        assert chosen.dtype is None
        assert chosen.reason.startswith("precision fp32: bf16 not used: torch has no bf16 for all")


@pytest.mark.usefixtures("bfloat16")
def test_autocast_is_on_with_a_reduced_precision_only():
    for requested, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        with choose_precision(requested, torch.device("cpu")).autocast():
            assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype == dtype


def test_rawboost_on_the_device_is_not_counted_as_waiting_for_data():
    open_parts, seen = [], []

    class Noting(Unboosted):
        def boosted(self):
            seen.extend(open_parts)
            return WAVEFORMS[:4]

    step = make()
    part = step.clock.part

    @contextmanager
    def noted(name):
        open_parts.append(name)
        with part(name):
            yield
        open_parts.pop()

    step.clock.part = noted
    window = next(TrainingPlan(SIZE, 4).windows(1))
    step.take(window, iter([Batch(unboosted=Noting.__new__(Noting))]), Progress(), [])
    assert seen == [FORWARD]


# Every third recording has no label.
KNOWN = np.arange(SIZE) % 3 > 0
WINDOW = next(TrainingPlan(SIZE, 4, 2).windows(1))
CHOSEN = torch.from_numpy(WINDOW.utterances)


class Whole(TrainingStep):
    takes_unlabelled = True

    def compute_gradient(self, window):
        window.backward()


class Shares(Whole):
    """The same by a loss of its own."""

    divides_window = True

    def compute_gradient(self, window):
        window.backward(loss=window.losses_of)


class Half(Whole):
    divides_window = True
    own = False

    def compute_gradient(self, window):
        first = np.arange(len(window)) < 5
        window.backward(of=first, loss=window.losses_of if self.own else None)


class HalfByShares(Half):
    own = True


class Clips(Whole):
    """Sets a gradient of zeros, and remembers that of the clips."""

    divides_window = True
    slopes: list[torch.Tensor]

    def compute_gradient(self, window):
        zero = 0.0 * window.gradient()
        Clips.slopes = [window.clip_gradient(part, part.clips) for part in window.minibatches]
        window.set_gradient(zero)


def take_by(kind: type[TrainingStep], labels: np.ndarray):
    """Return the gradient of a step, by SGD at a rate of 1, and its loss."""
    torch.manual_seed(0)
    named = f"{__name__}.{kind.__name__}"
    settings = network_settings(
        **BY_GRADIENT, training_step=named, train_clip_size=WAVEFORMS.shape[1]
    )
    utterances = TrialList([f"{i}.wav" for i in range(SIZE)], labels, name="some")
    step = Step(Net(), utterances, settings, World())
    gradient, taken = step_and_gradient(step, WINDOW, WAVEFORMS)
    return gradient, taken.loss


def unlabelled() -> np.ndarray:
    return np.where(KNOWN, LABELS, UNLABELLED)


@pytest.mark.parametrize("kind", [Whole, Shares])
def test_recordings_without_labels_count_for_nothing_in_the_mean(kind):
    gradient, loss = take_by(kind, unlabelled())
    wanted, value = expected_of(WINDOW.utterances[KNOWN[WINDOW.utterances]])
    torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-7)
    assert loss == pytest.approx(value, rel=1e-6)


def test_a_step_of_nothing_else_has_a_loss_of_zero():
    gradient, loss = take_by(Whole, np.full(SIZE, UNLABELLED))
    assert loss == 0.0 and not any(value.any() for value in gradient.values())


@pytest.mark.parametrize("kind", [Half, HalfByShares])
def test_a_pass_over_a_part_has_the_mean_of_that_part(kind):
    gradient, _ = take_by(kind, LABELS)
    wanted, _ = expected_of(WINDOW.utterances[:5])
    torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-7)


def test_the_gradient_of_clips_is_that_of_the_steps_mean():
    gradient, _ = take_by(Clips, LABELS)
    assert not any(value.any() for value in gradient.values())
    torch.manual_seed(0)
    clips = WAVEFORMS[CHOSEN].requires_grad_()
    labels = torch.from_numpy(LABELS).long()[CHOSEN]
    F.cross_entropy(Net()(clips)[1], labels, WEIGHTS).backward()
    torch.testing.assert_close(torch.cat(Clips.slopes), clips.grad, rtol=1e-5, atol=1e-8)


PLAN = TrainingPlan(SIZE, 4)


def take_until(step: Step, progress: Progress, broken: int) -> list[str]:
    """Take steps up to `broken`, whose gradient is infinite; the names of its utterances."""
    for number, window in enumerate(PLAN.windows(1), 1):
        if number == broken:
            step.network.output.bias.register_hook(lambda gradient: gradient * torch.inf)
        clips = (Batch(WAVEFORMS[torch.from_numpy(share.utterances)]) for share in window.shares)
        step.take(window, clips, progress, [])
        if number == broken:
            return [UTTERANCES.ids[index] for index in window.utterances]
    raise AssertionError


@pytest.mark.parametrize("network", [{}, {"gradient_clip_norm": 1.0}])
def test_a_gradient_that_is_not_finite_is_named_by_the_next_step(network):
    step, progress = make(**network), Progress()
    names = take_until(step, progress, 2)
    window = list(PLAN.windows(1))[2]
    with pytest.raises(AsdfError) as caught:
        step.take(window, iter([Batch(WAVEFORMS[window.utterances])]), progress, [])
    assert str(caught.value).startswith(
        f"the gradient of step 2 ({', '.join(names)}) is not a finite number, although its loss is."
    )
    assert progress.step == 2


def test_a_network_is_not_saved_before_its_last_step_is_known():
    step, progress = make(), Progress()
    step.check_last(step.update.last.numbers())
    take_until(step, progress, 1)
    with pytest.raises(AsdfError, match=r"the gradient of step 1 \(.* is not a finite number"):
        step.check_last(step.update.last.numbers())


def fp16_step(gradient: float, weight: nn.Parameter, scaler, optimiser, last: LastStep) -> bool:
    """A step with that gradient; whether training may go on after it."""
    scaler.scale((weight * gradient).sum()).backward()
    scaler.step(optimiser)
    scaler.update()
    optimiser.zero_grad()
    last.note("step 7", None)
    return last.is_sound([float(number) for number in last.numbers()])


def test_steps_that_fp16_skips_are_counted_and_too_many_in_a_row_end_the_run():
    weight = nn.Parameter(torch.ones(2))
    scaler = torch.amp.GradScaler("cpu")
    training = (weight, scaler, torch.optim.SGD([weight], lr=0.1))
    last = LastStep(scaler, torch.device("cpu"))
    assert last.loss_scale == 65536
    assert fp16_step(torch.inf, *training, last) and fp16_step(1.0, *training, last)
    assert (last.loss_scale, last.take_skipped(), last.take_skipped()) == (32768, 1, 0)
    for _ in range(MAX_SKIPPED - 1):
        assert fp16_step(torch.inf, *training, last)
    assert not fp16_step(torch.inf, *training, last)
    assert last.complaint() == (
        "fp16 skipped 25 steps in a row, the last one step 7: their gradients are not finite, with "
        "a loss scale of 0.000976562. Set computing.precision='bf16', where the GPU supports it, "
        "or 'fp32'."
    )


def test_on_a_gpu_its_kernels_are_named_as_a_cause_too():
    complaints = []
    for device in ("cpu", "cuda:0"):
        last = LastStep(torch.amp.GradScaler("cpu", enabled=False), torch.device(device))
        last.note("step 3", torch.tensor(torch.nan))
        assert not last.is_sound([float(number) for number in last.numbers()])
        complaints.append(last.complaint())
    on_cpu, on_gpu = complaints
    assert on_gpu.startswith(on_cpu) and "the cause is more likely a kernel of this GPU" in on_gpu
    assert "GPU" not in on_cpu


def test_a_network_that_wants_all_memory_ends_the_run_with_one_message(recipe, capsys, monkeypatch):
    """The host's real error, of the third step."""
    monkeypatch.setenv("TEST_MEMORY", "0:2")
    outcome = recipe.call(capsys, "debug")
    assert outcome.status == 1
    assert "Traceback" not in outcome.output
    (said,) = [
        line for line in outcome.output.splitlines() if "does not have enough memory" in line
    ]
    assert "cpu does not have enough memory for step 3 of training, with " in said
    assert "DefaultCPUAllocator: can't allocate memory: you tried to allocate" in said
    for advice in (
        "Lower network.minibatch_size (now ",
        "raise network.optimizer_step_interval (now 1) by the same factor",
        "front_end.gradient_checkpointing=True",
        "lora.rank=8",
        "--dry-run",
    ):
        assert advice in said


def test_only_what_would_help_is_named():
    settings = Sections()
    settings.front_end.gradient_checkpointing = True
    settings.lora.rank = 4
    settings.network.global_minibatch_size = 24
    settings.computing.use_gpu = False
    device = torch.device("cuda:0")
    with pytest.raises(AsdfError) as caught, step_memory_errors_as_messages(settings, 5, 6, device):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nmore")
    text = str(caught.value)
    assert text.startswith(
        "cuda:0 does not have enough memory for step 5 of training, with 6 utterances of "
        f"{settings.network.train_clip_size:,} samples at once: CUDA out of memory. Tried to "
        "allocate 2 GiB. Lower network.global_minibatch_size (now 24) and raise"
    )
    assert "gradient_checkpointing" not in text and "lora" not in text


def test_other_errors_are_not_explained_by_memory():
    with (
        pytest.raises(RuntimeError, match=r"^mat1"),
        step_memory_errors_as_messages(Sections(), 1, 1, torch.device("cpu")),
    ):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
