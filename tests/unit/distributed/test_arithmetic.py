"""The flags of a process: TF32, attention and determinism as requested, and as before after it."""

import os
import re

import pytest
import torch
from torch.backends import cuda, cudnn

from asdf.distributed.arithmetic import arithmetic, keep_arithmetic, set_arithmetic
from asdf.distributed.determinism import WORKSPACE, deterministic, explain_refusal, workspace
from asdf.distributed.world import open_world
from asdf.errors import AsdfError, UsageError
from asdf.settings.sections import Computing


def precisions() -> tuple[str, str, str]:
    return cuda.matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision


@pytest.fixture(autouse=True)
def as_before():
    chosen, general = precisions(), torch.backends.fp32_precision
    attention = cuda.cudnn_sdp_enabled()
    yield
    cuda.enable_cudnn_sdp(attention)
    torch.backends.fp32_precision = general
    cuda.matmul.allow_tf32, cudnn.allow_tf32 = False, True
    cuda.matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision = chosen


# By the general setting, the newer interface, for recurrent layers only, and the older interface.
CHOICES = [
    [(torch.backends, "fp32_precision", "tf32")],
    [(cuda.matmul, "fp32_precision", "tf32")],
    [(cudnn.rnn, "fp32_precision", "ieee")],
    [(cuda.matmul, "allow_tf32", True), (cudnn, "allow_tf32", False)],
]


@pytest.mark.parametrize("choice", CHOICES)
def test_a_block_computes_as_it_says_and_leaves_the_programs_choice(choice):
    for part, name, value in choice:
        setattr(part, name, value)
    before = precisions()
    for allowed, name in ((False, "ieee"), (True, "tf32")):
        with arithmetic(tf32=allowed):
            assert precisions() == (name, name, name)
        assert precisions() == before
    with pytest.raises(KeyError), arithmetic(tf32=False):
        raise KeyError
    assert precisions() == before


@pytest.mark.parametrize("allowed", [True, False])
def test_a_run_sets_both_interfaces_whatever_was_chosen_before(allowed):
    torch.backends.fp32_precision = "tf32"
    set_arithmetic(tf32=allowed)
    name = "tf32" if allowed else "ieee"
    assert precisions() == (name, name, name)
    assert (cuda.matmul.allow_tf32, cudnn.allow_tf32) == (allowed, allowed)


@pytest.mark.parametrize("chosen", [True, False])
def test_cudnns_attention_is_never_used_and_the_programs_choice_stays(chosen):
    cuda.enable_cudnn_sdp(chosen)
    with pytest.raises(KeyError), arithmetic(tf32=False):
        assert not cuda.cudnn_sdp_enabled()
        raise KeyError
    assert cuda.cudnn_sdp_enabled() == chosen
    with keep_arithmetic():
        set_arithmetic(tf32=False)
        assert not cuda.cudnn_sdp_enabled()
    assert cuda.cudnn_sdp_enabled() == chosen


STRICT = (True, False, True, False)


def flags() -> tuple[bool, bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        cudnn.deterministic,
        cudnn.benchmark,
    )


def set_flags(strict: bool, only_warns: bool, chosen: bool, tuned: bool) -> None:
    torch.use_deterministic_algorithms(strict, warn_only=only_warns)
    cudnn.deterministic, cudnn.benchmark = chosen, tuned


@pytest.fixture(autouse=True)
def flags_as_before(monkeypatch):
    monkeypatch.delenv(WORKSPACE, raising=False)
    before = flags()
    yield
    set_flags(*before)


@pytest.mark.parametrize("before", [(False, False, False, True), (True, True, True, False)])
def test_a_run_sets_the_flags_and_gives_back_those_of_the_program(before):
    set_flags(*before)
    with open_world(Computing(use_gpu=False, deterministic=True)):
        assert flags() == STRICT
        assert os.environ[WORKSPACE] == ":4096:8"
    assert flags() == before
    assert WORKSPACE not in os.environ
    with pytest.raises(KeyError), deterministic(True):
        raise KeyError
    assert flags() == before


def test_a_run_that_is_not_deterministic_leaves_the_programs_choice():
    chosen = (True, True, False, True)
    set_flags(*chosen)
    with open_world(Computing(use_gpu=False)):
        assert flags() == chosen
        assert WORKSPACE not in os.environ
    assert flags() == chosen


@pytest.mark.parametrize("value", [":16:8", ":4096:8"])
def test_a_workspace_that_torch_accepts_stays(monkeypatch, value):
    monkeypatch.setenv(WORKSPACE, value)
    with workspace(True):
        assert os.environ[WORKSPACE] == value
    assert os.environ[WORKSPACE] == value


def test_a_workspace_that_torch_refuses_is_refused_before_any_work(monkeypatch):
    monkeypatch.setenv(WORKSPACE, ":0:0")
    with workspace(False):
        pass
    with pytest.raises(UsageError, match=f"{WORKSPACE}=:0:0"), deterministic(True):
        pass
    assert flags()[0] is False


def test_an_operation_that_torch_refuses_is_named_with_the_setting():
    numbers = torch.zeros(3)
    with deterministic(True), pytest.raises(RuntimeError) as caught:
        numbers.put_(torch.tensor([0, 0]), torch.ones(2))
    explained = explain_refusal(caught.value)
    assert re.search(r"computing.deterministic = True, .* put_ on", str(explained))
    passed_on = AsdfError(str(caught.value))
    passed_on.reported_by_main = True
    assert explain_refusal(passed_on).reported_by_main
    assert explain_refusal(RuntimeError("out of memory")) is None
    with pytest.raises(ValueError) as caught:
        torch.nn.BatchNorm1d(3)(torch.ones(1, 3))
    assert "set network.minibatch_size to 2 or more" in str(explain_refusal(caught.value))


def test_the_number_of_threads_is_restored():
    before = torch.get_num_threads()
    with open_world(Computing(use_gpu=False, threads=before + 2)):
        assert torch.get_num_threads() == before + 2
    assert torch.get_num_threads() == before
