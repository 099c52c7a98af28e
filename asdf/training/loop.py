"""The training loop: epochs, validation, checkpoints, and when it ends.

Invariant: all ranks go the same way. Whether to stop or to save is summed over them with each step; whether an
evaluation is due follows from the progress, which is the same on all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn
from tqdm import tqdm

from asdf.data.decoders import tell_fallbacks
from asdf.data.loaders import BatchLoader
from asdf.data.training_plan import TrainingPlan, minibatch_per_process
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.world import World
from asdf.runs.log import LOG
from asdf.runs.network_files import RESUME, other_precisions, write_evaluations
from asdf.scoring.precision import agree_on_precision
from asdf.settings.sections import Sections
from asdf.training.callback_group import CallbackGroup
from asdf.training.instruments.profile import StepProfile
from asdf.training.instruments.progress_lines import ProgressLines, position_of
from asdf.training.optimisers import plateau_end, update_plateau
from asdf.training.progress import Progress
from asdf.training.retention import remove_networks
from asdf.training.saving import Saving
from asdf.training.step import Step
from asdf.trials.trial_list import TrialList

Evaluate = Callable[[nn.Module, str], dict[str, float]]


class Trainer:
    """Trains a network; the names of the files that it writes to `folder` are those of `Progress.name`.

    Profiles are written beside that folder.

    Args:
        loader: reads clips of `utterances` by the keys (epoch, utterance).
        evaluate: scores the validation sets with a network of the given name and returns their EERs, the same on
            every rank; an empty result means that there is nothing to evaluate.
    """

    def __init__(
        self,
        step: Step,
        utterances: TrialList,
        loader: BatchLoader,
        settings: Sections,
        world: World,
        folder: Path,
        evaluate: Evaluate,
        stop: StopRequest,
        callbacks: CallbackGroup,
    ) -> None:
        net = settings.network
        self.step, self.utterances, self.loader = step, utterances, loader
        self.settings, self.world, self.folder = settings, world, folder
        self.evaluate, self.stop, self.callbacks = evaluate, stop, callbacks
        self.plan = TrainingPlan(
            len(utterances),
            minibatch_per_process(net, world.size),
            net.optimizer_step_interval,
            world.size,
            world.rank,
            settings.recipe.seed,
            settings.computing.sync_batch_norm,
        )
        self.progress = Progress(world_size=world.size, list_digest=utterances.digest())
        self.profile = StepProfile(
            settings.computing.profile_steps, folder.parent / "profile", step.clock, world
        )
        self.saving = Saving(step, settings, world, folder, callbacks)
        self.lines = ProgressLines(step, self.plan, net, loader, callbacks)

    def resume(self, content: dict[str, Any], evaluations: list[dict[str, Any]]) -> None:
        """Go on from the content of a checkpoint whose weights the network already has.

        Args:
            evaluations: what is known of the networks up to there; an evaluation may be newer than its checkpoint.
        """
        self.step.load_state(content)
        progress = Progress.from_state(content["progress"])
        if progress.list_digest != self.utterances.digest():
            LOG.warning(
                "the training list is not the one that the checkpoint was trained on: its epoch begins anew"
            )
            progress.begin_epoch()
        if progress.world_size != self.world.size:
            LOG.warning(
                "trained by %d processes so far, by %d from here on: every utterance still has its one turn in this "
                "epoch, but the steps differ from those of a run that was never stopped",
                progress.world_size,
                self.world.size,
            )
        progress.world_size, progress.list_digest = self.world.size, self.utterances.digest()
        progress.evaluations = [
            evaluation for evaluation in evaluations if evaluation["step"] <= progress.step
        ]
        remark = other_precisions(progress.evaluations, self._scoring_precision())
        if remark:
            LOG.warning("warning: %s", remark)
        # Why training ended is asked anew: the settings may now let it go on.
        progress.finished = plateau_end(self.settings, progress)
        self.progress = progress
        self._early_stop()

    def run(self) -> None:
        """Train to the end.

        Raises:
            Stopped: a stop was requested; a checkpoint has been written.
            AsdfError: the loss is not finite, or a recording cannot be read; no network was written from it.
        """
        self.step.network.train()
        try:
            self.callbacks.call("on_start", self.progress.step)
            self.profile.begin(self.progress.step)
            self.lines.begin_run(self.progress)
            with self.saving.running():
                self._evaluate_if_due()
                while not self.finished():
                    self._train_epoch()
                self.saving.settle()
            self.callbacks.call(
                "on_end", {**position_of(self.progress, self.plan), "reason": self.finished()}
            )
        finally:
            self.profile.close()
            self.callbacks.report_failures()

    def finished(self) -> str:
        """Return why training is over; '' while it is not."""
        progress, net = self.progress, self.settings.network
        if not progress.finished and progress.epochs >= net.max_epochs:
            return f"network.max_epochs = {net.max_epochs}"
        if not progress.finished and net.max_steps is not None and progress.step >= net.max_steps:
            return f"network.max_steps = {net.max_steps}"
        return progress.finished

    def _train_epoch(self) -> None:
        """Train for the rest of the current epoch, or until training is over."""
        progress, plan = self.progress, self.plan
        epoch = progress.epochs + 1
        start = progress.position
        self.step.begin_epoch(progress.epochs)
        shares = (share for window in plan.windows(epoch, start) for share in window.shares)
        clips = self.loader.unboosted_batches(
            [(epoch, i) for i in share.utterances.tolist()] for share in shares
        )
        self.step.clock.restart()
        self.saving.timer.restart()
        self.lines.begin_epoch(progress)
        hidden = not (self.world.is_main and sys.stderr.isatty())
        with tqdm(
            total=plan.steps_per_epoch(),
            initial=start // plan.window_size,
            desc=f"epoch {epoch}",
            unit="step",
            leave=False,
            disable=hidden,
        ) as bar:
            for window in plan.windows(epoch, start):
                flags = [float(bool(self.stop)), *self.saving.flags()]
                self.profile.before_step(progress.step + 1)
                rate, stop, late, settled = self.step.take(window, clips, progress, flags)
                if settled:
                    self.saving.settle()
                bar.update()
                self.lines.log_if_due(progress, rate, bar)
                if window.end < plan.size:
                    self._inside_epoch(bool(stop), bool(late))
                    if self.finished():
                        return
                self.profile.after_step(progress.step)
        decoded = self.loader.decoded_by_ffmpeg
        tell_fallbacks(
            f"training, epoch {epoch}", decoded, self.utterances, plan.size - start, self.world
        )
        self._end_epoch(bool(stop))

    def _inside_epoch(self, stop: bool, late: bool) -> None:
        """Evaluate, save or stop after a step that is not the last of its epoch."""
        net, step = self.settings.network, self.progress.step
        if _divides(net.evaluation_interval_steps, step) or self.finished():
            self.saving.save(self.progress.name(), self.progress)
            self._evaluate_if_due()
        elif stop or late or _divides(net.checkpoint_interval_steps, step):
            self.saving.save(RESUME, self.progress)
        if stop and not self.finished():
            raise self._stopped()

    def _end_epoch(self, stop: bool) -> None:
        self.profile.end()
        progress = self.progress
        loss = progress.loss_sum / progress.weight_sum
        progress.epochs += 1
        progress.begin_epoch()
        LOG.info("epoch %d: training loss %.4f", progress.epochs, loss)
        line = update_plateau(self.settings, progress, loss)
        if line:
            LOG.info("%s", line)
        self.saving.save(progress.name(), progress, ends_epoch=True)
        if stop and not self.finished():
            raise self._stopped()
        self._evaluate_if_due()

    def _evaluate_if_due(self) -> None:
        """Score the validation sets if that is due at this step and has not been done yet."""
        progress, net = self.progress, self.settings.network
        whole = progress.position == 0 and progress.epochs % net.epochs_per_train_call == 0
        due = whole or _divides(net.evaluation_interval_steps, progress.step) or self.finished()
        if progress.step == 0 or progress.evaluated() or not due:
            return
        self.profile.end()
        self.world.broadcast_buffers(self.step.network)
        with self.step.whole_network() as network:
            eers = self.evaluate(network, progress.name())
        self.saving.settle()
        if eers:
            record = {
                **position_of(self.progress, self.plan),
                "network": progress.name(),
                "eer": eers,
            }
            record["scoring_precision"] = self._scoring_precision()
            progress.evaluations.append(record)
            self.callbacks.call("on_evaluation", record)
            self._early_stop()
        self.world.run_on_main(self._tidy)
        self.saving.timer.restart()

    def _tidy(self) -> None:
        write_evaluations(self.folder, self.progress.evaluations)
        remove_networks(self.folder, self.settings, self.progress.evaluations)

    def _early_stop(self) -> None:
        evaluations = self.progress.evaluations
        patience = self.settings.network.early_stop_evaluations
        if patience is None or not evaluations:
            return
        eers = [next(iter(evaluation["eer"].values())) for evaluation in evaluations]
        best = eers.index(min(eers))  # the first of equals: to reach it again is no gain
        since = len(evaluations) - 1 - best
        if since >= patience:
            name = evaluations[best]["network"]
            self.progress.finished = f"{since} evaluations without a better EER than that of {name}"

    def _scoring_precision(self) -> str:
        """Return what EERs of validation are computed in; all ranks come here together."""
        return agree_on_precision(self.settings.computing.scoring_precision, self.world).name

    def _stopped(self) -> Stopped:
        self.saving.settle()
        return Stopped(self.world.agree(self.stop.reason), f"after step {self.progress.step}")


def _divides(interval: int | None, step: int) -> bool:
    return interval is not None and step % interval == 0
