"""The bias of relative positions is torchaudio's, which it computes anew in each forward pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torchaudio.models import Wav2Vec2Model
from torchaudio.models.wav2vec2.wavlm_attention import WavLMSelfAttention

from asdf.networks.front_ends.architectures import Architecture, stem
from asdf.networks.front_ends.encoder_layers import add_bucket_table, position_bias

SMALL = Architecture(stem(16), "group_norm", False, 24, 2, 2, 48, False, 16, 4)


def make_small() -> Wav2Vec2Model:
    """Build a small WavLM."""
    return replace(SMALL, relative_positions=(32, 64)).build()


def make_attention(buckets: int, distance: int) -> WavLMSelfAttention:
    return WavLMSelfAttention(
        8, 2, has_relative_attention_bias=True, num_buckets=buckets, max_distance=distance
    )


@pytest.mark.parametrize(("buckets", "distance"), [(320, 800), (32, 64), (8, 5), (4, 2)])
def test_the_bias_is_torchaudios_to_the_last_bit(buckets, distance):
    torch.manual_seed(0)
    attention = make_attention(buckets, distance)
    add_bucket_table(attention)
    for frames in (1, 2, 7, 49, 201, 850, 1001):
        bias = position_bias(attention, 3, frames)
        assert bias.shape == (3, 2, frames, frames)
        expected = attention.compute_bias(frames, frames)
        for utterance in bias:
            assert torch.equal(utterance, expected)


def test_the_table_moves_with_the_network_and_is_not_among_its_weights():
    model = make_small()
    attention = model.encoder.transformer.layers[0].attention
    assert attention.buckets.shape == (129,)
    assert attention.buckets.dtype == torch.int64
    assert "buckets" not in " ".join(model.state_dict())
    model.to("meta")
    assert attention.buckets.is_meta


def test_a_distance_that_a_file_claims_takes_no_memory():
    attention = make_attention(320, 10**15)
    add_bucket_table(attention)
    assert attention.buckets.numel() == 2 * 2**16 + 1
    assert torch.equal(position_bias(attention, 1, 300)[0], attention.compute_bias(300, 300))


@pytest.mark.parametrize("positions", [(3, 64), (320, 80), (320, 0)])
def test_buckets_that_cannot_be_are_refused(positions):
    with pytest.raises(ValueError, match="relative_positions is "):
        replace(SMALL, relative_positions=positions)
