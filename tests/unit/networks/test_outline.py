"""What training a network takes, without training it."""

import pytest
import torch
from torch import nn

from asdf.networks import build_network, summary
from asdf.networks.outline import outline
from asdf.settings.sections import Sections


def settings_of(name: str) -> Sections:
    settings = Sections()
    settings.network.network_class = f"asdf.networks.{name}"
    settings.network.train_clip_size = 8000
    settings.front_end.architecture = "tiny"
    return settings


def kept_for_backward(network: nn.Module, waveforms: torch.Tensor) -> int:
    """Bytes of all storages that autograd really keeps, parameters aside."""
    kept: dict[int, int] = {}
    held = []

    def keep(tensor):
        held.append(tensor)
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network(waveforms)
    for parameter in network.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(kept.values())


@pytest.mark.parametrize("name", ["SSL_AASIST", "SSL_ASP", "AASIST"])
def test_it_counts_what_a_real_pass_keeps(name):
    settings = settings_of(name)
    before = torch.random.get_rng_state()
    outlined = outline(settings, "tiny")
    assert torch.equal(torch.random.get_rng_state(), before)
    network = build_network(settings).train()
    assert (outlined.parameters, outlined.trainable) == (
        summary(network).total,
        summary(network).trainable,
    )
    real = kept_for_backward(network, torch.randn(2, 8000)) / 2
    assert outlined.example_bytes == pytest.approx(real, rel=0.1)


def test_a_frozen_front_end_keeps_less_and_recomputing_too():
    settings = settings_of("SSL_ASP")
    whole = outline(settings, "tiny")
    settings.front_end.gradient_checkpointing = True
    recomputed = outline(settings, "tiny")
    settings.front_end.frozen = True
    frozen = outline(settings, "tiny")
    assert frozen.example_bytes < recomputed.example_bytes < whole.example_bytes / 5
    assert (whole.trainable, frozen.trainable) == (127_586, 8_706)


def test_a_large_network_takes_no_memory():
    outlined = outline(settings_of("SSL_ASP"), "wav2vec2_xlsr_2b")
    assert outlined.parameters > 2_000_000_000
