"""One optimiser step, on any number of processes.

Invariants: the gradient of a step is that of the mean loss over its whole window of utterances,
however the ranks divide it; the step depends only on the weights before it, the seed, its number
and (for dropout) the rank.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.data.batches import Batch
from asdf.data.datasets import ClipFrames
from asdf.data.training_plan import Window
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.networks.split import FromFeatures
from asdf.networks.tuning import freeze_front_end, frozen_in_epoch
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.text import and_more
from asdf.training.gradients import WeightUpdate, choose_precision
from asdf.training.graphs import prepare_passes
from asdf.training.losses.loss_building import build_loss
from asdf.training.objective import (
    Objective,
    TargetSource,
    check_clip_size,
    check_inputs,
    check_needs,
    step_memory_errors_as_messages,
)
from asdf.training.passes import check_compilable
from asdf.training.profile import COMMUNICATION, OPTIMISER, StepClock, find_cost
from asdf.training.steps.step_window import StepParts, StepWindow
from asdf.training.steps.training_step import (
    Plain,
    calling,
    check_labels,
    compute_gradient,
    find_training_step,
    load_step_state,
)
from asdf.training.task import find_tasks
from asdf.training.training_progress import Progress
from asdf.trials.trial_list import TrialList

_SHOWN = 8


@dataclass(frozen=True)
class TakenStep:
    """The results of a step after it has been taken.

    Attributes:
        learning_rate: Highest learning rate of the parameter groups.
        flags: Argument `flags` of `Step.take`, summed over the ranks.
        loss: Mean loss over the utterances of the step, of all ranks.
        gradient_norm: 2-norm before clipping, on the device, if `Step.update` measures it;
            else None.
    """

    learning_rate: float
    flags: list[float]
    loss: float
    gradient_norm: Tensor | None = None


class Step:
    """The network with its optimiser and loss scale; `take` performs one step.

    The loop relies on this: `take` reads one batch of `clips` for each share of the window, changes
    the weights once or raises, advances `progress` to the end of the window, and sums `flags` over
    the ranks. Everything else is up to the step.

    Args:
        network: Network on the world's device, with parameters that are never trained already
            frozen.
        from_features: Whether the minibatches are cached features of a frozen front end rather than
            waveforms.
        folder: Folder of the recipe with the user's own modules.
        frames: Labels of the frames of training clips, for a network with a frame-level head.

    Raises:
        UsageError: the network takes clips of another length, none of its parts is trained, or a
            class in the settings is not suitable.
        AsdfError: the loss cannot be built, or its values are not finite.
    """

    def __init__(
        self,
        network: nn.Module,
        utterances: TrialList,
        settings: Sections,
        world: World,
        from_features: bool = False,
        folder: Path | None = None,
        frames: ClipFrames | None = None,
    ) -> None:
        # What cannot be trained like this.
        check_clip_size(network, settings.network)
        check_compilable(settings.computing, settings.front_end)
        self.method = find_training_step(settings, folder)
        self.network = network
        self.utterances = utterances
        self.settings = settings
        self.world = world
        # What is minimised, which adds parameters to the network.
        loss = build_loss(network, utterances, settings, folder).to(world.device)
        heads = (network, utterances, frames, settings.recipe.seed)
        terms = find_tasks(settings, folder).build_terms(*heads)
        has_unlabelled = check_labels(utterances, self.method, loss, settings)
        self.objective = Objective(loss, terms, settings.loss.detection_weight, has_unlabelled)
        check_needs(terms, network, from_features)
        check_inputs(network, utterances, settings, from_features)
        self.targets = TargetSource(
            utterances, self.objective, settings, world.device, frames, network
        )
        self.objective.begin_training(self.targets.labels)
        # How the passes are computed, and what they cost.
        self.clock = StepClock(world.device)
        precision = choose_precision(settings.computing.precision, world.device)
        self.precision = precision.with_norms(settings.computing.norms)
        self.trained = FromFeatures(network) if from_features else network
        self._cost = find_cost(network, settings, self.precision)
        self._parts: StepParts | None = None
        self._front_end_frozen = settings.front_end.frozen
        # How they change the weights.
        self.update = WeightUpdate(network, settings, self.precision, folder)
        with calling(self.method, "begin"):
            self.method.begin(network)
        # It may have changed, frozen or released weights.
        self.update.begin_average()

    def load_state(self, checkpoint: NetworkFile) -> None:
        """Load the states of the optimiser and of the loss scale; the network has its weights.

        Raises:
            AsdfError: the checkpoint is of another optimiser, or its weights before averaging do
                not fit.
        """
        # The passes refer to the previous step, which has changed.
        self._parts = None
        self.update.load_state(checkpoint)
        # Only now the network has the weights from which training continues.
        with calling(self.method, "begin"):
            self.method.begin(self.network)
        load_step_state(self.method, checkpoint)

    @contextmanager
    def whole_network(self) -> Iterator[nn.Module]:
        """Provide the network for a block other than training, such as scoring.

        With `network.ema_decay`, it has the averaged weights. All ranks enter the block together;
        inside it, a rank may compute with the network independently of the others.
        """
        average = self.update.average
        with average.in_use() if average is not None else nullcontext():
            yield self.network

    def utilisation(self, utterances_per_s: float) -> float | None:
        """Return the share of the GPUs' peak (MFU) at a speed of all processes; None if unknown.

        All GPUs of a run are treated as equal.
        """
        if self._cost is None or self._cost.flops is None:
            return None
        return utterances_per_s * self._cost.flops / (self.world.size * self._cost.peak)

    def begin_epoch(self, epochs: int) -> None:
        """Freeze or unfreeze the front end for the epoch after `epochs` whole epochs."""
        frozen = frozen_in_epoch(self.settings.front_end, epochs)
        if frozen == self._front_end_frozen:
            return
        LOG.info("the front end %s", "is frozen" if frozen else "is trained from here on")
        freeze_front_end(self.network, frozen)
        self._front_end_frozen = frozen
        if self._cost is not None:
            self._cost.learn_as(self.network)
        # DistributedDataParallel records the trained parameters when it is created, and a CUDA
        # graph holds the previous gradients. The old objects must be gone before new ones are
        # created, since an old one would still receive gradients.
        self._parts = None
        gc.collect()

    def take(
        self, window: Window, clips: Iterator[Batch], progress: Progress, flags: list[float]
    ) -> TakenStep:
        """Take the step on `window`, whose minibatches are the next batches of `clips`.

        Args:
            progress: Progress of the run, which the step advances.
            flags: Numbers to sum over the ranks, in the same exchange as the loss.

        Raises:
            AsdfError: the loss is not finite on any rank, and nothing has been changed; or the
                gradient of the previous step was not finite; or the step does not fit into memory.
        """
        number = progress.step + 1
        per_process = max(len(share.utterances) for share in window.shares)
        device = self.world.device
        memory = partial(step_memory_errors_as_messages, self.settings, number, per_process, device)
        with memory():
            rate = self.update.set_rate(progress, window.epoch_size)
            self.objective.begin_step(progress.epochs + progress.position / window.epoch_size)
            passes = self._prepare(window, clips, progress)
            normaliser = passes.normaliser
            losses = compute_gradient(self.method, passes, memory())
            with self.clock.part(COMMUNICATION):
                local_loss, *others = losses.fetch().tolist()
                before, terms = others[: losses.of_step_before], others[losses.of_step_before :]
                # float32 losses cannot overflow a sum in float64, so it is finite if they are.
                is_broken = not math.isfinite(local_loss)
                last_failed = not self.update.last.is_sound(before)
                numbers = [local_loss, float(is_broken), float(last_failed), *terms, *flags]
                loss, broken_ranks, failed_ranks, *summed = self.world.sum(numbers)
            # Checked first: a NaN gradient has broken the weights, which causes NaN in these
            # losses.
            if failed_ranks:
                raise self.world.common_error(AsdfError(self.update.last.complaint()))
            if broken_ranks:
                self._refuse(window, losses.counted, progress)
            with self.clock.part(OPTIMISER):
                names = [self.utterances.ids[index] for index in window.utterances.tolist()]
                measured = self.update.step(f"step {number} ({and_more(names, _SHOWN)})")
                with calling(self.method, "updated"):
                    self.method.updated(self.network)
                self.update.finish()
        progress.step = number
        progress.position = window.end
        progress.loss_sum += loss
        progress.weight_sum += normaliser
        progress.note_terms(passes.counts_of(losses.terms), summed[: len(terms)])
        return TakenStep(rate, summed[len(terms) :], loss / normaliser, measured)

    def check_last(self, numbers: Sequence[Tensor]) -> None:
        """Check the gradient of the last step, whose result is only available now.

        Args:
            numbers: `self.update.last.numbers()`, on the host.

        Raises:
            AsdfError: it was not finite, so the network must not be saved.
        """
        is_sound = self.update.last.is_sound([float(number) for number in numbers])
        if self.world.sum([float(not is_sound)])[0]:
            raise self.world.common_error(AsdfError(self.update.last.complaint()))

    def _prepare(self, window: Window, clips: Iterator[Batch], progress: Progress) -> StepWindow:
        """Return the window that the training step computes with."""
        if self._parts is None:
            once = isinstance(self.method, Plain)
            needed = (self.objective, self.precision, self.update.scaler, once)
            eager, graphed = prepare_passes(self.trained, self.settings, self.world, *needed)
            self._parts = StepParts(
                eager=eager,
                graphed=graphed,
                network=self.trained,
                parameters=self.update.trained_parameters(),
                utterances=self.utterances,
                targets=self.targets,
                last=self.update.last,
                clock=self.clock,
                world=self.world,
                seed=self.settings.recipe.seed,
                compiled=self.settings.computing.compile,
            )
        epochs = progress.epochs + progress.position / window.epoch_size
        step, keeps = progress.step, self.method.keeps_minibatches
        return StepWindow(self._parts, window, clips, step=step, epochs=epochs, keeps=keeps)

    def _refuse(self, window: Window, losses: Tensor, progress: Progress) -> None:
        """Raise an error that names the utterances of all ranks whose loss is not finite."""
        parts = [torch.from_numpy(share.utterances[: share.counted]) for share in window.shares]
        counted = torch.cat(parts)
        broken = counted[~torch.isfinite(losses).cpu()].tolist()
        by_rank = self.world.gather([self.utterances.ids[index] for index in broken])
        names = [name for part in self.world.agree(by_rank) or [] for name in part]
        error = AsdfError(
            f"the loss of step {progress.step + 1} is not a finite number for {len(names)} "
            f"utterances: {', '.join(names[:_SHOWN])}. Nothing was saved from this step. Check "
            "these recordings; if they are intact, lower network.initial_learning_rate, set "
            "network.gradient_clip_norm, or computing.precision='fp32'."
        )
        raise self.world.common_error(error)
