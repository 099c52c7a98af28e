"""What a network takes on two GPUs that divide it. The numbers may only fall."""

import json

import pytest

from tests.gpu import ratchets
from tests.gpu.test_training import ONE_WAIT

NETWORK = {"network.network_class": "asdf.networks.SSL_AASIST"}
LAYERS, DIMENSION = 12, 512
ENCODER = {
    "front_end.architecture": repr(
        {
            "conv_layers": ((128, 10, 5), *[(128, 3, 2)] * 4, *[(128, 2, 2)] * 2),
            "extractor_mode": "layer_norm",
            "conv_bias": True,
            "dimension": DIMENSION,
            "layers": LAYERS,
            "heads": 8,
            "feed_forward": 4 * DIMENSION,
            "layer_norm_first": True,
        }
    ),
    "network.train_clip_size": 16000,
    "network.gradient_clip_norm": 1.0,
}
LAYER_BYTES = 4 * (12 * DIMENSION**2 + 13 * DIMENSION)
# cuBLAS takes one of 32 MiB from the allocator for each thread that computes.
WORKSPACES = 2 * 2**25
# Of what pairs of AASIST's nodes are: made once.
KINDS = 2**16


@pytest.mark.slow
def test_a_gpu_holds_its_part_and_one_layer(on_null_gpu):
    (taken,) = on_null_gpu("count_sharding", json.dumps([{**NETWORK, **ENCODER}]), processes=2)
    weights = taken["weights"]
    assert weights > LAYERS * LAYER_BYTES
    small = 0.01 * weights
    assert taken["waits"] == ONE_WAIT
    # Built on the CPU, the network is divided there; a layer at a time is moved as a whole.
    assert taken["built"] <= weights / 2 + small
    assert taken["building"] <= weights / 2 + LAYER_BYTES + small
    # Between steps: weights and Adam's two moments.
    assert taken["between"] <= 3 * weights / 2 + WORKSPACES + KINDS + small
    ratchets.check(
        "step of a network that two GPUs divide",
        {
            "peak": taken["step"],
            "operations": taken["operations"],
            "collectives": taken["collectives"],
        },
    )
    # Scoring has a whole copy for a while, and a checkpoint one parameter after the other.
    assert taken["whole"] <= taken["between"] + weights + small
    assert taken["after whole"] <= taken["between"]
    assert taken["collecting"] <= taken["between"] + LAYER_BYTES
