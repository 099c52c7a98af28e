"""Continual learning: corpora one after another, where no step may worsen an earlier one.

GEM of Lopez-Paz and Ranzato, NeurIPS 2017, as measured on a few recordings of each earlier corpus.
The sampler gives each corpus a number of epochs, and mixes recordings of earlier ones into its own.
Of the gradients that do not point against that of any other corpus, the step takes the one nearest
to the newest corpus's.

    recipe.sampler = 'gem.OneAfterAnother'
    network.training_step = 'gem.GEM'
    gem.column = 'attack'
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from asdf.data.samplers import Sampler
from asdf.runs.seeds import generator
from asdf.settings import OwnSettings, setting
from asdf.training.steps import TrainingStep


@dataclass
class GemSettings(OwnSettings, section_name="gem"):
    """How corpora follow each other."""

    column: str = setting("corpus", "column of the training list that tells what is learnt when")
    epochs: int = setting(1, "epochs of each of its values", at_least=1, at_most=1000)
    memory: int = setting(
        8, "utterances that stand for an earlier value", at_least=1, at_most=10**6
    )


def values_of(settings, utterances):
    """Return the value of each utterance, by its number in the order in which they come first."""
    column = settings.gem.column
    values = utterances.corpora() if column == "corpus" else utterances.columns[column]
    names = list(dict.fromkeys(values))
    return np.array([names.index(value) for value in values])


class OneAfterAnother(Sampler):
    own_settings = GemSettings

    def order(self, epoch):
        values = values_of(self.settings, self.utterances)
        newest = min((epoch - 1) // self.settings.gem.epochs, values.max())
        draws = generator(self.seed, "one after another", epoch)
        own = draws.permutation(np.flatnonzero(values == newest))
        turns = np.resize(own, len(values))
        if newest:
            # Every second turn is one of the memories', in turn.
            rows = [np.resize(self.memory(values == value), len(values)) for value in range(newest)]
            others = np.stack(rows, axis=1).ravel()
            turns[1::2] = others[: len(turns[1::2])]
        return turns

    def memory(self, chosen):
        return np.flatnonzero(chosen)[: self.settings.gem.memory]


class GEM(TrainingStep):
    own_settings = GemSettings
    divides_window = True

    def begin(self, network):
        self.values = None

    def compute_gradient(self, window):
        if self.values is None:
            self.values = values_of(self.settings, window.utterances)
        values = self.values[window.indices]
        newest = values.max()
        slope = window.gradient(of=values == newest)
        memories = []
        for value in sorted(set(values) - {newest}):
            memories.append(window.gradient(of=values == value, moves_statistics=False))
        if memories:
            # The dual: how much of each memory's gradient is added, none of them negative.
            products = np.array([[float(a.dot(b)) for b in memories] for a in memories])
            along = np.array([float(slope.dot(memory)) for memory in memories])
            root = np.linalg.cholesky(products + 1e-12 * np.trace(products) * np.eye(len(along)))
            added = nnls(root.T, -np.linalg.solve(root, along))[0]
            for amount, memory in zip(added, memories, strict=True):
                slope = slope + float(amount) * memory
        window.set_gradient(slope)
