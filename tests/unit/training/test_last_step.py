"""What is known of a step only with the next: non-finite gradients, and the loss scale of fp16."""

import pytest
import torch
from torch import nn

from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan
from asdf.errors import AsdfError
from asdf.training.gradients import MAX_SKIPPED, LastStep
from asdf.training.training_progress import Progress
from tests.unit.training.test_step import SIZE, UTTERANCES, WAVEFORMS, Step, make

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
        "a loss scale of 0.000976562. The network learns nothing this way. Set "
        "computing.precision='bf16', where the GPU supports it, or 'fp32'."
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
