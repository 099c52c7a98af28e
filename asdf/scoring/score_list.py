"""Score a trial list exactly once, on any number of processes.

Invariant: each trial gets one score, finite, in list order; and it is the same to the last bit on any number of
processes that use the same number of threads (see `asdf.data.scoring_plan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from asdf.data.datasets import WholeUtterances
from asdf.data.decoders import tell_fallbacks
from asdf.data.loaders import BatchLoader
from asdf.data.scoring_plan import scoring_batches
from asdf.distributed.resources import smallest_gpu
from asdf.distributed.stopping import StopRequest
from asdf.distributed.transfer import fetch_later
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.networks import fixed_samples, scoring_length
from asdf.runs.progress import track
from asdf.scoring.memory_errors import memory_errors_as_messages
from asdf.scoring.precision import agree_on_precision
from asdf.settings.sections import Network, Sections
from asdf.trials.trial_list import TrialList

_SHOWN = 5


def score_list(
    network: nn.Module,
    utterances: TrialList,
    lengths: np.ndarray,
    settings: Sections,
    world: World,
    stop: StopRequest,
) -> np.ndarray | None:
    """Score all trials: float32, in list order, on the main rank; None on the others.

    The network is put into evaluation mode for it, and back afterwards, also after a failure. It computes in the
    precision that `computing.scoring_precision` says. For a network that takes one length only, recordings are cut or
    repeated to it.

    Args:
        lengths: of the utterances, in samples (see `asdf.data.lengths`).

    Raises:
        AsdfError: a recording cannot be read, a score is not a finite number, or a batch does not fit
            into the device's memory.
        UsageError: a device has not the requested precision.
        Stopped: a stop was requested; no score is returned.
    """
    plan = _with_fixed_length(settings.network, fixed_samples(network))
    precision = agree_on_precision(settings.computing.scoring_precision, world)
    batches = scoring_batches(
        lengths, plan, lambda samples: scoring_length(network, samples), smallest_gpu(world)
    )
    local = batches[world.rank :: world.size]
    dataset = WholeUtterances(utterances, settings.sad)
    loader = BatchLoader(dataset, settings.computing.network_dataloader_workers, world, stop=stop)
    keys = [[(trial, batch.samples) for trial in batch.trials.tolist()] for batch in local]
    scores = []
    with torch.inference_mode(), _in_evaluation_mode(network):
        for waveforms in track(
            loader.batches(keys),
            len(local),
            f"scoring {utterances.name}",
            lines_every=settings.network.scoring_print_interval,
            speaks=world.is_main,
            unit="batches",
        ):
            # Around the network alone: recordings are read and resampled in float32.
            with precision.computing(), memory_errors_as_messages(waveforms, plan, world.device):
                logits_B2 = network(waveforms)[1].float()
            scores.append(_scores(logits_B2, plan))
            if stop:
                break
    world.stop_together(stop, f"while scoring {utterances.name}")
    tell_fallbacks(
        f"scoring {utterances.name}", loader.decoded_by_ffmpeg, utterances, len(utterances), world
    )
    # On the device until the end: fetching each batch's scores would make it wait for the host.
    local_scores = fetch_later(torch.cat(scores))().numpy() if scores else np.zeros(0, np.float32)
    local_trials = np.concatenate([np.zeros(0, np.int64), *(batch.trials for batch in local)])
    gathered = world.gather((local_trials, local_scores))
    # A failure reaches all ranks; the scores stay on the main one, which alone needs them.
    assembled: list[np.ndarray] = []
    world.run_on_main(lambda: assembled.append(_assemble(gathered or [], utterances)))
    return assembled[0] if assembled else None


def _with_fixed_length(settings: Network, samples: int | None) -> Network:
    """The settings for a network that takes recordings of so many samples only; None: of any length."""
    if samples is None:
        return settings
    return replace(
        settings,
        min_evaluation_utterance_length_in_samples=samples,
        max_evaluation_utterance_length_in_samples=samples,
    )


@contextmanager
def _in_evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Put `network` into evaluation mode for the block, and back however the block ends."""
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


def _scores(logits_B2: Tensor, settings: Network) -> Tensor:
    if settings.score == "bona_fide":
        return logits_B2[:, 1]
    return logits_B2[:, 1] - logits_B2[:, 0]


def _assemble(parts: list[tuple[np.ndarray, np.ndarray]], utterances: TrialList) -> np.ndarray:
    trials = np.concatenate([trials for trials, _ in parts])
    if not np.array_equal(np.sort(trials), np.arange(len(utterances))):
        raise RuntimeError(f"{utterances.name}: {len(trials)} scores for {len(utterances)} trials")
    scores = np.empty(len(utterances), np.float32)
    scores[trials] = np.concatenate([scores for _, scores in parts])
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        names = ", ".join(utterances.ids[index] for index in wrong[:_SHOWN])
        raise AsdfError(
            f"{len(wrong)} of the {len(scores)} scores of {utterances.name} are not finite numbers, first: {names}. "
            "The network has probably diverged: choose an earlier epoch, or train with a lower learning rate or "
            "network.gradient_clip_norm. No score file has been written."
        )
    return scores
