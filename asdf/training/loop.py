"""The training loop: epochs, validation, checkpoints, and when it ends.

What is decided when:
- after each step inside an epoch: whether to evaluate, which first saves the network under a name
  of its own; else whether to save a checkpoint for resuming; then whether to stop;
- at the end of an epoch: whether the plateau schedule lowers the rate. The network is always saved;
  then comes a requested stop, then the evaluation;
- after an evaluation: whether training ends early, and which networks are removed.

Invariant: all ranks take the same decisions. Whether to stop or to save is summed over the ranks
with each step; whether an evaluation is due follows from the progress, which is the same on all of
them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import nn
from tqdm import tqdm

from asdf.data.batches import Batch
from asdf.data.decoders import log_fallbacks
from asdf.data.loaders import BatchLoader
from asdf.data.orders import Orders
from asdf.data.samplers import SETTING, Sampler, Shuffled
from asdf.data.training_plan import TrainingPlan, Window, minibatch_per_process
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import AsdfError
from asdf.interchange import NetworkFile
from asdf.runs.evaluations import (
    EER,
    Evaluation,
    ValidationResult,
    last_improvement,
    other_metrics,
    other_precisions,
    write_evaluations,
)
from asdf.runs.layout import Layout
from asdf.runs.log import LOG
from asdf.runs.network_names import RESUME, NetworkName
from asdf.scoring.precision import agree_on_precision
from asdf.training.callback_group import CallbackGroup
from asdf.training.callbacks import Training
from asdf.training.instruments.profile import StepProfile
from asdf.training.instruments.progress_lines import ProgressLines, position_of
from asdf.training.observing import StepObserver
from asdf.training.progress import Progress
from asdf.training.retention import remove_networks
from asdf.training.saving import Saving
from asdf.training.schedules import plateau_end, update_plateau
from asdf.training.step import Step

# Scores the validation sets with a network; all ranks call it together. It returns the same on all
# ranks; None where there is nothing to validate on.
Validate = Callable[[nn.Module, NetworkName], ValidationResult | None]


@dataclass(frozen=True)
class _Requests:
    """What any rank requested with a step; the same on all ranks.

    Attributes:
        stop: that the run stops.
        save: a checkpoint inside the epoch, as the last one is long ago.
        settle: to conclude the last save, whose file is whole.
    """

    stop: bool = False
    save: bool = False
    settle: bool = False


class Trainer:
    """The training of a step's network on a step's utterances.

    Args:
        loader: reads clips of the utterances by the keys of `Share.clip_keys`.
        layout: of the run, whose networks are called as `Progress.network_name` says.
        sampler: of the utterances; None: each has one turn per epoch.
    """

    def __init__(
        self,
        step: Step,
        *,
        loader: BatchLoader,
        layout: Layout,
        validate: Validate,
        stop: StopRequest,
        callbacks: CallbackGroup,
        sampler: Sampler | None = None,
    ) -> None:
        self.step = step
        self.utterances = step.utterances
        self.settings = step.settings
        self.world = step.world
        self.loader = loader
        self.layout = layout
        self.validate = validate
        self.stop = stop
        self.callbacks = callbacks
        self.orders = Orders(sampler or Shuffled(self.settings, self.utterances))
        self.plan = _plan_training(step, self.orders)
        self.progress = Progress(world_size=self.world.size, list_digest=self.utterances.digest())
        self.profile = StepProfile(
            self.settings.computing.profile_steps, layout.profile, step.clock, self.world
        )
        self.saving = Saving(step, layout, callbacks)
        self.lines = ProgressLines(step, self.plan, loader, callbacks)
        self.observer = StepObserver(step, self.plan, callbacks)

    def resume(self, checkpoint: NetworkFile, evaluations: list[Evaluation]) -> None:
        """Go on from a checkpoint whose weights the network already has.

        Args:
            evaluations: those of the run so far; some may be newer than the checkpoint.

        Raises:
            AsdfError: the checkpoint was written with another optimiser.
        """
        self.step.load_state(checkpoint)
        progress = Progress.from_state(checkpoint.progress)
        self._adapt_to_this_run(progress)
        # The steps of later evaluations are taken again, and evaluated again.
        progress.evaluations = [
            evaluation for evaluation in evaluations if evaluation.step <= progress.step
        ]
        metric = self.settings.network.validation_metric
        remarks = [
            other_precisions(progress.evaluations, self._scoring_precision()),
            other_metrics(progress.evaluations, metric),
        ]
        for remark in filter(None, remarks):
            LOG.warning("warning: %s", remark)
        # The reason of an earlier end is computed again: the settings may now let training go on.
        progress.finished = plateau_end(self.settings.network, progress)
        self.progress = progress
        self._stop_early()

    def _adapt_to_this_run(self, progress: Progress) -> None:
        """Adapt a checkpoint's progress to this run's list and processes; warn of differences."""
        if progress.list_digest != self.utterances.digest():
            LOG.warning(
                "the training list is not the one that the checkpoint was trained on: "
                "its epoch begins anew"
            )
            # A position in the order of another list would skip and repeat utterances.
            progress.begin_epoch()
        elif progress.order_digest:
            self._adapt_to_orders(progress)
        if progress.world_size != self.world.size:
            LOG.warning(
                "trained by %d processes so far, by %d from here on: every turn of this epoch is "
                "still taken once, but the steps differ from those of an uninterrupted run",
                progress.world_size,
                self.world.size,
            )
        progress.world_size = self.world.size
        progress.list_digest = self.utterances.digest()

    def _adapt_to_orders(self, progress: Progress) -> None:
        """Begin an epoch anew whose order is another one now; warn of it."""
        last = progress.epochs + bool(progress.position)
        if progress.order_digest == self.orders.digest(last):
            return
        consequence = "epochs have another order from here on"
        if progress.position:
            consequence = "its epoch begins anew"
            progress.begin_epoch()
        LOG.warning(
            "the order of the training utterances is not the one that the checkpoint was trained "
            "in, as %s, recipe.seed or something else that it follows from has changed: %s",
            SETTING,
            consequence,
        )

    def run(self) -> None:
        """Train to the end.

        Raises:
            Stopped: a stop was requested; a checkpoint has been written.
            AsdfError: the loss is not finite, or a recording cannot be read; no network was written
                from it.
        """
        self.step.network.train()
        # Not those of the list: a sampler may repeat utterances, or leave them out.
        turns = self.plan.order(1)
        self.step.loss.begin_training(self.step.labels[turns])
        try:
            self.callbacks.show(Training(self.step.network, self.step.optimiser, self.progress))
            self.callbacks.call("on_start", self.progress.step)
            self.profile.begin(self.progress.step)
            self.lines.begin_run(self.progress)
            with self.saving.running():
                # A run that stopped at the end of an epoch saved its network without evaluating it.
                self._evaluate_if_due()
                while not self.finished():
                    self._train_epoch()
                self.saving.settle()
            position = position_of(self.progress, self.plan)
            self.callbacks.call("on_end", {**position, "reason": self.finished()})
        finally:
            self.profile.close()

    def finished(self) -> str:
        """Return why training is over; '' while it is not."""
        progress = self.progress
        limits = self.settings.network
        if progress.finished:
            return progress.finished
        if progress.epochs >= limits.max_epochs:
            return f"network.max_epochs = {limits.max_epochs}"
        if limits.max_steps is not None and progress.step >= limits.max_steps:
            return f"network.max_steps = {limits.max_steps}"
        return ""

    def _train_epoch(self) -> None:
        """Train for the rest of the current epoch, or until training is over."""
        progress = self.progress
        plan = self.plan
        epoch = progress.epochs + 1
        start = progress.position
        progress.order_digest = self._agree_on_order(epoch)
        self.callbacks.call("on_epoch_start", epoch)
        self.step.begin_epoch(progress.epochs)
        clips = self.loader.unboosted_batches(self._clip_keys(epoch, start))
        self.step.clock.restart()
        self.saving.timer.restart()
        self.lines.begin_epoch(progress)
        requests = _Requests()
        with self._progress_bar(epoch, start) as bar:
            for window in plan.windows(epoch, start):
                requests = self._take_step(window, clips, bar)
                # After the last window `_end_epoch` decides: only then is the epoch's loss known.
                if window.end < plan.size:
                    self._inside_epoch(requests)
                    if self.finished():
                        return
                self.profile.after_step(progress.step)
        decoded = self.loader.decoded_by_ffmpeg
        log_fallbacks(
            f"training, epoch {epoch}", decoded, self.utterances, plan.size - start, self.world
        )
        self._end_epoch(requests.stop)

    def _agree_on_order(self, epoch: int) -> str:
        """Return the digest of the order of `epoch`, which must be the same on all ranks.

        Raises:
            AsdfError: a rank has another order; on every rank.
        """
        digest = self.orders.digest(epoch)
        others = self.world.sum([float(digest != self.world.agree(digest))])[0]
        if others:
            raise AsdfError(
                f"{SETTING} = {self.settings.recipe.sampler!r}: {others:.0f} of the "
                f"{self.world.size} processes have another order of epoch {epoch} than the first. "
                "An order must follow from the seed and the epoch alone, not from the process, the "
                "clock or hash()."
            )
        return digest

    def _take_step(self, window: Window, clips: Iterator[Batch], bar: tqdm) -> _Requests:
        progress = self.progress
        flags = [float(bool(self.stop)), *self.saving.flags()]
        self.profile.before_step(progress.step + 1)
        taken = self.step.take(window, clips, progress, flags)
        # A flag is summed over the ranks: that of one rank counts for all.
        requests = _Requests(*(ranks > 0 for ranks in taken.flags))
        if requests.settle:
            self.saving.settle()
        self.observer.after_step(taken, window, progress)
        bar.update()
        self.lines.log_if_due(progress, taken.learning_rate, bar)
        return requests

    def _clip_keys(self, epoch: int, start: int) -> Iterator[list[tuple[int, int]]]:
        """Yield the keys of this rank's minibatches of the epoch from position `start` on."""
        for window in self.plan.windows(epoch, start):
            for share in window.shares:
                yield share.clip_keys()

    def _progress_bar(self, epoch: int, start: int) -> tqdm:
        is_shown = self.world.is_main and sys.stderr.isatty()
        return tqdm(
            total=self.plan.steps_per_epoch(),
            initial=start // self.plan.window_size,
            desc=f"epoch {epoch}",
            unit="step",
            leave=False,
            disable=not is_shown,
        )

    def _inside_epoch(self, requests: _Requests) -> None:
        """Evaluate, save or stop after a step that is not the last of its epoch."""
        intervals = self.settings.network
        step = self.progress.step
        if _divides(intervals.evaluation_interval_steps, step) or self.finished():
            # Not to `RESUME`, which the next save replaces: an evaluated network may be chosen.
            self.saving.save(self.progress.network_name(), self.progress)
            self._evaluate_if_due()
        elif requests.stop or requests.save or _divides(intervals.checkpoint_interval_steps, step):
            self.saving.save(RESUME, self.progress)
        if requests.stop and not self.finished():
            raise self._stopped()

    def _end_epoch(self, stop: bool) -> None:
        self.profile.end()
        progress = self.progress
        loss = progress.loss_sum / progress.weight_sum
        progress.epochs += 1
        progress.begin_epoch()
        LOG.info("epoch %d: training loss %.4f", progress.epochs, loss)
        ended = {"step": progress.step, "epoch": progress.epochs, "loss": loss}
        self.callbacks.call("on_epoch_end", ended)
        lowered = update_plateau(self.settings.network, progress, loss)
        if lowered:
            LOG.info("%s", lowered)
        self.saving.save(progress.network_name(), progress, ends_epoch=True)
        # A checkpoint exists: a resumed run evaluates first, so a stop need not wait for that.
        if stop and not self.finished():
            raise self._stopped()
        self._evaluate_if_due()

    def _evaluate_if_due(self) -> None:
        """Score the validation sets if that is due at this step and has not been done yet."""
        progress = self.progress
        if not self._evaluation_is_due():
            return
        self.profile.end()
        # Each rank scores its share of the sets, so all must have the same running statistics.
        self.world.broadcast_buffers(self.step.network)
        with self.step.whole_network() as network:
            result = self.validate(network, progress.network_name())
        # Networks are removed below: the newest one has to be whole on the disk before that.
        self.saving.settle()
        if result:
            evaluation = Evaluation(
                network=progress.network_name(),
                eers=result.eers,
                scoring_precision=self._scoring_precision(),
                chosen_by=result.chosen_by,
                **position_of(progress, self.plan),
            )
            progress.evaluations.append(evaluation)
            self.callbacks.call("on_evaluation", evaluation.record())
            self._stop_early()
        self.world.run_on_main(self._write_evaluations)
        self.saving.timer.restart()

    def _evaluation_is_due(self) -> bool:
        progress = self.progress
        intervals = self.settings.network
        if progress.step == 0 or progress.evaluated():
            return False
        if progress.position == 0 and progress.epochs % intervals.epochs_per_train_call == 0:
            return True
        is_requested = _divides(intervals.evaluation_interval_steps, progress.step)
        return is_requested or bool(self.finished())

    def _write_evaluations(self) -> None:
        """Write the evaluations and remove the networks that are not to be retained by them."""
        write_evaluations(self.layout, self.progress.evaluations)
        remove_networks(self.layout, self.settings, self.progress.evaluations)

    def _stop_early(self) -> None:
        """End training if the metric has not improved for `network.early_stop_evaluations`."""
        patience = self.settings.network.early_stop_evaluations
        metric = self.settings.network.validation_metric
        improvement = last_improvement(self.progress.evaluations, metric)
        if patience is None or improvement is None:
            return
        since = improvement.evaluations_since
        if since >= patience:
            best = improvement.evaluation.network.file
            shown = "EER" if metric == EER else metric
            self.progress.finished = (
                f"{since} evaluations without a better {shown} than that of {best}"
            )

    def _scoring_precision(self) -> str:
        """Return what validation scores are computed in; all ranks call this together."""
        return agree_on_precision(self.settings.computing.scoring_precision, self.world).name

    def _stopped(self) -> Stopped:
        self.saving.settle()
        return Stopped(self.world.agree(self.stop.reason), f"after step {self.progress.step}")


def _plan_training(step: Step, orders: Orders) -> TrainingPlan:
    """Return the order in which this rank reads the utterances."""
    settings = step.settings
    world = step.world
    return TrainingPlan(
        orders.size,
        minibatch_per_process(settings.network, world.size),
        settings.network.optimizer_step_interval,
        world.size,
        world.rank,
        settings.recipe.seed,
        settings.computing.sync_batch_norm,
        orders,
    )


def _divides(interval: int | None, step: int) -> bool:
    return interval is not None and step % interval == 0
