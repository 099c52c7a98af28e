"""A mean teacher: the network learns to agree with the average of its own past weights.

It does so on every recording and under any dropout, also on recordings without labels; the weight
of this term rises over the first epochs (Tarvainen and Valpola, NeurIPS 2017). A loss of one's own
returns a value per utterance, and the step sums these: divide a mean over all by `len(window)`.

    network.training_step = 'mean_teacher.MeanTeacher'
    teacher.decay = 0.9
"""

import copy
from dataclasses import dataclass

import torch

from asdf.settings import OwnSettings, setting
from asdf.training.steps import TrainingStep


@dataclass
class TeacherSettings(OwnSettings, section_name="teacher"):
    """How the teacher follows, and how much it is followed."""

    decay: float = setting(0.99, "part of the teacher that a step leaves", at_least=0, at_most=1)
    weight: float = setting(10.0, "weight of the distance from the teacher", at_least=0)
    warmup_epochs: float = setting(2.0, "epochs over which the weight rises", above=0)


class MeanTeacher(TrainingStep):
    own_settings = TeacherSettings
    divides_window = True
    needs_waveforms = True
    takes_unlabelled = True

    def begin(self, network):
        self.teacher = copy.deepcopy(network).requires_grad_(False)

    def compute_gradient(self, window):
        teacher = self.settings.teacher
        weight = teacher.weight * min(1.0, window.epochs / teacher.warmup_epochs)

        def loss(outputs, minibatch):
            with torch.no_grad():
                taught_B2 = window.outputs(self.teacher, minibatch, draw=1).logits_B2.softmax(dim=1)
            distances_B = ((outputs.logits_B2.softmax(dim=1) - taught_B2) ** 2).mean(dim=1)
            return window.losses_of(outputs, minibatch) + weight * distances_B / len(window)

        window.backward(loss=loss)

    def updated(self, network):
        decay = self.settings.teacher.decay
        with torch.no_grad():
            pairs = zip(self.teacher.parameters(), network.parameters(), strict=True)
            for average, weights in pairs:
                average.lerp_(weights, 1 - decay)
            for average, buffer in zip(self.teacher.buffers(), network.buffers(), strict=True):
                average.copy_(buffer)

    def state(self):
        return {"teacher": self.teacher.state_dict()}

    def load_state(self, state):
        self.teacher.load_state_dict(state["teacher"])
