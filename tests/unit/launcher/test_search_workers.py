"""Workers of a search on a cluster: their script, run by bash as Slurm would, and their number."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from asdf.__main__ import main
from asdf.launcher.search_workers import SearchWorkers
from asdf.runs.files import write_text
from tests.conftest import PATIENCE_S

# Notes its words; one that is held waits for SIGTERM.
STUB = """#!/bin/bash
printf '%s\\n' "$*" >> words
[ ! -e hold ] || { trap 'echo saved >> words; exit 0' TERM; touch held; sleep 60 & wait $!; }
exit 3
"""
# Slurm's programs: the queue is a file, and what is submitted is noted.
SBATCH = '#!/bin/bash\nprintf \'%s\\n\' "$*" >> "${0%/*}/submitted"; echo 17\n'
SQUEUE = '#!/bin/bash\ncat "${0%/*}/queue"\n'


def add_programs(folder: Path, monkeypatch, **texts: str) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def workers(tmp_path, monkeypatch) -> SearchWorkers:
    folder = tmp_path / "a folder"
    folder.mkdir()
    scontrol = '#!/bin/bash\necho "$*" >> words\n'
    add_programs(tmp_path, monkeypatch, stub=STUB, scontrol=scontrol)
    monkeypatch.setenv("ASDF_PYTHON", str(tmp_path / "stub"))
    made = SearchWorkers(("run.py", "net", "--search", "a.b=8|16"), 4, tmp_path / "h %", folder)
    write_text(made.script, made.script_text())
    return made


def start(made: SearchWorkers) -> subprocess.Popen:
    variables = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    return subprocess.Popen(["bash", str(made.script)], env={**os.environ, **variables})


def test_a_task_is_a_launch_in_the_folder_of_the_command(workers):
    assert start(workers).wait(PATIENCE_S) == 3
    said = (workers.folder / "words").read_text()
    assert said == "-m asdf launch run.py net --search a.b=8|16\n"
    words = workers.sbatch_words(3, 2, ["--time=1:00:00"])
    assert words[0] == "--array=1-3%2" and words[-1] == "--time=1:00:00"
    assert words[1].endswith("/h %%/worker-%A-%a.log")
    assert workers.sbatch_words(3, None, [])[0] == "--array=1-3"


def test_a_worker_near_its_time_limit_saves_and_is_queued_again(workers):
    (workers.folder / "hold").touch()
    process = start(workers)
    until = time.monotonic() + PATIENCE_S
    while not (workers.folder / "held").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(PATIENCE_S) == 0
    said = (workers.folder / "words").read_text().splitlines()
    assert said[1:] == ["saved", "requeue 7_3"]


@pytest.fixture
def launch(recipe, tmp_path, monkeypatch, capsys):
    """The command with a search of three trials; returns its status and what it says."""
    pytest.importorskip("optuna", reason="optuna is not installed")
    monkeypatch.chdir(tmp_path)
    words = ["launch", str(recipe.folder / "run.py"), "debug", "network.max_epochs=1"]
    words += ["--search", "network.initial_learning_rate=1e-6..1e-4:log"]
    words += ["--trials", "3", "--storage", "search.log"]

    def run(*more: str) -> tuple[int, str]:
        capsys.readouterr()
        status = main([*words, *more])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


def test_a_dry_run_prints_the_script(launch, recipe):
    status, said = launch("--slots", "1", "--slurm", "2", "--dry-run", "--", "--partition=gpu")
    assert status == 0
    [submitted] = [line for line in said.splitlines() if line.startswith("# sbatch ")]
    assert "--array=1-2 " in submitted and "--partition=gpu" in submitted
    [command] = [line for line in said.splitlines() if line.endswith(" &")]
    assert " -m asdf launch " in command
    assert command.endswith(" --trials 3 --storage search.log --slots 1 &")
    assert not list(recipe.output.glob("*.slurm"))


def test_no_more_workers_are_submitted_than_there_is_work_for(
    launch, recipe, tmp_path, monkeypatch
):
    add_programs(tmp_path, monkeypatch, sbatch=SBATCH, squeue=SQUEUE)
    (tmp_path / "queue").write_text("5_1|asdf-search:another\n")
    status, said = launch("--slurm", "8", "--max-running", "2", "--", "--mem=1G")
    assert status == 0 and "submitted 3 workers as job 17" in said
    [home] = recipe.output.glob("search-debug-*.slurm")
    [submitted] = (tmp_path / "submitted").read_text().splitlines()
    assert submitted.startswith("--parsable --array=1-3%2 ")
    assert submitted.endswith(f" --mem=1G {home / 'workers.sh'}")
    comment = f"asdf-search:{home.resolve()}"
    assert f"--comment={comment}" in submitted
    (tmp_path / "queue").write_text(f"17_1|{comment}\n17_2|{comment}\n")
    assert "submitted 1 workers" in launch("--slurm", "8")[1]
    assert "nothing to submit" in launch("--slurm", "2")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slurm", "run.sh"), "--slurm run.sh: with --search, give the number of workers"),
        (("--slurm", "0"), "--slurm 0: with --search, give the number of workers"),
        (("--slurm", "2", "--gpus", "0"), "--gpus cannot be used with --slurm"),
        (("--slu", "2"), "Write --slurm, --max-running and --dry-run in full"),
        (("--slurm", "2", "--", "--array=1"), "the array is set by the workers"),
    ],
)
def test_mistakes(launch, tmp_path, monkeypatch, words, said):
    add_programs(tmp_path, monkeypatch, sbatch=SBATCH, squeue=SQUEUE)
    status, output = launch(*words)
    assert status == 2 and said in output
    assert not (tmp_path / "submitted").exists()
