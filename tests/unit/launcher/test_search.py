"""Searches: what may be proposed, and that each trial has one worker and one end."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from asdf.distributed.stopping import StopRequest
from asdf.errors import UsageError
from asdf.launcher import Job, PlannedRun, Slots, Table, run_queue
from asdf.launcher.search import Search, SearchPlan, costs_of
from asdf.launcher.search_space import Dimension, read_space
from asdf.runs.evaluations import ChosenBy, Evaluation
from asdf.runs.layout import Layout
from asdf.runs.network_names import NetworkName
from asdf.settings.sections import Sections
from tests.conftest import PATIENCE_S, ROOT

optuna = pytest.importorskip("optuna", reason="optuna is not installed")

# A run whose EER on dev is (x - .3)^2, then twice that; x above .5 fails.
RUN = """
import json, sys
from pathlib import Path
x = float(sys.argv[2].partition("=")[2])
folder = Path(__file__).parent / f"net-x_{x!r}"
with (folder / "starts.txt").open("a") as file:
    file.write("started\\n")
if x > 0.5:
    sys.exit("error: it diverged")
(folder / "networks").mkdir(exist_ok=True)
cost = (x - 0.3) ** 2
records = [
    {"step": step, "network": f"epoch.{step}.pt", "eer": {"dev": step * cost, "other": 0.5}}
    for step in (1, 2)
]
(folder / "networks" / "evaluations.json").write_text(json.dumps(records))
"""
SPACE = (Dimension("own.x", 0.0, 1.0),)


def search(folder: Path, trials: int, space=SPACE, **options) -> Search:
    folder.mkdir(exist_ok=True)
    (folder / "run.py").write_text(RUN)

    def plan_run(values: dict[str, str]) -> PlannedRun:
        [text] = values.values()
        name = f"net-x_{text}"
        return PlannedRun(name, "net", (f"x={text}",), folder / name, folder, Sections())

    def make_job(run: PlannedRun) -> Job:
        return Job(run.config, list(run.overrides), run.system, "", name=run.name)

    storage = options.pop("storage", str(folder / "search.log"))
    plan = SearchPlan("net-1", space, trials, storage, folder, **options)
    return Search(plan, plan_run, make_job)


def run(made: Search) -> list[Job]:
    jobs: list[Job] = []
    folder = Path(made.plan.storage).parent
    slots = Slots(["0", "1", "2"], are_gpus=False)
    table = Table(io.StringIO())
    run_queue(jobs, slots, folder / "run.py", table, StopRequest(), made)
    return jobs


def trials_of(made: Search):
    return made._study.get_trials()


@pytest.mark.parametrize(
    ("text", "dimension"),
    [
        ("a.b=1e-6..1e-4:log", Dimension("a.b", 1e-6, 1e-4, log=True)),
        ("a.b=8..32", Dimension("a.b", 8, 32)),
        ("a.b = -.5..2.", Dimension("a.b", -0.5, 2.0)),
        ("a.b=8|16|32", Dimension("a.b", choices=("8", "16", "32"))),
        ("a.b=(1, 2)|None", Dimension("a.b", choices=("(1, 2)", "None"))),
    ],
)
def test_what_may_be_proposed_is_read(text, dimension):
    [read] = read_space([text])
    assert read == dimension and type(read.low) is type(dimension.low)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["a.b"], "write section.name=LOW..HIGH"),
        (["a.b=3"], "at least two values"),
        (["a.b=1||2"], "at least two values"),
        (["a.b=2..1"], "ends before it begins"),
        (["a.b=0..1:log"], "must begin above 0"),
        (["a.b=1e999..2e999"], "ends before it begins"),
        (["a.b=1|2", "a.b=1..2"], "named twice"),
        (["paths.system_folder=a|b"], "its own folder"),
    ],
)
def test_what_cannot_be_proposed_is_refused(texts, said):
    with pytest.raises(UsageError, match=said):
        read_space(texts)


@pytest.mark.slow
def test_each_trial_is_a_run_and_is_told_once(tmp_path):
    made = search(tmp_path, 8)
    jobs = run(made)
    trials = trials_of(made)
    assert len(jobs) == len(trials) == 8
    for trial in trials:
        x = trial.params["own.x"]
        folder = tmp_path / f"net-x_{x!r}"
        assert (folder / "starts.txt").read_text() == "started\n"
        if x > 0.5:
            assert trial.state.name == "FAIL" and "it diverged" in trial.user_attrs["failed"]
            continue
        # The best of both evaluations, on the first set.
        assert trial.value == pytest.approx((x - 0.3) ** 2)
        assert trial.intermediate_values == pytest.approx({1: trial.value, 2: 2 * trial.value})
        assert trial.user_attrs["run"] == folder.name
    assert {trial.state.name for trial in trials} == {"COMPLETE", "FAIL"}
    best = min(trial.value for trial in trials if trial.value is not None)
    lines = made.describe().splitlines()
    assert "8 of 8 trials" in lines[0] and f"{best:.6g}" in lines[2]
    # More of them later go on from what is known.
    assert len(run(search(tmp_path, 10))) == 2


def test_the_same_seed_proposes_the_same_points(tmp_path):
    params = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        made = search(tmp_path / name, 3, seed=seed)
        # One after the other: what is known when a point is proposed is the same.
        for _ in range(3):
            job = made.more()
            job.state = "failed"
            made.ended(job)
        params.append([trial.params["own.x"] for trial in trials_of(made)])
    assert params[0] == params[1] != params[2]


def test_choices_that_are_proposed_twice_are_run_once(tmp_path):
    made = search(tmp_path, 6, (Dimension("own.x", choices=("0.1", "0.5")),))
    jobs = run(made)
    trials = trials_of(made)
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 6
    started = {job.label for job in jobs}
    for name in started:
        assert (tmp_path / name / "starts.txt").read_text() == "started\n"
    for trial in trials:
        assert trial.value == pytest.approx((float(trial.params["own.x"]) - 0.3) ** 2)


def test_a_trial_has_one_worker_and_is_taken_up_when_that_dies(tmp_path):
    first, second = search(tmp_path, 3), search(tmp_path, 3)
    jobs = [first.more(), second.more(), first.more()]
    assert len({job.system for job in jobs}) == 3
    assert second.more() is None and second.is_over
    # Its locks are gone with a process.
    first.give_back()
    taken = [second.more(), second.more()]
    assert [job.system for job in taken] == [jobs[0].system, jobs[2].system]
    assert first.more() is None
    for job in (jobs[1], *taken):
        job.state = "failed"
        second.ended(job)
    assert first.more() is None and first.is_over
    assert [trial.state.name for trial in trials_of(first)] == ["FAIL"] * 3


# A worker that is killed when it has made a trial: before a point, or a claimed run, is known.
KILLED = """
import os, signal, sys
from pathlib import Path
from asdf.launcher.search_space import Dimension
from tests.unit.launcher.test_search import search

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

made = search(Path(sys.argv[1]), int(sys.argv[2]))
if sys.argv[3] == "no point":
    Dimension.suggest = die
else:
    made.plan_run = die
made.more()
"""


def killed(folder: Path, trials: int, when: str) -> None:
    command = [sys.executable, "-c", KILLED, str(folder), str(trials), when]
    process = subprocess.run(command, cwd=ROOT, timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("when", ["no point", "no run"])
def test_a_trial_of_a_worker_that_was_killed_before_its_run_is_taken_up(tmp_path, when):
    killed(tmp_path, 2, when)
    made = search(tmp_path, 2)
    [trial] = trials_of(made)
    assert trial.state.name == "RUNNING"
    assert list(trial.params) == ([] if when == "no point" else ["own.x"])
    jobs = [made.more(), made.more()]
    assert made.more() is None and made.is_over
    assert len(trials_of(made)) == 2
    # The point is that which the worker would have run.
    alone = search(tmp_path / "alone", 1)
    alone.more()
    assert trials_of(made)[0].params == trials_of(alone)[0].params
    for job in jobs:
        job.state = "failed"
        made.ended(job)
    assert [trial.state.name for trial in trials_of(made)] == ["FAIL"] * 2


def test_a_trial_beyond_those_that_are_wanted_is_not_taken_up(tmp_path):
    killed(tmp_path, 1, "no point")
    made = search(tmp_path, 0)
    assert made.more() is None
    [trial] = trials_of(made)
    assert (trial.state.name, trial.user_attrs["failed"]) == ("FAIL", "one more than --trials")


def test_a_trial_that_is_being_made_elsewhere_is_left_alone(tmp_path):
    killed(tmp_path / "there", 1, "no run")
    storage = str(tmp_path / "there" / "search.log")
    here = search(tmp_path / "here", 1, storage=storage)
    assert here.more() is None
    assert trials_of(here)[0].state.name == "RUNNING"
    assert search(tmp_path / "there", 1).more() is not None


def test_a_run_that_ended_before_its_worker_said_so_is_told_by_the_next(tmp_path, monkeypatch):
    made = search(tmp_path, 1)
    job = made.more()
    layout = Layout(job.system)
    layout.networks.mkdir()
    layout.evaluations.write_text(
        json.dumps([{"step": 1, "network": "epoch.1.pt", "eer": {"dev": 0.125}}])
    )
    job.state = "done"
    job.save_state()
    made.give_back()
    again = search(tmp_path, 1)
    assert again.more() is None
    [trial] = trials_of(again)
    assert trial.state.name == "COMPLETE" and trial.value == 0.125


def test_runs_on_another_machine_are_left_alone(tmp_path):
    there = search(tmp_path / "there", 1)
    job = there.more()
    there.give_back()
    here = search(tmp_path / "here", 1, storage=there.plan.storage)
    assert here.more() is None
    assert there.more().system == job.system


def test_a_run_that_is_worse_than_the_median_is_stopped(tmp_path):
    made = search(tmp_path, 7)
    asked = []

    def evaluated(job: Job, cost: float) -> SimpleNamespace:
        layout = Layout(job.system)
        layout.networks.mkdir()
        record = {"step": 1, "network": "epoch.1.pt", "eer": {"dev": cost}}
        layout.evaluations.write_text(json.dumps([record]))
        return SimpleNamespace(job=job, ask_to_stop=lambda: asked.append(job))

    # The median rule needs five others.
    for cost in (0.1, 0.2, 0.3, 0.4, 0.5):
        job = made.more()
        made.look(evaluated(job, cost))
        job.state = "done"
        made.ended(job)
    good, bad = made.more(), made.more()
    made.look(evaluated(good, 0.29))
    stopped = evaluated(bad, 0.31)
    made.look(stopped)
    made.look(stopped)
    assert asked == [bad]
    bad.state = "stopped"
    made.ended(bad)
    # Stopped by the user: it goes on.
    good.state = "stopped"
    made.ended(good)
    assert [trial.state.name for trial in trials_of(made)[5:]] == ["RUNNING", "PRUNED"]
    assert trials_of(made)[6].value == 0.31
    assert made.more().system == good.system


def test_costs_are_lower_for_better_networks():
    by_accuracy = ChosenBy("accuracy", {"dev": 0.75, "other": 0.5}, lower_is_better=False)
    evaluations = [
        Evaluation(1, 1.0, NetworkName.parse("epoch.1.pt"), {"dev": 0.1, "other": 0.2}),
        Evaluation(
            2,
            2.0,
            NetworkName.parse("epoch.2.pt"),
            {"dev": 0.3, "other": 0.4},
            chosen_by=by_accuracy,
        ),
    ]
    assert costs_of(evaluations) == [0.1, -0.75]
    assert costs_of(evaluations, "other") == [0.2, -0.5]
    assert costs_of(evaluations, "nothing") == []


def test_a_storage_that_cannot_be_opened_is_one_message(tmp_path):
    with pytest.raises(UsageError, match="it cannot be opened"):
        search(tmp_path, 1, storage=str(tmp_path))
