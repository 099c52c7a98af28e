"""torch's strict deterministic mode refuses nothing that training does on a GPU."""

import json

import pytest

OURS = "asdf.networks"
NETWORK = "network.network_class"
CASES = [
    {NETWORK: f"{OURS}.SSL_AASIST", "front_end.gradient_checkpointing": True},
    {NETWORK: f"{OURS}.AASIST", "rawboost.on_device": True, "rawboost.algo": 4},
    {NETWORK: f"{OURS}.SSL_SLS"},
    {NETWORK: f"{OURS}.SSL_Nes2NetX"},
    {NETWORK: f"{OURS}.SSL_MHFA", "rawboost.on_device": True, "rawboost.algo": 8},
    {NETWORK: f"{OURS}.SSL_ASP"},
    {
        NETWORK: f"{OURS}.SSL_MHFA",
        "front_end.architecture": "wavlm_base",
        "front_end.layer": 2,
        "front_end.time_mask_proportion": 0.1,
        "front_end.channel_mask_proportion": 0.1,
        "computing.precision": "fp32",
    },
]
OUTSIDE = {"strict": False, "warns": False, "cudnn": False, "benchmark": True, "tf32": False}
WITHIN = {"strict": True, "warns": False, "cudnn": True, "benchmark": False, "tf32": True}
WORKSPACE = ":4096:8"


# Of two processes with batch norm over both, and gradients exchanged in buckets.
@pytest.mark.slow_but("1-cases0")
@pytest.mark.parametrize(("processes", "cases"), [(1, CASES), (2, CASES[3:4])])
def test_a_step_is_taken_with_the_flags_set_and_none_refused(on_null_gpu, processes, cases):
    end, results = on_null_gpu("train_deterministic", json.dumps(cases), processes=processes)
    assert [result["refused"] for result in results] == [""] * len(cases)
    # What torch recorded at the start of each forward pass: in the first step buckets are laid out
    # again, before the first gradients are exchanged.
    layouts = [[0, 1]] if processes > 1 else [[]] * len(cases)
    assert [result["laid_out"] for result in results] == layouts
    for result in results:
        assert result["within"] == {**WITHIN, "workspace": WORKSPACE}
        assert result["after"] == {**OUTSIDE, "workspace": WORKSPACE}
    assert end == {**OUTSIDE, "workspace": None}
