"""The record of what a run ran on."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from asdf.runs.log import LOG
from asdf.runs.start_records import append_record, environment_record, git_state, update_record


def test_the_record_says_what_ran_on_what(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", "a config"])
    variables = {
        "CUDA_VISIBLE_DEVICES": "1,2",
        "NCCL_SOCKET_IFNAME": "ib0",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }
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
        subprocess.run(
            ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y", *words],
            check=True,
        )

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
