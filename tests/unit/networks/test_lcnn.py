"""LCNN equals the challenge's baseline."""

from __future__ import annotations

import torch

from asdf.networks import LCNNBackEnd
from tests.unit.networks.inspection import count_parameters
from tests.unit.networks.official import load_drawn, official_case


def our_names(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the state without the number of the front end, of which the baseline has one."""
    renamed = {}
    for name, tensor in state.items():
        part, _, layer = name.split(".", 2)
        renamed[f"{part}.{layer}"] = tensor
    return renamed


def test_it_scores_as_the_official_code():
    case = official_case("lcnn")
    back_end = LCNNBackEnd(60, 0, 0.7).eval()
    state = our_names(case.state)
    # The baseline has one output; here it is the logit of bona fide.
    for name in ("m_output_act.weight", "m_output_act.bias"):
        state[name] = torch.cat([torch.zeros_like(state[name]), state[name]])
    load_drawn(back_end, state)
    with torch.no_grad():
        logits = back_end(case.inputs)[1]
    assert torch.equal(logits[:, 0], torch.zeros(2))
    torch.testing.assert_close(logits[:, 1:], case.outputs["logits"], atol=1e-4, rtol=1e-5)


def test_a_projection_comes_first():
    back_end = LCNNBackEnd(1024, 60, 0.7)
    assert count_parameters(back_end) == 269_729 + 97 + 1025 * 60
