"""CUDA graphs: a step's cost to the host, when they are replayed, and what is refused."""

import json

from tests.gpu import ratchets
from tests.gpu.test_training import NETWORK, ONE_WAIT, OPTIMISER, OURS, PRECISION

# A step's replays, their inputs, the optimiser, and what is known of the gradient.
CASES: list[tuple[str, dict[str, object], int]] = [
    ("AASIST behind wav2vec 2.0", {NETWORK: f"{OURS}.SSL_AASIST"}, 2),
    ("AASIST", {NETWORK: f"{OURS}.AASIST"}, 2),
    ("fp16", {NETWORK: f"{OURS}.SSL_AASIST", PRECISION: "fp16"}, 2),
    ("SGD", {NETWORK: f"{OURS}.SSL_AASIST", PRECISION: "fp32", OPTIMISER: "sgd"}, 2),
    ("checkpointing", {NETWORK: f"{OURS}.SSL_AASIST", "front_end.gradient_checkpointing": True}, 2),
    ("dropout", {NETWORK: f"{OURS}.SSL_AASIST", "front_end.dropout": 0.1}, 2),
    (
        "WavLM, three minibatches",
        {
            NETWORK: f"{OURS}.SSL_MHFA",
            "front_end.architecture": "wavlm_base",
            "front_end.layer": 2,
            "network.optimizer_step_interval": 3,
            "network.gradient_clip_norm": 1.0,
        },
        6,
    ),
    (
        "XLS-R 300M",
        {
            NETWORK: f"{OURS}.SSL_AASIST",
            "front_end.architecture": "wav2vec2_xlsr_300m",
            "network.minibatch_size": 14,
        },
        2,
    ),
]


def test_a_step_with_graphs_is_a_few_launches_and_one_wait(on_null_gpu):
    settings = [{**case, "computing.cuda_graphs": True} for _, case, _ in CASES]
    results = on_null_gpu("count_steps", json.dumps(settings))
    for (name, _, replays), result in zip(CASES, results, strict=True):
        assert result["waits"] == ONE_WAIT, name
        assert result["replays"] == replays, name
        ratchets.check(f"step with graphs: {name}", {"operations": result["operations"]})


def test_graphs_are_replayed_for_whole_minibatches_and_captured_anew_when_the_front_end_learns(
    on_null_gpu,
):
    unfrozen, three_minibatches, drawing, waiting, chosen, own, streams = on_null_gpu(
        "replay_steps"
    )
    assert streams == 1
    # An epoch of six whole windows and a shorter one, then a whole epoch; the first use no graphs.
    assert [replays for replays, _, _ in unfrozen] == 2 * [0, 0, 0, 2, 2, 2, 0, 2]
    assert [learning for _, _, learning in unfrozen] == 8 * [175] + 8 * [225]
    replayed = [replays for replays, _, _ in three_minibatches]
    assert replayed == [0, 0, 0, 6, 6, 6, 0, 6, *6 * [6], 0, 6]
    # The first minibatch writes the gradient, the others add to that of each parameter.
    (_, once, learning), (_, thrice, _) = unfrozen[-1], three_minibatches[-1]
    assert thrice == 3 * once + 2 * learning
    # By themselves they are used for networks of ASDF, not for one's own.
    assert [replays for replays, _, _ in chosen] == [0, 0, 0, 2, 2, 2, 0, 2, *6 * [2], 0, 2]
    assert [replays for replays, _, _ in own] == 16 * [0]
    assert drawing.startswith("computing.cuda_graphs = True: in training the network draws random")
    reason = "cannot be captured: CUDA error: operation not permitted when stream is capturing. "
    assert reason in waiting
    assert waiting.endswith("Set computing.cuda_graphs = False to train without.")


def test_the_null_gpu_refuses_in_a_capture_what_a_gpu_refuses(on_null_gpu):
    outcomes = on_null_gpu("capture_work")
    for work in ("add", "join_a_stream"):
        assert outcomes.pop(work) == {"kernels": 0, "captured": 1, "replays": 1, "replayed": 1}
    refused = "CUDA error: operation not permitted when stream is capturing"
    assert outcomes == {
        "wait_for_stream": refused,
        "wait_for_device": refused,
        "wait_for_event": "CUDA error: operation not permitted on an event last recorded in a "
        "capturing stream",
        "copy_from_ordinary_memory": "status 900",
        "leave_a_stream": "CUDA error: capturing stream has unjoined work",
        "wait_for_a_stream_outside": "CUDA error: dependency created on uncaptured work in "
        "another stream",
    }
