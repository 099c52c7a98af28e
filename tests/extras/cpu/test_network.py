"""Packed layers: the plain network's numbers, for every known class, and the network unharmed."""

import gc

import pytest
import torch
from torch import nn

from asdf.distributed.arithmetic import multiplies_bfloat16
from asdf.distributed.batch_norm import synchronise_batch_norm
from asdf.extras.cpu.network import PackedNetwork
from asdf.extras.cpu.packed_wav2vec2 import (
    PackedFeedForward,
    PackedPositions,
    PackedSelfAttention,
    PackedStem,
)
from asdf.extras.cpu.packed_weights import PackedLinear, is_available
from asdf.extras.cpu.raw_aasist import PackedEncoder
from asdf.networks.front_ends.architectures import Architecture, stem
from tests.unit.networks.conftest import build

pytestmark = pytest.mark.skipif(not is_available(), reason="torch lacks oneDNN's products here")

TOLERANCE = 1e-5
CLASSES = (
    "AASIST",
    "AASIST_L",
    "RawNet2",
    "SSL_AASIST",
    "SSL_AASIST_L",
    "SSL_ASP",
    "SSL_MHFA",
    "SSL_WeDefenseMHFA",
    "SSL_SLS",
    "SSL_Nes2NetX",
    "SSL_Linear",
    "SSL_Conformer",
    "SSL_ConformerTCM",
    "SSL_LCNN",
    "SSL_ResNet18",
    "SSL_ECAPA",
    "SSL_Mamba",
    *("SSL_SpectraAASIST", "SSL_SpectraAASIST3", "SSL_SpectraECAPA"),
)
# Large enough that its linear maps are packed.
LARGE = Architecture(stem(32), "layer_norm", True, 256, 1, 4, 256, True, pos_conv_groups=8)


@pytest.fixture
def settings(small):
    small.front_end.architecture = LARGE.to_text()
    return small


def randomise(network: nn.Module) -> nn.Module:
    """Give every norm statistics and weights that are not those of a fresh one."""
    torch.manual_seed(1)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            if module.weight is None:
                continue
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.2, 0.2)
    return network.eval()


def noise(batch: int, samples: int) -> torch.Tensor:
    return 0.1 * torch.randn(batch, samples, generator=torch.Generator().manual_seed(2))


def outputs(network: nn.Module, packed: PackedNetwork, waveforms_BT: torch.Tensor):
    """Plain embeddings and logits, and packed ones."""
    with torch.inference_mode():
        plain = network(waveforms_BT)
        with packed.in_use():
            return plain, network(waveforms_BT)


def kinds(network: nn.Module) -> set[type]:
    return {type(module) for module in network.modules()}


@pytest.mark.parametrize("name", CLASSES)
def test_scores_of_every_known_class_are_the_plain_ones(name, settings):
    if name == "RawNet2":
        settings.network.train_clip_size = 8000
    network = randomise(build(settings, name))
    before = kinds(network)
    packed = PackedNetwork(network)
    for waveforms_BT in (noise(2, 8000), noise(1, 12_345)):
        plain, scored = outputs(network, packed, waveforms_BT)
        torch.testing.assert_close(scored[0], plain[0], atol=TOLERANCE, rtol=TOLERANCE)
        torch.testing.assert_close(scored[1], plain[1], atol=TOLERANCE, rtol=TOLERANCE)
    assert kinds(network) == before


def test_every_kind_of_stem_and_encoder_is_the_plain_one(settings):
    for norm, bias, first in (("group_norm", False, False), ("layer_norm", True, True)):
        architecture = Architecture(stem(24), norm, bias, 256, 2, 4, 256, first, pos_conv_groups=4)
        settings.front_end.architecture = architecture.to_text()
        network = randomise(build(settings, "SSL_AASIST"))
        packed = PackedNetwork(network)
        plain, scored = outputs(network, packed, noise(2, 9000))
        torch.testing.assert_close(scored[1], plain[1], atol=TOLERANCE, rtol=0)
        with packed.in_use():
            used = kinds(network)
        assert used >= {
            PackedStem,
            PackedPositions,
            PackedFeedForward,
            PackedSelfAttention,
            PackedEncoder,
        }


def test_wavlms_relative_positions_are_the_plain_ones(settings):
    architecture = Architecture(
        stem(24), "layer_norm", False, 256, 2, 4, 256, True, relative_positions=(32, 80)
    )
    settings.front_end.architecture = architecture.to_text()
    network = randomise(build(settings, "SSL_ASP"))
    plain, scored = outputs(network, PackedNetwork(network), noise(2, 9000))
    torch.testing.assert_close(scored[1], plain[1], atol=TOLERANCE, rtol=0)


def test_a_row_is_the_same_alone_and_among_others(settings):
    for name in ("SSL_AASIST", "AASIST"):
        network = randomise(build(settings, name))
        waveforms_BT = noise(8, 4000)
        with torch.inference_mode(), PackedNetwork(network).in_use():
            together_B2 = network(waveforms_BT)[1]
            alone = [network(waveforms_1T)[1] for waveforms_1T in waveforms_BT.split(1)]
        torch.testing.assert_close(together_B2, torch.cat(alone), atol=1e-6, rtol=0)


def test_packed_weights_follow_those_that_were_changed(settings):
    network = randomise(build(settings, "SSL_AASIST"))
    packed = PackedNetwork(network)
    _, before = outputs(network, packed, noise(1, 8000))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.1)
        for buffer in network.buffers():
            if buffer.is_floating_point():
                buffer.mul_(1.1)
    plain, after = outputs(network, packed, noise(1, 8000))
    torch.testing.assert_close(after[1], plain[1], atol=TOLERANCE, rtol=0)
    assert (after[1] - before[1]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["SSL_AASIST", "AASIST"])
def test_norms_of_several_processes_are_packed_to_the_same_bits(name, settings):
    network = randomise(build(settings, name))
    _, alone = outputs(network, PackedNetwork(network), noise(1, 8000))
    synchronised = synchronise_batch_norm(network)
    _, of_many = outputs(synchronised, PackedNetwork(synchronised), noise(1, 8000))
    assert torch.equal(of_many[1], alone[1])


def test_packed_weights_follow_tensors_that_were_replaced(settings):
    network = randomise(build(settings, "SSL_AASIST"))
    packed = PackedNetwork(network)
    _, before = outputs(network, packed, noise(1, 8000))
    for parameter in network.parameters():
        # No version of the parameter counts this.
        parameter.data = parameter.data * 1.1
    plain, after = outputs(network, packed, noise(1, 8000))
    torch.testing.assert_close(after[1], plain[1], atol=TOLERANCE, rtol=0)
    assert (after[1] - before[1]).abs().max() > 1e-3


def test_the_network_is_as_it_was_also_after_a_failure(settings):
    network = randomise(build(settings, "SSL_AASIST"))
    names = list(network.state_dict())
    before = kinds(network)
    packed = PackedNetwork(network)
    with pytest.raises(ValueError, match="broken"), packed.in_use():
        assert PackedSelfAttention in kinds(network)
        raise ValueError("broken")
    assert kinds(network) == before
    assert list(network.state_dict()) == names


def test_packed_weights_take_the_memory_of_those_that_they_replace(settings):
    network = randomise(build(settings, "SSL_AASIST"))
    packed = PackedNetwork(network, replace=True)
    expected = network(noise(1, 8000))[1].detach()
    weights = network.front_end.model.encoder.transformer.layers[0].feed_forward
    large = [id(parameter) for parameter in weights.parameters()]
    del weights
    with torch.inference_mode(), packed.in_use():
        scored = network(noise(1, 8000))[1]
    torch.testing.assert_close(scored, expected, atol=TOLERANCE, rtol=0)
    gc.collect()
    alive = {id(each) for each in gc.get_objects() if isinstance(each, nn.Parameter)}
    assert not alive & set(large)
    # They stay: a second use packs nothing, and finds them.
    with torch.inference_mode(), packed.in_use():
        assert torch.equal(network(noise(1, 8000))[1], scored)


class Unusual(nn.Module):
    """What a user's network may do with its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(400, 400)
        self.listed = [nn.Linear(400, 400)]
        self.watched = nn.Linear(400, 400)
        self.watched.register_forward_hook(lambda layer, inputs, output: output + 1)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(400, 400))
        self.shared = self.map
        self.encoder = nn.TransformerEncoderLayer(400, 4, 400, batch_first=True)
        self.selu = nn.SELU(inplace=True)
        self.twice = nn.Sequential(nn.Linear(400, 400), nn.SELU())
        self.out = nn.Linear(400, 2)

    def forward(self, waveforms_BT):
        x_BLC = waveforms_BT.unflatten(1, (-1, 400))
        x_BCL = x_BLC.transpose(1, 2)
        x_BLC = self.shared(self.map(x_BLC)) @ self.map.weight + self.map.bias
        x_BLC = self.selu(self.watched(self.listed[0](x_BLC)))
        x_BLC = self.encoder(self.normed(x_BLC)) + self.twice(x_BLC[:, :1])
        x_BLC = x_BLC + self.twice[1](x_BCL).transpose(1, 2) + x_BCL.transpose(1, 2)
        x_BC = x_BLC.mean(dim=1)
        empty = self.map(x_BC[:0])
        return x_BC, self.out(x_BC) + self.map(x_BC[0])[:2] + empty.sum()


def test_an_unusual_network_gets_its_plain_scores():
    torch.manual_seed(0)
    network = Unusual().eval()
    plain, scored = outputs(network, PackedNetwork(network), noise(3, 2000))
    torch.testing.assert_close(scored[1], plain[1], atol=TOLERANCE, rtol=TOLERANCE)


def test_other_number_formats_are_computed_plainly():
    network = nn.Sequential(nn.Linear(400, 400).double()).eval()
    plain, scored = outputs(network, PackedNetwork(network), noise(3, 400).double())
    assert torch.equal(plain, scored)
    linear = nn.Linear(400, 400)
    x = noise(3, 400).bfloat16()
    torch.testing.assert_close(PackedLinear(linear)(x), linear(x.float()))


@pytest.mark.skipif(not multiplies_bfloat16(), reason="this CPU does not multiply bfloat16")
def test_products_of_large_maps_in_bfloat16_are_near_the_plain_ones(settings):
    network = randomise(build(settings, "SSL_AASIST"))
    packed = PackedNetwork(network, dtype=torch.bfloat16)
    plain, scored = outputs(network, packed, noise(2, 9000))
    difference = (scored[1] - plain[1]).abs().max()
    # Some 30 products of numbers that are off by 2^-9: 30^0.5 * 2^-9 = 0.011 of a magnitude of 1 if
    # they err independently, and up to 0.06 if all err alike.
    assert 1e-6 < difference < 0.06
    assert scored[1].dtype is torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        _, within = outputs(network, packed, noise(2, 9000))
    # What is not packed is then autocast's.
    torch.testing.assert_close(within[1], plain[1], atol=0.12, rtol=0)


def test_a_caller_in_bfloat16_does_not_decide_whether_weights_can_be_packed():
    from asdf.extras.cpu.packed_weights import is_available as available

    available.cache_clear()
    with torch.autocast("cpu", torch.bfloat16):
        assert available()
