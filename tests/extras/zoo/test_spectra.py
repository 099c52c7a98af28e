"""lab260's Spectra networks equal code that is not ours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torchaudio
from scipy.interpolate import BSpline

from asdf.extras.zoo.networks.spectra import DEGREE, INTERVALS, SplineMap
from asdf.networks import (
    SpectraAASIST3BackEnd,
    SpectraAASISTBackEnd,
    SpectraECAPABackEnd,
    scoring_length,
)
from tests.unit.networks.conftest import build
from tests.unit.networks.inspection import count_parameters
from tests.unit.networks.official import load_drawn, official_case

CASES = {
    "spectra_aasist": SpectraAASISTBackEnd,
    "spectra_aasist3": SpectraAASIST3BackEnd,
    "spectra_ecapa": SpectraECAPABackEnd,
}


@pytest.mark.parametrize("name", CASES)
def test_it_scores_as_other_code(name):
    case = official_case(name)
    back_end = CASES[name](8).eval()
    knots = {key: value for key, value in back_end.state_dict().items() if key.endswith(".grid")}
    load_drawn(back_end, {**case.state, **knots})
    with torch.no_grad():
        logits = back_end(case.inputs)[1]
        short = back_end(case.inputs[:, :12])[1]
    torch.testing.assert_close(logits, case.outputs["logits"], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(short, case.outputs["short"], atol=1e-4, rtol=1e-4)


def test_the_size_is_the_published_one():
    """With the front end of transformers, 315,438,720 parameters, it is the card's 318.95 M."""
    with torch.device("meta"):
        size = count_parameters(SpectraAASIST3BackEnd(1024))
    assert round((size + 315_438_720) / 1e6, 2) == 318.95


def test_a_layer_is_its_formula_and_has_its_gradient():
    torch.manual_seed(0)
    layer = SplineMap(2, 3).double()
    x = torch.empty(4, 5, 2, dtype=torch.float64).uniform_(-0.99, 0.99).requires_grad_()
    knots = np.arange(-DEGREE, INTERVALS + DEGREE + 1) * 2 / INTERVALS - 1
    rows = x.detach().reshape(-1, 2).numpy()
    expected = np.zeros((20, 3))
    for output in range(3):
        for value in range(2):
            coefficients = layer.spline_weight[output, value] * layer.spline_scaler[output, value]
            spline = BSpline(knots, coefficients.detach().numpy(), DEGREE)
            expected[:, output] += spline(rows[:, value])
            # Of a PReLU as it is drawn.
            rectified = np.where(rows[:, value] > 0, rows[:, value], 0.25 * rows[:, value])
            expected[:, output] += layer.base_weight[output, value].item() * rectified
    got = layer(x)
    np.testing.assert_allclose(got.detach().numpy().reshape(20, 3), expected, atol=1e-12)
    assert torch.autograd.gradcheck(layer, (x,))
    assert layer.bases(torch.tensor([[1.6, -9.0]], dtype=torch.float64)).abs().max() == 0


def test_short_recordings_are_repeated_after_the_pre_emphasis(small):
    network = build(small, "SSL_SpectraECAPA").eval()
    short = torch.randn(1, 3000, generator=torch.Generator().manual_seed(0))
    emphasised = torchaudio.functional.preemphasis(short)
    repeated = emphasised.repeat(1, 3)[:, :8000]
    with torch.no_grad():
        expected = network.back_end(network.front_end(repeated))[1]
        got = network(short)[1]
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)


def test_frames_beyond_the_positions_are_cut_off(small):
    network = build(small, "SSL_SpectraAASIST").eval()
    assert scoring_length(network, 10**6) == network.longest_input
    assert network.front_end(torch.zeros(1, network.longest_input)).shape[1] == 400
    long = torch.randn(1, 140_000, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        cut = network(long[:, : network.longest_input])[1]
        assert torch.equal(network(long)[1], cut)
