"""The computation of an optimiser step's gradient: the base class of custom training steps.

Invariant: the loop, the optimiser, the loss scale, weight averaging and checkpoints are the same
whatever class computes the gradient. The class gets a `StepWindow`, and may pass over it any number
of times, at other weights, with other networks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.errors import AsdfError, UsageError
from asdf.runs.log import LOG
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_files import is_ours
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import Sections
from asdf.training.losses import Loss
from asdf.training.losses.loss_building import find_loss_class
from asdf.training.steps.step_window import StepWindow, WindowLosses
from asdf.trials.trial_list import TrialList

SETTING = "network.training_step"
_CLASS = "class"
_STATE = "state"


class TrainingStep(ABC):
    """Base class of training steps, the project's and your own.

    Set `network.training_step = 'my_step.MyStep'` to use yours, with `my_step.py` in the recipe's
    folder. docs/your_own.md has complete examples.

    Attributes:
        settings: Sections of all settings, as plain dataclasses.
        folder: Folder of the recipe with users' modules; None if there is none.
        keeps_minibatches: Whether the minibatches of a step stay in memory for further passes.
        divides_window: Whether it computes means over some utterances of a step, or a custom loss.
            Losses of whole steps (`Loss.is_joint`) are then refused.
        needs_waveforms: Whether minibatches must be waveforms; cached features are then refused.
        needs_curvature: Whether gradients are differentiated again; computing.compile is then
            refused.
        takes_unlabelled: Whether it can train on recordings without labels, whose values of
            `network.loss` are 0.

    Examples:
        >>> from asdf.settings import Sections
        >>> from asdf.training.steps import TrainingStep
        >>> class Halved(TrainingStep):
        ...     def compute_gradient(self, window):
        ...         window.set_gradient(0.5 * window.gradient())
        >>> Halved(Sections()).state()
        {}
    """

    keeps_minibatches: ClassVar[bool] = True
    divides_window: ClassVar[bool] = False
    needs_waveforms: ClassVar[bool] = False
    needs_curvature: ClassVar[bool] = False
    takes_unlabelled: ClassVar[bool] = False

    def __init__(self, settings: Sections, folder: Path | None = None) -> None:
        self.settings = settings
        self.folder = folder

    def begin(self, network: nn.Module) -> None:  # noqa: B027 (most steps need nothing)
        """Prepare for training `network`, which has its initial weights.

        It is called again after a checkpoint's weights have been loaded into the network, and
        before `load_state`.
        """

    @abstractmethod
    def compute_gradient(self, window: StepWindow) -> None:
        """Leave the gradient of the step in the weights: by `window.backward()` as the last pass,
        or by `window.set_gradient(direction)`.

        All processes call it together, each with its minibatches.
        """

    def updated(self, network: nn.Module) -> None:  # noqa: B027 (as above)
        """React to the optimiser's update of the weights of `network`."""

    def state(self) -> dict[str, Any]:
        """Return the state that later steps need besides settings and weights, for checkpoints.

        It may hold tensors, numbers, texts, lists and dictionaries.
        """
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027 (as above)
        """Continue from a result of `state`."""


class Plain(TrainingStep):
    """One forward and one backward pass over each minibatch."""

    keeps_minibatches = False

    def compute_gradient(self, window: StepWindow) -> None:
        """Pass over the window once."""
        window.backward()


def calling(step: TrainingStep, method: str) -> AbstractContextManager[None]:
    """Return a block in which `method` is called; a failure of a user's gives one message."""
    kind = type(step)
    path = f"{kind.__module__}.{kind.__qualname__}"
    if is_ours(path):
        return nullcontext()
    return UserErrors(f"{SETTING}: {path}.{method} failed")


def compute_gradient(
    step: TrainingStep, window: StepWindow, memory: AbstractContextManager[None]
) -> WindowLosses:
    """Let `step` compute the gradient of a window; return the losses of its first pass.

    Args:
        memory: Block in which a lack of memory gets its own message, even in a user's class.

    Raises:
        AsdfError: a user's class fails, or makes no pass.
    """
    with calling(step, "compute_gradient"), memory:
        step.compute_gradient(window)
    if window.losses is None:
        kind = type(step)
        raise AsdfError(
            f"{SETTING}: {kind.__qualname__}.compute_gradient made no pass. It must call "
            "window.backward(), or window.gradient() and window.set_gradient()."
        )
    return window.losses


def load_step_state(step: TrainingStep, checkpoint: NetworkFile) -> None:
    """Let `step` continue from its state in a checkpoint.

    Raises:
        AsdfError: the state is damaged, or a user's class fails.
    """
    entry = checkpoint.step_state
    kind = type(step).__qualname__
    if entry is not None and not (isinstance(entry, dict) and isinstance(entry.get(_STATE), dict)):
        raise AsdfError(
            f"{checkpoint.path}: the entry 'training_step' is damaged: resume from another file "
            "(network.resume_epoch)."
        )
    if entry is not None and entry.get(_CLASS) == kind:
        with calling(step, "load_state"):
            step.load_state(entry[_STATE])
    elif state_of(step) is not None:
        LOG.warning(
            "warning: %s: the checkpoint has no state of %s, which starts afresh from its weights",
            SETTING,
            kind,
        )


def state_of(step: TrainingStep) -> dict[str, Any] | None:
    """Return the content of `step` for a checkpoint; None if it has no state."""
    with calling(step, "state"):
        state = step.state()
    return {_CLASS: type(step).__qualname__, _STATE: state} if state else None


def find_training_step(settings: Sections, folder: Path | None) -> TrainingStep:
    """Return the training step that `network.training_step` names.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: the class does not exist, or does not fit the other settings.
        AsdfError: its module or its constructor fails.
    """
    path = class_path_of(SETTING, settings.network.training_step)
    kind = find_class(path, folder, SETTING, TrainingStep)  # type: ignore[type-abstract]
    with UserErrors(f"{SETTING}: {path}(settings, folder) failed"):
        step = kind(settings, folder)
    loss, computing = settings.network.loss, settings.computing
    is_graphed = computing.cuda_graphs is True and not isinstance(step, Plain)
    divides = step.divides_window and find_loss_class(settings, step.folder).is_joint
    needs = {
        f"network.loss = {loss!r} needs whole steps: choose another loss": divides,
        "computing.cuda_graphs = True repeats one pass: set it to False": is_graphed,
        "it needs waveforms: set front_end.cache_features = False": step.needs_waveforms
        and settings.front_end.cache_features,
        "compiled passes have no second derivative: set computing.compile = False": (
            step.needs_curvature and computing.compile
        ),
    }
    faults = "; ".join(fault for fault, applies in needs.items() if applies)
    if faults:
        raise UsageError(f"{SETTING} = {path!r}: {faults}.")
    return step


def check_labels(utterances: TrialList, step: TrainingStep, loss: Loss, settings: Sections) -> bool:
    """Return whether recordings lack labels, after checking that the training supports this.

    Raises:
        UsageError: it does not; the message names what cannot be combined with them.
    """
    count = utterances.count_unlabelled
    faults = []
    if not step.takes_unlabelled:
        faults.append(f"{SETTING} = {settings.network.training_step!r} does not support them")
    if loss.is_joint:
        faults.append(f"network.loss = {settings.network.loss!r} compares labels within a step")
    if settings.augmentation.mixup_probability:
        faults.append("augmentation.mixup_probability mixes labels: set it to 0")
    if count and faults:
        raise UsageError(
            f"the training list has {count} recordings without labels, and {'; '.join(faults)}. "
            "Leave them out of recipe.training_sets, or change that."
        )
    return count > 0
