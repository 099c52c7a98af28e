"""A metric that chooses the best epoch, a schedule, and a callback."""

import numpy as np

from asdf.training.callbacks import Callback


def found_at_one_percent(bona_fide, spoof):
    """Return how much genuine speech is accepted where 1 % of the spoofs are."""
    return float(np.mean(bona_fide > np.quantile(spoof, 0.99)))


found_at_one_percent.lower_is_better = False


def noam(settings, progress):
    step = progress.step + 1
    return min(step / 4, (4 / step) ** 0.5)


class Losses(Callback):
    needs_gradient_norm = True

    def on_every_step(self, record):
        with (self.folder / "steps.csv").open("a") as file:
            file.write(f"{record.step},{record.loss},{record.gradient_norm}\n")
