"""A task: embeddings forget the speaker.

A head learns to name the speakers of the training list, and the network learns against it (Ganin et
al., JMLR 2016). A network may learn other tasks at the same time, such as the attacks here.

    network.tasks = ('forget_speakers.Speakers',)
    speakers.weight = 0.3
    source.column = 'attack'
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from asdf.settings import OwnSettings, setting
from asdf.tasks import Head, Task, Term


class Reverse(torch.autograd.Function):
    """The same numbers; their gradient comes back with the other sign, times `strength`."""

    @staticmethod
    def forward(context, embeddings_BE, strength):
        context.strength = strength
        return embeddings_BE.clone()

    @staticmethod
    def backward(context, gradients_BE):
        return -context.strength * gradients_BE, None


class SpeakerHead(Head):
    key = "speakers"

    def __init__(self, dimension, names):
        super().__init__()
        self.names = names
        self.strength = 1.0
        self.output = nn.Linear(dimension, len(names))

    def values(self, outputs):
        return self.output(Reverse.apply(outputs.embeddings, self.strength))

    def describe(self):  # what a network file says of it
        return {"dimension": self.output.in_features, "names": self.names}

    @classmethod
    def restore(cls, entry, settings):  # from a network file
        return cls(entry["dimension"], entry["names"])


class SpeakerTerm(Term):
    name = "speakers"

    def __init__(self, weight, speakers, head, epochs):
        self.weight = weight
        self.speakers = torch.tensor(speakers)
        self.head = head
        self.epochs = epochs

    def begin_step(self, epochs):  # the strength rises from 0 to 1 over the training
        self.head.strength = math.tanh(5 * epochs / self.epochs)

    def targets_of(self, keys):  # of clips, by epoch and index of the utterance
        return self.speakers[[index for _, index in keys]]

    def counts(self, targets):
        return torch.ones(len(targets), dtype=torch.float64)

    def per_utterance(self, outputs, targets):
        return cross_entropy(outputs.extras["speakers"].float(), targets, reduction="none")


@dataclass
class SpeakerSettings(OwnSettings, section_name="speakers"):
    """The task of forgetting speakers."""

    weight: float = setting(0.1, "weight of the speakers' loss", above=0)


class Speakers(Task):
    key = "speakers"
    own_settings = SpeakerSettings

    def build_term(self, network, utterances, frames):
        speakers = utterances.columns["speaker"]
        names = sorted(set(speakers))
        head = SpeakerHead(self.embedding_dimension(network), names)
        self.attach(network, head)
        indices = [names.index(name) for name in speakers]
        weight = self.settings.speakers.weight
        return SpeakerTerm(weight, indices, head, self.settings.network.max_epochs)

    def describe(self, scores):  # for the log, of the values of a set, (trials, speakers)
        return f"; {scores.shape[1]} speakers"
