"""A dry run's GPU memory compared with torch's allocator on GPUs that compute nothing."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from asdf.memory.case import Case as MemoryCase
from asdf.memory.case import scoring_memory
from asdf.memory.training_step import WORKSPACE, training_memory
from tests.gpu.count_training import settings_of

NETWORK, PRECISION = "network.network_class", "computing.precision"
SSL_AASIST = {NETWORK: "asdf.networks.SSL_AASIST"}
BASE = {**SSL_AASIST, "front_end.architecture": "wav2vec2_base"}
XLS_R = {
    **SSL_AASIST,
    "front_end.architecture": "wav2vec2_xlsr_300m",
    "network.minibatch_size": 14,
}
FP32 = {PRECISION: "fp32"}
CHECKPOINTS = {"front_end.gradient_checkpointing": True}
GIB = 2**30


@dataclass(frozen=True)
class Case:
    """Settings, and the training's peak in GiB as documents have it; None: they do not."""

    settings: dict[str, Any]
    gib: float | None = None


CASES = [
    Case(SSL_AASIST),
    Case({NETWORK: "asdf.networks.AASIST", "network.minibatch_size": 24}, 7.2),
    Case(BASE),
    Case({**BASE, **FP32}),
    Case({**BASE, **CHECKPOINTS, **FP32}),
    Case({**BASE, "front_end.frozen": True, "network.minibatch_size": 8}),
    Case({**BASE, "network.optimizer_step_interval": 2, "network.optimizer": "sgd"}),
    Case({NETWORK: "asdf.networks.SSL_MHFA", "front_end.architecture": "wavlm_base"}),
    Case({NETWORK: "asdf.networks.SSL_Nes2NetX", "front_end.dropout": 0.1}),
    Case(XLS_R, 8.5),
    Case({**XLS_R, **CHECKPOINTS}, 5.3),
    Case({**XLS_R, "computing.norms": "bf16"}, 7.6),
]
SHARDED = {"computing.shard_network": True}
SEVERAL = [
    SSL_AASIST,
    {**BASE, "network.optimizer_step_interval": 2},
    {**XLS_R, **SHARDED, **CHECKPOINTS},
]
# Of the whole network, and of one that processes divide.
WITHIN, WITHIN_PARTS = 0.03, 0.1
# The allocator takes blocks of 2 MiB for small tensors, which count where batches are small.
# And copies of AASIST's maps, which its layers share.
WITHIN_BYTES = 5 * 2**20


def training_peak(case: dict[str, Any], processes: int = 1) -> int:
    settings = settings_of(case)
    dtype = None if settings.computing.precision == "fp32" else torch.bfloat16
    return training_memory(
        MemoryCase(settings, settings.front_end.architecture, processes=processes, dtype=dtype)
    ).peak


def scoring_peaks(case: dict[str, Any]) -> list[int]:
    settings = settings_of(case)
    memory = scoring_memory(MemoryCase(settings, settings.front_end.architecture))
    return [memory.weights + WORKSPACE + batch.activations for batch in memory.batches]


@pytest.mark.slow
def test_the_memory_that_is_computed_is_what_the_allocator_holds(on_null_gpu):
    measured = on_null_gpu("measure_memory", json.dumps([case.settings for case in CASES]))
    for case, memory in zip(CASES, measured, strict=True):
        computed = training_peak(case.settings)
        assert computed == pytest.approx(memory["training"], rel=WITHIN, abs=WITHIN_BYTES), case
        if case.gib is not None:
            assert round(computed / GIB, 1) == case.gib, case
        expected = pytest.approx(memory["scoring"], rel=WITHIN, abs=WITHIN_BYTES)
        assert scoring_peaks(case.settings) == expected, case


@pytest.mark.slow
def test_the_memory_of_several_processes_has_buckets_of_gradients_or_parts_of_the_network(
    on_null_gpu,
):
    measured = on_null_gpu("measure_memory", json.dumps(SEVERAL), processes=2)
    for case, memory in zip(SEVERAL, measured, strict=True):
        assert training_peak(case, 2) == pytest.approx(memory["training"], rel=WITHIN_PARTS), case


@pytest.mark.slow
def test_a_dry_run_says_what_lets_a_training_fit_into_the_gpu_that_is_there(recipe, null_gpu):
    words = ["debug", "--dry-run", "network.network_class=asdf.networks.SSL_AASIST"]
    words += ["front_end.architecture=tiny", "network.train_clip_size=64600"]
    words += ["network.minibatch_size=64", "computing.precision=fp32"]
    outcome = recipe.run(*words, **null_gpu(gigabytes=2))
    assert outcome.status == 0, outcome.output
    for line in (
        "Null GPU (cuda:0) has 1.9 GiB",
        "warning: that does not fit. These would help; with the GPU memory that would be needed:",
        "  computing.precision='auto': 2.8 GiB",
        "  front_end.gradient_checkpointing=True: 3.0 GiB",
        "  front_end.frozen=True: 3.0 GiB",
        "  network.minibatch_size=16 network.optimizer_step_interval=4: 1.7 GiB, which fits",
        "  network.eval_minibatch_size_factor=0.25: 1.6 GiB, which fits",
    ):
        assert f"\n  {line}\n" in outcome.output, outcome.output
