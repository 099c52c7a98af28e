"""Learning rates of published recipes that ASDF's schedules do not have.

Invariant: the share of the rate is a function of the settings and of the run's progress alone, so
that a resumed run goes on exactly.
"""

from __future__ import annotations

import math

from asdf.settings.sections import Sections
from asdf.training.schedules import ScheduleProgress

WARM_UP_EPOCHS = 2


def wedefense_exponential(settings: Sections, progress: ScheduleProgress) -> float:
    """Return an exponential from 1 to `min_learning_rate`, times a rise from 0 over 2 epochs.

    As `ExponentialDecrease` of zlin0/wedefense (wedefense/utils/schedulers.py) with
    `warm_from_zero`; the decay goes on during the warm-up.
    """
    network = settings.network
    lowest = network.min_learning_rate / network.initial_learning_rate
    warm_up = min(1.0, progress.epochs / WARM_UP_EPOCHS)
    return warm_up * math.pow(lowest, progress.done)
