"""Host synchronisations with the GPU: one per step and one per scored list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.scoring.computing import choose_scoring_precision
from asdf.scoring.score_list import build_list_scorer, score_list
from asdf.scoring.scorer import Scorer
from benchmarks.corpus import temporary_corpus
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.networks import NETWORKS, build, settings_of
from benchmarks.gpu.presence import has_setting, missing
from benchmarks.gpu.verdict import Line, equal, not_run
from benchmarks.gpu.watching import ALLOWED, Waits
from benchmarks.nets import AsdfSteps, make_batch

# The first steps build state for later ones.
WARM_UP = 4
GRAPHS = "computing.cuda_graphs"
ONCE = f"1 in {ALLOWED}"


def step_with(name: str, **more: Any) -> AsdfSteps:
    """Return the training step of a network on the first GPU, after warm-up."""
    device, settings = torch.device("cuda", 0), settings_of(name, **more)
    waveforms, labels = make_batch(2, settings.network.train_clip_size, device)
    step = AsdfSteps(settings, build(name).to(device), waveforms, labels)
    for _ in range(WARM_UP):
        step()
    return step


def in_words(locations: Counter[str]) -> str:
    """Return waits with their locations, as '1 in distributed/gpus.py'."""
    return (
        ", ".join(f"{count} in {location}" for location, count in sorted(locations.items()))
        or "none"
    )


def of_step(name: str, **more: Any) -> Line:
    """Return the waits of a step."""
    step = step_with(name, **more)
    with Waits() as waits:
        step()
    options = "".join(f", {key.partition('.')[2]} {value}" for key, value in more.items())
    return equal(f"{name}{options}: waits of a step", in_words(waits.locations), ONCE)


def every_network(setup: Setup) -> Iterable[Line]:
    """Steps in the precision that this GPU takes by itself."""
    for name in list(NETWORKS)[: setup.sizes.networks]:
        yield of_step(name)


def every_precision(setup: Setup) -> Iterable[Line]:
    """Steps of SSL_AASIST in fp32 and fp16, and of SGD with a loss scale."""
    for precision in ("fp32", "fp16"):
        yield of_step("SSL_AASIST", **{"computing.precision": precision})
    sgd = {"computing.precision": "fp16", "network.optimizer": "sgd"}
    yield of_step("SSL_MHFA", **sgd)


def cuda_graphs(setup: Setup) -> Iterable[Line]:
    """A step whose passes are replayed."""
    if has_setting(GRAPHS):
        yield of_step("SSL_AASIST", **{GRAPHS: True})
    else:
        yield not_run("SSL_AASIST, CUDA graphs: waits of a step", missing(GRAPHS))


def scoring(setup: Setup) -> Iterable[Line]:
    """A list of six batches, in the networks' float32."""
    device, settings = torch.device("cuda", 0), settings_of("SSL_AASIST")
    settings.network.minibatch_size, settings.network.eval_minibatch_size_factor = 1, 1.0
    settings.computing.network_dataloader_workers = 0
    network = build("SSL_AASIST").to(device)
    with temporary_corpus(6, 3.0) as corpus, Waits() as waits:
        score_list(
            build_list_scorer(network, settings, World(device=device)),
            corpus.utterances,
            corpus.lengths,
            settings,
            World(device=device),
            StopRequest(),
        )
    yield equal("scoring: waits of a list of 6 batches", in_words(waits.locations), ONCE)


def detector(setup: Setup) -> Iterable[Line]:
    """One batch of the Detector."""
    device = torch.device("cuda", 0)
    precision = choose_scoring_precision("fp32", device)
    scorer = Scorer(build("SSL_AASIST"), settings_of("SSL_AASIST").network, precision)
    batch = [np.zeros(32000, np.float32)] * 2
    scorer.score_waveforms(batch)
    with Waits() as waits:
        scorer.score_waveforms(batch)
    yield equal("Detector: waits of a batch", in_words(waits.locations), ONCE)


CHECKS: dict[str, Check] = {
    "networks": every_network,
    "precisions": every_precision,
    "CUDA graphs": cuda_graphs,
    "scoring": scoring,
    "detector": detector,
}
