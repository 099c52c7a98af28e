"""metrics.jsonl and TensorBoard, and what a start after an interruption does to them."""

import json
import sys

import pytest

from asdf.errors import AsdfError, UsageError
from asdf.settings.sections import Sections
from asdf.training.callback_group import MetricsFile
from asdf.training.callbacks import TensorBoard, find_callbacks

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
