"""Cost and performance of a network: size, time and error rate.

Invariant: two networks are measured alike, on the same recordings and alternating, so that other
load on the machine affects both.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from asdf.metrics.detection import eer
from asdf.networks.build import summary
from asdf.networks.interface import as_outputs
from asdf.runs.progress import track

_CLIP = 64600
_REPEATS = 9


@dataclass(frozen=True)
class Effect:
    """The measurements of a network.

    Attributes:
        parameters: Number of parameters.
        milliseconds: Minimum time for 4.04 s of speech on this machine's CPU, with torch's number
            of threads, in milliseconds.
        eer: Equal error rate on the recordings, as a fraction; None if a class is missing.
        scores: Scores of the recordings, in their order.
    """

    parameters: int
    milliseconds: float
    eer: float | None
    scores: tuple[float, ...]


def measure_effect(
    networks: Sequence[nn.Module], trials: Sequence[tuple[Tensor, int]], score: str
) -> list[Effect]:
    """Measure networks in eval mode on the same recordings.

    Args:
        trials: Waveforms (samples,), as scored, and labels, 1 bona fide and 0 spoof.
        score: Value of `network.score`.
    """
    scores: list[list[float]] = [[] for _ in networks]
    with torch.no_grad():
        for waveform_T, _ in track(trials, len(trials), "scoring"):
            for number, network in enumerate(networks):
                logits_2 = as_outputs(network(waveform_T.unsqueeze(0))).logits_B2[0].float()
                value = float(logits_2[1])
                if score != "bona_fide":
                    value -= float(logits_2[0])
                scores[number].append(value)
    times = _time(networks)
    effects = []
    for network, values, milliseconds in zip(networks, scores, times, strict=True):
        by_label: dict[int, list[float]] = {0: [], 1: []}
        for value, (_, label) in zip(values, trials, strict=True):
            by_label.setdefault(label, []).append(value)
        rate = None
        if by_label[1] and by_label[0]:
            rate = eer(by_label[1], by_label[0])[0]
        effects.append(Effect(summary(network).total, milliseconds, rate, tuple(values)))
    return effects


def _time(networks: Sequence[nn.Module]) -> list[float]:
    """Return the minimum time of each network for one clip, in ms, measured alternately.

    Other load on the machine can only make times longer.
    """
    waveform_1T = 0.1 * torch.randn(1, _CLIP, generator=torch.Generator().manual_seed(0))
    times: list[list[float]] = [[] for _ in networks]
    with torch.no_grad():
        # The one-off costs of the first pass are not measured.
        for _ in range(_REPEATS + 1):
            for number, network in enumerate(networks):
                start = time.perf_counter()
                network(waveform_1T)
                times[number].append(1000 * (time.perf_counter() - start))
    return [min(each[1:]) for each in times]
