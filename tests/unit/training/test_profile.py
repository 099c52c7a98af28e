"""The profile of some steps, and the share of a GPU's peak: what is written, and of what."""

import gzip
import json

import pytest
import torch
from torch import nn

from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks import build_network
from asdf.runs.log import LOG
from asdf.training import profile
from asdf.training.callbacks import Callback
from asdf.training.gradients import Precision
from asdf.training.loop import Trainer
from asdf.training.profile import (
    BACKWARD,
    COMMUNICATION,
    DATA,
    FORWARD,
    OPTIMISER,
    PARTS,
    ClipCost,
    find_cost,
    known_peak,
)
from asdf.training.step import Step
from tests.recordings import noise_waveforms, write_recordings
from tests.small_networks import Normed, Plain
from tests.unit.conftest import network_settings

SIZE = 10  # five steps an epoch


class Records(Callback):
    def __init__(self):
        self.steps = []

    def on_step(self, record):
        self.steps.append(record)


@pytest.fixture
def profiled(train, caplog, monkeypatch):
    """Train a fresh network, or go on from `start`; return the trainer and the steps' records."""
    monkeypatch.setattr(LOG, "propagate", True)
    caplog.set_level("INFO", LOG.name)

    def profiled(steps, **options) -> tuple[Trainer, list[dict]]:
        records = Records()
        usual = {"initial_learning_rate": 0.01, "print_interval": 1, "max_epochs": 2}
        chosen = {**usual, "kind": Normed, "profile_steps": steps, "callbacks": [records]}
        trainer, _ = train(**{**chosen, **options})
        return trainer, records.steps

    return profiled


def written(tmp_path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "profile").glob("*"))


def table(text: str) -> dict[str, tuple[float, float]]:
    """Milliseconds a step and percentage of each part."""
    rows = [
        line.rsplit(None, 2) for line in text.splitlines() if line.startswith((*PARTS, "total"))
    ]
    return {name: (float(ms), float(percent)) for name, ms, percent in rows}


def test_the_trace_holds_the_ranges_of_the_steps(profiled, tmp_path):
    profiled((2, 4), optimizer_step_interval=1)
    assert written(tmp_path) == ["steps.2-4.json.gz", "steps.2-4.txt"]
    with gzip.open(tmp_path / "profile" / "steps.2-4.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    names = [event["name"] for event in events if event.get("ph") == "X"]
    for part in (DATA, FORWARD, BACKWARD, OPTIMISER):
        assert names.count(part) == 3, part
    assert names.count(COMMUNICATION) == 3
    assert names.count("aten::conv1d") == 3


def test_the_table_adds_up(profiled, tmp_path, caplog):
    profiled((2, 4))
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


def test_profiling_changes_no_number(profiled):
    trainer, records = profiled((1, 10))
    plain, expected = profiled(None)
    for name, weight in plain.step.network.state_dict().items():
        assert torch.equal(trainer.step.network.state_dict()[name], weight)
    assert [record["loss"] for record in records] == [
        record["loss"] for record in expected
    ] and len(records) == 10


def test_a_profile_ends_with_its_epoch_and_before_an_evaluation(profiled, tmp_path):
    profiled((4, 9))
    assert written(tmp_path) == ["steps.4-5.json.gz", "steps.4-5.txt"]
    seen = []
    profiled(
        (1, 9),
        evaluate=lambda *_: seen.append(written(tmp_path)) or {},
        evaluation_interval_steps=3,
    )
    assert "steps.1-3.txt" in seen[0] and written(tmp_path)[:2] == [
        "steps.1-3.json.gz",
        "steps.1-3.txt",
    ]


def test_steps_that_are_not_taken_are_said(profiled, tmp_path, caplog):
    profiled((50, 60), max_epochs=1)
    nothing = "computing.profile_steps = (50, 60): nothing was profiled, step 5 was the last"
    assert nothing in caplog.text
    caplog.clear()
    profiled((50, 60), start="epoch.1.pt", max_epochs=1)
    assert nothing in caplog.text
    profiled((2, 3), start="epoch.1.pt")
    assert (
        "computing.profile_steps = (2, 3): nothing is profiled, step 5 is done already"
        in caplog.text
    )
    assert written(tmp_path) == []
    profiled((4, 7), start="epoch.1.pt")
    assert written(tmp_path) == ["steps.6-7.json.gz", "steps.6-7.txt"]


def test_steps_in_the_wrong_order_are_refused(profiled):
    with pytest.raises(UsageError, match=r"computing\.profile_steps = \(4, 2\): write them as"):
        profiled((4, 2))


def test_every_record_states_the_proportion_of_waiting(profiled):
    _, records = profiled(None)
    assert all(0 < record["data_wait"] < 1 for record in records)


SAMPLES = 400
# A convolution of 64 samples, every 32, into 24 channels; and a map of 48 numbers to 2.
CONVOLUTION = 24 * 64 * ((SAMPLES - 64) // 32 + 1)
MAP = 48 * 2
CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_both_passes_are_counted_for_what_learns():
    network = Plain(None)
    cost = ClipCost(network, SAMPLES, 1.0)
    # Nothing needs the gradient with respect to the waveform.
    assert cost.flops == 2 * (2 * CONVOLUTION + 3 * MAP)
    network.convolution.requires_grad_(False)
    cost.learn_as(network)
    assert cost.flops == 2 * (CONVOLUTION + 2 * MAP)
    assert network.output.weight.device == CPU and network.output.weight.grad is None


def test_what_is_recomputed_counts_once_and_nothing_is_drawn():
    settings = network_settings()
    settings.front_end.architecture = "tiny"
    settings.network.network_class = "asdf.networks.SSL_AASIST_L"
    counts = []
    for recomputes in (False, True):
        settings.front_end.gradient_checkpointing = recomputes
        network = build_network(settings).train()
        before = torch.get_rng_state()
        counts.append(ClipCost(network, 16000, 1.0).flops)
        assert torch.equal(torch.get_rng_state(), before) and network.training
    assert counts[0] == counts[1] > 1e6


class Looking(nn.Module):
    def __init__(self):
        super().__init__()
        self.output = nn.Linear(SAMPLES, 2)

    def forward(self, waveforms_BT):
        return waveforms_BT, self.output(waveforms_BT) * float(waveforms_BT.max())


def test_a_network_that_looks_at_numbers_has_no_known_cost(caplog):
    caplog.set_level("INFO", "asdf")
    assert ClipCost(Looking(), SAMPLES, 1.0).flops is None
    assert "MFU not known: the network cannot be outlined" in caplog.text


@pytest.mark.parametrize(
    ("device", "dtype", "tf32", "expected"),
    [
        (CPU, None, False, None),
        (GPU, torch.bfloat16, False, 989.4e12),
        (GPU, None, False, 66.9e12),
        (GPU, None, True, None),
    ],
)
def test_a_peak_is_known_of_gpus_in_the_table_alone(monkeypatch, device, dtype, tf32, expected):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    assert known_peak(Precision(device, dtype, ""), tf32) == pytest.approx(expected)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
    assert known_peak(Precision(device, dtype, ""), tf32) is None


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [("front_end", "layer_drop", 0.1), ("lengths", "minibatch_s", 4.0)],
)
def test_clips_of_several_costs_have_no_share(monkeypatch, section, name, value):
    monkeypatch.setattr(profile, "known_peak", lambda *_: 1e9)
    settings = network_settings(train_clip_size=SAMPLES)
    precision = Precision(CPU, None, "")
    assert find_cost(Plain(settings), settings, precision) is not None
    setattr(getattr(settings, section), name, value)
    assert find_cost(Plain(settings), settings, precision) is None


def test_a_step_knows_its_share(monkeypatch, tmp_path):
    utterances = write_recordings(tmp_path, noise_waveforms([500] * 4))
    settings = network_settings(train_clip_size=SAMPLES)
    parts = (utterances, settings, World(size=1))
    assert Step(Plain(settings), *parts).utilisation(100.0) is None
    monkeypatch.setattr(profile, "known_peak", lambda *_: 1e9)
    share = Step(Plain(settings), *parts).utilisation(100.0)
    assert share == pytest.approx(100 * 2 * (2 * CONVOLUTION + 3 * MAP) / 1e9)
