"""`launch --search`: trainings as trials, by several workers, one of which is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from asdf.__main__ import main
from tests.conftest import PATIENCE_S

optuna = pytest.importorskip("optuna", reason="optuna is not installed")
RATE = "network.initial_learning_rate=1e-4..1e-1:log"
CPU = ("--slots", "1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--search", RATE), "--search needs --trials N, and --storage FILE"),
        (("--trials", "3"), "require --search"),
        (
            ("--search", RATE, "--trials", "2", "--storage", "s", "--seeds", "0-1"),
            "--seeds cannot be combined with --search",
        ),
        (("--search", RATE, "--trials", "0", "--storage", "s"), "must be at least 1"),
        (
            ("--search", "network.max_epochs=0..3", "--trials", "2", "--storage", "s"),
            "must be at least 1",
        ),
        (("--search", "own.x=1..3", "--trials", "2", "--storage", "s"), "no section 'own'"),
        (
            ("--search", RATE, "--trials", "2", "--storage", "s", "--objective", "nosuch"),
            "has the validation sets demo-dev",
        ),
        (
            ("normed", "--search", RATE, "--trials", "2", "--storage", "s"),
            "takes one config, not 2",
        ),
        (
            (
                "network.initial_learning_rate=1",
                "--search",
                RATE,
                "--trials",
                "2",
                "--storage",
                "s",
            ),
            "set for all runs",
        ),
    ],
)
def test_mistakes_are_found_before_anything_starts(recipe, capsys, monkeypatch, words, said):
    monkeypatch.chdir(recipe.folder)
    words = [word if word != "s" else str(recipe.folder / "s.log") for word in words]
    assert main(["launch", str(recipe.folder / "run.py"), "debug", *words, *CPU]) == 2
    assert said in capsys.readouterr().err
    assert not recipe.output.exists()


def test_a_dry_run_shows_where_the_search_is(recipe, capsys, monkeypatch):
    monkeypatch.chdir(recipe.folder)
    words = ["--search", RATE, "--trials", "2", "--storage", "s.log", "--dry-run", *CPU]
    assert main(["launch", str(recipe.folder / "run.py"), "debug", *words]) == 0
    assert "0 of 2 trials" in capsys.readouterr().out
    assert not recipe.output.exists()


@pytest.mark.slow
def test_workers_share_a_search_and_take_over_from_one_that_is_killed(recipe):
    words = ["--search", RATE, "--trials", "3", "--storage", "s.log", *CPU]
    command = [sys.executable, "-m", "asdf", "launch", "run.py", "debug", *words]
    command += ["network.max_epochs=2", "--objective", "demo-dev"]
    quiet = {"cwd": recipe.folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    workers = [subprocess.Popen(command, **quiet) for _ in range(2)]
    until = time.monotonic() + PATIENCE_S
    while len(list(recipe.output.glob("*/launch.log"))) < 2:
        assert time.monotonic() < until
        time.sleep(0.05)
    workers[0].send_signal(signal.SIGKILL)
    workers[0].wait()
    assert workers[1].wait(PATIENCE_S) == 0
    done = subprocess.run(command, cwd=recipe.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "3 of 3 trials: 3 complete" in done.stdout
    backend = optuna.storages.journal.JournalFileBackend(str(recipe.folder / "s.log"))
    [study] = optuna.get_all_study_summaries(optuna.storages.JournalStorage(backend))
    study = optuna.load_study(
        study_name=study.study_name, storage=optuna.storages.JournalStorage(backend)
    )
    assert len(study.trials) == 3 and len(list(recipe.output.glob("system1-*"))) == 3
    for trial in study.trials:
        folder = recipe.output / f"system1-initial_learning_rate_{trial.params[RATE.split('=')[0]]}"
        evaluations = json.loads((folder / "networks" / "evaluations.json").read_text())
        assert trial.value == min(known["eer"]["demo-dev"] for known in evaluations)
        assert len(trial.intermediate_values) == 2
        assert "learning_rate" in trial.user_attrs["run"]
