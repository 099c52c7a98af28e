"""Callbacks and progress lines: what they get, what their failures do, and what is resumed."""

from __future__ import annotations

import json
import logging
import struct
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.runs.log import LOG, log_to_file, log_to_screen
from asdf.settings.sections import Network, Sections
from asdf.training import profile as clocks
from asdf.training.callback_group import (
    CallbackGroup,
    DataWait,
    MetricsFile,
    TimeLeft,
    build_callbacks,
    duration,
    steps_left,
)
from asdf.training.callbacks import Callback, TensorBoard, WeightsAndBiases, find_callbacks
from asdf.training.profile import BACKWARD, DATA, FORWARD, PARTS, REST, StepClock
from asdf.training.training_progress import Progress
from tests.conftest import PATIENCE_S

STEP = {
    "step": 2,
    "epoch": 0.5,
    "loss": 0.7,
    "learning_rate": 0.1,
    "utterances_per_s": 9.0,
    "data_wait": 0.2,
}
EVALUATION = {"step": 4, "epoch": 1.0, "network": "epoch.1.pt", "eer": {"dev": 0.25}}


def records(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_line_for_each_record(tmp_path):
    metrics = MetricsFile(Sections(), tmp_path)
    metrics.on_start(0)
    metrics.on_step(STEP)
    metrics.on_evaluation(EVALUATION)
    metrics.on_end({"step": 4, "epoch": 1.0, "reason": "network.max_epochs = 1"})
    assert records(tmp_path) == [
        {"kind": "step", **STEP},
        {"kind": "evaluation", **EVALUATION},
        {"kind": "end", "step": 4, "epoch": 1.0, "reason": "network.max_epochs = 1"},
    ]


def test_a_resumed_run_takes_out_what_it_does_again(tmp_path):
    metrics = MetricsFile(Sections(), tmp_path)
    for step in (2, 4, 6):
        metrics.on_step({**STEP, "step": step})
    metrics.on_evaluation(EVALUATION)
    with metrics.path.open("a") as file:
        file.write('no json\n{"kind": "step"}\n{"kind": "step", "step": 3')
    MetricsFile(Sections(), tmp_path).on_start(4)
    assert [(record["kind"], record["step"]) for record in records(tmp_path)] == [
        ("step", 2),
        ("step", 4),
        ("evaluation", 4),
    ]


def test_a_run_that_goes_on_after_its_end_has_one_end(tmp_path):
    for last in (4, 4, 8):
        metrics = MetricsFile(Sections(), tmp_path)
        metrics.on_start(min(last, 4))
        metrics.on_end({"step": last, "epoch": last / 4, "reason": "x"})
    assert [(record["kind"], record["step"]) for record in records(tmp_path)] == [("end", 8)]


def test_an_evaluation_that_is_done_again_has_one_line(tmp_path):
    """A run was killed after this line was written, and before evaluations.json was."""
    metrics = MetricsFile(Sections(), tmp_path)
    metrics.on_evaluation({**EVALUATION, "step": 2})
    metrics.on_step({**STEP, "step": 4})
    metrics.on_evaluation(EVALUATION)
    resumed = MetricsFile(Sections(), tmp_path)
    resumed.on_start(4)
    resumed.on_evaluation({**EVALUATION, "eer": {"dev": 0.125}})
    resumed.on_evaluation({**EVALUATION, "step": 8})
    assert [
        (record["kind"], record["step"], record.get("eer")) for record in records(tmp_path)
    ] == [
        ("evaluation", 2, {"dev": 0.25}),
        ("step", 4, None),
        ("evaluation", 4, {"dev": 0.125}),
        ("evaluation", 8, {"dev": 0.25}),
    ]


@pytest.mark.parametrize(
    "damage", [b'{"kind": "step", "st\xff\xfe', b"\xff\x00\n\xc3\n", b"\x00" * 512, b"[1]\n"]
)
def test_damaged_bytes_are_passed_over(tmp_path, damage):
    metrics = MetricsFile(Sections(), tmp_path)
    metrics.on_step(STEP)
    whole = metrics.path.read_bytes()
    metrics.path.write_bytes(whole + damage)
    MetricsFile(Sections(), tmp_path).on_start(4)
    assert metrics.path.read_bytes() == whole


def test_a_full_disk_is_said_in_one_message(tmp_path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(AsdfError, match=r"cannot write .*metrics\.jsonl: No space left on device"):
        MetricsFile(Sections(), tmp_path).on_step(STEP)


def test_tensorboard_shows_losses_rates_and_eers(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def play(start: int, steps: list[int]) -> None:
        board = TensorBoard(Sections(), tmp_path)
        board.on_start(start)
        for step in steps:
            board.on_step({**STEP, "step": step, "loss": step / 8 + start})
        on_dev = {"validation_loss": {"dev": 0.75}, "recordings": {"dev": "0123456789abcdef"}}
        board.on_evaluation({**EVALUATION, **on_dev, "step": steps[-1]})
        board.on_checkpoint(tmp_path)
        board.on_end({})

    play(0, [2, 4, 6])
    play(4, [6, 8])  # the step after the checkpoint at step 4 is drawn anew
    shown = EventAccumulator(str(tmp_path / "tensorboard"))
    shown.Reload()
    losses = [(event.step, event.value) for event in shown.Scalars("training/loss")]
    assert losses == [(2, 0.25), (4, 0.5), (6, 4.75), (8, 5.0)]
    assert [(event.step, event.value) for event in shown.Scalars("eer/dev")] == [(8, 0.25)]
    assert [(event.step, event.value) for event in shown.Scalars("validation_loss/dev")] == [
        (8, 0.75)
    ]
    assert set(shown.Tags()["scalars"]) >= {
        "training/learning_rate",
        "training/utterances_per_s",
        "training/data_wait",
    }


def test_tensorboard_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match=r"pip install 'asdf-antispoofing\[tensorboard\]'"):
        TensorBoard(Sections(), tmp_path)


def test_a_misspelt_method_is_refused(tmp_path):
    (tmp_path / "misspelt.py").write_text(
        "from asdf.training.callbacks import Callback\n\n"
        "class Watch(Callback):\n    def on_epoch_ends(self, record): ...\n"
    )
    settings = Sections()
    settings.network.callbacks = ("misspelt.Watch",)
    with pytest.raises(UsageError) as caught:
        find_callbacks(settings, tmp_path)
    assert str(caught.value).startswith(
        "network.callbacks: misspelt.Watch has a method 'on_epoch_ends', which is never called. "
        "Did you mean 'on_epoch_end'? The methods of a callback are on_checkpoint, "
    )


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


EVALUATED = {
    "step": 4,
    "epoch": 1.0,
    "network": "epoch.1.pt",
    "eer": {"dev": 0.25},
    "validation_loss": {"dev": 0.75},
    # No number, and not drawn.
    "recordings": {"dev": "0123456789abcdef"},
}
ROWS = [{"epoch": "epoch.1", "set": "eval", "eer": 0.125, "min_dcf": 0.5, "full": True}]


def play(kind: type[Any], folder: Path) -> Any:
    tracker = kind(Sections(), folder)
    tracker.on_step(STEP)
    tracker.on_step({**STEP, "step": 4, "loss": 0.5})
    tracker.on_evaluation(EVALUATED)
    tracker.on_results(ROWS)
    return tracker


@pytest.mark.slow
def test_weights_and_biases_saves_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    # As a power cut may leave it.
    (tmp_path / "tracking.json").write_text("{")
    play(WeightsAndBiases, tmp_path).close()
    identifier = json.loads((tmp_path / "tracking.json").read_text())["wandb"]
    (path,) = (tmp_path / "wandb").glob(f"offline-run-*-{identifier}/run-{identifier}.wandb")
    # Its service writes the file, and ends after the run.
    deadline = time.monotonic() + PATIENCE_S
    while not (records := _records(path.read_bytes())) or not records[-1].HasField("exit"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    history: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for record in records:
        if record.history.item:
            items = record.history.item
            history.append({_key(item): json.loads(item.value_json) for item in items})
        for item in record.summary.update:
            summary[_key(item)] = json.loads(item.value_json)
        for item in record.run.config.update:
            config[_key(item)] = json.loads(item.value_json)
    losses = [row["training/loss"] for row in history if "training/loss" in row]
    assert losses == [0.7, 0.5]
    assert [row["eer/dev"] for row in history if "eer/dev" in row] == [0.25]
    assert [row["validation_loss/dev"] for row in history if "validation_loss/dev" in row] == [0.75]
    assert not [row for row in history if "recordings/dev" in row]
    assert summary["results/epoch.1/eval/eer"] == 0.125
    assert config["network"]["max_epochs"] == 1000


def _records(content: bytes) -> list[Any]:
    """The records of a file in LevelDB's log format, behind a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    records = []
    position = 7
    whole = b""
    while position + 7 <= len(content):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        length, kind = struct.unpack_from("<HB", content, position + 4)
        position += 7
        whole += content[position : position + length]
        position += length
        # 1: a whole record, 4: the last part of one.
        if kind in (1, 4):
            records.append(Record.FromString(whole))
            whole = b""
    return records


def _key(item: Any) -> str:
    return item.key or "/".join(item.nested_key)


def test_a_tracker_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UsageError, match=r"pip install 'asdf-antispoofing\[wandb\]'"):
        WeightsAndBiases(Sections(), tmp_path)


PLAN = TrainingPlan(26, minibatch_size=4, world_size=2)  # windows of 8: four steps an epoch


@pytest.mark.parametrize(
    ("progress", "max_steps", "expected"),
    [
        (Progress(), None, 20),
        (Progress(position=8, step=1), None, 19),
        # In an epoch that was begun by another number of processes a part of a window may be left.
        (Progress(position=6, step=3), None, 19),
        (Progress(epochs=2, step=8), None, 12),
        (Progress(epochs=4, position=24, step=19), None, 1),
        (Progress(epochs=5, step=20), None, 0),
        # A run whose max_epochs was lowered.
        (Progress(epochs=7, step=28), None, 0),
        (Progress(position=8, step=1), 7, 6),
        (Progress(epochs=1, step=4), 500, 16),
        (Progress(epochs=2, step=8), 7, 0),
    ],
)
def test_steps_to_the_last_epoch_or_to_the_last_step(progress, max_steps, expected):
    network = Network(max_epochs=5, max_steps=max_steps)
    assert steps_left(network, PLAN, progress) == expected


def test_the_time_follows_from_the_steps_of_this_process():
    now = [50.0]
    left = TimeLeft(Network(max_epochs=5), PLAN, lambda: now[0])
    now[0] = 100.0  # reading weights, say
    left.begin(8)
    now[0] = 112.0
    assert left.seconds(Progress(epochs=2, position=16, step=10)) == 6.0 * 10
    now[0] = 170.0  # with an evaluation of half a minute, which later epochs will have as well
    assert left.seconds(Progress(epochs=3, position=8, step=13)) == 14.0 * 7
    assert left.seconds(Progress(epochs=5, step=20)) == 0.0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"schedule": "cosine"}, "about 3 h 20 min left"),
        ({"schedule": "constant"}, "about 3 h 20 min left"),
        ({"schedule": "constant", "early_stop_evaluations": 4}, "at most 3 h 20 min left"),
        ({"schedule": "plateau"}, "at most 3 h 20 min left"),
    ],
)
def test_a_run_that_may_end_earlier_says_at_most(settings, expected):
    assert TimeLeft(Network(**settings), PLAN).describe(12000.0) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3569.0, "59 min"),
        (3571.0, "1 h 0 min"),
        (86369.0, "23 h 59 min"),
        (86371.0, "1 d 0 h"),
        (190800.0, "2 d 5 h"),
    ],
)
def test_durations_have_two_units_and_never_sixty_of_one(seconds, text):
    assert duration(seconds) == text


def seconds(waited: float, total: float) -> dict[str, float]:
    return {**dict.fromkeys(PARTS, 0.0), DATA: waited, FORWARD: total - waited}


@pytest.mark.parametrize(
    ("workers", "cores", "remedy"),
    [
        (0, 16, "raise computing.network_dataloader_workers (now 0 of 16 cores)"),
        (2, 16, "raise computing.network_dataloader_workers (now 2 of 16 cores)"),
        (4, 4, "the 4 cores of this process can read no faster. Ask for more cores, keep"),
        (0, 1, "the 1 core of this process can read no faster. Ask for more cores, keep"),
    ],
)
def test_the_advice_fits_the_case(workers, cores, remedy):
    line = DataWait(workers, cores).advice(seconds(20.4, 60.0), steady=True)
    assert line.startswith(f"waiting for data took 34 % of the time: {remedy}")


def test_advice_comes_once_and_only_when_much_of_half_a_minute_was_waited():
    wait = DataWait(2, 16)
    assert wait.advice(seconds(25, 29), steady=True) == ""  # too early to tell
    assert wait.advice(seconds(0, 300), steady=True) == ""  # 7.6 %
    assert wait.advice(seconds(900, 1000), steady=False) == ""  # the workers start
    assert wait.advice(seconds(25, 71), steady=True).startswith(
        "waiting for data took 12 % of the time"
    )
    assert wait.advice(seconds(900, 1000), steady=True) == ""


def test_the_parts_of_the_clock_are_all_of_the_time(monkeypatch):
    """The clock is read at 0, 1, 2, ... hundred seconds, as if each reading took that long."""
    readings = iter(range(0, 10_000, 100))
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: next(readings))
    clock = StepClock(torch.device("cpu"))
    clock.restart()  # 0
    for part in (DATA, FORWARD, BACKWARD):  # 100 to 200, 300 to 400, 500 to 600
        with clock.part(part):
            pass
    passed = clock.seconds()
    assert passed == {**dict.fromkeys(PARTS, 0), DATA: 100, FORWARD: 100, BACKWARD: 100, REST: 300}
    assert clock.seconds(wait=True)[REST] == 400
    clock.restart()
    assert sum(clock.seconds().values()) == 0


@pytest.mark.real_gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: pytest -m real_gpu")
def test_on_a_gpu_the_parts_are_those_of_its_own_time():
    device = torch.device("cuda")
    clock, matrix = StepClock(device), torch.ones(2000, 2000, device=device)
    (matrix @ matrix).sum().item()
    clock.restart()
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(20):
        with clock.part(FORWARD):
            for _ in range(10):
                matrix @ matrix
    last.record()
    passed = clock.seconds(wait=True)
    assert sum(passed.values()) == pytest.approx(first.elapsed_time(last) / 1000, rel=0.2)
    assert passed[DATA] == passed[BACKWARD] == 0 and passed[FORWARD] > 0
