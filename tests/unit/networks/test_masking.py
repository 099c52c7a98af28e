"""Masks in training: where, how many, and that nothing is masked otherwise."""

from __future__ import annotations

import itertools

import pytest
import torch

from asdf.extras.zoo.layouts.importing import load_detector_weights
from asdf.interchange import build_pretrained
from asdf.networks import Wav2Vec2FrontEnd
from asdf.networks.front_ends.front_end import Masking, draw_spans
from asdf.settings.sections import FrontEnd


def runs(row: torch.Tensor) -> list[int]:
    """Lengths of the runs of True."""
    lengths = []
    for value, run in itertools.groupby(row.tolist()):
        if value:
            lengths.append(len(list(run)))
    return lengths


@pytest.mark.parametrize(
    ("size", "proportion", "length"), [(100, 0.3, 10), (49, 0.65, 10), (64, 0.25, 64), (7, 0.5, 1)]
)
def test_spans_have_their_length_and_their_mean_number(size, proportion, length):
    torch.manual_seed(0)
    mask = draw_spans(4000, size, proportion, length)
    assert mask.shape == (4000, size) and mask.dtype == torch.bool
    for row in mask[:200]:
        assert min(runs(row), default=length) >= length
    # At most a single span per row, counted where no overlap can hide it.
    if proportion * size <= length:
        share = mask.any(dim=1).float().mean().item()
        assert share == pytest.approx(proportion * size / length, abs=0.03)
    assert mask.float().mean().item() <= proportion * 1.03
    assert mask.any(dim=0).all(), "every value can be masked"


def test_spans_of_one_never_overlap_so_their_proportion_is_exact():
    torch.manual_seed(0)
    assert (draw_spans(50, 40, 0.25, 1).sum(dim=1) == 10).all()
    assert draw_spans(3, 5, 1.0, 1).all()


def test_a_span_longer_than_the_row_covers_it_or_nothing():
    torch.manual_seed(0)
    rows = draw_spans(2000, 6, 0.5, 10)
    assert set(rows.sum(dim=1).tolist()) == {0, 6}
    assert rows[:, 0].float().mean().item() == pytest.approx(0.5, abs=0.04)


def test_masked_frames_become_the_vector_and_masked_bands_0():
    masking = Masking(FrontEnd(time_mask_proportion=0.4, time_mask_length=5), 8).train()
    x = torch.randn(3, 50, 8)
    torch.manual_seed(1)
    y = masking(x)
    torch.manual_seed(1)
    mask = draw_spans(3, 50, 0.4, 5)
    assert 0 < mask.sum() < 150
    assert torch.equal(y[~mask], x[~mask])
    assert (y[mask] == masking.embedding).all()
    masking = Masking(FrontEnd(channel_mask_proportion=0.5, channel_mask_length=2), 8).train()
    assert not list(masking.parameters())
    torch.manual_seed(2)
    y = masking(x)
    torch.manual_seed(2)
    bands = draw_spans(3, 8, 0.5, 2)[:, None].expand(3, 50, 8)
    assert (y[bands] == 0).all()
    assert torch.equal(y[~bands], x[~bands])


def test_the_vector_gets_a_gradient_also_when_no_frame_is_masked():
    masking = Masking(FrontEnd(time_mask_proportion=1e-9), 8).train()
    masking(torch.randn(2, 50, 8)).sum().backward()
    assert torch.equal(masking.embedding.grad, torch.zeros(8))


MASKS = {
    "time_mask_proportion": 0.5,
    "time_mask_length": 2,
    "channel_mask_proportion": 0.3,
    "channel_mask_length": 4,
}


def test_masks_act_in_training_only_and_follow_the_seed(waveforms):
    def front_end(**settings):
        torch.manual_seed(0)
        return Wav2Vec2FrontEnd(FrontEnd(architecture="tiny", **settings))

    expected = front_end().eval()(waveforms)
    assert torch.equal(front_end(**MASKS).eval()(waveforms), expected)
    assert torch.equal(front_end(**MASKS, frozen=True).train()(waveforms), expected)
    model = front_end(**MASKS).train()
    features = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        features.append(model(waveforms))
    assert torch.equal(features[0], features[1])
    assert not torch.allclose(features[0], features[2])
    assert not torch.allclose(features[0], expected)


def test_the_vector_of_pretraining_is_taken_over(tiny, reference):
    path = reference("fairseq_xlsr_like.pt")
    pretrained = torch.load(path, weights_only=False)["model"]["mask_emb"]
    for name, value in MASKS.items():
        setattr(tiny.front_end, name, value)
    tiny.front_end.weights = str(path)
    network = build_pretrained(tiny)
    assert torch.equal(network.front_end.masking.embedding, pretrained)
    published = reference("ssl_aasist.pth")
    network.front_end.masking.embedding.data.zero_()
    left_out = load_detector_weights(network, published)
    assert "mask_emb" not in " ".join(left_out)
    state = torch.load(published, weights_only=True)
    assert torch.equal(network.front_end.masking.embedding, state["ssl_model.model.mask_emb"])


def test_compiled_masks_are_the_same_and_part_of_one_graph():
    settings = FrontEnd(**MASKS)
    x = torch.randn(3, 50, 8)
    masking = Masking(settings, 8).train()
    compiled = torch.compile(masking.forward, backend="aot_eager", fullgraph=True)
    for seed in (1, 2):
        torch.manual_seed(seed)
        expected = masking(x)
        torch.manual_seed(seed)
        assert torch.equal(compiled(x), expected)
    assert not torch.equal(expected, x)
