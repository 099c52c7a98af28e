"""Attacks on surfaces whose highest points are known."""

import math

import numpy as np
import pytest
import torch

from asdf.adversarial.attacks import ATTACKS, Ball, Level, Search
from asdf.adversarial.conditions import check_search, choose_attacks
from asdf.errors import UsageError
from asdf.runs.seeds import generator

SAMPLES = 4000


class Plane:
    """w · x: the gradient is w everywhere."""

    def __init__(self, weights):
        self.weights = weights

    def value(self, waveform_T):
        return float(self.weights.double() @ waveform_T.double())

    def slope(self, waveform_T):
        return self.value(waveform_T), self.weights


class Bowl:
    """-|x - centre|²: its top is at the centre."""

    def __init__(self, centre):
        self.centre = centre

    def value(self, waveform_T):
        return -float(((waveform_T - self.centre).double() ** 2).sum())

    def slope(self, waveform_T):
        return self.value(waveform_T), -2 * (waveform_T - self.centre)


class Flat:
    """A value that nothing changes."""

    def value(self, waveform_T):
        return 0.0

    def slope(self, waveform_T):
        return 0.0, torch.zeros_like(waveform_T)


def draw(seed=0, scale=0.1, samples=SAMPLES):
    rng = np.random.default_rng(seed)
    return torch.from_numpy((scale * rng.standard_normal(samples)).astype(np.float32))


def perturb(name, waveform_T, surface, level, search=None, seed=0):
    ball = Ball(waveform_T, level.norm(waveform_T))
    return ATTACKS[name].perturb(ball, surface, generator(seed, "test"), search or Search())


def snr_of(waveform_T, perturbation_T):
    signal = waveform_T.numpy().astype(np.float64)
    attacked = (waveform_T + perturbation_T).numpy().astype(np.float64)
    return 10 * math.log10((signal**2).sum() / ((attacked - signal) ** 2).sum())


@pytest.mark.parametrize("name", ["noise", "fgsm", "pgd-snr"])
@pytest.mark.parametrize("snr_db", [60, 50, 33.3, 20, 0])
def test_the_snr_is_the_stated_one(name, snr_db):
    waveform_T = draw(1, 0.05)
    perturbation_T = perturb(name, waveform_T, Plane(draw(2)), Level(snr_db))
    assert snr_of(waveform_T, perturbation_T) == pytest.approx(snr_db, abs=1e-4)


@pytest.mark.parametrize("peak", [0.0005, 0.02])
def test_a_stated_peak_is_the_highest_change_of_a_sample(peak):
    waveform_T = draw(1, 0.05)
    for name in ("fgsm", "pgd"):
        perturbation_T = perturb(name, waveform_T, Plane(draw(2)), Level(peak, is_peak=True))
        assert float(perturbation_T.abs().max()) == pytest.approx(peak, rel=1e-6)


def test_on_a_plane_every_attack_reaches_the_highest_point_of_its_ball():
    waveform_T = draw(1)
    weights = draw(2)
    level = Level(40)
    norm = level.norm(waveform_T)
    # Of a cube with edges of 2 peaks it is peak |w|_1, of a sphere of radius r it is r |w|_2.
    by_signs = norm / math.sqrt(SAMPLES) * float(weights.double().abs().sum())
    by_energy = norm * float(torch.linalg.vector_norm(weights.double()))
    expected = {"fgsm": by_signs, "pgd": by_signs, "pgd-snr": by_energy}
    for name, gain in expected.items():
        search = Search(steps=40, step=0.5)
        perturbation_T = perturb(name, waveform_T, Plane(weights), level, search)
        assert Plane(weights).value(perturbation_T) == pytest.approx(gain, rel=1e-3)
    assert by_energy > by_signs
    noise_T = perturb("noise", waveform_T, Plane(weights), level)
    # Of a random direction about 1 / sqrt(T) of it is left.
    assert abs(Plane(weights).value(noise_T)) < 5 * by_energy / math.sqrt(SAMPLES)


def test_pgd_is_that_of_a_loop_in_plain_torch():
    waveform = draw(1)
    centre = draw(2, 0.3)
    level = Level(30)
    search = Search(steps=7, step=0.4)
    for name in ("pgd", "pgd-snr"):
        found = perturb(name, waveform, Bowl(centre), level, search, seed=5)
        norm = 10 ** (-30 / 20) * float((waveform.double() ** 2).sum() ** 0.5)
        peak = norm / SAMPLES**0.5
        rng = generator(5, "test")
        if name == "pgd":
            start = torch.tensor(rng.uniform(-1, 1, SAMPLES) * peak, dtype=torch.float32)
        else:
            start = torch.tensor(rng.standard_normal(SAMPLES), dtype=torch.float32)
            start = start / start.norm() * norm
        delta = start.clone()
        visited = [delta]
        for _ in range(7):
            moving = delta.clone().requires_grad_()
            (-((waveform + moving - centre) ** 2).sum()).backward()
            gradient = moving.grad
            if name == "pgd":
                delta = (delta + 0.4 * peak * torch.sign(gradient)).clamp(-peak, peak)
            else:
                delta = delta + 0.4 * norm * gradient / gradient.norm()
                delta = delta * norm / delta.norm()
            visited.append(delta)
        best = max(visited, key=lambda point: -float(((waveform + point - centre) ** 2).sum()))
        assert torch.allclose(found, best, atol=1e-5 * peak)


def test_restarts_never_do_worse_and_the_best_point_on_the_way_counts():
    waveform_T = draw(1)
    # Its top lies inside of the ball, which steps of a whole radius leap over.
    surface = Bowl(waveform_T + 0.001 * draw(3))
    values = []
    for restarts in (1, 3):
        search = Search(steps=3, step=1.0, restarts=restarts)
        found_T = perturb("pgd", waveform_T, surface, Level(20), search)
        values.append(surface.value(waveform_T + found_T))
    assert values[1] >= values[0]
    start_T = perturb("noise", waveform_T, surface, Level(20))
    assert values[0] > surface.value(waveform_T + start_T)


def test_samples_stay_within_full_scale_or_where_they_are():
    waveform_T = draw(1, 0.5)
    loud = float(waveform_T.abs().max())
    assert loud > 1
    for name in ("noise", "fgsm", "pgd", "pgd-snr"):
        attacked_T = waveform_T + perturb(name, waveform_T, Plane(draw(2)), Level(5))
        assert float(attacked_T.abs().max()) <= loud * (1 + 1e-6)
        within = waveform_T.abs() <= 1
        assert float(attacked_T[within].abs().max()) <= 1 + 1e-6


def test_without_a_gradient_nothing_breaks():
    waveform_T = draw(1)
    assert not perturb("fgsm", waveform_T, Flat(), Level(30)).any()
    for name in ("pgd", "pgd-snr"):
        assert perturb(name, waveform_T, Flat(), Level(30)).isfinite().all()


def test_conditions_are_level_by_level_with_noise_first():
    names = [each.name for each in choose_attacks(["pgd"], [20, 60], transfers=True)]
    assert names == [
        *("noise_60", "pgd_60", "transferred-pgd_60"),
        *("noise_20", "pgd_20", "transferred-pgd_20"),
    ]
    labels = [each.label for each in choose_attacks(["fgsm"], peaks=[0.001])]
    assert labels == ["random noise, peak 0.001", "FGSM, peak 0.001"]
    assert len(choose_attacks()) == 4 * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["pgx"],), "there is no attack pgx. Did you mean 'pgd'"),
        ((["noise"],), "name an attack"),
        ((["pgd"], [500]), "-20 to 120 is allowed"),
        ((["pgd"], [], [0]), "0.001"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        choose_attacks(*arguments)


@pytest.mark.parametrize("search", [Search(steps=0), Search(restarts=0), Search(step=-1.0)])
def test_a_climb_that_cannot_be_meant_is_refused(search):
    with pytest.raises(UsageError):
        check_search(search)
