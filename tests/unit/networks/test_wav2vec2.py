"""The wav2vec 2.0 front end: features of fairseq and transformers, and what training does."""

from __future__ import annotations

import copy

import pytest
import torch
from torchaudio.models.wav2vec2.utils import import_huggingface_model

from asdf.interchange import build_front_end
from asdf.networks import Wav2Vec2FrontEnd
from asdf.networks.front_ends.architectures import Architecture, stem
from asdf.settings.sections import FrontEnd
from tests.unit.networks.inspection import (
    any_in_training,
    any_learns,
    gradients_by_name,
    max_gradient,
)

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


@pytest.mark.parametrize("layer_norm_first", [False, True])
def test_features_are_transformers(layer_norm_first, tmp_path, waveforms):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.Wav2Vec2Config(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        conv_dim=(16,) * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        do_stable_layer_norm=layer_norm_first,
        feat_extract_norm="layer" if layer_norm_first else "group",
        conv_bias=layer_norm_first,
    )
    original = transformers.Wav2Vec2Model(config).eval()
    torch.save(import_huggingface_model(original).state_dict(), tmp_path / "weights.pt")
    model = front_end(
        LAYER_NORM if layer_norm_first else GROUP_NORM, weights=str(tmp_path / "weights.pt")
    ).eval()
    with torch.no_grad():
        expected = original(waveforms).last_hidden_state
        torch.testing.assert_close(model(waveforms), expected, atol=2e-5, rtol=0)


def test_a_frozen_front_end_stays_as_it_is(waveforms):
    model = front_end(dropout=0.5, frozen=True)
    reference_features = front_end().eval()(waveforms)
    model.train()
    features = model(waveforms)
    assert torch.equal(features, reference_features)
    assert not features.requires_grad
    assert not any_learns(model.parameters())
    assert not any_in_training(model)


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


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradient_checkpointing_changes_nothing_but_rounding(dropout, waveforms):
    plain = front_end(dropout=dropout).train()
    saving = copy.deepcopy(plain)
    saving.gradient_checkpointing = True
    gradients = []
    for model in (plain, saving):
        torch.manual_seed(5)
        model(waveforms).square().mean().backward()
        gradients.append(gradients_by_name(model))
    assert gradients[0].keys() == gradients[1].keys()
    # The stem's are summed over the batch in another order; some of its sums all but cancel out.
    rounding = 1e-6 * max_gradient(gradients[0].values())
    for name, gradient in gradients[0].items():
        assert gradient is not None
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=rounding, msg=name)


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
@pytest.mark.parametrize("samples", [8000, 7761, 7760, 7759, 720, 719, 400])
def test_scoring_length_ends_where_the_features_stop_to_depend_on_the_waveform(
    architecture, samples, waveforms
):
    model = front_end(architecture).eval()
    waveform_1T = waveforms[:1, :samples].requires_grad_()
    model(waveform_1T).pow(3).sum().backward()
    assert waveform_1T.grad is not None
    last_used = int(waveform_1T.grad[0].nonzero().max())
    assert model.scoring_length(samples) == last_used + 1


@pytest.mark.parametrize(("samples", "length"), [(8000, 7760), (720, 720), (719, 400), (401, 400)])
def test_windows_are_400_samples_every_320(samples, length):
    assert front_end().scoring_length(samples) == length


def test_short_waveforms_are_repeated_to_one_frame(waveforms):
    model = front_end().eval()
    short_BT = waveforms[:, :150]
    repeated_BT = short_BT.repeat(1, 3)[:, :400]
    features = model(short_BT)
    assert features.shape == (2, 1, 24)
    assert torch.equal(features, model(repeated_BT))


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
