"""The wav2vec 2.0 front end: features of fairseq, and what training does."""

from __future__ import annotations

import pytest
import torch

from asdf.interchange import build_front_end
from asdf.networks import Wav2Vec2FrontEnd
from asdf.networks.front_ends.architectures import Architecture, stem
from asdf.settings.sections import FrontEnd

GROUP_NORM = Architecture(stem(16), "group_norm", False, 24, 2, 2, 48, False, 16, 4)
LAYER_NORM = Architecture(stem(16), "layer_norm", True, 24, 2, 2, 48, True, 16, 4)


def front_end(architecture: Architecture = LAYER_NORM, **settings) -> Wav2Vec2FrontEnd:
    torch.manual_seed(0)
    return build_front_end(FrontEnd(architecture=architecture.to_text(), **settings))


@pytest.mark.parametrize("name", ["fairseq_xlsr_like", "fairseq_base_like"])
def test_features_are_fairseqs(name, reference, recorded):
    model = build_front_end(FrontEnd(weights=str(reference(f"{name}.pt")))).eval()
    expected = recorded(f"{name}.npz")
    with torch.no_grad():
        features = model(expected["waveforms"])
    torch.testing.assert_close(features, expected["features"], atol=3e-5, rtol=0)
    assert model.dimension == features.shape[-1]


def test_dropout_acts_in_training_only(waveforms):
    model = front_end(dropout=0.5)
    assert not torch.allclose(model.train()(waveforms), model(waveforms))
    assert torch.equal(model.eval()(waveforms), model(waveforms))


def test_training_without_dropout_draws_no_random_numbers(waveforms):
    model = front_end().train()
    before = torch.get_rng_state()
    features = model(waveforms)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(features, model.eval()(waveforms))


def test_gradient_checkpointing_saves_the_layers_inner_values(waveforms):
    saved = []
    for checkpointing in (False, True):
        model = front_end(gradient_checkpointing=checkpointing).train()
        saved.append(count_saved_values(model, waveforms))
    assert saved[1] < saved[0] / 5


def count_saved_values(model: Wav2Vec2FrontEnd, waveforms: torch.Tensor) -> int:
    """How many values autograd holds for the backward pass."""
    sizes: list[int] = []

    def save(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel())
        return tensor

    def load(tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, load):
        model(waveforms)
    return sum(sizes)


@pytest.mark.parametrize("architecture", [LAYER_NORM, GROUP_NORM], ids=["layer_norm", "group_norm"])
@pytest.mark.parametrize("samples", [8000, 7760, 7759, 400])
def test_scoring_length_ends_where_the_features_stop_to_depend_on_the_waveform(
    architecture, samples, waveforms
):
    model = front_end(architecture).eval()
    waveform_1T = waveforms[:1, :samples].requires_grad_()
    model(waveform_1T).pow(3).sum().backward()
    assert waveform_1T.grad is not None
    last_used = int(waveform_1T.grad[0].nonzero().max())
    assert model.scoring_length(samples) == last_used + 1


def test_normalisation_is_of_each_waveform(waveforms):
    model = front_end(normalize_waveforms=True).eval()
    plain = front_end().eval()
    scaled = torch.stack([3 + 5 * waveforms[0], waveforms[1]])
    deviations = waveforms.std(1, keepdim=True, correction=0)
    normalised = (waveforms - waveforms.mean(1, keepdim=True)) / deviations
    torch.testing.assert_close(model(scaled), plain(normalised), atol=2e-3, rtol=0)
    together = model(waveforms)
    torch.testing.assert_close(together[1:], model(waveforms[1:]), atol=1e-5, rtol=0)
    assert not torch.allclose(plain(scaled), plain(waveforms), atol=1e-2)
    assert model.scoring_length(8000) == 8000
