"""A student learns a teacher's logits of the same clips; the teacher's file stays where it is."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.functional import kl_div

from asdf.interchange import read_network
from asdf.settings import OwnSettings, setting
from asdf.tasks import Task, Term


@dataclass
class TaughtSettings(OwnSettings, section_name="taught"):
    """The teacher."""

    network: str = setting("", "network file of the teacher")
    temperature: float = setting(2.0, "temperature of both softmaxes", above=0)
    weight: float = setting(0.7, "weight of what the teacher says", at_least=0)


class TaughtTerm(Term):
    name = "taught"
    needs = ("clips",)

    def __init__(self, settings, folder):
        self.weight = settings.weight
        self.temperature = settings.temperature
        self.teacher = read_network(folder / settings.network, folder=folder)[0].eval()

    def targets_of(self, keys):
        return torch.zeros(len(keys))

    def counts(self, targets):
        return torch.ones(len(targets), dtype=torch.float64)

    def per_utterance(self, outputs, targets):
        with torch.no_grad():
            aims_B2 = self.teacher(outputs.extras["clips"])[1].float() / self.temperature
        learnt_B2 = (outputs.logits_B2.float() / self.temperature).log_softmax(dim=1)
        apart_B2 = kl_div(learnt_B2, aims_B2.log_softmax(1), log_target=True, reduction="none")
        return self.temperature**2 * apart_B2.sum(dim=1)


class Taught(Task):
    key = "taught"
    own_settings = TaughtSettings

    def build_term(self, network, utterances, frames):
        return TaughtTerm(self.settings.taught, Path(__file__).parent)
