"""`python -m asdf launch --slurm` on a real Slurm: the points as one job array that resumes."""

import json
import re

import pytest
import torch

from asdf.__main__ import main
from tests.scripts.slurm_lab import Job

# In the first start of task 0 it waits in the second step for the stop file.
HELD = """
import os, time
from pathlib import Path
from small_networks import Normed

class Held(Normed):
    def embed(self, waveforms_BT):
        self.steps = getattr(self, "steps", 0) + self.training
        is_first = "SLURM_RESTART_COUNT" not in os.environ
        if self.steps == 2 and is_first and os.environ["SLURM_ARRAY_TASK_ID"] == "0":
            Path(__file__).with_name("held").touch()
            while not Path(os.environ["ASDF_STOP_FILE"]).exists():
                time.sleep(0.1)
            time.sleep(1.1)  # the stop file is looked for once a second
        return super().embed(waveforms_BT)
"""
SCRIPT = "puhti_slurm_scripts/puhti_array.sh"
OPTIONS = ("--", "--mem=1G", "--cpus-per-task=1", "--gres=nvme:1")


@pytest.fixture
def launch(lab, recipe, monkeypatch, capsys):
    """Runs the command in the folder that holds the scripts; returns its status and output."""
    monkeypatch.chdir(lab.folder)

    def run(*words, script=SCRIPT, options=OPTIONS):
        capsys.readouterr()
        status = main(
            ["launch", str(recipe.folder / "run.py"), *words, "--slurm", script, *options]
        )
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


def tasks_of(output: str, count: int) -> list[Job]:
    job = re.search(r"as job (\d+),", output)[1]
    return [Job(f"{job}_{number}") for number in range(count)]


def start_of(network: dict) -> dict:
    return {name: value.clone() for name, value in network["model_state_dict"].items()}


@pytest.mark.slow
def test_points_are_tasks_that_resume_and_are_submitted_once(launch, recipe):
    """Two configs with two seeds each; the first task is stopped in its first epoch."""
    (recipe.folder / "held.py").write_text(HELD)
    recipe.add_configs(
        "held < normed\nnetwork.network_class = 'held.Held'\npaths.system_folder = 'held'\n"
    )
    words = ("held", "norm*", "--seeds", "3-4", "network.max_epochs=1")
    status, output = launch(*words, "--max-running", "3")
    assert status == 0 and "4 runs: 2 configs x 2 seeds" in output, output
    assert "submitted 4 runs" in output and "at most 3 at a time" in output
    tasks = tasks_of(output, 4)
    held = tasks[0]
    held.wait_until((recipe.folder / "held").exists)
    status, output = launch(*words, "--dry-run")
    assert status == 0 and f"in the queue as {held.id}" in output, output
    held.stop()
    for task in tasks[1:]:
        assert task.wait().state == "COMPLETED", task.output
    assert "nothing to submit" in launch(*words)[1]
    # What the time limit would have done.
    assert held.wait(restarts=1).state == "COMPLETED", held.output
    assert "back into the queue, restart 1" in held.output
    assert "going on from resume.pt" in held.output
    # What was held, stopped and resumed has the bits of what was not.
    for seed in (3, 4):
        networks = []
        for name in ("held", "normed"):
            path = recipe.system(f"{name}-seed{seed}") / "networks" / "epoch.1.pt"
            networks.append(start_of(torch.load(path, weights_only=True)))
        assert networks[0].keys() == networks[1].keys()
        for name, value in networks[0].items():
            torch.testing.assert_close(value, networks[1][name], rtol=0, atol=0)
    # Wider: what the array has finished is done, with its results, and only the new is submitted.
    status, output = launch("norm*", "--seeds", "3-5", "network.max_epochs=1", "--dry-run")
    states = [line.split()[:2] for line in output.splitlines()[1:]]
    assert states == [
        ["normed-seed3", "done,"],
        ["normed-seed4", "done,"],
        ["normed-seed5", "waiting"],
    ]
    status, output = launch(*words)
    assert status == 0 and "nothing to submit" in output
    first = recipe.system("held-seed3")
    results = json.loads((first / "results" / "results.json").read_text())
    row = ["held-seed3", "epoch.1", *(f"{100 * row['eer']:.3f}" for row in results)]
    assert row in [line.split() for line in output.splitlines()]


def test_a_refusal_of_slurm_is_one_message(launch, recipe):
    status, output = launch("debug", "--seeds", "0-1", options=("--", "--partition=nosuch"))
    assert status != 0 and "sbatch refused: " in output and "Nothing was submitted" in output
    assert "Traceback" not in output
    assert "Invalid" in output or "invalid" in output


def test_a_line_that_does_not_exist_is_reported(lab, tmp_path):
    runs = tmp_path / "runs.jsonl"
    runs.write_text('{"recipe": "run.py", "config": "a", "overrides": []}\n')
    array = lab.submit("puhti_array.sh", ["--array=4"], "--points", str(runs))
    task = Job(f"{array.id}_4")
    assert task.wait().status == 2
    assert f"no run for array task 4 in {runs}" in task.output
