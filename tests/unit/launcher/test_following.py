"""A run seen from outside: its progress in metrics.jsonl, and why it failed by its log."""

import json

import pytest

from asdf.launcher.processes import Progress, explain_failure, log_lines, was_stopped


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
    other.write_text(
        lines(STEP, {**EVALUATION, "eer": {"dev": 0.25}}, {**STEP, "epoch": 1.26}, STEP, STEP)
    )
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
    assert was_stopped(
        ["epoch 1", "stopped by the stop file x after step 3; the same command resumes from there"]
    )
    assert not was_stopped(["epoch 1", "written to results"])
