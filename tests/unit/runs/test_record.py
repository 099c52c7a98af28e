"""The record of what a run ran on, and draws that follow from its seed alone."""

import json
import re
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from asdf.runs.log import LOG
from asdf.runs.seeds import derived_seed, generator
from asdf.runs.start_records import append_record, environment_record, git_state, update_record


def test_the_record_says_what_ran_on_what(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", "a config"])
    variables = {"CUDA_VISIBLE_DEVICES": "1,2", "NCCL_SOCKET_IFNAME": "ib0"}
    variables |= {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    variables |= {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MY_PYTORCH_TOKEN", "secret")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    libraries = {"cuda": None, "cudnn": None, "nccl": None, "driver": None}
    record = environment_record(["rank 0: cpu"], tmp_path, libraries)
    assert record["libraries"] == libraries and record["recipe_git"] is None
    assert record["command"] == f"{sys.executable} run.py 'a config'"
    assert record["versions"]["numpy"] == np.__version__ and record["devices"] == ["rank 0: cpu"]
    saved = record["environment"]
    assert {name: saved[name] for name in variables} == variables
    assert "SLURM_JOB_ID" not in saved and "MY_PYTORCH_TOKEN" not in saved
    path = tmp_path / "environment.json"
    append_record(path, record)
    append_record(path, {"second": True})
    update_record(path, {"code": {"run.py": "ab"}})
    update_record(path, {"ended": "now", "second": False})
    last = {"second": False, "code": {"run.py": "ab"}, "ended": "now"}
    assert json.loads(path.read_text()) == [record, last]


@pytest.mark.parametrize("damage", [b"", b"\xff", b'[{"started": ', b"{}", b"[" * 100_000])
def test_a_damaged_record_is_put_aside(tmp_path, monkeypatch, caplog, damage):
    monkeypatch.setattr(LOG, "propagate", True)
    path, aside = tmp_path / "environment.json", tmp_path / "environment.damaged"
    path.write_bytes(damage)
    append_record(path, {"first": True})
    assert json.loads(path.read_text()) == [{"first": True}] and aside.read_bytes() == damage
    assert set(caplog.messages) == {
        f"warning: {path} is damaged: it was renamed to {aside}, and a new record begins"
    }


def test_the_git_state_names_commit_branch_and_changed_files(tmp_path):
    assert git_state(tmp_path) is None

    def git(*words):
        user = ("-c", "user.name=x", "-c", "user.email=x@y")
        subprocess.run(["git", "-C", str(tmp_path), *user, *words], check=True)

    git("init", "-q", "-b", "trunk")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    (tmp_path / "file").write_text("2")
    (tmp_path / "untracked").write_text("")
    state = git_state(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", state["commit"]) and state["branch"] == "trunk"
    # The column of git says that it is not staged.
    assert state["changed"] == [" M file"]
    assert state["untracked"] == ["untracked"]
    (tmp_path / "sub").mkdir()
    for number in range(250):
        (tmp_path / f"more_{number:03}").write_text("")
    (tmp_path / ".gitignore").write_text("untracked\n")
    untracked = git_state(tmp_path / "sub")["untracked"]
    assert untracked[:2] == [".gitignore", "more_000"] and untracked[200:] == ["and 51 more"]


def test_equal_purposes_draw_equally_whatever_was_drawn_before():
    first = generator(1, "clip", 3, 5).random(4)
    generator(1, "clip", 3, 4).random(100)
    assert np.array_equal(generator(1, "clip", 3, 5).random(4), first)
    for other in ((2, "clip", 3, 5), (1, "order", 3, 5), (1, "clip", 5, 3), (1, "clip", 3)):
        assert not np.array_equal(generator(*other).random(4), first)


def test_the_draws_are_the_same_in_another_process_and_years_from_now():
    """NumPy promises this of the raw numbers, though not of the distributions made from them."""
    assert generator(7, "clip", 1, 2).bit_generator.random_raw() == 4246157528598898374
    assert derived_seed(7, "step", 1) == 7290784642748717633


def test_derived_seeds_fit_into_63_bits_and_differ():
    draws = product((0, 2**32 - 1), range(50), (0, 1))
    seeds = {derived_seed(seed, "step", step, rank) for seed, step, rank in draws}
    assert len(seeds) == 200 and max(seeds) < 2**63 and min(seeds) >= 0
