"""One optimiser step, on however many processes.

Invariants: the gradient of a step is that of the mean loss over its whole window of utterances,
whichever rank computed which part; the step is a function of the weights before it, the seed, its
number and (for dropout) the rank.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.data.batches import Batch
from asdf.data.clip_frames import ClipFrames
from asdf.data.training_plan import Window
from asdf.distributed.devices import check_one_process
from asdf.distributed.sharding import divides
from asdf.distributed.transfer import fetch_later
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.networks.split import FromFeatures
from asdf.networks.tuning.freezing import freeze_front_end, frozen_in_epoch
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.text import and_more
from asdf.training.captured_passes import GraphedPasses, prepare_passes
from asdf.training.compiling import check_compilable, compile_errors_as_usage_errors
from asdf.training.exchange import exchange_now, shard
from asdf.training.gradients import LastStep, clip_and_measure, gradient_norm
from asdf.training.instruments.clock import (
    BACKWARD,
    COMMUNICATION,
    DATA,
    FORWARD,
    OPTIMISER,
    StepClock,
)
from asdf.training.joint import JointPasses, Minibatch, prepare_joint_passes
from asdf.training.losses import Loss
from asdf.training.losses.loss_building import build_loss
from asdf.training.minibatch_passes import Passes
from asdf.training.objective import Objective, StepWeights, TargetSource
from asdf.training.optimiser_state import load_optimiser_state
from asdf.training.optimisers import build_optimiser
from asdf.training.schedules import find_schedule, set_learning_rate
from asdf.training.step_checks import check_clip_size, step_memory_errors_as_messages
from asdf.training.task import find_tasks
from asdf.training.training_precision import choose_precision
from asdf.training.training_progress import Progress, seed_step
from asdf.training.weight_average import WeightAverage, load_unaveraged
from asdf.trials.trial_list import TrialList

_SHOWN = 8
AnyPasses = Passes | GraphedPasses | JointPasses


@dataclass(frozen=True)
class TakenStep:
    """What is known of a step when it has been taken.

    Attributes:
        learning_rate: the highest of the parameter groups.
        flags: the arguments of `Step.take`, summed over the ranks.
        loss: the mean over the utterances of the step, of all ranks.
        gradient_norm: the 2-norm before clipping, on the device, if `Step.measures_gradient`.
    """

    learning_rate: float
    flags: list[float]
    loss: float
    gradient_norm: Tensor | None = None


@dataclass(frozen=True)
class _WindowLosses:
    """The losses of a window.

    Attributes:
        counted: Losses of this rank's utterances that count, on the device.
        fetch: Function that returns their sum and the numbers of the step before, in float64 on
            the host.
    """

    counted: Tensor
    fetch: Callable[[], Tensor]


class Step:
    """The network with its optimiser and loss scale; `take` is one step.

    The loop relies on this: `take` reads one batch of `clips` for each share of the window, changes
    the weights once or raises, moves `progress` on to the end of the window, and sums `flags` over
    the ranks. Everything else about a step is its own matter.

    Args:
        network: Network on the world's device, in which what is never trained is frozen; one that
            is to be divided over the processes may still be on the CPU.
        from_features: True if the minibatches are cached features of a frozen front end, not
            waveforms.
        folder: Folder of the recipe, where a user's own modules lie.
        frames: Labels of the frames of training clips, for a network with a frame-level head.

    Raises:
        UsageError: the network takes clips of another length, nothing of it is trained, or a class
            that the settings name does not fit.
        AsdfError: the loss cannot be built, or gives no finite numbers.
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
        check_clip_size(network, settings.network)
        check_compilable(settings.computing, settings.front_end)
        check_one_process(settings.computing, world.size)
        self.network = network
        self.utterances = utterances
        self.settings = settings
        self.world = world
        # Before the network is divided and the optimiser made, which are to have its parameters.
        self.loss: Loss = build_loss(network, utterances, settings, folder).to(world.device)
        tasks = find_tasks(settings, folder)
        terms = tasks.build_terms(network, utterances, frames, settings.recipe.seed)
        self.objective = Objective(self.loss, terms, settings.loss.detection_weight)
        self.targets = TargetSource(utterances, self.objective, settings, world.device, frames)
        self.labels = self.targets.labels
        self.loss.begin_training(self.labels)
        self.clock = StepClock(world.device)
        precision = choose_precision(
            settings.computing.precision, world.device, divides(settings.computing, world)
        )
        self.precision = precision.with_norms(settings.computing.norms)
        self.scaler = self.precision.scaler()
        # Before the optimiser, which is to have the parts of the parameters.
        self._sharded = shard(network, settings, world, self.precision.dtype)
        self.optimiser = build_optimiser(network, settings, folder)
        self.schedule = find_schedule(settings, folder)
        decay = settings.network.ema_decay
        self.average = None if decay is None else WeightAverage(network, decay)
        self.last = LastStep(self.scaler, world.device)
        self.trained = FromFeatures(network) if from_features else network
        self.measures_gradient = False
        self._passes: Passes | GraphedPasses | None = None
        self._front_end_frozen = settings.front_end.frozen

    def load_state(self, checkpoint: NetworkFile) -> None:
        """Load the states of the optimiser and of the loss scale; the network has its weights.

        Raises:
            AsdfError: the checkpoint is of another optimiser, or its weights before averaging do
                not fit.
        """
        # A file without the state of an optimiser is refused as that of another one.
        state = checkpoint.optimiser_state or {"param_groups": []}
        load_optimiser_state(self.optimiser, state)
        # Empty when the run trained without a loss scale so far.
        if checkpoint.scaler_state:
            self.scaler.load_state_dict(checkpoint.scaler_state)
            self.last = LastStep(self.scaler, self.world.device)
        if self.average is not None:
            self.average.restart()
        if checkpoint.unaveraged_state is not None:
            load_unaveraged(self.network, checkpoint.unaveraged_state)

    @contextmanager
    def whole_network(self) -> Iterator[nn.Module]:
        """Provide the network for a block that is not training, such as scoring.

        With `network.ema_decay` it has the averages of the weights. All ranks enter the block
        together. In it, a rank may compute with the network whatever the others do.
        """
        with ExitStack() as block:
            if self.average is not None:
                block.enter_context(self.average.in_use())
            if self._sharded is None:
                yield self.network
            else:
                yield block.enter_context(self._sharded.whole())

    def begin_epoch(self, epochs: int) -> None:
        """Freeze or unfreeze the front end for the epoch after `epochs` whole ones."""
        frozen = frozen_in_epoch(self.settings.front_end, epochs)
        if frozen == self._front_end_frozen:
            return
        LOG.info("the front end %s", "is frozen" if frozen else "learns from here on")
        freeze_front_end(self.network, frozen)
        self._front_end_frozen = frozen
        # DistributedDataParallel records what learns when it is made, and a CUDA graph holds the
        # gradients of before. The old ones must be gone before new ones are made: an old one would
        # still receive gradients.
        self._passes = None
        gc.collect()

    def take(
        self,
        window: Window,
        clips: Iterator[Batch],
        progress: Progress,
        flags: list[float],
    ) -> TakenStep:
        """Take the step on `window`, whose minibatches come next from `clips`.

        Args:
            progress: Progress of the run, which the step advances.
            flags: numbers to be summed over the ranks: one exchange per step serves all.

        Raises:
            AsdfError: the loss is not finite, on any rank, and nothing has been changed; or the
                gradient of the step before was not; or the step does not fit into the memory.
        """
        number = progress.step + 1
        per_process = max(len(share.utterances) for share in window.shares)
        device = self.world.device
        with step_memory_errors_as_messages(self.settings, number, per_process, device):
            rate = set_learning_rate(
                self.optimiser, self.schedule, self.settings, progress, window.epoch_size
            )
            # Every rank knows the labels of the whole window: the ranks need not add up parts.
            weights = self.targets.weights(window)
            self.loss.begin_step(progress.epochs + progress.position / window.epoch_size)
            losses = self._backward(window, clips, weights, progress.step)
            with self.clock.part(COMMUNICATION):
                local_loss, *last_numbers = losses.fetch().tolist()
                # float32 losses cannot overflow a sum in float64: it is finite if they are.
                is_broken = not math.isfinite(local_loss)
                last_failed = not self.last.is_sound(last_numbers)
                numbers = [local_loss, float(is_broken), float(last_failed), *flags]
                loss, broken_ranks, failed_ranks, *summed_flags = self.world.sum(numbers)
            # First: a NaN gradient has broken the weights, so these losses are NaN only from it.
            if failed_ranks:
                raise AsdfError(self.last.complaint())
            if broken_ranks:
                self._refuse(window, losses.counted, progress)
            with self.clock.part(OPTIMISER):
                names = [self.utterances.ids[index] for index in window.utterances.tolist()]
                measured = self._update(f"step {number} ({and_more(names, _SHOWN)})")
        progress.step = number
        progress.position = window.end
        progress.loss_sum += loss
        progress.weight_sum += weights.normaliser
        return TakenStep(rate, summed_flags, loss / weights.normaliser, measured)

    def _update(self, name: str) -> Tensor | None:
        """Let the optimiser take the step called `name`; return the gradient's norm if wanted."""
        measured = None
        if self.measures_gradient:
            measured = gradient_norm(self.optimiser, self.scaler)
        limit = self.settings.network.gradient_clip_norm
        norm = clip_and_measure(self.optimiser, self.scaler, self.network, limit)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        if self.average is not None:
            self.average.update()
        self.last.note(name, norm)
        # To None, not to zero: `GraphedPasses` needs each step to begin without gradients.
        self.optimiser.zero_grad(set_to_none=True)
        return measured

    def check_last(self, numbers: Sequence[Tensor]) -> None:
        """Check the gradient of the last step, of which only now something is known.

        Args:
            numbers: `self.last.numbers()`, on the host.

        Raises:
            AsdfError: it was not finite, so the network must not be saved.
        """
        is_sound = self.last.is_sound([float(number) for number in numbers])
        if self.world.sum([float(not is_sound)])[0]:
            raise AsdfError(self.last.complaint())

    def _backward(
        self, window: Window, clips: Iterator[Batch], weights: StepWeights, step: int
    ) -> _WindowLosses:
        """Add up the window's gradient, of a loss that is divided by the normaliser of `weights`.

        The sum of the losses is on its way to the host before the last backward pass begins. So the
        ranks agree on the step, and the host prepares the next one, while the GPU is still at work.
        """
        if self._passes is None:
            parts = (self.objective, self.precision, self.scaler)
            self._passes = prepare_passes(self.trained, self.settings, self.world, *parts)
        model = self._passes.model
        seed = partial(seed_step, self.settings.recipe.seed, step, rank=self.world.rank)
        minibatches: Iterable[Minibatch] = self._minibatches(window, clips, weights)
        passes: AnyPasses = self._passes.for_window(window)
        if self.loss.is_joint:
            assert isinstance(self._passes, Passes)  # joint losses are not captured
            minibatches = list(minibatches)
            targets = self.targets.of_window(window)
            with self.clock.part(FORWARD):
                passes = prepare_joint_passes(
                    self._passes, minibatches, window, targets, self.world, seed
                )
        computed: list[Tensor] = []
        losses: _WindowLosses | None = None
        for minibatch in minibatches:
            is_last = minibatch.number == len(window.shares)
            # After reading: whatever a loader draws must not change the draws of the network.
            seed(minibatch.number)
            with (
                exchange_now(model, is_last),
                compile_errors_as_usage_errors(self.settings.computing.compile),
            ):
                with self.clock.part(FORWARD):
                    share_losses = passes.forward(minibatch.clips, minibatch.targets)
                    # Fillers, which come last, are computed for batch norm and weigh nothing.
                    if len(share_losses) > minibatch.share.counted:
                        share_losses = share_losses[: minibatch.share.counted]
                    computed.append(share_losses.detach())
                    if is_last:
                        counted = torch.cat(computed) if len(computed) > 1 else computed[0]
                        sums = [counted.double().sum(), *self.last.numbers()]
                        losses = _WindowLosses(counted, fetch_later(torch.stack(sums)))
                with self.clock.part(BACKWARD):
                    # DistributedDataParallel takes the mean over the ranks, and the loss is a sum.
                    passes.backward(share_losses, self.world.size / weights.normaliser)
        assert losses is not None  # a window has at least one minibatch
        return losses

    def _minibatches(
        self, window: Window, clips: Iterator[Batch], weights: StepWeights
    ) -> Iterator[Minibatch]:
        """Read the minibatches of this rank, each when it is requested."""
        for number, share in enumerate(window.shares, 1):
            with self.clock.part(DATA):
                batch = next(clips)
            if batch.unboosted is None:
                waveforms = batch.boosted()
            else:
                # RawBoost is computed by the device now: that is not waiting for data.
                with self.clock.part(FORWARD):
                    waveforms = batch.boosted()
            yield Minibatch(number, share, waveforms, self.targets.of_share(share, weights))

    def _refuse(self, window: Window, losses: Tensor, progress: Progress) -> None:
        """Raise the error that names the utterances of all ranks whose loss is not finite."""
        parts = [torch.from_numpy(share.utterances[: share.counted]) for share in window.shares]
        counted = torch.cat(parts)
        broken = counted[~torch.isfinite(losses).cpu()].tolist()
        by_rank = self.world.gather([self.utterances.ids[index] for index in broken])
        names = [name for part in self.world.agree(by_rank) or [] for name in part]
        raise AsdfError(
            f"the loss of step {progress.step + 1} is not a finite number for {len(names)} "
            f"utterances: {', '.join(names[:_SHOWN])}. Nothing was saved from this step. Look at "
            "these recordings; if they are sound, lower network.initial_learning_rate, set "
            "network.gradient_clip_norm, or computing.precision='fp32'."
        )
