"""Frame-level heads: whose frames they judge, how long these are, and what stays as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from asdf.errors import AsdfError, UsageError
from asdf.networks import frame_hop
from asdf.networks.interface import Outputs
from asdf.networks.ssl_detector import FrameHead
from asdf.settings.sections import Localisation
from tests.unit.networks.conftest import build

# Samples per frame behind the tiny front end, whose frames are 320 samples.
TIMED = {
    "SSL_ASP": 320,
    "SSL_MHFA": 320,
    "SSL_WeDefenseMHFA": 320,
    "SSL_Nes2NetX": 320,
    "SSL_Linear": 320,
    "SSL_Conformer": 320,
    "SSL_ConformerTCM": 320,
    "SSL_LCNN": 5120,
    "SSL_ResNet18": 2560,
    "SSL_ECAPA": 320,
    "SSL_Mamba": 320,
}


def with_head(settings, **values):
    return replace(settings, localisation=Localisation(enabled=True, **values))


def outputs_of(network, waveforms_BT) -> Outputs:
    with torch.no_grad():
        return network.eval()(waveforms_BT)


@pytest.mark.parametrize("name", TIMED)
def test_the_utterance_is_scored_as_without_a_head(name, small):
    waveforms_BT = torch.randn(2, 20_000, generator=torch.Generator().manual_seed(2))
    plain = build(small, name)
    headed = build(with_head(small), name)
    expected = outputs_of(plain, waveforms_BT)
    outputs = outputs_of(headed, waveforms_BT)
    assert torch.equal(outputs[0], expected[0])
    assert torch.equal(outputs[1], expected[1])
    assert frame_hop(plain) is None
    assert frame_hop(headed) == TIMED[name]
    # 62 frames of the front end: one less than fit into 20,000 samples.
    frames = outputs.extras["frames"].shape[1]
    assert frames in (20_000 // TIMED[name], -(-20_000 // TIMED[name]))
    # The loss of frames reaches all that computes them.
    headed.train()(waveforms_BT[:, :8000]).extras["frames"].square().sum().backward()
    assert headed.frame_head.output.weight.grad.abs().sum() > 0
    assert headed.front_end.model.encoder.feature_projection.projection.weight.grad is not None


@pytest.mark.parametrize("name", TIMED)
def test_a_frame_is_about_its_own_samples(name, small):
    """Where the waveform changes, the frames there change most."""
    # Of spectra: random attention mixes all frames of an encoder.
    small.front_end.front_end_class = "log_mel"
    small.spectrum.filters = 64
    network = build(with_head(small), name).eval()
    hop = TIMED[name] // 2
    assert frame_hop(network) == hop
    waveforms_BT = 0.1 * torch.randn(1, 32 * hop, generator=torch.Generator().manual_seed(2))
    changed_BT = waveforms_BT.clone()
    changed_BT[:, 20 * hop : 22 * hop] *= 1000
    with torch.no_grad():
        before = network.back_end.with_frames(network.front_end_features(waveforms_BT))[2]
        after = network.back_end.with_frames(network.front_end_features(changed_BT))[2]
    changes_F = (before - after).norm(dim=2)[0]
    assert 19 <= int(changes_F.argmax()) <= 22


def test_a_coarser_frame_is_the_mean_of_finer_ones(small):
    waveforms_BT = torch.randn(2, 20_000)
    fine = build(with_head(small), "SSL_Linear")
    coarse = build(with_head(small, resolution=2560), "SSL_Linear")
    coarse.load_state_dict(fine.state_dict())
    fine_BF2 = outputs_of(fine, waveforms_BT).extras["frames"]
    coarse_BF2 = outputs_of(coarse, waveforms_BT).extras["frames"]
    assert frame_hop(coarse) == 2560
    assert (fine_BF2.shape[1], coarse_BF2.shape[1]) == (62, 8)
    # The layer is linear: means of features and means of logits are the same.
    torch.testing.assert_close(coarse_BF2[:, 0], fine_BF2[:, :8].mean(dim=1))
    # The last one is of the six frames that are left.
    torch.testing.assert_close(coarse_BF2[:, 7], fine_BF2[:, 56:].mean(dim=1))


def test_a_resolution_that_the_frames_do_not_divide_is_refused(small):
    settings = with_head(small, resolution=1000)
    with pytest.raises(
        UsageError, match=r"the resolution must be a multiple of that.*960 and 1280"
    ):
        build(settings, "SSL_Linear")
    with pytest.raises(UsageError, match=r"5120 samples long.* The nearest: 5120\."):
        build(settings, "SSL_LCNN")


@pytest.mark.parametrize("name", ["SSL_AASIST", "SSL_SLS", "AASIST", "RawGAT_ST", "RawNet2"])
def test_networks_without_frames_are_refused(name, small):
    small.back_end.rawnet2_recurrent = 8
    with pytest.raises(UsageError, match=r"localisation\.enabled = True: .*(lcnn, linear, mhfa)"):
        build(with_head(small), name)


def test_a_hop_that_is_none_is_refused():
    network = nn.Identity()
    assert frame_hop(network) is None
    network.frame_hop = 0.02
    with pytest.raises(AsdfError, match=r"Identity\.frame_hop is 0\.02") as raised:
        frame_hop(network)
    # Of the class, not of a config: commands end with 1.
    assert raised.value.exit_status == 1


def test_means_are_of_whole_and_part_groups():
    head = FrameHead(1, 640, pooled=2)
    with torch.no_grad():
        head.output.weight.copy_(torch.tensor([[1.0], [2.0]]))
        head.output.bias.zero_()
    logits_F2 = head(torch.tensor([[[1.0], [3.0], [5.0]]]))[0]
    assert logits_F2.tolist() == [[2, 4], [5, 10]]
