"""Supervised contrastive loss with a projection of its own; positives share the attack."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize

from asdf.settings import OwnSettings, setting
from asdf.training.losses import Loss


@dataclass
class ContrastiveSettings(OwnSettings, section_name="contrastive"):
    """The contrastive loss."""

    temperature: float = setting(0.1, "temperature of the softmax", above=0, at_most=10)
    weight: float = setting(0.5, "weight beside the cross-entropy", at_least=0)
    width: int = setting(32, "width of the projection", at_least=2)


class Contrastive(Loss):
    own_settings = ContrastiveSettings
    is_joint = True
    columns = ("attack",)

    def __init__(self, settings, dimension, values):
        super().__init__(settings, dimension)
        self.mine = settings.contrastive
        self.attacks = values["attack"]
        width = self.mine.width
        self.project = nn.Sequential(
            nn.Linear(dimension, width), nn.ReLU(), nn.Linear(width, width)
        )

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        entropy_B = cross_entropy(logits_B2.float(), labels_B, reduction="none")
        groups = [self.attacks.index(attack) for attack in columns["attack"]]
        group_B = torch.tensor(groups, device=labels_B.device)
        directions_BW = normalize(self.project(embeddings_BE.float()), dim=1)
        similar_BB = directions_BW @ directions_BW.T / self.mine.temperature
        own_BB = torch.eye(len(group_B), dtype=torch.bool, device=labels_B.device)
        others_BB = similar_BB.masked_fill(own_BB, -torch.inf)
        logs_BB = similar_BB - others_BB.logsumexp(1, keepdim=True)
        positive_BB = (group_B[:, None] == group_B[None]) & ~own_BB
        sums_B = torch.where(positive_BB, logs_BB, 0.0).sum(1)
        return entropy_B - self.mine.weight * sums_B / positive_BB.sum(1).clamp(min=1)
