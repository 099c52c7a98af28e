"""What an exception in a callback does to the training."""

import logging

import pytest

from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.log import LOG, log_to_file, log_to_screen
from asdf.settings.sections import Sections
from asdf.training.callback_group import CallbackGroup, build_callbacks
from asdf.training.callbacks import Callback


class Witness(Callback):
    def __init__(self):
        self.seen = []

    def on_step(self, record):
        self.seen.append(record["step"])


class Tracker(Callback):
    """A tracker whose server is down."""

    def __init__(self):
        pass

    def on_step(self, record):
        raise RuntimeError(f"the server is down at step {record['step']}")

    def on_evaluation(self, record):
        raise KeyError("eer")


class NeedsALogin(Callback):
    def __init__(self, settings, folder):
        raise PermissionError("no login")


NAME = f"{__name__}.Tracker"


def test_a_failure_is_logged_once_then_counted_and_the_others_are_called(caplog):
    before, after = Witness(), Witness()
    group = CallbackGroup([before], [Tracker(), after], World())
    with caplog.at_level(logging.INFO, "asdf"):
        for step in (1, 2, 3):
            group.call("on_step", {"step": step})
        group.call("on_evaluation", {})
        group.report_failures()
    assert before.seen == after.seen == [1, 2, 3]
    first, other, count = [record.getMessage() for record in caplog.records]
    assert first.startswith(
        f"network.callbacks: {NAME}.on_step failed: RuntimeError: the server is down at step 1 ("
    )
    assert first.endswith(
        "Training goes on; the traceback is in log.txt. Its further failures are counted."
    )
    assert other.startswith(f"network.callbacks: {NAME}.on_evaluation failed: KeyError: 'eer' (")
    assert count == f"network.callbacks: {NAME}.on_step failed 3 times"


def test_the_traceback_is_in_the_file_and_not_on_the_screen(tmp_path, capsys):
    handlers, propagate = LOG.handlers[:], LOG.propagate
    try:
        log_to_screen()
        with log_to_file(tmp_path / "log.txt"):
            CallbackGroup([], [Tracker()], World()).call("on_step", {"step": 1})
    finally:
        LOG.handlers[:], LOG.propagate = handlers, propagate
    shown, written = capsys.readouterr().out, (tmp_path / "log.txt").read_text()
    assert shown.count("\n") == 1 and "Traceback" not in shown and "is down at step 1" in shown
    assert "Traceback (most recent call last)" in written
    assert written.rstrip().endswith("RuntimeError: the server is down at step 1")


def test_a_failure_of_the_projects_own_always_ends_the_training():
    with pytest.raises(RuntimeError, match="is down at step 5"):
        CallbackGroup([Tracker()], [], World()).call("on_step", {"step": 5})


def test_a_callback_that_cannot_be_made_ends_the_run_before_training(tmp_path):
    settings = Sections()
    settings.network.callbacks = (f"{__name__}.NeedsALogin",)
    with pytest.raises(AsdfError) as caught:
        build_callbacks(settings, tmp_path, tmp_path, World())
    text = str(caught.value)
    assert text.startswith(
        f"network.callbacks: {__name__}.NeedsALogin(settings, folder) failed: PermissionError: no "
        "login ("
    )
    assert "Training has not begun" in text
