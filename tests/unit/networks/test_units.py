"""Which networks can be divided over processes, and into what."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from asdf.errors import UsageError
from asdf.networks import build_network
from asdf.networks.units import check_divisible, check_network_divisible, encoder_units
from asdf.settings.sections import Sections
from tests import small_networks

FOLDER = Path(small_networks.__file__).parent


def settings_of(network_class: str, architecture: str = "tiny") -> Sections:
    settings = Sections()
    settings.network.network_class = network_class
    settings.front_end.architecture = architecture
    return settings


@pytest.mark.parametrize("network_class", ["asdf.networks.SSL_AASIST", "small_networks.FrontEnded"])
def test_units_are_the_encoder_layers_of_any_network_with_a_front_end(network_class: str) -> None:
    network = build_network(settings_of(network_class), FOLDER)
    layers = network.front_end.model.encoder.transformer.layers
    assert encoder_units(network) == list(layers)
    assert len(layers) == 2


def test_the_layer_that_has_all_position_biases_is_no_unit() -> None:
    with torch.device("meta"):
        network = build_network(settings_of("asdf.networks.SSL_ASP", "wavlm_base"))
    layers = network.front_end.model.encoder.transformer.layers
    assert encoder_units(network) == list(layers[1:])


def test_networks_that_cannot_be_divided_are_refused_before_they_are_built() -> None:
    check_network_divisible(settings_of("asdf.networks.SSL_ASP"), None)
    check_network_divisible(settings_of("small_networks.FrontEnded"), FOLDER)
    for network_class in ("asdf.networks.AASIST", "small_networks.Plain"):
        with pytest.raises(UsageError, match=f"True: {network_class} has no front end of the wav"):
            check_network_divisible(settings_of(network_class), FOLDER)


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        (torch.zeros(()), "a parameter, level, that is a single number"),
        (torch.zeros(3, 2).T, "a parameter, level, that is not contiguous"),
    ],
)
def test_parameters_that_cannot_be_divided_are_named(numbers: torch.Tensor, reason: str) -> None:
    network = build_network(settings_of("small_networks.FrontEnded"), FOLDER)
    check_divisible(network, "Mine")
    network.level = nn.Parameter(numbers)
    with pytest.raises(UsageError, match=f"Mine has {reason}"):
        check_divisible(network, "Mine")


def test_a_network_with_updates_is_divided_by_its_layers() -> None:
    settings = Sections()
    settings.front_end.architecture = "tiny"
    settings.lora.rank = 2
    network = build_network(settings)
    check_divisible(network, "SSL_AASIST")
    assert len(encoder_units(network)) == network.front_end.layers
