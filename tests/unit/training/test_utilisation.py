"""The share of a GPU's peak: by hand for a small network, and unknown where anything is."""

import pytest
import torch
from torch import nn

from asdf.distributed.world import World
from asdf.networks import build_network
from asdf.training import profile
from asdf.training.gradients import Precision
from asdf.training.profile import ClipCost, find_cost, known_peak
from asdf.training.step import Step
from tests.recordings import noise_waveforms, write_recordings
from tests.small_networks import Plain
from tests.unit.conftest import network_settings

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
