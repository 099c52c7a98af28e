"""A device that is neither a CPU nor one of NVIDIA's GPUs: one clear message, or a warning."""

from __future__ import annotations

import pytest
import soundfile
import torch

from asdf.__main__ import main
from asdf.scoring.computing import choose_scoring_precision, find_device
from tests.unit.conftest import sound


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="has a GPU of Apple")
# The service opens its network in a process of its own.
@pytest.mark.parametrize(
    ("words", "status"), [(["score", "NETWORK", "RECORDING"], 2), (["serve", "NETWORK"], 1)]
)
def test_a_mac_s_gpu_is_refused_in_one_message_where_there_is_none(
    tmp_path, network_file, capfd, words, status
):
    path = tmp_path / "a.wav"
    soundfile.write(path, sound(12000), 16000)
    places = {"NETWORK": str(network_file), "RECORDING": str(path)}
    assert main([*(places.get(word, word) for word in words), "--device", "mps"]) == status
    assert capfd.readouterr().err.splitlines() == [
        f"error: torch {torch.__version__} cannot compute on 'mps' on this machine: it has no such "
        "device, or torch was built without support for it. Use 'auto', 'cpu', 'cuda' or 'cuda:1'."
    ]


def test_a_mac_s_gpu_is_used_with_a_warning_and_in_fp32(monkeypatch, caplog):
    # What can be computed there is not known here; that a number can is what is asked.
    monkeypatch.setattr(torch, "ones", lambda size, device: torch.tensor([1.0]))
    found = find_device("mps")
    assert found == torch.device("mps")
    assert caplog.messages == [
        "mps: ASDF is tested only on CPUs and NVIDIA GPUs. Score some recordings with device "
        "'cpu' too, and compare."
    ]
    assert choose_scoring_precision("auto", found).describe() == "scoring in fp32"
    assert choose_scoring_precision("bf16", found).name == "fp32"
    caplog.clear()
    assert find_device("cpu") == torch.device("cpu") and not caplog.messages
