"""Meta-learning over attacks: a step on most of them should also help with a held-out one.

MLDG of Li et al., AAAI 2018. Each step draws one attack; its gradient is that of the loss on the
others, plus that of the held-out loss after a step on the others. `mldg.first_order = True` leaves
out the second derivative, which takes as long as two more passes. Not every operation has one: that
of the deviation over equal frames is NaN, and the run says so.

    network.training_step = 'mldg.MLDG'
    mldg.inner_rate = 0.05
"""

from dataclasses import dataclass

import numpy as np

from asdf.settings import OwnSettings, setting
from asdf.training.steps import TrainingStep


@dataclass
class MldgSettings(OwnSettings, section_name="mldg"):
    """How attacks are held out."""

    column: str = setting("attack", "column of the training list, of which a value is held out")
    inner_rate: float = setting(0.01, "learning rate of the step on the other utterances", above=0)
    weight: float = setting(1.0, "weight of the held-out loss", at_least=0)
    first_order: bool = setting(False, "the second derivative is left out")


class MLDG(TrainingStep):
    own_settings = MldgSettings
    divides_window = True
    needs_curvature = True

    def compute_gradient(self, window):
        mldg = self.settings.mldg
        held_out = self.choose(window)
        if held_out.all() or not held_out.any():
            window.backward()
            return
        slope = window.gradient(of=~held_out)
        with window.moved(-mldg.inner_rate * slope):
            ahead = window.gradient(of=held_out, moves_statistics=False)
        if not mldg.first_order:
            ahead = ahead - mldg.inner_rate * window.curvature(ahead, of=~held_out)
        window.set_gradient(slope + mldg.weight * ahead)

    def choose(self, window):
        """Return True for the utterances of one attack, and half of the bona fide ones."""
        draws = window.generator("held out")
        bona_fide = window.labels == 1
        attacks = np.array(window.column(self.settings.mldg.column))
        names = sorted(set(attacks[~bona_fide]))
        chosen = attacks == draws.choice(names) if names else np.zeros(len(window), bool)
        return np.where(bona_fide, draws.random(len(window)) < 0.5, chosen)
