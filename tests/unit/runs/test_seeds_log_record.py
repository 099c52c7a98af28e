"""Draws that follow from what they are for, the log, and the record of what a run ran on."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asdf.runs.log import LOG, log_to_file, log_to_screen
from asdf.runs.progress import track
from asdf.runs.record import append_record, environment_record, git_state, update_record
from asdf.runs.seeds import derived_seed, generator


@pytest.fixture(autouse=True)
def handlers_of_their_own():
    before, propagates = LOG.handlers[:], LOG.propagate
    yield
    LOG.handlers[:], LOG.propagate = before, propagates


def test_equal_purposes_draw_equally_whatever_was_drawn_before():
    first = generator(1, "clip", 3, 5).random(4)
    generator(1, "clip", 3, 4).random(100)
    assert np.array_equal(generator(1, "clip", 3, 5).random(4), first)
    for other in ((2, "clip", 3, 5), (1, "order", 3, 5), (1, "clip", 5, 3), (1, "clip", 3)):
        assert not np.array_equal(generator(*other).random(4), first)


def test_the_draws_are_the_same_in_another_process():
    code = "from asdf.runs.seeds import *; print(generator(7, 'clip', 1, 2).random(), derived_seed(7, 'step', 1))"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert told.split() == [
        str(generator(7, "clip", 1, 2).random()),
        str(derived_seed(7, "step", 1)),
    ]


def test_the_draws_are_the_same_years_from_now():
    """NumPy promises this of the raw numbers, though not of the distributions made from them."""
    assert generator(7, "clip", 1, 2).bit_generator.random_raw() == 4246157528598898374
    assert derived_seed(7, "step", 1) == 7290784642748717633


def test_derived_seeds_fit_into_63_bits_and_differ():
    seeds = {
        derived_seed(seed, "step", step, rank)
        for seed in (0, 2**32 - 1)
        for step in range(50)
        for rank in (0, 1)
    }
    assert len(seeds) == 200 and max(seeds) < 2**63 and min(seeds) >= 0


def test_the_screen_shows_plain_lines_and_the_file_their_time(tmp_path, capsys):
    log_to_screen()
    with log_to_file(tmp_path / "system" / "log.txt"):
        LOG.info("one %d", 1)
    LOG.info("two")
    assert capsys.readouterr().out == "one 1\ntwo\n"
    line = (tmp_path / "system" / "log.txt").read_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  one 1\n", line)


def test_a_later_start_adds_to_the_log(tmp_path):
    log_to_screen(is_main=False)
    for text in ("one", "two"):
        with log_to_file(tmp_path / "log.txt"):
            LOG.warning(text)
    assert [line.split("  ")[1] for line in (tmp_path / "log.txt").read_text().splitlines()] == [
        "one",
        "two",
    ]


def test_a_process_that_does_not_speak_shows_warnings_only(capsys):
    log_to_screen(is_main=False)
    LOG.info("hello")
    LOG.warning("look here")
    assert capsys.readouterr().out == "look here\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_log_that_cannot_be_written_is_said_once_without_a_traceback(capsys):
    log_to_screen()
    with log_to_file(Path("/dev/full")):
        LOG.info("one")
        LOG.info("two")
    captured = capsys.readouterr()
    assert captured.out == "one\ntwo\n"
    assert (
        captured.err.count("\n") == 1
        and "cannot write /dev/full" in captured.err
        and "No space left" in captured.err
    )


def test_progress_lines_come_every_so_many_items(capsys):
    log_to_screen()
    assert list(track(range(7), 7, "scoring dev", lines_every=3, unit="batches")) == list(range(7))
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(",")[0] for line in lines] == [
        "scoring dev: 3 of 7",
        "scoring dev: 6 of 7",
    ]
    assert list(track(range(7), 7, "scoring dev", lines_every=3, shown=False)) == list(range(7))
    assert capsys.readouterr().out == ""


def test_progress_lines_come_often_at_first(capsys, monkeypatch):
    """An item takes 3 s here."""
    now = itertools.count(0, 3.0)
    monkeypatch.setattr("asdf.runs.progress.time.monotonic", lambda: next(now))
    log_to_screen()
    list(track(range(60), 60, "measuring", unit="utterances"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "measuring: 2 of 60, 0.3 utterances/s"
    shown = [int(line.split()[1]) for line in lines]
    assert shown == [2, 4, 6, 8, 10, 12, 14, 16, 18, 28, 38, 48, 58]


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
    kept = record["environment"]
    assert {name: kept[name] for name in variables} == variables
    assert "SLURM_JOB_ID" not in kept and "MY_PYTORCH_TOKEN" not in kept
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
        f"warning: {path} is damaged: it is now {aside}, and the record begins anew"
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
    assert [line.strip() for line in state["changed"]] == ["M file"]
    assert state["untracked"] == ["untracked"]
    (tmp_path / "sub").mkdir()
    for number in range(250):
        (tmp_path / f"more_{number:03}").write_text("")
    (tmp_path / ".gitignore").write_text("untracked\n")
    untracked = git_state(tmp_path / "sub")["untracked"]
    assert untracked[:2] == [".gitignore", "more_000"] and untracked[200:] == ["and 51 more"]


def test_the_log_holds_no_control_character_of_a_file_name_and_no_endless_message(tmp_path, capsys):
    log_to_screen()
    name = "\x1b]0;title\x07\u202ex\udcff.flac"
    with log_to_file(tmp_path / "log.txt"):
        LOG.warning("%s is broken", name)
        LOG.info("x" * 1_000_000)
    shown = r"\x1b]0;title\x07\u202ex\udcff.flac is broken"
    screen, file = capsys.readouterr().out, (tmp_path / "log.txt").read_text()
    assert screen.splitlines()[0] == shown
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (.*)", file.splitlines()[0])[1] == shown
    assert "\n... 980,000 characters of this message are left out ...\n" in screen
    assert len(screen) < 20_200 and len(file) < 20_300
