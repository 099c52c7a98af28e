"""The training loop: epochs, validation, checkpoints, and when it ends.

Decisions:
- after each step inside an epoch: whether to evaluate, which first saves the network under its own
  name; otherwise whether to save a checkpoint for resuming; then whether to stop;
- at the end of an epoch: whether the plateau schedule lowers the rate. The network is always saved;
  then a requested stop takes effect, then the evaluation follows;
- after an evaluation: whether training ends early, and which networks are removed.

Invariant: all ranks take the same decisions. Requests to stop or save are summed over the ranks in
each step; whether an evaluation is due depends on the progress, which is the same on all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from tqdm import tqdm

from asdf.checkpoint.network_file import NetworkFile
from asdf.data.batches import Batch
from asdf.data.loaders import BatchLoader
from asdf.data.sampler_orders import LengthGroups, Orders
from asdf.data.samplers import Sampler, Shuffled
from asdf.data.training_plan import TrainingPlan, Window, minibatch_per_process
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.runs.evaluations import (
    EER,
    Evaluation,
    ValidationResult,
    last_improvement,
    other_metrics,
    other_precisions,
    write_evaluations,
)
from asdf.runs.layout import RESUME, Layout, NetworkName
from asdf.runs.log import LOG
from asdf.scoring.computing import agree_on_precision
from asdf.training.callback_group import CallbackGroup, ProgressLines, StepObserver
from asdf.training.callbacks import Training
from asdf.training.checkpoints import Saving, remove_networks
from asdf.training.profile import StepProfile
from asdf.training.schedules import plateau_end, update_plateau
from asdf.training.step import Step
from asdf.training.training_progress import Progress, adapt_progress, agree_on_order, position_of

# Scores the validation sets with a network; all ranks call it together and get the same result,
# None if there is nothing to validate on.
Validate = Callable[[nn.Module, NetworkName], ValidationResult | None]


@dataclass(frozen=True)
class _Requests:
    """Requests of any rank in a step, the same on all ranks.

    Attributes:
        stop: Request to stop the run.
        save: Request for a checkpoint inside the epoch, since the last one is old.
        settle: Request to conclude the last save, whose file is complete.
    """

    stop: bool = False
    save: bool = False
    settle: bool = False


class Trainer:
    """The training of a step's network on a step's utterances.

    Args:
        loader: Loader of the clips of the utterances, by the keys of `Share.loader_keys`.
        layout: Layout of the run, whose networks are named by `Progress.network_name`.
        sampler: Sampler of the utterances; None for one turn each per epoch.
        groups: Groups by length; None if clips have one length.
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
        groups: LengthGroups | None = None,
    ) -> None:
        self.step = step
        self.utterances = step.utterances
        self.settings = step.settings
        self.world = step.world
        self.loader = loader
        self.layout = layout
        self.stop = stop
        self.callbacks = callbacks
        self.orders = Orders(sampler or Shuffled(self.settings, self.utterances), groups)
        network, computing = self.settings.network, self.settings.computing
        self.plan = TrainingPlan(
            self.orders.size,
            minibatch_per_process(network, self.world.size),
            network.optimizer_step_interval,
            self.world.size,
            self.world.rank,
            self.settings.recipe.seed,
            computing.sync_batch_norm,
            self.orders,
        )
        self.progress = Progress(world_size=self.world.size, list_digest=self.utterances.digest())
        self.profile = StepProfile(computing.profile_steps, layout.profile, step.clock, self.world)
        self.saving = Saving(step, layout, callbacks)
        self.validate = validate
        self.lines = ProgressLines(step, self.plan, loader, callbacks)
        self.observer = StepObserver(step, self.plan, callbacks)

    def resume(self, checkpoint: NetworkFile, evaluations: list[Evaluation]) -> None:
        """Continue from a checkpoint whose weights the network already has.

        Args:
            evaluations: Evaluations of the run so far; some may be newer than the checkpoint.

        Raises:
            AsdfError: the checkpoint was written with another optimiser.
        """
        self.step.load_state(checkpoint)
        progress = Progress.from_state(checkpoint.progress)
        adapt_progress(progress, self.utterances, self.orders, self.world)
        self._restore(progress, evaluations)
        # The reason for an earlier end is recomputed, since the settings may now allow more
        # training.
        progress.finished = plateau_end(self.settings.network, progress)
        self.progress = progress
        self._stop_early(progress)

    def run(self) -> None:
        """Train to the end.

        Raises:
            Stopped: a stop was requested; a checkpoint has been written.
            AsdfError: the loss is not finite, or a recording cannot be read; no network was written
                from it.
        """
        self.step.network.train()
        # Not the labels of the list, since a sampler may repeat or omit utterances.
        turns = self.plan.order(1)
        self.step.objective.begin_training(self.step.targets.labels[turns])
        if self.progress.step:
            # An evaluation that an earlier start did not finish uses the loss of its last step.
            begun = self.plan.begin_of_last_step(self.progress.epochs, self.progress.position)
            self.step.objective.begin_step(begun)
        try:
            self.callbacks.show(
                Training(self.step.network, self.step.update.optimiser, self.progress)
            )
            self.callbacks.call("on_start", self.progress.step)
            self.profile.begin(self.progress.step)
            self.lines.begin_run(self.progress)
            with self.saving.running():
                # A run that stopped at the end of an epoch saved its network without evaluating it.
                self._score_if_due()
                while not self.finished():
                    self._train_epoch()
                self.saving.end()
            position = position_of(self.progress, self.plan)
            self.callbacks.call("on_end", {**position, "reason": self.finished()})
        finally:
            self.profile.close()

    def finished(self) -> str:
        """Return why training is over; '' if it is not."""
        progress, limits = self.progress, self.settings.network
        if progress.finished:
            return progress.finished
        if progress.epochs >= limits.max_epochs:
            return f"network.max_epochs = {limits.max_epochs}"
        is_over = limits.max_steps is not None and progress.step >= limits.max_steps
        return f"network.max_steps = {limits.max_steps}" if is_over else ""

    def _train_epoch(self) -> None:
        """Train for the rest of the current epoch, or until training is over."""
        progress = self.progress
        plan = self.plan
        epoch = progress.epochs + 1
        start = progress.position
        sampler = self.settings.recipe.sampler
        progress.order_digest = agree_on_order(self.orders, epoch, sampler, self.world)
        self.callbacks.call("on_epoch_start", epoch)
        self.step.begin_epoch(progress.epochs)
        windows = plan.windows(epoch, start)
        keys = (share.loader_keys() for window in windows for share in window.shares)
        clips = self.loader.unboosted_batches(keys)
        self.step.clock.restart()
        self.saving.timer.restart()
        self.lines.begin_epoch(progress)
        requests = _Requests()
        bar = tqdm(
            total=plan.steps_per_epoch(epoch),
            initial=plan.steps_before(epoch, start),
            desc=f"epoch {epoch}",
            unit="step",
            leave=False,
            disable=not (self.world.is_main and sys.stderr.isatty()),
        )
        with bar:
            for window in plan.windows(epoch, start):
                requests = self._take_step(window, clips, bar)
                # After the last window, `_end_epoch` decides, since only then the epoch's loss is
                # known.
                if window.end < plan.size:
                    self._inside_epoch(requests)
                    if self.finished():
                        return
                self.profile.after_step(progress.step)
        self._end_epoch(requests.stop)

    def _take_step(self, window: Window, clips: Iterator[Batch], bar: tqdm) -> _Requests:
        progress = self.progress
        flags = [float(bool(self.stop)), *self.saving.flags()]
        self.profile.before_step(progress.step + 1)
        taken = self.step.take(window, clips, progress, flags)
        # Flags are summed over the ranks, so a request of one rank counts for all.
        requests = _Requests(*(ranks > 0 for ranks in taken.flags))
        if requests.settle:
            self.saving.settle()
        self.observer.after_step(taken, window, progress)
        bar.update()
        self.lines.log_if_due(progress, taken.learning_rate, bar)
        return requests

    def _inside_epoch(self, requests: _Requests) -> None:
        """Evaluate, save or stop after a step that is not the last of its epoch."""
        intervals = self.settings.network
        step = self.progress.step
        if divides(intervals.evaluation_interval_steps, step) or self.finished():
            # Not saved as `RESUME`, which the next save replaces, since an evaluated network may be
            # chosen.
            self.saving.save(self.progress.network_name(), self.progress)
            self._score_if_due()
        elif requests.stop or requests.save or divides(intervals.checkpoint_interval_steps, step):
            self.saving.save(RESUME, self.progress)
        if requests.stop and not self.finished():
            raise self._stopped()

    def _end_epoch(self, stop: bool) -> None:
        self.profile.end()
        progress = self.progress
        loss = progress.loss_sum / progress.weight_sum
        terms = progress.terms_of_epoch()
        progress.epochs += 1
        progress.begin_epoch()
        shown = "".join(f", {name} {value:.4f}" for name, value in terms.items())
        LOG.info("epoch %d: training loss %.4f%s", progress.epochs, loss, shown)
        ended: dict[str, Any] = {"step": progress.step, "epoch": progress.epochs, "loss": loss}
        if terms:
            ended["terms"] = terms
        self.callbacks.call("on_epoch_end", ended)
        lowered = update_plateau(self.settings.network, progress, loss)
        if lowered:
            LOG.info("%s", lowered)
        self.saving.save(progress.network_name(), progress, ends_epoch=True)
        # A checkpoint exists and a resumed run evaluates first, so a stop need not wait for that.
        if stop and not self.finished():
            raise self._stopped()
        self._score_if_due()

    def _stopped(self) -> Stopped:
        self.saving.settle()
        return Stopped(self.world.agree(self.stop.reason), f"after step {self.progress.step}")

    def _score_if_due(self) -> None:
        """Score the validation sets if this is due at this step and not done yet."""
        progress = self.progress
        intervals = self.settings.network
        if progress.step == 0 or progress.evaluated():
            return
        ends_epochs = progress.position == 0 and (
            progress.epochs % intervals.epochs_per_train_call == 0
        )
        is_requested = divides(intervals.evaluation_interval_steps, progress.step)
        if not (ends_epochs or is_requested or self.finished()):
            return
        self.profile.end()
        # Each rank scores its share of the sets, so all must have the same running statistics.
        self.world.broadcast_buffers(self.step.network)
        with self.step.whole_network() as network:
            result = self.validate(network, progress.network_name())
        # Networks are removed below, so the newest one must be complete on the disk first.
        self.saving.settle()
        if result:
            evaluation = Evaluation(
                network=progress.network_name(),
                eers=result.eers,
                scoring_precision=self._scoring_precision(),
                chosen_by=result.chosen_by,
                recordings=result.recordings,
                losses=result.losses,
                **position_of(progress, self.plan),
            )
            progress.evaluations.append(evaluation)
            self.callbacks.call("on_evaluation", evaluation.record())
            self._stop_early(progress)

        def write() -> None:
            write_evaluations(self.layout, progress.evaluations)
            remove_networks(self.layout, self.settings, progress.evaluations)

        self.world.run_on_main(write)
        self.saving.timer.restart()

    def _restore(self, progress: Progress, evaluations: list[Evaluation]) -> None:
        """Restore the evaluations of the run so far up to a checkpoint's step.

        A warning is logged if their numbers are not comparable with future ones.
        """
        # The steps of later evaluations are repeated, and evaluated again.
        known = [evaluation for evaluation in evaluations if evaluation.step <= progress.step]
        progress.evaluations = known
        precision, metric = self._scoring_precision(), self.settings.network.validation_metric
        remarks = (other_precisions(known, precision), other_metrics(known, metric))
        for remark in filter(None, remarks):
            LOG.warning("warning: %s", remark)

    def _stop_early(self, progress: Progress) -> None:
        """End training if the metric has not improved for `network.early_stop_evaluations`."""
        patience = self.settings.network.early_stop_evaluations
        metric = self.settings.network.validation_metric
        improvement = last_improvement(progress.evaluations, metric)
        if patience is None or improvement is None:
            return
        since = improvement.evaluations_since
        if since >= patience:
            best = improvement.evaluation.network.file
            shown = "EER" if metric == EER else metric
            progress.finished = f"{since} evaluations without a better {shown} than that of {best}"

    def _scoring_precision(self) -> str:
        """Return the precision of validation scores; all ranks call this together."""
        return agree_on_precision(self.settings.computing.scoring_precision, self.world).name


def divides(interval: int | None, step: int) -> bool:
    """Whether a step is a multiple of an interval; None matches no step."""
    return interval is not None and step % interval == 0
