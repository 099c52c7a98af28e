"""Epochs of a frozen front end: features computed once and saved, or anew in every epoch.

Both sides are ASDF's training step behind its loader, on clips of 4 s from FLACs; one reads kept
features instead. The time of the first pass, which computes and writes them, is in the notes. Only
AASIST learns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.utils.data import Dataset

from asdf.data.datasets import TrainingClips
from asdf.data.feature_cache import FeatureCache, FeaturePass, identity_of
from asdf.data.loaders import BatchLoader
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.networks import SSLDetector
from asdf.networks.split import feature_identity
from asdf.settings.sections import Sections
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from benchmarks.corpus import TemporaryCorpus, temporary_corpus
from benchmarks.harness import in_turns
from benchmarks.nets import SAMPLES, make_network, make_settings
from benchmarks.rows import Row, compared, unmeasured

PEER = "features computed in every epoch"
TARGET = 10.0


def rows(quick: bool) -> Iterator[Row]:
    """Yield seconds per epoch after the first."""
    cpu = torch.device("cpu")
    if quick:
        yield _on(cpu, "tiny", 4, 2, 8000, 2, None)
    else:
        yield _on(cpu, "wav2vec2_base", 32, 8, SAMPLES, 3, None)
        yield _on(cpu, "wav2vec2_xlsr_300m", 16, 8, SAMPLES, 2, TARGET)
    if torch.cuda.is_available():
        yield _on(torch.device("cuda", 0), "wav2vec2_xlsr_300m", 320, 32, SAMPLES, 5, TARGET)
    else:
        yield unmeasured(
            "wav2vec2_xlsr_300m + AASIST, bf16, cuda", "s", PEER, "no CUDA device", TARGET
        )


def _on(
    device: torch.device,
    architecture: str,
    utterances: int,
    minibatch: int,
    samples: int,
    rounds: int,
    target: float | None,
) -> Row:
    world = World(device=device)
    settings = make_settings(architecture, minibatch, samples, "auto")
    settings.front_end.frozen, settings.network.clip_position = True, "start"
    settings.computing.network_dataloader_workers = 0 if device.type == "cpu" else 8
    network = make_network(settings, device)
    assert isinstance(network, SSLDetector)
    with temporary_corpus(utterances) as corpus, TemporaryDirectory(prefix="asdf-bench-") as folder:
        clips = TrainingClips(
            corpus.utterances,
            corpus.lengths,
            samples,
            settings.rawboost,
            settings.sad,
            seed=0,
            position="start",
        )
        start = time.perf_counter()
        cached = cache_features(network, clips, corpus, settings, world, Path(folder))
        first_pass = time.perf_counter() - start
        times = in_turns(
            {
                "asdf": epochs(network, cached, corpus, settings, world, from_features=True),
                "peer": epochs(network, clips, corpus, settings, world, from_features=False),
            },
            rounds,
        )
    what = f"{architecture} + AASIST, {utterances} x {samples / 16000:.1f} s, {device.type}"
    note = f"the first pass took {first_pass:.1f} s"
    return compared(what, "s", times["asdf"], PEER, times["peer"], target=target, note=note)


def cache_features(
    network: SSLDetector,
    clips: Dataset,
    corpus: TemporaryCorpus,
    settings: Sections,
    world: World,
    folder: Path,
) -> Dataset:
    """Return the features of the clips, computed and written below `folder`."""
    loader = BatchLoader(clips, 0, world)
    work = FeaturePass(
        network.front_end_features,
        loader,
        corpus.utterances,
        settings.network,
        world,
        StopRequest(),
    )
    identity = identity_of(feature_identity(network), corpus.utterances, corpus.lengths, settings)
    return work.fill(FeatureCache(folder, identity, work.shape()))


def epochs(
    network: SSLDetector,
    items: Dataset,
    corpus: TemporaryCorpus,
    settings: Sections,
    world: World,
    from_features: bool,
) -> Callable[[], float]:
    """Return a function that trains one more epoch at each call and returns its mean loss."""
    network.train()
    step, progress, numbers = (
        Step(network, corpus.utterances, settings, world, from_features),
        Progress(),
        count(1),
    )
    loader = BatchLoader(items, settings.computing.network_dataloader_workers, world)
    plan = TrainingPlan(len(corpus.utterances), settings.network.minibatch_size)

    def epoch() -> float:
        number, before = next(numbers), progress.loss_sum
        shares = (share for window in plan.windows(number) for share in window.shares)
        batches = loader.unboosted_batches(
            [(number, index) for index in share.utterances.tolist()] for share in shares
        )
        for window in plan.windows(number):
            step.take(window, batches, progress, [0.0, 0.0])
        return (progress.loss_sum - before) / len(corpus.utterances)

    return epoch
