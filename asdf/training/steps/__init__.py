"""Training steps for `network.training_step`, and the base class of your own.

A custom training step is a class derived from `TrainingStep` (docs/your_own.md).
"""

from asdf.training.steps.step_window import OwnLoss, StepWindow
from asdf.training.steps.training_step import Plain, TrainingStep
from asdf.training.steps.window_parts import Direction, Minibatch

__all__ = ["Direction", "Minibatch", "OwnLoss", "Plain", "StepWindow", "TrainingStep"]
