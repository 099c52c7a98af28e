"""The cost of a training step, with and without graphs: waits, operations, memory; determinism.

The numbers may only fall.
"""

import json
import re

import pytest

from asdf.training.graphs import _MOVE_ENDS
from tests.conftest import ROOT
from tests.gpu import ratchets
from tests.gpu.ratchets import FOLDER

NETWORK, PRECISION, OPTIMISER = "network.network_class", "computing.precision", "network.optimizer"
OURS = "asdf.networks"


MASKS = {"front_end.time_mask_proportion": 0.1, "front_end.channel_mask_proportion": 0.1}
THREE_MINIBATCHES = {"network.optimizer_step_interval": 3, "network.gradient_clip_norm": 1.0}
CHECKPOINTING = {"front_end.gradient_checkpointing": True}
AASIST = {NETWORK: f"{OURS}.SSL_AASIST"}
RAW_AASIST = {NETWORK: f"{OURS}.AASIST"}
MHFA = {NETWORK: f"{OURS}.SSL_MHFA"}
ASP = {NETWORK: f"{OURS}.SSL_ASP"}
SLS = {NETWORK: f"{OURS}.SSL_SLS"}
NES2NET = {NETWORK: f"{OURS}.SSL_Nes2NetX"}
WAVLM = {**MHFA, "front_end.architecture": "wavlm_base", "front_end.layer": 2}
# Settings of steps of 2 clips per device.
CASES: dict[str, dict[str, object]] = {
    "AASIST behind wav2vec 2.0": AASIST,
    "AASIST": RAW_AASIST,
    "MHFA": MHFA,
    "ASP": ASP,
    "ASP, averaged weights": {**ASP, "network.ema_decay": 0.999},
    "ASP, RAdam": {**ASP, OPTIMISER: "torch.optim.RAdam"},
    "SLS": SLS,
    "Nes2Net-X": NES2NET,
    "AASIST, fp32": {**AASIST, PRECISION: "fp32"},
    "AASIST, fp16": {**AASIST, PRECISION: "fp16"},
    "AASIST, fp32, SGD": {**AASIST, PRECISION: "fp32", OPTIMISER: "sgd"},
    "MHFA, fp16, SGD": {**MHFA, PRECISION: "fp16", OPTIMISER: "sgd"},
    "WavLM, checkpointing": {**WAVLM, **CHECKPOINTING},
    "masks, three minibatches": {**MHFA, **MASKS, **THREE_MINIBATCHES},
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "cases"),
    [
        (1, [{**AASIST, **MASKS}, RAW_AASIST, {**WAVLM, "front_end.layer": 1}, ASP, SLS, NES2NET]),
        # With batch norm over both devices.
        (2, [{**ASP, **MASKS}]),
    ],
)
def test_networks_compile_to_one_graph_without_breaks(on_null_gpu, processes, cases):
    results = on_null_gpu("compile_networks", json.dumps(cases), processes=processes)
    assert results == [{"graphs": 1, "breaks": []}] * len(cases)


XLS_R = {**AASIST, "front_end.architecture": "wav2vec2_xlsr_300m", "network.minibatch_size": 14}


def test_a_step_of_xls_r_300m_takes_no_more_memory_and_operations_than_it_did(on_null_gpu):
    """14 clips of 4 s in bf16; the memory is the allocator's, without cuDNN's workspaces."""
    cases = {
        "": XLS_R,
        ", norms in bf16": {**XLS_R, "computing.norms": "bf16"},
        ", checkpointing": {**XLS_R, "front_end.gradient_checkpointing": True},
        " in WavLM large's layout": {**XLS_R, "front_end.architecture": "wavlm_large"},
    }
    results = on_null_gpu("count_training", json.dumps(list(cases.values())), "steps")
    assert [result["waits"] for result in results] == [ONE_WAIT] * len(cases)
    for name, result in zip(cases, results, strict=True):
        costs = {"operations": result["operations"], "bytes": result["peak_bytes"]}
        ratchets.check(f"step of XLS-R 300M{name}", costs)


def test_a_step_of_xls_r_300m_moves_no_more_bytes_than_it_did(on_null_gpu):
    """What operations read and write; norms in bf16, and what follows them, halve their part."""
    cases = [XLS_R, {**XLS_R, "computing.norms": "bf16"}]
    long, short = on_null_gpu("count_bytes", json.dumps(cases))
    ratchets.check("bytes moved by XLS-R 300M", {"moved": long})
    ratchets.check("bytes moved by XLS-R 300M, norms in bf16", {"moved": short})
    assert short < 0.8 * long


# A step's replays, their inputs, the optimiser, and what is known of the gradient.
GRAPHED: list[tuple[str, dict[str, object], int]] = [
    ("AASIST behind wav2vec 2.0", AASIST, 2),
    ("AASIST", RAW_AASIST, 2),
    ("fp16", {**AASIST, PRECISION: "fp16"}, 2),
    ("SGD", {**AASIST, PRECISION: "fp32", OPTIMISER: "sgd"}, 2),
    ("checkpointing", {**AASIST, **CHECKPOINTING}, 2),
    ("dropout", {**AASIST, "front_end.dropout": 0.1}, 2),
    ("WavLM, three minibatches", {**WAVLM, **THREE_MINIBATCHES}, 6),
    ("XLS-R 300M", XLS_R, 2),
]


def test_a_step_with_graphs_is_a_few_launches_and_one_wait(on_null_gpu):
    settings = [{**case, "computing.cuda_graphs": True} for _, case, _ in GRAPHED]
    results = on_null_gpu("count_training", json.dumps(settings), "steps")
    for (name, _, replays), result in zip(GRAPHED, results, strict=True):
        assert result["waits"] == ONE_WAIT, name
        assert result["replays"] == replays, name
        ratchets.check(f"step with graphs: {name}", {"operations": result["operations"]})


@pytest.mark.skipif(_MOVE_ENDS is None, reason="this torch does not capture beside DDP")
@pytest.mark.slow_but("tiny")
@pytest.mark.parametrize(
    "cases",
    [
        [
            ({NETWORK: f"{OURS}.SSL_AASIST", "computing.cuda_graphs": "auto"}, 0),
            ({NETWORK: f"{OURS}.SSL_MHFA", "computing.cuda_graphs": "auto"}, 3),
            ({NETWORK: f"{OURS}.SSL_AASIST", "computing.cuda_graphs": True}, 3),
        ],
        [({**XLS_R, "computing.cuda_graphs": True}, 3)],
    ],
    ids=["tiny", "XLS-R 300M"],
)
def test_two_gpus_exchange_gradients_after_the_replays(on_null_gpu, cases):
    """Batch norm over both exchanges within the graphs, and only on request."""
    settings = json.dumps([settings for settings, _ in cases])
    results = on_null_gpu("count_training", settings, "steps", processes=2)
    for result, (_, replays) in zip(results, cases, strict=True):
        assert result["replays"] == replays
        assert result["waits"] == ONE_WAIT
        assert not replays or result["operations"] + result["collectives"] <= 100


def test_graphs_are_replayed_for_whole_minibatches_and_captured_anew_when_the_front_end_learns(
    on_null_gpu,
):
    results = on_null_gpu("replay_steps")
    unfrozen, three_minibatches, drawing, waiting, chosen, *left_out = results[:8]
    own, differing, transformers, streams = results[8:]
    assert streams == 1
    # An epoch of six whole windows and a shorter one, then a whole epoch; the first use no graphs.
    assert [replays for replays, _, _ in unfrozen] == 2 * [0, 0, 0, 2, 2, 2, 0, 2]
    assert [learning for _, _, learning in unfrozen] == 8 * [175] + 8 * [225]
    replayed = [replays for replays, _, _ in three_minibatches]
    assert replayed == [0, 0, 0, 6, 6, 6, 0, 6, *6 * [6], 0, 6]
    # The first minibatch writes the gradient, the others add to that of each parameter.
    (_, once, learning), (_, thrice, _) = unfrozen[-1], three_minibatches[-1]
    assert thrice == 3 * once + 2 * learning
    # By themselves they are used for networks of ASDF, and for one's own that can be captured: the
    # first step with graphs compares a replay with a pass without.
    assert [replays for replays, _, _ in chosen] == [0, 0, 0, 2, 2, 2, 0, 2, *6 * [2], 0, 2]
    assert [replays for replays, _, _ in own] == [0, 0, 0, 4, 2, 2, 0, 2, *6 * [2], 0, 2]
    assert [replays for replays, _, _ in differing] == [0, 0, 0, 2, *12 * [0]]
    if transformers is not None:
        assert [replays for replays, _, _ in transformers] == [replays for replays, _, _ in own]
    # A capture that failed leaves the device's random numbers to the steps without.
    for steps in left_out:
        assert [replays for replays, _, _ in steps] == 16 * [0]
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


DETERMINISTIC = [
    {**AASIST, **CHECKPOINTING},
    {**RAW_AASIST, "rawboost.on_device": True, "rawboost.algo": 4},
    SLS,
    NES2NET,
    {**MHFA, "rawboost.on_device": True, "rawboost.algo": 8},
    ASP,
    {**WAVLM, **MASKS, PRECISION: "fp32"},
]
OUTSIDE = {"strict": False, "warns": False, "cudnn": False, "benchmark": True, "tf32": False}
WITHIN = {"strict": True, "warns": False, "cudnn": True, "benchmark": False, "tf32": True}
WORKSPACE = ":4096:8"


# Of two processes with batch norm over both, and gradients exchanged in buckets.
@pytest.mark.slow_but("1-cases0")
@pytest.mark.parametrize(("processes", "cases"), [(1, DETERMINISTIC), (2, DETERMINISTIC[3:4])])
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


STEPS = (
    "step of XLS-R 300M",
    "step of XLS-R 300M, norms in bf16",
    "step of XLS-R 300M in WavLM large's layout",
)


def operations(version: str) -> list[str]:
    costs = json.loads((FOLDER / f"torch-{version}.json").read_text())
    return [f"{costs[step]['operations']:,.0f}" for step in STEPS]


def test_the_page_has_the_operations_of_both_versions_of_torch():
    page = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    xls_r, short, wavlm = operations("2.14")
    assert f"| XLS-R 300M + AASIST | {xls_r} |" in page
    assert f"| the same, `computing.norms='bf16'` | {short} |" in page
    assert f"| WavLM large + AASIST | {wavlm} |" in page
    stated = re.search(r"torch 2\.11 queues (.+?) for WavLM large", page, re.DOTALL)
    assert re.findall(r"\d,\d{3}", stated[1]) == operations("2.11")
