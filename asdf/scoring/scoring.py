"""Score a trial list exactly once, on any number of processes.

Invariant: each trial gets one score, finite, in list order; and it is the same to the last bit on any number of
processes that use the same number of threads (see `asdf.data.scoring_plan`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from asdf.data.datasets import WholeUtterances
from asdf.data.decoders import tell_fallbacks
from asdf.data.lists import UtteranceList
from asdf.data.loaders import BatchLoader
from asdf.data.scoring_plan import scoring_batches
from asdf.distributed.reading import fetch_later
from asdf.distributed.resources import smallest_gpu
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.networks import fixed_samples, scoring_length
from asdf.runs.progress import track
from asdf.scoring.memory import told_if_memory_is_short
from asdf.scoring.precision import agree_on_precision
from asdf.settings.sections import Sections

_SHOWN = 5


def score_list(
    network: nn.Module,
    utterances: UtteranceList,
    lengths: np.ndarray,
    settings: Sections,
    world: World,
    stop: StopRequest,
) -> np.ndarray | None:
    """Scores of all trials, float32, in list order, on the main rank; None on the others.

    The network is put into evaluation mode for it and back afterwards; it computes in the precision that
    `computing.scoring_precision` says. For a network that takes one length only, recordings are cut or repeated to
    it.

    Args:
        lengths: of the utterances, in samples (see `asdf.data.lengths`).

    Raises:
        AsdfError: a recording cannot be read, a score is not a finite number, or a batch does not fit
            into the device's memory.
        UsageError: a device has none of the precision that is asked for.
        Stopped: a stop was asked for; no score is kept.
    """
    net, fixed = settings.network, fixed_samples(network)
    if fixed is not None:
        net = replace(
            net,
            min_evaluation_utterance_length_in_samples=fixed,
            max_evaluation_utterance_length_in_samples=fixed,
        )
    precision = agree_on_precision(settings.computing.scoring_precision, world)
    batches = scoring_batches(
        lengths, net, lambda samples: scoring_length(network, samples), smallest_gpu(world)
    )
    own = batches[world.rank :: world.size]
    dataset = WholeUtterances(utterances, lengths, settings.sad)
    loader = BatchLoader(dataset, settings.computing.network_dataloader_workers, world, stop=stop)
    keys = [[(trial, batch.samples) for trial in batch.trials.tolist()] for batch in own]
    was_training = network.training
    network.eval()
    scores = []
    with torch.inference_mode():
        for waveforms in track(
            loader.batches(keys),
            len(own),
            f"scoring {utterances.name}",
            lines_every=settings.network.scoring_print_interval,
            speaks=world.is_main,
            unit="batches",
        ):
            # Around the network alone: recordings are read and resampled in float32.
            with precision.computing(), told_if_memory_is_short(waveforms, net, world.device):
                logits = network(waveforms)[1].float()
            score = (
                logits[:, 1]
                if settings.network.score == "bona_fide"
                else logits[:, 1] - logits[:, 0]
            )
            scores.append(score)
            if stop:
                break
    network.train(was_training)
    world.stop_together(stop, f"while scoring {utterances.name}")
    tell_fallbacks(
        f"scoring {utterances.name}", loader.decoded_by_ffmpeg, utterances, len(utterances), world
    )
    # Kept on the device until the end: fetching each batch's scores would make the device wait for the host.
    own_scores = fetch_later(torch.cat(scores))().numpy() if scores else np.zeros(0, np.float32)
    own_trials = np.concatenate([batch.trials for batch in own]) if own else np.zeros(0, np.int64)
    gathered = world.gather((own_trials, own_scores))
    kept: list[
        np.ndarray
    ] = []  # a failure reaches all ranks, the scores stay where they are needed
    world.run_on_main(lambda: kept.append(_assemble(gathered or [], utterances)))
    return kept[0] if kept else None


def _assemble(parts: list[tuple[np.ndarray, np.ndarray]], utterances: UtteranceList) -> np.ndarray:
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
