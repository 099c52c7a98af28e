"""Adversarial training: each step learns from waveforms moved towards the wrong answer.

Projected gradient ascent (PGD) moves them in a ball of the maximum norm, from a random start (Madry
et al., ICLR 2018).

    network.training_step = 'adversarial.Adversarial'
    attacked.radius = 0.001
"""

from dataclasses import dataclass

import numpy as np
import torch

from asdf.settings import OwnSettings, setting
from asdf.training.steps import TrainingStep


@dataclass
class AttackSettings(OwnSettings, section_name="attacked"):
    """How far waveforms are moved."""

    radius: float = setting(0.002, "largest change of a sample", above=0)
    rate: float = setting(0.0005, "change of a sample in a step of the attack", above=0)
    steps: int = setting(3, "steps of the attack", at_least=1, at_most=100)


class Adversarial(TrainingStep):
    own_settings = AttackSettings
    divides_window = True
    needs_waveforms = True

    def compute_gradient(self, window):
        window.backward(clips=[self.attack(window, part) for part in window.minibatches])

    def attack(self, window, minibatch):
        attacked = self.settings.attacked
        clean_BT = minibatch.clips
        starts = []
        for draws in window.clip_generators(minibatch, "start"):
            starts.append(draws.uniform(-1, 1, clean_BT.shape[1]).astype(np.float32))
        start_BT = torch.from_numpy(np.stack(starts)).to(clean_BT.device)
        change_BT = attacked.radius * start_BT
        for _ in range(attacked.steps):
            slope_BT = window.clip_gradient(minibatch, clean_BT + change_BT)
            change_BT = change_BT + attacked.rate * slope_BT.sign()
            change_BT = change_BT.clamp(-attacked.radius, attacked.radius)
        return clean_BT + change_BT
