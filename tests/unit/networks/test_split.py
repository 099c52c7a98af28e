"""A detector in two parts: together they are the whole, and the first part has an identity."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from asdf.errors import UsageError
from asdf.networks import AASIST_L, ASPBackEnd, SSLDetector, build_network
from asdf.networks.split import FromFeatures, check_split, feature_identity, state_digest
from asdf.settings.sections import Sections
from tests.unit.networks.inspection import names_with_gradient

# Back ends of features, of states and of layers; a sum and a chosen layer.
KINDS = [
    *(("SSL_AASIST", "last"), ("SSL_MHFA", "last"), ("SSL_SLS", "last")),
    *(("SSL_ASP", "weighted"), ("SSL_ASP", 1), ("SSL_MHFA", 1)),
]


def build(settings: Sections, network_class: str = "SSL_ASP", **front_end: object) -> SSLDetector:
    settings.network.network_class = f"asdf.networks.{network_class}"
    settings.front_end.frozen = True
    settings.back_end.sls_samples = 8000
    for name, value in front_end.items():
        setattr(settings.front_end, name, value)
    torch.manual_seed(0)
    network = build_network(settings)
    assert isinstance(network, SSLDetector)
    return network


def stacked(features: torch.Tensor | list[torch.Tensor]) -> torch.Tensor:
    return features if isinstance(features, torch.Tensor) else torch.stack(features, dim=1)


@pytest.mark.parametrize(("network_class", "layer"), KINDS)
def test_the_parts_make_the_whole_with_the_same_gradients(tiny, waveforms, network_class, layer):
    """In training mode, with masks and dropout in the settings: a frozen front end has neither."""
    drops = {
        "dropout": 0.5,
        "layer_drop": 0.5,
        "time_mask_proportion": 0.5,
        "channel_mask_proportion": 0.5,
    }
    results = []
    for split in (False, True):
        network = build(tiny, network_class, layer=layer, **drops).train()
        torch.manual_seed(1)
        model = FromFeatures(network) if split else network
        inputs = stacked(network.front_end_features(waveforms)) if split else waveforms
        embeddings, logits = model(inputs)
        logits.square().sum().backward()
        gradients = {
            name: network.get_parameter(name).grad for name in names_with_gradient(network)
        }
        assert gradients
        results.append((embeddings, logits, gradients, network.state_dict()))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)


def test_features_are_taken_up_in_float32(tiny, waveforms):
    network = build(tiny).eval()
    features = stacked(network.front_end_features(waveforms)).half()
    embeddings, logits = FromFeatures(network)(features)
    assert torch.equal(logits, network.back_end(features.float())[1])
    assert embeddings.dtype == torch.float32


def test_a_frame_level_head_takes_cached_features(tiny, waveforms):
    tiny.localisation.enabled = True
    network = build(tiny, "SSL_ASP").eval()
    with torch.no_grad():
        expected = network(waveforms)
        outputs = FromFeatures(network)(stacked(network.front_end_features(waveforms)))
    assert torch.equal(outputs.extras["frames"], expected.extras["frames"])
    assert torch.equal(outputs.logits_B2, expected.logits_B2)


def test_clips_shorter_or_longer_than_the_network_takes_are_fitted_in_the_first_part(
    tiny, waveforms
):
    fixed = build(tiny, "SSL_SLS")
    features = stacked(fixed.front_end_features(waveforms[:, :5000]))
    assert features.shape == (2, 2, 24, 64)
    short = build(tiny, "SSL_AASIST")
    features = stacked(short.front_end_features(waveforms[:, :400]))
    assert features.shape == (2, 3, 64)


def test_the_identity_is_of_what_the_features_depend_on(tiny):
    identities = [
        feature_identity(build(tiny)),
        feature_identity(build(tiny, layer=1)),
        feature_identity(build(tiny, layer="weighted")),
        feature_identity(build(tiny, layer="last", normalize_waveforms=True)),
        feature_identity(build(tiny, "SSL_MHFA", normalize_waveforms=False)),
        feature_identity(build(tiny, "SSL_SLS")),
        feature_identity(build(tiny, "SSL_AASIST")),
    ]
    network = build(tiny)
    with torch.no_grad():
        first_layer = network.front_end.model.encoder.transformer.layers[0]
        first_layer.attention.k_proj.weight[0, 0] += 1e-6
    identities.append(feature_identity(network))
    # MHFA and a learned sum take the same hidden states; so may share them.
    assert identities[2] == identities[4]
    del identities[4]
    for first, second in itertools.combinations(identities, 2):
        assert first != second


def test_what_learns_or_sleeps_behind_a_frozen_front_end_changes_no_identity(tiny):
    network = build(tiny, layer="weighted")
    before = feature_identity(network)
    with torch.no_grad():
        network.front_end.layer_sum.weights += 1
        for parameter in network.back_end.parameters():
            parameter += 1
    assert feature_identity(network) == before
    assert (
        feature_identity(build(tiny, layer="weighted", dropout=0.5, time_mask_proportion=0.5))
        == before
    )


def test_the_digest_distinguishes_names_types_shapes_and_numbers():
    def digest(
        name: str = "a",
        dtype: torch.dtype = torch.float32,
        shape: tuple[int, ...] = (4,),
        first: float = 0.0,
    ):
        module = nn.Module()
        tensor = torch.zeros(shape, dtype=dtype)
        tensor.view(-1)[0] = first
        module.register_buffer(name, tensor)
        return state_digest(module)

    kinds = [
        {},
        {"name": "b"},
        {"dtype": torch.int32},
        {"dtype": torch.bfloat16},
        {"shape": (2, 2)},
        {"first": 1e-30},
    ]
    digests = {digest(**kind) for kind in kinds}
    assert len(digests) == len(kinds)
    assert digest() == digest()


class Bare(nn.Module):
    pass


class Mine(SSLDetector):
    def make_back_end(self, settings):
        return ASPBackEnd(self.front_end.dimension, 4)


class Whole(Mine):
    def forward(self, waveforms_BT):
        return super().forward(waveforms_BT * 2)


class Louder(Mine):
    def front_end_features(self, waveforms_BT):
        return super().front_end_features(waveforms_BT * 2)


def test_networks_that_cannot_be_split_are_refused(tiny):
    check_split(Mine)
    with pytest.raises(
        UsageError, match=r"cache_features = True: Bare has no front end of ASDF whose"
    ):
        check_split(Bare)
    with pytest.raises(UsageError, match="Bare has no front end"):
        FromFeatures(Bare())
    with pytest.raises(UsageError, match="AASIST_L has no front end"):
        check_split(AASIST_L)
    for kind, method in ((Whole, "forward"), (Louder, "front_end_features")):
        with pytest.raises(
            UsageError, match=rf"{kind.__name__} overrides {method}, which training on cached"
        ):
            check_split(kind)


def test_a_front_end_that_learns_or_is_another_has_no_identity(tiny):
    network = build(tiny)
    network.front_end.freeze(False)
    with pytest.raises(UsageError, match="the front end of SSL_ASP is not frozen, or its class"):
        feature_identity(network)
    network.front_end.freeze(True)
    feature_identity(network)
    network.front_end = nn.Sequential(network.front_end)
    with pytest.raises(UsageError, match="is not frozen, or its class"):
        feature_identity(network)
