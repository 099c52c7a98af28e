"""Architectures: the known ones are torchaudio's, and texts mean what they say."""

from __future__ import annotations

import pytest
import torch
import torchaudio

from asdf.errors import UsageError
from asdf.networks.front_ends.architectures import KNOWN, Architecture, stem
from tests.unit.networks.inspection import count_parameters


@pytest.mark.parametrize("name", sorted(set(KNOWN) - {"tiny", "small"}))
def test_known_sizes_are_torchaudios(name):
    with torch.device("meta"):
        model = getattr(torchaudio.models, name)()
    shapes = {layer: tensor.shape for layer, tensor in model.state_dict().items()}
    assert KNOWN[name].shapes() == shapes
    layer = model.encoder.transformer.layers[0]
    assert KNOWN[name].heads == layer.attention.num_heads
    assert KNOWN[name].layer_norm_first == layer.layer_norm_first


def test_every_layer_of_a_built_network_is_where_the_architecture_says():
    model = KNOWN["tiny"].build(dropout=0.3)
    dropouts = [module for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    assert {module.p for module in dropouts} == {0.3}
    assert model.encoder.transformer.layers[0].attention.dropout == 0.3
    assert count_parameters(model) < 150_000


@pytest.mark.parametrize(
    ("samples", "frames"),
    [(0, 0), (399, 0), (400, 1), (719, 1), (720, 2), (16000, 49), (64600, 201)],
)
def test_frames_of_a_number_of_samples(samples, frames):
    assert KNOWN["tiny"].frames(samples) == frames


@pytest.mark.parametrize(("frames", "samples"), [(1, 400), (2, 720), (49, 15760)])
def test_the_fewest_samples_of_a_number_of_frames(frames, samples):
    assert KNOWN["tiny"].min_samples(frames) == samples


@pytest.mark.parametrize("name", sorted(set(KNOWN) - {"wav2vec2_large_lv60k", "hubert_base"}))
def test_known_texts_come_back(name):
    assert Architecture.from_text(name).to_text() == name


def test_the_literal_of_any_other_architecture_comes_back():
    odd = Architecture(stem(24), "group_norm", True, 40, 3, 5, 99, True, 20, 8)
    text = odd.to_text()
    assert text.startswith("{")
    assert Architecture.from_text(text) == odd


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wav2vec2_xlsr_300", "Did you mean 'wav2vec2_xlsr_300m'"),
        ("{'layers': 2}", "conv_layers"),
        ("{1: 2", "never closed"),
        ("{'conv_layers': __import__('os').getcwd()}", "not the literal"),
        (KNOWN["tiny"].to_text() + "x", "Did you mean 'tiny'"),
        (repr({**vars(KNOWN["tiny"]), "heads": 7}), "cannot be divided among 7 heads"),
    ],
)
def test_texts_that_mean_nothing_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        Architecture.from_text(text)
