"""The contract of all networks: shapes, names, sizes, what learns, what a score depends on."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import pytest
import torch

import asdf.networks
from asdf.errors import UsageError
from asdf.networks import BackEnd, SSLDetector, fixed_samples, scoring_length
from asdf.networks.output_check import check_outputs
from asdf.ports import load
from asdf.settings.sections import BACK_ENDS, Sections
from tests.unit.networks.conftest import build
from tests.unit.networks.inspection import count_parameters, frozen_names, names_without_gradient

# By class: values of an embedding, and the digest of the layers' names, which are those of
# published files, down to the order; with the small sizes and the tiny front end.
CONTRACT = {
    "AASIST": (160, "de513e7c"),
    "AASIST_L": (160, "de513e7c"),
    "RawNet2": (1024, "b5373b8c"),
    "SSL_AASIST": (160, "41e3e990"),
    "SSL_AASIST_L": (160, "41e3e990"),
    "SSL_ASP": (128, "f27b5c18"),
    "SSL_MHFA": (24, "0800c06b"),
    "SSL_WeDefenseMHFA": (24, "e36ec305"),
    "SSL_SLS": (32, "5a86e314"),
    "SSL_Nes2NetX": (64, "35f83e4e"),
    "SSL_GatedConformer": (64, "335dfaed"),
    "SSL_SpectraAASIST": (160, "4857f0fc"),
    "SSL_SpectraAASIST3": (160, "45b26780"),
    "SSL_SUPERBAASIST": (160, "41e3e990"),
    "SSL_DeepFenseAASIST": (160, "41e3e990"),
    "SSL_DeepFenseNes2Net": (64, "4e143d0d"),
    "SSL_DeepFenseMLP": (128, "80e253d0"),
    "SSL_DeepFenseTCM": (16, "b9decf9e"),
    "SSL_MesoNet": (16, "acbf0606"),
    "SSL_SpecRNet": (128, "728896f7"),
    "SSL_MapLCNN": (128, "5565c160"),
    "SSL_Linear": (64, "d751dfca"),
    "SSL_Classifier": (256, "fb5d9273"),
    "SSL_SUPERB": (256, "fb5d9273"),
    "SSL_Conformer": (16, "f8a24fe0"),
    "SSL_ConformerTCM": (16, "b9decf9e"),
    "SSL_LCNN": (64, "f5e61174"),
    "SSL_ResNet18": (40, "aa44853d"),
    "SSL_ECAPA": (192, "0af0d7c7"),
    "SSL_Mamba": (16, "a2ece0c0"),
    "SSL_SpectraECAPA": (3072, "d50d6ec9"),
}
CLASSES = [name for name in CONTRACT if name.startswith("SSL_")]
ON_FEATURES = CLASSES[CLASSES.index("SSL_Linear") :]
# They need a value, and a frame, for each of their poolings.
ON_MAPS = ("SSL_MesoNet", "SSL_SpecRNet", "SSL_MapLCNN")


# Parameters as published: of networks, or of back ends on features of a dimension. The first LCNN
# has 97 for a second output; the paper of TCM counts XLS-R's 317,390,592 as well.
PUBLISHED = [
    ("AASIST", None, 297_866),
    ("AASIST_L", None, 85_306),
    ("RawNet2", None, 17_621_410),
    ("RawGAT_ST", None, 440_810),
    ("conformer", 1024, 2_506_324),
    ("conformer_tcm", 1024, 2_382_628),
    ("mamba", 1024, 1_936_950),
    ("nes2net_x", 1024, 512_039),
    ("lcnn", 60, 269_729 + 97),
    ("resnet18", 60, 12_450_290),
]


@pytest.mark.parametrize(("name", "dimension", "parameters"), PUBLISHED)
def test_sizes_are_the_published_ones(name, dimension, parameters):
    settings = Sections()
    with torch.device("meta"):
        if dimension is None:
            network = load(f"asdf.networks.{name}")(settings)
        else:
            front_end = SimpleNamespace(dimension=dimension, layers=24)
            network = load(BACK_ENDS[name]).from_settings(settings, front_end)
    assert count_parameters(network) == parameters


# Layers above the chosen one rest, whether the back end takes features, states or layers.
@pytest.mark.parametrize(
    ("name", "layer"),
    [
        *((name, "last") for name in CONTRACT),
        *((f"SSL_{end}", 1) for end in ("ASP", "MHFA", "SLS")),
    ],
)
def test_exactly_what_learns_gets_a_gradient(name, layer, small, waveforms):
    small.front_end.layer = layer
    network = build(small, name).train()
    embeddings, logits = network(waveforms)
    assert embeddings.shape == (2, CONTRACT[name][0])
    assert logits.shape == (2, 2)
    logits.square().sum().backward()
    without = names_without_gradient(network)
    assert without == frozen_names(network)
    for unused in without:
        assert unused.startswith("front_end.") or ".bn1." in unused or "_layers.1." in unused


@pytest.mark.parametrize("name", CONTRACT)
def test_layers_have_the_published_names_and_a_score_is_of_its_utterance_alone(
    name, small, waveforms
):
    """At any length, and with the digits of the weights whatever autocast says.

    Scores of bfloat16 would be equal where trials are not; float64 networks stay in float64.
    """
    network = build(small, name).eval()
    names = "\n".join(network.state_dict())
    assert hashlib.sha256(names.encode()).hexdigest()[:8] == CONTRACT[name][1]
    small.network.train_clip_size = 8000
    # As training checks it before the first step.
    check_outputs(network, small.network, torch.device("cpu"))
    with torch.inference_mode():
        alone_12 = network(waveforms[1:])[1]
        torch.testing.assert_close(network(waveforms)[1][1:], alone_12, atol=1e-5, rtol=0)
        if name != "SSL_SLS":
            assert fixed_samples(network) is None
            for samples in (150, 400, 1040, 7777):
                assert torch.isfinite(network(waveforms[:, :samples])[1]).all()
        if name in CLASSES:
            with torch.autocast("cpu", torch.bfloat16):
                logits = network(waveforms)[1]
            assert logits.dtype is torch.float32
            assert not torch.equal(logits, logits.bfloat16().float())
            if "AASIST" not in name:  # its graph pooling is in float32 in any case
                assert network.double()(waveforms.double())[1].dtype is torch.float64


def test_one_length_only_is_taken(small, waveforms):
    network = build(small, "SSL_SLS").eval()
    assert fixed_samples(network) == 8000
    for samples, length in ((500, 500), (8000, 8000), (20000, 8000)):
        assert scoring_length(network, samples) == length
    short = waveforms[:, :5000]
    long = torch.cat([waveforms, torch.randn(2, 100)], dim=1)
    repeated = torch.cat([short, waveforms[:, :3000]], dim=1)
    with torch.no_grad():
        expected = network(waveforms)[1]
        assert torch.equal(network(long)[1], expected)
        assert torch.equal(network(short)[1], network(repeated)[1])
        assert not torch.allclose(network(short)[1], expected)


@pytest.mark.parametrize("name", ["SSL_MHFA", "SSL_SLS"])
def test_a_back_end_that_weighs_layers_gets_no_weighted_sum(name, small):
    small.front_end.layer = "weighted"
    with pytest.raises(
        UsageError, match=rf"front_end\.layer = 'weighted': {name} weighs the layers itself"
    ):
        build(small, name)


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in (*ON_MAPS, "SSL_SLS")])
def test_any_number_of_values_and_frames_is_taken(name, small):
    """Of other front ends than the tiny one, down to the fewest frames that it asks for."""
    network_class = getattr(asdf.networks, name)
    small.back_end.nes2net_splits = (3, 4)
    for dimension in (24, 60):
        front_end = SimpleNamespace(dimension=dimension, layers=2)
        back_end = network_class.back_end_class.from_settings(small, front_end).eval()
        for frames in (back_end.shortest_frames, 50):
            features_BLC = torch.randn(2, frames, dimension)
            features = features_BLC if back_end.takes == "features" else [features_BLC] * 3
            embeddings, logits = back_end(features)
            assert embeddings.isfinite().all()
            assert logits.isfinite().all() and logits.shape == (2, 2)


@pytest.mark.slow_but("SSL_Linear", "SSL_LCNN", "SSL_Conformer")
@pytest.mark.parametrize("name", ON_FEATURES)
def test_a_few_steps_separate_features(name, small):
    """Bona fide utterances have larger numbers in a few values."""
    small.back_end.lcnn_dropout = 0.0
    back_end = build(small, name).back_end.train()
    optimizer = torch.optim.Adam(back_end.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    features_BLC = torch.randn(6, 20, 64, generator=generator)
    labels_B = torch.arange(6) % 2
    features_BLC[:, :, 3:9] += 3.0 * labels_B[:, None, None]
    losses = []
    for _ in range(8):
        loss = torch.nn.functional.cross_entropy(back_end(features_BLC)[1], labels_B)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0], losses


@pytest.mark.parametrize(
    "name", ["linear", "conformer", "conformer_tcm", "lcnn", "resnet18", "ecapa", "mamba"]
)
def test_it_follows_cepstra_by_its_short_name(name, small):
    small.front_end.front_end_class = "lfcc"
    small.back_end.back_end_class = name
    small.back_end.lcnn_projection = 0
    small.back_end.resnet_projection = 0
    network = build(small, "ComposedDetector").eval()
    waveforms_BT = torch.randn(2, 5000)
    with torch.no_grad():
        _, together_B2 = network(waveforms_BT)
        _, alone_12 = network(waveforms_BT[1:])
        assert network(waveforms_BT[:, :100])[1].isfinite().all()
    torch.testing.assert_close(together_B2[1:], alone_12, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("name", "setting", "value", "message"),
    [
        ("SSL_Nes2NetX", "nes2net_splits", (8, 3), " = .* features of 64 values cannot be divided"),
        ("SSL_SLS", "sls_samples", 800, " = 800 gives 2"),
        ("SSL_Conformer", "conformer_heads", 3, " = 3: frames of 16 values"),
        ("SSL_LCNN", "lcnn_projection", 15, ": LCNN pools 16 .* receives only 15"),
        ("SSL_ResNet18", "resnet_projection", 6, ": ResNet-18 needs at least 7 .* receives 6"),
        ("SSL_ECAPA", "ecapa_splits", 5, " = 5: 16 channels"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(name, setting, value, message, small):
    setattr(small.back_end, setting, value)
    with pytest.raises(UsageError, match=rf"back_end\.{setting}{message}"):
        build(small, name)


def test_a_back_end_of_ones_own_takes_a_few_lines(small, waveforms):
    class Mean(BackEnd):
        def __init__(self, dimension):
            super().__init__()
            self.output = torch.nn.Linear(dimension, 2)

        def forward(self, features_BLC):
            embeddings_BE = features_BLC.mean(dim=1)
            return embeddings_BE, self.output(embeddings_BE)

    class Mine(SSLDetector):
        def make_back_end(self, settings):
            return Mean(self.front_end.dimension)

    network = Mine(small).eval()
    features = network.front_end(waveforms).mean(dim=1)
    embeddings, logits = network(waveforms)
    assert torch.equal(embeddings, features)
    assert torch.equal(logits, network.back_end.output(features))
