"""The Conformer and its TCM variant equal the published code."""

from __future__ import annotations

import pytest
import torch

from asdf.networks import ConformerBackEnd, TCMBackEnd
from asdf.networks.back_ends.conformer import sinusoids
from asdf.settings.sections import BackEnd as BackEndSettings
from tests.unit.networks.official import load_drawn, official_case

CASES = [(ConformerBackEnd, "conformer"), (TCMBackEnd, "conformer_tcm")]


def build(network_class):
    """Build one of the sizes of the official cases, with an even kernel."""
    sizes = BackEndSettings(conformer_dimension=16, conformer_blocks=2, conformer_kernel=6)
    return network_class(8, sizes).eval()


@pytest.mark.parametrize(("network_class", "name"), CASES)
def test_it_scores_as_the_official_code(network_class, name):
    """On 541 frames with the class token, where distances above 512 are alike, and on few."""
    case = official_case(name)
    back_end = build(network_class)
    load_drawn(back_end, case.state)
    with torch.no_grad():
        logits = back_end(case.inputs)[1]
        short = back_end(case.inputs[:, :37])[1]
    torch.testing.assert_close(logits, case.outputs["logits"], atol=2e-5, rtol=0)
    torch.testing.assert_close(short, case.outputs["short"], atol=1e-5, rtol=0)


def test_positions_are_the_published_ones():
    expected = official_case("conformer_tcm").outputs["positions"]
    torch.testing.assert_close(sinusoids(10_000, 16)[::700], expected, atol=1e-6, rtol=0)
