"""RawGAT-ST: of one length, its unused layers frozen; test_name_maps.py has its scores."""

from __future__ import annotations

import pytest
import torch

from asdf.errors import UsageError
from asdf.networks import RawGAT_ST, build_network, scoring_length
from asdf.settings.relations import contradictions
from asdf.settings.sections import Sections
from asdf.training.objective import check_clip_size
from tests.unit.networks.inspection import count_parameters, frozen_names, names_without_gradient

UNUSED = []
for encoder in ("encoder1", "encoder2"):
    for block in range(1, 6):
        for part in ("bn1", "conv_1"):
            UNUSED += [f"{encoder}.{block}.0.{part}.{kind}" for kind in ("weight", "bias")]


def sections(fusion: str = "mul") -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.RawGAT_ST"
    settings.back_end.rawgat_fusion = fusion
    return settings


def test_the_size_is_that_of_the_published_file():
    assert count_parameters(RawGAT_ST(sections("cat"))) == 445_546


@pytest.mark.slow
def test_what_learns_gets_a_gradient_and_the_rest_is_frozen():
    network = build_network(sections()).train()
    network(0.1 * torch.randn(2, 64600))[1].square().sum().backward()
    assert sorted(names_without_gradient(network)) == sorted(UNUSED)
    assert sorted(frozen_names(network)) == sorted(UNUSED)


def test_it_takes_one_length_and_hears_no_more():
    network = build_network(sections()).eval()
    assert scoring_length(network, 1000) == 1000
    assert scoring_length(network, 70_000) == 64_600
    settings = sections()
    settings.network.train_clip_size = 64_600
    check_clip_size(network, settings.network)
    settings.network.train_clip_size = 64_000
    with pytest.raises(UsageError, match=r"asdf\.networks\.RawGAT_ST takes 64600 samples only"):
        check_clip_size(network, settings.network)


def test_it_has_no_front_end():
    settings = sections()
    settings.front_end.front_end_class = "lfcc"
    (found,) = contradictions(settings)
    assert found.relation == "has no front end and cannot be combined with"
