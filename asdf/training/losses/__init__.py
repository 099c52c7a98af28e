"""Losses for `network.loss`: ours by short names, and the base class of your own.

Invariant: a loss is a sum over utterances, divided by a sum over the utterances of the whole
optimiser step, so a step is independent of its division into minibatches and among processes.
"""

from asdf.training.losses.loss import (
    AAMSoftmax,
    AMSoftmax,
    CrossEntropy,
    Focal,
    LikelihoodRatio,
    Loss,
    OCSoftmax,
    P2SGrad,
    SupervisedContrastive,
    Targets,
    TermTargets,
)

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
