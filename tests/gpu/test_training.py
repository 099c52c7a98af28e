"""The cost of a training step: waits, operations, memory. The numbers may only fall."""

import json

import pytest

from tests.gpu import ratchets

NETWORK, PRECISION, OPTIMISER = "network.network_class", "computing.precision", "network.optimizer"
OURS = "asdf.networks"


# Settings of steps of 2 clips per device.
CASES: dict[str, dict[str, object]] = {
    "AASIST behind wav2vec 2.0": {NETWORK: f"{OURS}.SSL_AASIST"},
    "AASIST": {NETWORK: f"{OURS}.AASIST"},
    "MHFA": {NETWORK: f"{OURS}.SSL_MHFA"},
    "ASP": {NETWORK: f"{OURS}.SSL_ASP"},
    "ASP, averaged weights": {NETWORK: f"{OURS}.SSL_ASP", "network.ema_decay": 0.999},
    "ASP, RAdam": {NETWORK: f"{OURS}.SSL_ASP", OPTIMISER: "torch.optim.RAdam"},
    "SLS": {NETWORK: f"{OURS}.SSL_SLS"},
    "Nes2Net-X": {NETWORK: f"{OURS}.SSL_Nes2NetX"},
    "AASIST, fp32": {NETWORK: f"{OURS}.SSL_AASIST", PRECISION: "fp32"},
    "AASIST, fp16": {NETWORK: f"{OURS}.SSL_AASIST", PRECISION: "fp16"},
    "AASIST, fp32, SGD": {NETWORK: f"{OURS}.SSL_AASIST", PRECISION: "fp32", OPTIMISER: "sgd"},
    "MHFA, fp16, SGD": {NETWORK: f"{OURS}.SSL_MHFA", PRECISION: "fp16", OPTIMISER: "sgd"},
    "WavLM, checkpointing": {
        NETWORK: f"{OURS}.SSL_MHFA",
        "front_end.architecture": "wavlm_base",
        "front_end.layer": 2,
        "front_end.gradient_checkpointing": True,
    },
    "masks, three minibatches": {
        NETWORK: f"{OURS}.SSL_MHFA",
        "front_end.time_mask_proportion": 0.1,
        "front_end.channel_mask_proportion": 0.1,
        "network.optimizer_step_interval": 3,
        "network.gradient_clip_norm": 1.0,
    },
}
ONE_WAIT = {"cudaEventSynchronize in distributed/gpus.py": 1}
WAIT_OF_A_SAVE = {"cudaEventSynchronize in training/checkpoints.py": 1}


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_the_host_waits_once_a_step_and_queues_no_more_than_it_did(on_null_gpu, processes):
    cases = json.dumps(list(CASES.values()))
    results = on_null_gpu("count_training", cases, processes=processes)
    named = dict(zip(CASES, results, strict=True))
    assert {name: result["waits"] for name, result in named.items()} == dict.fromkeys(
        CASES, ONE_WAIT
    )
    # A save in the same processes: the host waits for the copies of all tensors together.
    assert {name: result["save_waits"] for name, result in named.items()} == dict.fromkeys(
        CASES, WAIT_OF_A_SAVE
    )
    assert all(result["saved_weights"] for result in results)
    for name, result in named.items():
        costs = {unit: result[unit] for unit in ("operations", "collectives")}
        ratchets.check(f"step on {processes} GPUs: {name}", costs)


MASKS = {"front_end.time_mask_proportion": 0.1, "front_end.channel_mask_proportion": 0.1}
WAVLM = {"front_end.architecture": "wavlm_base", "front_end.layer": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "cases"),
    [
        (
            1,
            [
                {NETWORK: f"{OURS}.SSL_AASIST", **MASKS},
                {NETWORK: f"{OURS}.AASIST"},
                {NETWORK: f"{OURS}.SSL_MHFA", **WAVLM},
                {NETWORK: f"{OURS}.SSL_ASP"},
                {NETWORK: f"{OURS}.SSL_SLS"},
                {NETWORK: f"{OURS}.SSL_Nes2NetX"},
            ],
        ),
        # With batch norm over both devices.
        (2, [{NETWORK: f"{OURS}.SSL_ASP", **MASKS}]),
    ],
)
def test_networks_compile_to_one_graph_without_breaks(on_null_gpu, processes, cases):
    results = on_null_gpu("compile_networks", json.dumps(cases), processes=processes)
    assert results == [{"graphs": 1, "breaks": []}] * len(cases)


def test_a_step_of_xls_r_300m_takes_no_more_memory_and_operations_than_it_did(on_null_gpu):
    """14 clips of 4 s in bf16; the memory is the allocator's, without cuDNN's workspaces."""
    case = {
        NETWORK: f"{OURS}.SSL_AASIST",
        "front_end.architecture": "wav2vec2_xlsr_300m",
        "network.minibatch_size": 14,
    }
    cases = {
        "": case,
        ", norms in bf16": {**case, "computing.norms": "bf16"},
        ", checkpointing": {**case, "front_end.gradient_checkpointing": True},
        " in WavLM large's layout": {**case, "front_end.architecture": "wavlm_large"},
    }
    results = on_null_gpu("count_steps", json.dumps(list(cases.values())))
    assert [result["waits"] for result in results] == [ONE_WAIT] * len(cases)
    for name, result in zip(cases, results, strict=True):
        costs = {"operations": result["operations"], "bytes": result["peak_bytes"]}
        ratchets.check(f"step of XLS-R 300M{name}", costs)


def test_a_step_of_xls_r_300m_moves_no_more_bytes_than_it_did(on_null_gpu):
    """What operations read and write; norms in bf16, and what follows them, halve their part."""
    case = {
        NETWORK: f"{OURS}.SSL_AASIST",
        "front_end.architecture": "wav2vec2_xlsr_300m",
        "network.minibatch_size": 14,
    }
    long, short = on_null_gpu(
        "count_bytes", json.dumps([case, {**case, "computing.norms": "bf16"}])
    )
    ratchets.check("bytes moved by XLS-R 300M", {"moved": long})
    ratchets.check("bytes moved by XLS-R 300M, norms in bf16", {"moved": short})
    assert short < 0.8 * long
