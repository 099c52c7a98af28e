"""Perturbations that change the score of a waveform as much as possible at a given energy.

Invariant: a perturbation has at most the energy of its level: samples stay within full scale, and
perturbations with a bounded peak need not use all of it. It depends only on the waveform, the
level, the score's gradients and the draws of a generator.

Sources: Goodfellow, Shlens and Szegedy, "Explaining and harnessing adversarial examples", ICLR
2015 (`fgsm`); Madry, Makelov, Schmidt, Tsipras and Vladu, "Towards deep learning models resistant
to adversarial attacks", ICLR 2018 (`pgd`).

Shapes: T samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from asdf.arrays import Floats


class Surface(Protocol):
    """The objective of an attack: a function of waveforms (T,) to maximise."""

    def value(self, waveform_T: Tensor) -> float:
        """Return the value of a waveform."""
        ...

    def slope(self, waveform_T: Tensor) -> tuple[float, Tensor]:
        """Return the value of a waveform, and its gradient, (T,)."""
        ...


@dataclass(frozen=True)
class Search:
    """Parameters of PGD.

    Attributes:
        steps: Number of gradient steps from each start.
        step: Length of a step, relative to the radius; None: 2.5 / steps, with which any point of
            the ball can be reached from any other.
        restarts: Number of random starts, of which the best result is used.
    """

    steps: int = 10
    step: float | None = None
    restarts: int = 1

    @property
    def share(self) -> float:
        """The length of a step relative to the radius."""
        return 2.5 / self.steps if self.step is None else self.step


@dataclass(frozen=True)
class Level:
    """The strength of perturbations.

    Attributes:
        value: Signal-to-noise ratio in dB; if `is_peak`, the maximum change of a sample, relative
            to full scale.
    """

    value: float
    is_peak: bool = False

    @property
    def name(self) -> str:
        """Name for files: '40', 'peak0.001'."""
        return f"{'peak' if self.is_peak else ''}{self.value:g}"

    @property
    def label(self) -> str:
        """Name for people: '40 dB', 'peak 0.001'."""
        return f"peak {self.value:g}" if self.is_peak else f"{self.value:g} dB"

    def norm(self, waveform_T: Tensor) -> float:
        """Return the Euclidean norm of the perturbations of a waveform."""
        if self.is_peak:
            # Each sample changes by the maximum: the corners of the cube have the highest energy.
            return self.value * math.sqrt(len(waveform_T))
        # float32 would round the sum of the squares of a long recording.
        norm = float(torch.linalg.vector_norm(waveform_T.double()))
        return float(norm * 10 ** (-self.value / 20))


@dataclass(frozen=True, eq=False)
class Ball:
    """The perturbations (T,) available to an attack.

    Attributes:
        waveform_T: Waveform that is attacked, float32.
        norm: Maximum Euclidean norm of the perturbations.
    """

    waveform_T: Tensor
    norm: float

    @property
    def peak(self) -> float:
        """The change of each sample if all change equally and the norm is `norm`."""
        return self.norm / math.sqrt(len(self.waveform_T))

    def scale(self, direction_T: Tensor) -> Tensor:
        """Return the perturbation in this direction with the full norm; zeros without one."""
        direction_T = direction_T.double()
        length = float(torch.linalg.vector_norm(direction_T))
        if not length:
            return torch.zeros_like(self.waveform_T)
        return self._within_full_scale((direction_T * (self.norm / length)).float())

    def hold(self, perturbation_T: Tensor) -> Tensor:
        """Return a perturbation with each sample clipped to the peak."""
        return self._within_full_scale(perturbation_T.clamp(-self.peak, self.peak))

    def tensor(self, draws_T: Floats) -> Tensor:
        """Return draws as a tensor like the waveform."""
        # Drawn in numpy, so that all devices get the same draws.
        drawn_T = torch.from_numpy(draws_T.astype(np.float32))
        return drawn_T.to(self.waveform_T.device)

    def _within_full_scale(self, perturbation_T: Tensor) -> Tensor:
        # A recording that already exceeds full scale may stay there.
        limit_T = self.waveform_T.abs().clamp(min=1)
        return perturbation_T.clamp(-limit_T - self.waveform_T, limit_T - self.waveform_T)


Perturb = Callable[[Ball, Surface, Generator, Search], Tensor]


@dataclass(frozen=True)
class Attack:
    """A method of perturbation.

    Attributes:
        label: Display name.
        words: Description in a few words.
        has_gradients: Whether it uses the detector's gradients, which noise does not.
        perturb: Function of a ball, an objective, a generator, and the parameters of PGD; it
            returns a perturbation, (T,).
    """

    name: str
    label: str
    words: str
    has_gradients: bool
    perturb: Perturb


def draw_noise(ball: Ball, surface: Surface, rng: Generator, search: Search) -> Tensor:
    """Return white noise with the norm of the ball."""
    return ball.scale(ball.tensor(rng.standard_normal(len(ball.waveform_T))))


def fgsm(ball: Ball, surface: Surface, rng: Generator, search: Search) -> Tensor:
    """Return the sign of the gradient at the waveform, scaled to the norm of the ball."""
    _, gradient_T = surface.slope(ball.waveform_T)
    return ball.scale(gradient_T.sign())


def pgd(ball: Ball, surface: Surface, rng: Generator, search: Search) -> Tensor:
    """Return the best point of sign-gradient ascent, with each sample within the peak."""

    def start() -> Tensor:
        return ball.hold(ball.tensor(ball.peak * rng.uniform(-1, 1, len(ball.waveform_T))))

    def step(perturbation_T: Tensor, gradient_T: Tensor) -> Tensor:
        return ball.hold(perturbation_T + search.share * ball.peak * gradient_T.sign())

    return _climb(ball, surface, search, start, step)


def pgd_of_energy(ball: Ball, surface: Surface, rng: Generator, search: Search) -> Tensor:
    """Return the best point of gradient ascent, with all points at the norm of the ball."""

    def start() -> Tensor:
        return draw_noise(ball, surface, rng, search)

    def step(perturbation_T: Tensor, gradient_T: Tensor) -> Tensor:
        length = float(torch.linalg.vector_norm(gradient_T.double()))
        if not length:
            # On a plateau, there is no direction to go.
            return perturbation_T
        return ball.scale(perturbation_T + search.share * ball.norm / length * gradient_T)

    return _climb(ball, surface, search, start, step)


def _climb(
    ball: Ball,
    surface: Surface,
    search: Search,
    start: Callable[[], Tensor],
    step: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Return the point with the highest value on all paths, including starts and ends."""
    best_T = torch.zeros_like(ball.waveform_T)
    best = -math.inf
    for _ in range(search.restarts):
        point_T = start()
        for _ in range(search.steps):
            # The pass for the gradient gives the value of its point as well.
            value, gradient_T = surface.slope(ball.waveform_T + point_T)
            if value > best:
                # Not copied: a step returns a new tensor.
                best_T = point_T
                best = value
            point_T = step(point_T, gradient_T)
        # Nothing follows the last point, which needs no gradient.
        value = surface.value(ball.waveform_T + point_T)
        if value > best:
            best_T = point_T
            best = value
    return best_T


NOISE = "noise"

ATTACKS = {
    attack.name: attack
    for attack in (
        Attack(NOISE, "random noise", "white noise, independent of the network", False, draw_noise),
        Attack("fgsm", "FGSM", "one step along the sign of the gradient", True, fgsm),
        Attack("pgd", "PGD", "gradient-sign steps, each sample bounded (L-infinity)", True, pgd),
        Attack(
            "pgd-snr",
            "PGD at SNR",
            "steps along the gradient, at the stated SNR",
            True,
            pgd_of_energy,
        ),
    )
}
"""Attacks by name, noise of the same energy first."""
