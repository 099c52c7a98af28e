"""Further terms of the loss, next to the one of detection: `network.loss`.

Invariant: a term is a sum over utterances, divided by a number that follows from the utterances of
the whole optimiser step, its own one. So a step does not depend on how it is divided into
minibatches and among processes.
"""

from asdf.training.terms.base import ClipKey, Term

__all__ = ["ClipKey", "Term"]
