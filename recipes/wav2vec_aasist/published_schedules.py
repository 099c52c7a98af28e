"""Learning-rate schedules of published recipes that ASDF does not include.

Invariant: the factor of the rate depends only on the settings and the run's progress, so that a
resumed run continues exactly.
"""

from __future__ import annotations

import math

from asdf.settings.sections import Sections
from asdf.training.schedules import ScheduleProgress

WARM_UP_EPOCHS = 2


def wedefense_exponential(settings: Sections, progress: ScheduleProgress) -> float:
    """Return an exponential from 1 to `min_learning_rate`, times a rise from 0 over 2 epochs.

    It follows `ExponentialDecrease` of zlin0/wedefense (wedefense/utils/schedulers.py) with
    `warm_from_zero`; the decay continues during the warm-up.
    """
    network = settings.network
    lowest = network.min_learning_rate / network.initial_learning_rate
    warm_up = min(1.0, progress.epochs / WARM_UP_EPOCHS)
    return warm_up * math.pow(lowest, progress.done)


def warm_and_decay(settings: Sections, progress: ScheduleProgress) -> float:
    """Return an exponential from 1 after `warmup_steps` to 0.01 at `max_steps`.

    It follows `WarmAndExpDecayLRSchedule` of SpeechBrain (nnet/schedulers.py) with AntiDeepfake's
    decay_factor; the warm-up itself is that of `network.warmup_steps`.

    Raises:
        ValueError: `network.max_steps` is None, or not above the warm-up.
    """
    network = settings.network
    warm_up = network.warmup_steps or 0
    if network.max_steps is None or network.max_steps <= warm_up:
        raise ValueError("set network.max_steps above network.warmup_steps")
    done = max(0, progress.step - warm_up) / (network.max_steps - warm_up)
    return math.pow(0.01, done)
