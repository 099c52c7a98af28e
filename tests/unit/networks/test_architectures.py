"""Architectures: the known ones are torchaudio's, and texts mean what they say."""

from __future__ import annotations

import pytest
import torch
import torchaudio

from asdf.errors import UsageError
from asdf.networks.architectures import KNOWN, Architecture, stem


@pytest.mark.parametrize("name", sorted(set(KNOWN) - {"tiny", "small"}))
def test_known_sizes_are_torchaudios(name):
    with torch.device("meta"):
        model = getattr(torchaudio.models, name)()
    assert KNOWN[name].shapes() == {key: tensor.shape for key, tensor in model.state_dict().items()}
    layer = model.encoder.transformer.layers[0]
    assert KNOWN[name].heads == layer.attention.num_heads
    assert KNOWN[name].layer_norm_first == layer.layer_norm_first


def test_every_layer_of_a_built_network_is_where_the_architecture_says():
    model = KNOWN["tiny"].build(dropout=0.3)
    rates = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    assert rates == {0.3}
    assert model.encoder.transformer.layers[0].attention.dropout == 0.3
    assert sum(parameter.numel() for parameter in model.parameters()) < 150_000


def test_stem_frames():
    tiny = KNOWN["tiny"]
    assert [tiny.frames(n) for n in (0, 399, 400, 719, 720, 16000, 64600)] == [
        0,
        0,
        1,
        1,
        2,
        49,
        201,
    ]
    assert [tiny.min_samples(n) for n in (1, 2, 49)] == [400, 720, 15760]


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
        (repr({**vars(KNOWN["tiny"]), "heads": 7}), "cannot be shared out among 7 heads"),
    ],
)
def test_texts_that_mean_nothing_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        Architecture.from_text(text)
