"""What `computing.deterministic` sets, and that it is restored."""

import os
import re

import pytest
import torch
from torch.backends import cudnn

from asdf.distributed.determinism import WORKSPACE, deterministic, explain_refusal, workspace
from asdf.distributed.world import open_world
from asdf.errors import AsdfError, UsageError
from asdf.settings.sections import Computing

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
def as_before(monkeypatch):
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


def test_the_number_of_threads_is_restored():
    before = torch.get_num_threads()
    with open_world(Computing(use_gpu=False, threads=before + 2)):
        assert torch.get_num_threads() == before + 2
    assert torch.get_num_threads() == before
