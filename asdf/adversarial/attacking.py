"""An attack on one recording, through the whole path from its samples to the score.

Invariant: the score after an attack is the detector's score of the attacked samples, on its usual
path. Gradients follow the same path (which samples are heard, repetition, crops, windows). The
detector is a copy, in float32 and with one thread, so a result depends only on the recording, the
attack and the seed, and no recording is changed.

Shapes: T samples that are heard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asdf.adversarial.attacks import Ball, Search
from asdf.adversarial.conditions import Condition
from asdf.arrays import Floats, Indices
from asdf.audio import read_audio
from asdf.audio.speech import find_speech
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.robustness import write_copy
from asdf.runs.seeds import generator
from asdf.scoring.detector import Detector
from asdf.scoring.detector_copies import copy_with
from asdf.scoring.whole_recording import is_silent
from asdf.scoring.windows import cut_windows


@dataclass(frozen=True)
class Task:
    """A recording and an attack on it.

    Attributes:
        label: Label: 1 for bona fide, whose score is lowered; 0 for a spoof, whose score is raised.
        target: Path for the attacked copy; None: it is not kept.
    """

    source: str
    utterance: str
    label: int
    condition: Condition
    target: Path | None = None


@dataclass(frozen=True)
class Attacked:
    """The result of an attack on a recording.

    Attributes:
        score: Score of the attacked samples, before calibration bounds; NaN if there is none.
        snr_db: Energy of the heard samples relative to that of their changes, in dB; infinite
            without changes.
        problem: Reason why it could not be attacked; ''.
    """

    score: float = math.nan
    snr_db: float = math.inf
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Attacker:
    """Attacks recordings, with copies of the detectors and search parameters.

    Attributes:
        victim: Detector that is attacked, see `attackable`.
        surrogate: Detector whose gradients transferred attacks use; None: there are none.
        is_whole: Whether scores are of whole recordings, over windows, or of their beginnings.
    """

    victim: Detector
    surrogate: Detector | None
    search: Search
    seed: int
    is_whole: bool


def attackable(detector: Detector) -> Detector:
    """Return a copy of a detector that gives gradients, independent of the number of threads.

    Raises:
        AsdfError: the detector's file is missing or was changed since it was opened.
    """
    # Packed weights give no gradients, and other threads or precisions change last digits. Parts
    # and the check for speech decide on verdicts, which no attack looks at.
    copy: Detector = copy_with(
        detector, engine="plain", precision="fp32", threads=1, parts=False, speech_check="off"
    )
    for network in copy.hearing.scorer.networks:
        # Only the samples change; a network that detaches their gradients is detected.
        network.requires_grad_(False)
    return copy


def attack(task: Task, attacker: Attacker) -> Attacked:
    """Attack a recording; problems are stated in the result."""
    try:
        return _attack(task, attacker)
    except AsdfError as error:
        return Attacked(problem=str(error))


def _attack(task: Task, attacker: Attacker) -> Attacked:
    waveform = read_audio(task.source)
    condition = task.condition
    if condition.attack is None or condition.level is None:
        return Attacked(_score(attacker, waveform, task.source))
    heard = find_heard(attacker.victim, waveform, attacker.is_whole)
    scorer = attacker.victim.hearing.scorer
    heard_T = torch.from_numpy(waveform[heard]).to(scorer.device)
    if not heard_T.any():
        raise AsdfError(f"{task.source} is digital silence, for which an SNR is not defined.")
    climbed = attacker.surrogate if condition.is_transferred else attacker.victim
    assert climbed is not None
    surface = ScoreSurface(climbed, heard_T, attacker.is_whole, raises=task.label == 0)
    # The seed excludes the level and the surrogate, so that levels share their draws.
    rng = generator(attacker.seed, "adversarial", condition.attack.name, task.utterance)
    ball = Ball(heard_T, condition.level.norm(heard_T))
    perturbation_T = condition.attack.perturb(ball, surface, rng, attacker.search)
    attacked = waveform.copy()
    attacked[heard] += perturbation_T.cpu().numpy()
    if task.target is not None:
        write_copy(task.target, attacked, condition.label)
    score = _score(attacker, attacked, task.source)
    # The energy of the heard samples relative to that of their changes.
    exact = waveform[heard].astype(np.float64)
    # Taken from the samples: their addition in float32 has rounded the perturbation.
    changes = attacked[heard].astype(np.float64) - exact
    energy = float(changes @ changes)
    snr_db = 10 * math.log10(float(exact @ exact) / energy) if energy else math.inf
    return Attacked(score, snr_db)


def find_heard(detector: Detector, waveform: Floats, is_whole: bool) -> Indices:
    """Return the indices of the samples of a recording that determine its score, (T,)."""
    indices = np.arange(len(waveform))
    speech = find_speech(waveform, detector.settings.sad)
    if speech is not None:
        indices = indices[speech]
    if is_whole:
        return indices
    assert detector.length.max_samples is not None  # settings always have a limit
    return indices[: detector.length.max_samples]


def _score(attacker: Attacker, waveform: Floats, source: str) -> float:
    pair: Any = (waveform, SAMPLE_RATE)
    [scored] = attacker.victim.score_many([pair], whole=attacker.is_whole)
    if scored.compared is None:
        raise AsdfError(f"{source}: {scored.error}")
    return scored.compared


class ScoreSurface:
    """The score of the heard samples, as an objective for attacks.

    Args:
        detector: Detector returned by `attackable`.
        heard_T: Samples before the attack.
        is_whole: Whether they are scored over windows.
        raises: Whether the score is to be raised; otherwise it is lowered.
    """

    def __init__(self, detector: Detector, heard_T: Tensor, is_whole: bool, raises: bool) -> None:
        self._scorer = detector.hearing.scorer
        self._sign = 1 if raises else -1
        self._windows: Sequence[tuple[int, int]] = [(0, len(heard_T))]
        if is_whole:
            self._windows = _windows_of(heard_T, detector.window_samples)

    def value(self, waveform_T: Tensor) -> float:
        """Return the network's score, negated if it is to be lowered."""
        with torch.no_grad():
            scores = [self._score_window(waveform_T[start:end]) for start, end in self._windows]
        # float64, as the mean over the windows of a recording.
        return self._sign * float(torch.stack(scores).double().mean())

    def slope(self, waveform_T: Tensor) -> tuple[float, Tensor]:
        """Return the value and its gradient, (T,).

        Raises:
            AsdfError: as `WaveformScorer.score_with_gradients`; or the value is not a finite
                number.
            UsageError: as of `WaveformScorer.score_with_gradients`.
        """
        gradient_T = torch.zeros_like(waveform_T)
        total = 0.0
        for start, end in self._windows:
            # One window at a time: passes with gradients hold all layers of a network.
            window_T = waveform_T[start:end].detach().requires_grad_()
            score = self._score_window(window_T)
            (of_window_T,) = torch.autograd.grad(score, window_T)
            # Added, since the last window overlaps the one before it.
            gradient_T[start:end] += of_window_T
            total += float(score.detach())
        gradient_T *= self._sign / len(self._windows)
        if not torch.isfinite(gradient_T).all():
            raise AsdfError("the gradient of its score is not a finite number.")
        return self._sign * total / len(self._windows), gradient_T

    def _score_window(self, window_T: Tensor) -> Tensor:
        return self._scorer.score_with_gradients(window_T[None])[0]


def _windows_of(heard_T: Tensor, length: int) -> Sequence[tuple[int, int]]:
    """Return the samples `start <= i < end` of each window that counts."""
    spans = []
    sounding = []
    for start, window in cut_windows([heard_T.cpu().numpy()], length, length):
        span = (start, start + len(window))
        spans.append(span)
        # As in the score: silent windows do not count, unless all are silent.
        if not is_silent(window):
            sounding.append(span)
    return sounding or spans
