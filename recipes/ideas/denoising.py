"""Pretraining without labels: noisy recordings are mapped to the embeddings of clean ones.

Those are of the average of the network's past weights, in the manner of data2vec (Baevski et al.,
ICML 2022). Without validation sets (`recipe.validation_sets = ()`) the last network is the result;
another config fine-tunes its front end by
`front_end.weights = 'output/pretrained/networks/epoch.20.pt'`.

    network.training_step = 'denoising.Denoising'
    denoising.noise = 0.02
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import layer_norm

from asdf.settings import OwnSettings, setting
from asdf.training.steps import TrainingStep


@dataclass
class DenoisingSettings(OwnSettings, section_name="denoising"):
    """How noisy recordings are, and how the teacher follows."""

    noise: float = setting(0.01, "deviation of the noise", above=0)
    decay: float = setting(0.999, "part of the teacher that a step leaves", at_least=0, at_most=1)


class Denoising(TrainingStep):
    own_settings = DenoisingSettings
    divides_window = True
    needs_waveforms = True
    takes_unlabelled = True

    def begin(self, network):
        self.teacher = copy.deepcopy(network).requires_grad_(False)

    def compute_gradient(self, window):
        def loss(outputs, minibatch):
            clean_BT = window.minibatches[minibatch.number - 1].clips
            with torch.no_grad():
                aims_BE = window.outputs(self.teacher, minibatch, clean_BT).embeddings
            aims_BE = layer_norm(aims_BE, aims_BE.shape[1:])
            distances_B = ((outputs.embeddings - aims_BE) ** 2).mean(dim=1)
            # The labelled ones, if any, are learnt as well.
            return window.losses_of(outputs, minibatch) + distances_B / len(window)

        window.backward(loss=loss, clips=[self.noisy(window, part) for part in window.minibatches])

    def noisy(self, window, minibatch):
        samples = minibatch.clips.shape[1]
        draws = window.clip_generators(minibatch, "noise")
        noise_BT = np.stack([each.standard_normal(samples, np.float32) for each in draws])
        noise_BT = torch.from_numpy(noise_BT).to(minibatch.clips.device)
        return minibatch.clips + self.settings.denoising.noise * noise_BT

    def updated(self, network):
        decay = self.settings.denoising.decay
        with torch.no_grad():
            pairs = zip(self.teacher.parameters(), network.parameters(), strict=True)
            for average, weights in pairs:
                average.lerp_(weights, 1 - decay)

    def state(self):
        return {"teacher": self.teacher.state_dict()}

    def load_state(self, state):
        self.teacher.load_state_dict(state["teacher"])
