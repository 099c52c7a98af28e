"""Too little memory in a training step is one message that says what to change."""

from __future__ import annotations

import pytest
import torch

from asdf.errors import AsdfError
from asdf.settings.sections import Sections
from asdf.training.objective import step_memory_errors_as_messages


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
    assert "other programs" not in text


def test_other_errors_are_not_explained_by_memory():
    with (
        pytest.raises(RuntimeError, match=r"^mat1"),
        step_memory_errors_as_messages(Sections(), 1, 1, torch.device("cpu")),
    ):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
