"""A run seen from outside: its progress in metrics.jsonl, and the line of its log that says why it failed."""

import json

import pytest

from asdf.commands.following import Metrics, last_word, log_lines, was_stopped


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


STEP = {"kind": "step", "step": 10, "epoch": 0.52, "loss": 0.7}
EVALUATION = {"kind": "evaluation", "step": 20, "epoch": 1.0, "eer": {"dev": 0.0211, "eval": 0.5}}


def test_epoch_and_eer_of_the_first_validation_set(tmp_path):
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    assert metrics.look() == ""
    half = json.dumps(EVALUATION)
    path.write_text(lines(STEP) + half[:20])
    assert metrics.look() == "epoch 0.5"
    with path.open("a") as file:
        file.write(half[20:] + "\n")
    assert metrics.look() == "epoch 1.0, EER 2.110 %"
    with path.open("a") as file:
        file.write(lines({**STEP, "epoch": 3.26}))
    assert metrics.look() == "epoch 3.3, EER 2.110 %"


def test_a_file_that_a_resumed_run_has_put_in_its_place_is_read_anew(tmp_path):
    path, other = tmp_path / "metrics.jsonl", tmp_path / "new"
    path.write_text(lines(STEP, EVALUATION))
    metrics = Metrics(path)
    metrics.look()
    other.write_text(lines(STEP, {**EVALUATION, "eer": {"dev": 0.25}}, {**STEP, "epoch": 1.26}, STEP, STEP))
    other.replace(path)
    assert metrics.look() == "epoch 0.5, EER 25.000 %"


@pytest.mark.parametrize(
    ("log", "word"),
    [
        ("going on\nerror: no such list: a.txt\n", "error: no such list: a.txt"),
        ("Traceback (most recent call last):\n  x\nValueError: broken\n", "ValueError: broken"),
        # torchrun ends with a box around the failure that came first.
        (
            "[rank1]: torch.OutOfMemoryError: CUDA out of memory\nrank 0: another process has ended\n"
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\n  time : 12:00\n=====\n",
            "[rank1]: torch.OutOfMemoryError: CUDA out of memory",
        ),
        (
            "ChildFailedError: \n====\n  exitcode: -9\n  traceback : Signal 9 (SIGKILL) received by PID 7\n==\n",
            "traceback : Signal 9 (SIGKILL) received by PID 7",
        ),
        ("epoch 1: training loss 0.5\n-----\n\n", "epoch 1: training loss 0.5"),
        ("", ""),
    ],
)
def test_the_last_word_of_a_log(tmp_path, log, word):
    path = tmp_path / "launch.log"
    path.write_text("error: of an earlier start\n" + log)
    assert last_word(log_lines(path, len("error: of an earlier start\n"))) == word


def test_a_run_that_ends_well_but_was_stopped_has_more_to_do():
    assert was_stopped(["epoch 1", "stopped by the stop file x after step 3; the same command goes on from there"])
    assert not was_stopped(["epoch 1", "written to results"])
