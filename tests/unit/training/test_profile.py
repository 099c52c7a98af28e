"""The profile of some steps: what is written, and that it changes no number."""

import gzip
import json

import numpy as np
import pytest
import torch

from asdf.errors import UsageError
from asdf.runs.log import LOG
from asdf.training.callbacks import Callback
from asdf.training.loop import Trainer
from asdf.training.profile import BACKWARD, COMMUNICATION, DATA, FORWARD, OPTIMISER, PARTS
from tests.recordings import noise_waveforms, write_recordings
from tests.small_networks import Normed
from tests.unit.conftest import network_settings
from tests.unit.training.conftest import run_training

SIZE = 10  # five steps an epoch


class Records(Callback):
    def __init__(self, settings, folder):
        super().__init__(settings, folder)
        self.steps = []

    def on_step(self, record):
        self.steps.append(record)


@pytest.fixture
def train(tmp_path, caplog, monkeypatch):
    """Train a fresh network, or go on from `start`; return the trainer and the steps' records."""
    utterances = write_recordings(tmp_path, noise_waveforms([500] * SIZE))
    monkeypatch.setattr(LOG, "propagate", True)
    caplog.set_level("INFO", LOG.name)

    def train(
        steps, start: str = "", evaluate=lambda network, name: {}, **network
    ) -> tuple[Trainer, list[dict]]:
        chosen = {
            "optimizer": "adam",
            "initial_learning_rate": 0.01,
            "schedule": "constant",
            "minibatch_size": 2,
            "train_clip_size": 400,
            "checkpoint_interval_s": None,
            "print_interval": 1,
            "max_epochs": 2,
            **network,
        }
        settings = network_settings(**chosen)
        settings.computing.profile_steps = steps
        torch.manual_seed(0)
        records = Records(settings, tmp_path)
        trainer = run_training(
            Normed(settings),
            utterances,
            np.full(SIZE, 500),
            settings,
            tmp_path,
            start=start,
            callbacks=[records],
            validate=evaluate,
        )
        return trainer, records.steps

    return train


def written(tmp_path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "profile").glob("*"))


def table(text: str) -> dict[str, tuple[float, float]]:
    """Milliseconds a step and percentage of each part."""
    rows = [
        line.rsplit(None, 2) for line in text.splitlines() if line.startswith((*PARTS, "total"))
    ]
    return {name: (float(ms), float(percent)) for name, ms, percent in rows}


def test_the_trace_holds_the_ranges_of_the_steps(train, tmp_path):
    train((2, 4), optimizer_step_interval=1)
    assert written(tmp_path) == ["steps.2-4.json.gz", "steps.2-4.txt"]
    with gzip.open(tmp_path / "profile" / "steps.2-4.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    names = [event["name"] for event in events if event.get("ph") == "X"]
    for part in (DATA, FORWARD, BACKWARD, OPTIMISER):
        assert names.count(part) == 3, part
    assert names.count(COMMUNICATION) == 3
    assert names.count("aten::conv1d") == 3


def test_the_table_adds_up(train, tmp_path, caplog):
    train((2, 4))
    text = (tmp_path / "profile" / "steps.2-4.txt").read_text()
    rows = table(text)
    assert list(rows) == [*PARTS, "total"] and "steps 2 to 4, rank 0 of 1 on cpu" in text
    *parts, (total, percent) = rows.values()
    assert sum(ms for ms, _ in parts) == pytest.approx(total, abs=0.004) and total > 0
    assert sum(share for _, share in parts) == pytest.approx(100, abs=0.4) and percent == 100
    for part in (DATA, FORWARD, BACKWARD, OPTIMISER):
        assert rows[part][0] > 0
        assert rows[part][1] == pytest.approx(100 * rows[part][0] / total, abs=0.1)
    assert text.partition("\n\nTimes include")[0] in caplog.text


def test_profiling_changes_no_number(train):
    profiled, records = train((1, 10))
    plain, expected = train(None)
    for name, weight in plain.step.network.state_dict().items():
        assert torch.equal(profiled.step.network.state_dict()[name], weight)
    assert [record["loss"] for record in records] == [
        record["loss"] for record in expected
    ] and len(records) == 10


def test_a_profile_ends_with_its_epoch_and_before_an_evaluation(train, tmp_path):
    train((4, 9))
    assert written(tmp_path) == ["steps.4-5.json.gz", "steps.4-5.txt"]
    seen = []
    train(
        (1, 9),
        evaluate=lambda *_: seen.append(written(tmp_path)) or {},
        evaluation_interval_steps=3,
    )
    assert "steps.1-3.txt" in seen[0] and written(tmp_path)[:2] == [
        "steps.1-3.json.gz",
        "steps.1-3.txt",
    ]


def test_steps_that_are_not_taken_are_said(train, tmp_path, caplog):
    train((50, 60), max_epochs=1)
    nothing = "computing.profile_steps = (50, 60): nothing was profiled, step 5 was the last"
    assert nothing in caplog.text
    caplog.clear()
    train((50, 60), start="epoch.1.pt", max_epochs=1)
    assert nothing in caplog.text
    train((2, 3), start="epoch.1.pt")
    assert (
        "computing.profile_steps = (2, 3): nothing is profiled, step 5 is done already"
        in caplog.text
    )
    assert written(tmp_path) == []
    train((4, 7), start="epoch.1.pt")
    assert written(tmp_path) == ["steps.6-7.json.gz", "steps.6-7.txt"]


def test_steps_in_the_wrong_order_are_refused(train):
    with pytest.raises(
        UsageError,
        match=r"computing\.profile_steps = \(4, 2\): the first step comes after the last",
    ):
        train((4, 2))


def test_every_record_states_the_proportion_of_waiting(train):
    _, records = train(None)
    assert all(0 < record["data_wait"] < 1 for record in records)
