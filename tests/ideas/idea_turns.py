"""A sampler whose turns of an attack grow with its size to a power."""

from dataclasses import dataclass

import numpy as np

from asdf.data.samplers import Sampler
from asdf.runs.seeds import generator
from asdf.settings import OwnSettings, setting


@dataclass
class TurnsSettings(OwnSettings, section_name="turns"):
    """Turns by attack."""

    power: float = setting(0.5, "power of an attack's size", at_least=0, at_most=1)


class ByAttack(Sampler):
    own_settings = TurnsSettings

    def order(self, epoch):
        attacks = np.array(self.utterances.columns["attack"])
        names, counts = np.unique(attacks, return_counts=True)
        shares = counts.astype(float) ** self.settings.turns.power
        turns = np.floor(shares / shares.sum() * len(attacks)).astype(int)
        rng = generator(self.seed, "by attack", epoch)
        drawn = []
        for name, count in zip(names, turns, strict=True):
            drawn.append(rng.choice(np.flatnonzero(attacks == name), count))
        return rng.permutation(np.concatenate(drawn))
