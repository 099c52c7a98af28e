"""Distillation: a small network learns what a large one makes of the same clips.

It does so next to the labels (Hinton et al., NIPS workshop 2014). The teacher is no part of the
student, whose file is that of any network.

    network.tasks = ('distillation.Taught',)
    taught.network = 'output/large/networks/epoch.20.pt'
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from asdf.interchange import read_network
from asdf.settings import OwnSettings, setting
from asdf.tasks import Task, Term


@dataclass
class TaughtSettings(OwnSettings, section_name="taught"):
    """The teacher."""

    network: str = setting("", "network file of the teacher, in the recipe's folder")
    temperature: float = setting(2.0, "what the logits of both are divided by", above=0)
    weight: float = setting(1.0, "weight of what the teacher says", at_least=0)


class TaughtTerm(Term):
    name = "taught"
    needs = ("clips",)

    def __init__(self, settings, teacher):
        self.weight = settings.weight
        self.temperature = settings.temperature
        self.teacher = teacher

    def targets_of(self, keys):
        return torch.zeros(len(keys))  # the teacher has them

    def counts(self, targets):
        return torch.ones(len(targets), dtype=torch.float64)

    def per_utterance(self, outputs, targets):
        with torch.no_grad():
            _, taught_B2 = self.teacher(outputs.extras["clips"])
        aims_B2 = (taught_B2.float() / self.temperature).softmax(dim=1)
        learnt_B2 = outputs.logits_B2.float() / self.temperature
        return self.temperature**2 * cross_entropy(learnt_B2, aims_B2, reduction="none")


class Taught(Task):
    key = "taught"
    own_settings = TaughtSettings

    def build_term(self, network, utterances, frames):
        taught = self.settings.taught
        teacher, _ = read_network(self.folder / taught.network, self.folder)  # in eval mode
        teacher.requires_grad_(False).to(next(network.parameters()).device)
        return TaughtTerm(taught, teacher)
