"""Checkpoints that a thread writes while training goes on: their content, and who waits."""

import threading
import time
from concurrent.futures import wait

import pytest

from asdf.data.threads import Threads
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import AsdfError
from asdf.runs.evaluations import ValidationResult
from asdf.training import checkpoints
from asdf.training.callbacks import Callback
from asdf.training.checkpoints import Saving
from tests.conftest import PATIENCE_S
from tests.unit.training.conftest import Witness

WRITE = checkpoints.write_network_file
# Long enough for whatever does not wait to come first.
SLOW_S = 0.3


@pytest.fixture
def written(monkeypatch) -> list[tuple[str, bytes]]:
    """The files that were written, in their order, with their bytes."""
    files = []

    def write(path, content):
        WRITE(path, content)
        files.append((path.name, path.read_bytes()))

    monkeypatch.setattr(checkpoints, "write_network_file", write)
    return files


def slowed(monkeypatch, until: threading.Event, name: str) -> None:
    """Let the writing of the first file of that name begin when `until` is set."""
    write, left = checkpoints.write_network_file, [name]

    def slow(path, content):
        if path.name in left:
            left.remove(path.name)
            assert until.wait(PATIENCE_S)
            time.sleep(SLOW_S)
        write(path, content)

    monkeypatch.setattr(checkpoints, "write_network_file", slow)


class SetAt(Callback):
    """Sets an event when a step is printed."""

    def __init__(self, step: int) -> None:
        self.step, self.event = step, threading.Event()

    def on_step(self, record):
        if record["step"] == self.step:
            self.event.set()


def test_a_file_written_while_steps_go_on_is_the_one_that_is_written_at_once(
    train, written, monkeypatch, tmp_path
):
    options = {"max_epochs": 2, "checkpoint_interval_steps": 3, "print_interval": 1}
    with monkeypatch.context() as changed:
        save = Saving.save

        def save_at_once(self, *what, **how):
            save(self, *what, **how)
            self.settle()

        changed.setattr(Saving, "save", save_at_once)
        train(eers=[0.2, 0.1], **options)
    expected = written.copy()
    names = ["resume.pt", "epoch.1.pt", "resume.pt", "resume.pt", "epoch.2.pt"]
    assert [name for name, _ in expected] == names
    for path in (tmp_path / "networks").iterdir():
        path.unlink()
    written.clear()
    after = SetAt(step=4)
    # Steps 3 and 5 are saved, and the first file is begun only when step 4 has been taken.
    slowed(monkeypatch, after.event, "resume.pt")
    train(eers=[0.2, 0.1], callbacks=[after], **options)
    assert after.event.is_set()
    assert written == expected


def test_a_second_save_waits_for_the_first_and_says_so(train, written, monkeypatch):
    said, waits = [], threading.Event()
    slowed(monkeypatch, waits, "resume.pt")

    def note(text, *what):
        said.append(text % what)
        if "still being written" in text:
            waits.set()

    monkeypatch.setattr(checkpoints.LOG, "info", note)
    _, seen = train(max_steps=4, checkpoint_interval_steps=2)
    names = ["resume.pt", "epoch.1.step.4.pt"]
    assert [name for name, _ in written] == names
    assert [name for kind, name in seen if kind == "checkpoint"] == names
    assert said.count("training waits: resume.pt is still being written") == 1


def test_training_that_ends_inside_an_epoch_leaves_no_older_checkpoint(train, tmp_path):
    train(max_steps=4, checkpoint_interval_steps=3)
    assert [path.name for path in (tmp_path / "networks").glob("*.pt")] == ["epoch.1.step.4.pt"]


def test_what_needs_the_file_waits_for_it(train, monkeypatch, tmp_path):
    """The first epoch's file is begun only when its evaluation is nearly over."""
    folder, evaluated, views = tmp_path / "networks", threading.Event(), []

    def look(when: str) -> None:
        views.append((when, *sorted(path.name for path in folder.glob("[!.]*"))))

    class Looking(Callback):
        def on_checkpoint(self, path):
            look(f"checkpoint {path.name}")

        def on_evaluation(self, record):
            look(f"evaluation {record['step']}")

        def on_end(self, record):
            look("end")

    def evaluate(network, name):
        if not evaluated.is_set():
            look("scoring")
        evaluated.set()
        return ValidationResult({"dev": 0.1})

    slowed(monkeypatch, evaluated, "epoch.1.pt")
    train(
        max_epochs=2,
        checkpoint_interval_steps=3,
        keep_last_networks=1,
        keep_best_networks=0,
        callbacks=[Looking(None, folder)],
        evaluate=evaluate,
    )
    first, second, list_of_eers = "epoch.1.pt", "epoch.2.pt", "evaluations.json"
    assert views == [
        ("checkpoint resume.pt", "resume.pt"),
        ("scoring", "resume.pt"),
        ("checkpoint epoch.1.pt", first),
        ("evaluation 5", first),
        ("checkpoint resume.pt", first, list_of_eers, "resume.pt"),
        ("checkpoint resume.pt", first, list_of_eers, "resume.pt"),
        ("checkpoint epoch.2.pt", first, second, list_of_eers),
        ("evaluation 10", first, second, list_of_eers),
        ("end", second, list_of_eers),
    ]


def test_a_stop_is_left_only_when_its_file_is_whole(train, written, monkeypatch):
    begun = threading.Event()
    begun.set()
    slowed(monkeypatch, begun, "resume.pt")

    class AfterTwoSteps(StopRequest):
        looks = 0

        def __bool__(self):
            self.looks += 1
            return self.looks >= 2

    with pytest.raises(Stopped, match="after step 2"):
        train(max_epochs=2, stop=AfterTwoSteps())
    assert [name for name, _ in written] == ["resume.pt"]


@pytest.mark.parametrize("error", [Stopped("", "while scoring"), ValueError(), KeyboardInterrupt()])
def test_whatever_ends_training_the_file_that_was_begun_is_finished(
    error, train, written, monkeypatch, tmp_path
):
    begun, witness = threading.Event(), Witness(None, tmp_path)
    slowed(monkeypatch, begun, "epoch.1.pt")

    def evaluate(network, name):
        begun.set()
        raise error

    with pytest.raises(type(error)):
        train(max_epochs=2, evaluate=evaluate, checkpoint_interval_steps=3, callbacks=[witness])
    assert [name for name, _ in written] == ["resume.pt", "epoch.1.pt"]
    assert [path.name for path in (tmp_path / "networks").iterdir()] == ["epoch.1.pt"]
    assert [name for kind, name in witness.seen if kind == "checkpoint"] == [
        "resume.pt",
        "epoch.1.pt",
    ]


def test_a_file_that_cannot_be_written_ends_training_at_the_next_step(train, monkeypatch, tmp_path):
    steps, writes = [], []

    class Noted(Threads):
        def submit(self, *called):
            writes.append(super().submit(*called))
            return writes[-1]

    monkeypatch.setattr(checkpoints, "Threads", Noted)

    class NoFolder(Callback):
        def on_step(self, record):
            steps.append(record["step"])
            if record["step"] == 1:
                (tmp_path / "networks").touch()
            elif record["step"] > 3:
                assert not wait(writes, PATIENCE_S).not_done

    with pytest.raises(
        AsdfError, match=r"cannot write .*resume\.pt: (File exists|Not a directory)"
    ):
        train(
            max_epochs=1,
            minibatch_size=1,
            checkpoint_interval_steps=3,
            print_interval=1,
            callbacks=[NoFolder(None, tmp_path)],
        )
    # Step 5 knows of it in any case; the next save, which would have waited, is that of step 6.
    assert steps in ([1, 2, 3], [1, 2, 3, 4])
