"""What `python -m asdf launch` finds before anything starts."""

import subprocess
import sys

import pytest

from asdf.__main__ import main
from asdf.distributed.devices import Build, SeenGpus, usable_cores
from asdf.launcher.command import assign_slots, launcher_overrides
from asdf.launcher.planning import PointOptions, plan_runs
from asdf.launcher.processes import Slots
from asdf.launcher.states import Job
from tests.conftest import ROOT

ARRAY = str(ROOT / "puhti_slurm_scripts" / "puhti_array.sh")
GPUS = Slots(["0", "1"], are_gpus=True)
CPU = Slots(["0"], are_gpus=False)


def jobs(recipe, words, slots, processes, cpu_is_meant=True) -> list[Job]:
    path = recipe.folder / "run.py"
    configs = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    launchers = launcher_overrides(slots, processes, cpu_is_meant)
    plan = plan_runs(path, configs, overrides, PointOptions(), launchers)
    assign_slots(plan.jobs, slots, processes)
    return plan.jobs


def launch(recipe, capsys, *words):
    capsys.readouterr()
    status = main(["launch", str(recipe.folder / "run.py"), *words])
    captured = capsys.readouterr()
    assert not recipe.output.exists()
    return status, captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("debug", "normed", "debug"), "configs debug and debug have the same system folder"),
        (("debug", "normed", "paths.system_folder=one"), "configs debug and normed have the same"),
        (("debug", "nosuch", "network.max_epochs=0"), "there is no config 'nosuch'"),
        (("debug", "network.max_epochs=0"), "network.max_epochs"),
        (
            ("debug", "computing.gpu_ids=(1,)"),
            "computing.gpu_ids is set by the launcher and cannot",
        ),
        (("debug", "--slots", "0"), "--slots 0: give at least 1"),
        (("network.max_epochs=1",), "no config is given"),
        (("debug", "--sweep", "computing.processes=1,2"), "Use --processes-per-run"),
        (("debug", "no?uch*"), "matches 'no?uch*'"),
        (("debug", "--seeds", "0-1", "--sweep", "recipe.seed=2,3"), "named by --sweep: remove one"),
    ],
)
def test_mistakes_are_reported_before_anything_starts(recipe, capsys, words, message):
    words = words if "--slots" in words else (*words, "--slots", "2")
    status, error = launch(recipe, capsys, *words)
    assert status == 2 and message in error


def test_all_mistakes_of_all_points_are_one_message(recipe, capsys):
    words = ("debug", "--seeds", "0-x", "--sweep", "network.max_epochs=2,0,two", "--slots", "1")
    status, error = launch(recipe, capsys, *words, "--sweep", "own.hidden=1,2", "--random", "0")
    assert status == 2
    assert "5 mistakes in the settings:" in error
    for mistake in (
        "--seeds 0-x: write numbers and ranges",
        "--random 0: at least one point is needed",
        "network.max_epochs = 0: must be at least 1",
        "network.max_epochs = two: two is a name",
        "there is no section 'own'",
    ):
        assert mistake in error


def test_a_dry_run_lists_the_points_and_what_is_done(recipe, capsys):
    words = ("launch", str(recipe.folder / "run.py"), "debug", "norm*", "--dry-run")
    assert main([*words, "--seeds", "0,5", "--slots", "1"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert " ".join(lines[0]) == "4 runs: 2 configs x 2 seeds"
    runs = [f"{config}-seed{seed}" for config in ("debug", "normed") for seed in (0, 5)]
    assert [line[:2] for line in lines[1:]] == [[run, "waiting"] for run in runs]
    assert lines[1][2].endswith("output/system1-seed0")
    assert not recipe.output.exists()


def test_a_recipe_that_does_not_exist(recipe, capsys):
    assert main(["launch", str(recipe.folder), "debug"]) == 2
    assert f"{recipe.folder / 'run.py'}." in capsys.readouterr().err


def test_a_run_wider_than_the_gpus_named(recipe, capsys):
    with pytest.raises(Exception, match="config debug runs in 3 processes, but only 2 GPUs"):
        jobs(recipe, ["debug"], GPUS, 3)


def test_each_run_is_assigned_its_gpus_on_top_of_its_config(recipe):
    two = "paths.system_folder = 'two'\ncomputing.processes = 2\ncomputing.threads = None"
    recipe.add_configs(f"two < debug\n{two}")
    first, second = jobs(recipe, ["debug", "two", "recipe.seed=3"], GPUS, None)
    for number, run in enumerate((first, second), 1):
        gpus = ["computing.gpu_ids=None", f"computing.processes={number}"]
        assert run.overrides == ["recipe.seed=3", *gpus]
    assert (first.slots_needed, second.slots_needed) == (1, 2)
    assert second.system == recipe.system("two")
    (wide,) = jobs(recipe, ["debug"], GPUS, 2)
    assert wide.slots_needed == 2 and wide.overrides[-1] == "computing.processes=2"
    assert wide.digest != first.digest
    # On the CPU the cores are shared out, where the config does not say how many threads there are.
    (shared,) = jobs(recipe, ["two"], CPU, None)
    cores = usable_cores()
    assert shared.slots_needed == 1
    assert shared.overrides[-3:] == [
        "computing.use_gpu=False",
        "computing.processes=2",
        f"computing.threads={max(1, cores // 2)}",
    ]


def test_without_gpus_a_config_that_needs_one_is_refused(recipe, capsys, monkeypatch):
    recipe.add_configs("needy < debug\ncomputing.use_gpu = 'required'\n")
    status, error = launch(recipe, capsys, "needy")
    assert status == 2
    assert "config needy: computing.use_gpu = 'required', but no NVIDIA GPU was found" in error
    assert error.endswith("To launch runs on the CPU, use --slots N.\n")
    hidden = SeenGpus(0, 2, Build("2.14.1", "CUDA 13.0"), shown="")
    monkeypatch.setattr("asdf.launcher.command.look_without_torch", lambda: hidden)
    status, error = launch(recipe, capsys, "debug")
    assert status == 2 and "has 2 NVIDIA GPUs, but CUDA_VISIBLE_DEVICES='' hides them" in error
    # Asked for: no GPU is looked for.
    (meant,) = jobs(recipe, ["debug"], CPU, None, cpu_is_meant=True)
    assert "computing.use_gpu=False" in meant.overrides


def test_one_launch_is_enough(recipe, capsys, monkeypatch):
    variables = {"PMI_RANK": "1", "PMI_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    status, error = launch(recipe, capsys, "debug", "--slots", "1")
    assert status == 2 and "mpiexec started 2 launches of the same configs. Start a single" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--slurm", "nosuch.sh"), "--slurm nosuch.sh: there is no such script. Those of"),
        (("--slurm", ARRAY, "--slots", "1"), "--slots cannot be used with --slurm"),
        (("--slurm", ARRAY, "--gpus", "0"), "--gpus cannot be used with --slurm"),
        (("--slurm", ARRAY, "--max-running", "0"), "--max-running 0: give at least 1"),
        (("--slurm", ARRAY, "--", "--array=0-3"), "--array=0-3: the array is set by the runs"),
        (("--slurm", ARRAY, "--", "-a0-3"), "-a0-3: the array is set by the runs"),
        (("--slurm", ARRAY), "--slurm: sbatch was not found. Submit from a login node"),
        (("--max-running", "2"), "--max-running and sbatch options after -- need --slurm"),
        (("--", "--time=1"), "--max-running and sbatch options after -- need --slurm"),
    ],
)
def test_what_cannot_be_submitted(recipe, capsys, monkeypatch, words, message):
    monkeypatch.setenv("PATH", "/nowhere")
    status, error = launch(recipe, capsys, "debug", *words)
    assert status == 2 and error.startswith(f"error: {message}") and error.count("\n") == 1


HELP_WITHOUT_TORCH = """
import sys
from asdf.__main__ import main

for words in (["--help"], ["launch", "--help"]):
    try:
        main(words)
    except SystemExit as end:
        assert not end.code
assert "torch" not in sys.modules
"""


def test_help_needs_no_torch():
    command = [sys.executable, "-c", HELP_WITHOUT_TORCH]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--processes-per-run" in done.stdout
