"""Losses for `network.loss`: ours by short names, and the base class of your own.

Invariant: a loss is a sum over utterances, divided by a sum over the utterances of the whole
optimiser step, so a step is independent of its division into minibatches and among processes.
"""

from asdf.training.losses.contrastive import SupervisedContrastive
from asdf.training.losses.cosine import AAMSoftmax, AMSoftmax, OCSoftmax, P2SGrad
from asdf.training.losses.cross_entropy import CrossEntropy, Focal, LikelihoodRatio
from asdf.training.losses.loss import Loss, Targets, TermTargets

__all__ = [
    "AAMSoftmax",
    "AMSoftmax",
    "CrossEntropy",
    "Focal",
    "LikelihoodRatio",
    "Loss",
    "OCSoftmax",
    "P2SGrad",
    "SupervisedContrastive",
    "Targets",
    "TermTargets",
]
