"""A run seen from outside: when it counts as done, its progress, and why it failed."""

import json

import pytest

from asdf.launcher.processes import Progress, explain_failure, log_lines, was_stopped
from asdf.launcher.states import Job, JobResult, read_results
from asdf.settings import Sections


def job(system, **values):
    settings = Sections()
    for name, value in values.items():
        section, _, setting = name.partition("__")
        setattr(getattr(settings, section), setting, value)
    return Job("net", "net", [], system, settings)


def restored(system, **values):
    """A job as its system folder has it."""
    found = job(system, **values)
    found.restore_state()
    return found


@pytest.fixture
def done(tmp_path):
    """A system folder in which a run of the default settings is done."""
    (tmp_path / "settings.py").write_text("network.max_epochs = 1000\n")
    first = job(tmp_path)
    first.state, first.results = "done", [JobResult("epoch.9", "dev", 0.125)]
    first.save_state()
    return tmp_path


def test_what_is_done_stays_done_with_its_results(done):
    # Folders move, and a run may compute elsewhere, without any of its numbers becoming others.
    elsewhere = {"paths__database_folder": "/node/17", "computing__gpu_ids": (1,)}
    later = restored(done, **elsewhere, computing__threads=4)
    assert later.state == "done" and later.results == [JobResult("epoch.9", "dev", 0.125)]


def test_other_settings_are_not_done(done):
    changes = {"network__max_epochs": 7, "recipe__seed": 1, "computing__processes": 2}
    for name, value in {**changes, "computing__precision": "fp32"}.items():
        later = restored(done, **{name: value})
        assert later.state == "waiting" and later.results == [], name


def test_what_is_done_says_what_it_rests_on(done):
    """Of another corpus, or a training that other settings began: the results are not those of the
    settings that the table seems to show."""
    words = "network.minibatch_size was 24 up to step 25, is 7 from here"
    starts = [{"changes": []}, {"changes": [words]}, {"finished": True}]
    (done / "environment.json").write_text(json.dumps(starts))
    assert restored(done).detail == f"by an earlier launch, {words}"
    (done / "environment.json").unlink()
    first = job(done, paths__database_folder="/a")
    first.state = "done"
    first.save_state()
    assert restored(done, paths__database_folder="/a").detail == "by an earlier launch"
    other = restored(done, paths__database_folder="/b")
    assert other.detail == "by an earlier launch, paths.database_folder was /a"


def test_a_run_by_hand_in_the_same_folder_undoes_it(done):
    (done / "settings.py").write_text("network.max_epochs = 3\n")
    assert restored(done).state == "waiting"


def write_record(folder, **end):
    """Write what a run by hand, or a task of a job array, leaves of its start."""
    (folder / "environment.json").write_text(json.dumps([{"finished": False}, end]))


def test_what_another_run_has_finished_is_done(tmp_path):
    settings = "recipe.seed = 4\nrawboost.minF = 20\npaths.system_folder = 'net-seed4'\n"
    (tmp_path / "settings.py").write_text(settings)
    write_record(tmp_path, finished=True)
    (tmp_path / "results").mkdir()
    rows = [{"epoch": "best", "set": "dev", "eer": 0.1}]
    (tmp_path / "results" / "results.json").write_text(json.dumps(rows))
    again = restored(tmp_path, recipe__seed=4)
    assert (again.state, again.detail) == ("done", "by an earlier run")
    assert again.results == [JobResult("best", "dev", 0.1)]


@pytest.mark.parametrize("end", [{"finished": False}, {}, {"finished": None}])
def test_what_another_run_has_not_finished_is_not(tmp_path, end):
    (tmp_path / "settings.py").write_text("recipe.seed = 4\n")
    write_record(tmp_path, **end)
    assert restored(tmp_path, recipe__seed=4).state == "waiting"


def test_what_another_run_has_finished_with_other_settings_is_not_done(tmp_path):
    write_record(tmp_path, finished=True)
    for text in ("recipe.seed = 5\n", "recipe.seed = x\n", "nosuch.seed = 4\n", None):
        if text is None:
            (tmp_path / "settings.py").unlink()
        else:
            (tmp_path / "settings.py").write_text(text)
        assert restored(tmp_path, recipe__seed=4).state == "waiting"


@pytest.mark.parametrize("state", ["running", "failed", "stopped"])
def test_what_has_not_ended_well_waits_again(done, state):
    first = job(done)
    first.state = state
    first.save_state()
    assert restored(done).state == "waiting"


@pytest.mark.parametrize(
    "text", ["", "[]", '{"state": "done"}', json.dumps({"state": "done", "results": 3})]
)
def test_a_state_that_cannot_be_read_is_none(tmp_path, text):
    (tmp_path / "launch.json").write_text(text)
    assert restored(tmp_path).state == "waiting"


def test_results_of_another_precision_than_fp32_are_of_a_set_called_so(tmp_path):
    path = tmp_path / "results.json"
    rows = [
        {"epoch": "epoch.1", "set": "dev", "eer": 0.1},
        {"epoch": "epoch.1", "set": "eval", "eer": 0.2, "scoring_precision": "fp32"},
        {"epoch": "epoch.2", "set": "dev", "eer": 0.3, "scoring_precision": "bf16"},
    ]
    path.write_text(json.dumps(rows))
    assert read_results(path) == [
        JobResult("epoch.1", "dev", 0.1),
        JobResult("epoch.1", "eval", 0.2),
        JobResult("epoch.2", "dev, in bf16", 0.3),
    ]


def test_the_metric_that_networks_were_chosen_by_is_read_and_saved_with_the_state(done):
    row = {"epoch": "best", "set": "dev", "eer": 0.1}
    row |= {"validation_metric": "auc", "validation_value": 0.9, "lower_is_better": False}
    path = done / "results.json"
    path.write_text(json.dumps([row]))
    first = job(done)
    first.state, first.results = "done", read_results(path)
    assert first.results == [JobResult("best", "dev", 0.1, "auc", 0.9)]
    first.save_state()
    later = restored(done)
    assert (later.state, later.results) == ("done", first.results)


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


STEP = {"kind": "step", "step": 10, "epoch": 0.52, "loss": 0.7}
EVALUATION = {"kind": "evaluation", "step": 20, "epoch": 1.0, "eer": {"dev": 0.0211, "eval": 0.5}}


def test_epoch_and_eer_of_the_first_validation_set(tmp_path):
    path = tmp_path / "metrics.jsonl"
    progress = Progress(path)
    assert progress.read() == ""
    half = json.dumps(EVALUATION)
    path.write_text(lines(STEP) + half[:20])
    assert progress.read() == "epoch 0.5"
    chosen = {"validation_metric": "auc", "lower_is_better": False, "auc": {"dev": 0.99, "eval": 1}}
    for text, shown in (
        (half[20:] + "\n", "epoch 1.0, EER 2.110 %"),
        (lines({**STEP, "epoch": 3.26}), "epoch 3.3, EER 2.110 %"),
        (lines({**EVALUATION, "scoring_precision": "bf16"}), "epoch 1.0, EER 2.110 %, in bf16"),
        (lines({**EVALUATION, **chosen}), "epoch 1.0, EER 2.110 %, auc 0.9900"),
    ):
        with path.open("a") as file:
            file.write(text)
        assert progress.read() == shown


def test_a_file_that_a_resumed_run_replaced_is_read_from_its_start(tmp_path):
    path, other = tmp_path / "metrics.jsonl", tmp_path / "new"
    path.write_text(lines(STEP, EVALUATION))
    progress = Progress(path)
    progress.read()
    evaluation = {**EVALUATION, "eer": {"dev": 0.25}}
    other.write_text(lines(STEP, evaluation, {**STEP, "epoch": 1.26}, STEP, STEP))
    other.replace(path)
    assert progress.read() == "epoch 0.5, EER 25.000 %"


@pytest.mark.parametrize(
    ("status", "log", "reason"),
    [
        (2, "going on\nerror: no such list: a.txt\n", "error: no such list: a.txt (exit status 2)"),
        (1, "Traceback (most recent call last):\n  x\nValueError: broken\n",
         "ValueError: broken (exit status 1)"),
        # torchrun ends with a box around the failure that came first.
        (1, "[rank1]: torch.OutOfMemoryError: CUDA out of memory\n"
            "rank 0: another process has ended\n"
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
            "=====\n  time : 12:00\n=====\n",
         "[rank1]: torch.OutOfMemoryError: CUDA out of memory (exit status 1)"),
        (1, "ChildFailedError: \n====\n  exitcode: -9\n"
            "  traceback : Signal 9 (SIGKILL) received by PID 7\n==\n",
         "a process was killed by SIGKILL (out of memory?)"),
        (1, "ChildFailedError: \n  traceback : Signal 11 (SIGSEGV) received by PID 7\n",
         "a process was killed by SIGSEGV"),
        # How far a run came is not why it ended.
        (-9, "epoch 80: training loss 0.3371\n", "killed by SIGKILL (out of memory?)"),
        (-9, "ValueError: broken\nepoch 1\n",
         "killed by SIGKILL (out of memory?), after ValueError: broken"),
        (-15, "epoch 80\n", "killed by SIGTERM"),
        (-40, "", "killed by signal 40"),
        (1, "epoch 1: training loss 0.5\n-----\n\n",
         "exit status 1, no reason in its log; the last line is: epoch 1: training loss 0.5"),
        (3, "", "exit status 3, no reason in its log; it is empty"),
    ],
)  # fmt: skip
def test_why_a_run_failed(tmp_path, status, log, reason):
    path = tmp_path / "launch.log"
    path.write_text("error: of an earlier start\n" + log)
    assert explain_failure(status, log_lines(path, len("error: of an earlier start\n"))) == reason


def test_a_run_that_ends_well_but_was_stopped_has_more_to_do():
    stopped = "stopped by the stop file x after step 3; the same command resumes from there"
    assert was_stopped(["epoch 1", stopped])
    assert not was_stopped(["epoch 1", "written to results"])
