"""The training loop: epochs, validation, checkpoints, and when it ends.

Invariant: all ranks go the same way. Whether to stop or to save is summed over them with each step; whether an
evaluation is due follows from the progress, which is the same on all of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn
from tqdm import tqdm

from asdf.data.decoders import tell_fallbacks
from asdf.data.lists import UtteranceList
from asdf.data.loaders import BatchLoader
from asdf.data.training_plan import TrainingPlan, minibatch_per_process
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.world import World
from asdf.runs.log import LOG
from asdf.scoring.precision import agree_on_precision
from asdf.settings.sections import Sections
from asdf.training.callback_group import CallbackGroup
from asdf.training.data_wait import DataWait, waiting
from asdf.training.network_files import RESUME, other_precisions, write_evaluations
from asdf.training.optimisers import plateau_end, update_plateau
from asdf.training.profile import StepProfile
from asdf.training.progress import Progress
from asdf.training.retention import remove_networks
from asdf.training.saving import Saving
from asdf.training.step import Step
from asdf.training.time_left import TimeLeft

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
        utterances: UtteranceList,
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
        self.data_wait = DataWait(loader.workers, loader.cores)
        self.saving = Saving(step, settings, world, folder, callbacks)
        self.time_left = TimeLeft(net, self.plan)
        self._note_printed()

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
        progress.evaluations = [one for one in evaluations if one["step"] <= progress.step]
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
            Stopped: a stop was asked for; a checkpoint has been written.
            AsdfError: the loss is not finite, or a recording cannot be read; no network was written from it.
        """
        self.step.network.train()
        try:
            self.callbacks.call("on_start", self.progress.step)
            self.profile.begin(self.progress.step)
            self.time_left.begin(self.progress.step)
            with self.saving.running():
                self._evaluate_if_due()
                while not self.finished():
                    self._train_epoch()
                self.saving.settle()
            self.callbacks.call("on_end", {**self._position(), "reason": self.finished()})
        finally:
            self.profile.close()
            self.callbacks.report_failures()

    def finished(self) -> str:
        """Why training is over; '' while it is not."""
        progress, net = self.progress, self.settings.network
        if not progress.finished and progress.epochs >= net.max_epochs:
            return f"network.max_epochs = {net.max_epochs}"
        if not progress.finished and net.max_steps is not None and progress.step >= net.max_steps:
            return f"network.max_steps = {net.max_steps}"
        return progress.finished

    def _train_epoch(self) -> None:
        """The rest of the current epoch, or until training is over."""
        progress, plan, epoch = self.progress, self.plan, self.progress.epochs + 1
        start = progress.position
        self.step.begin_epoch(progress.epochs)
        shares = (share for window in plan.windows(epoch, start) for share in window.shares)
        clips = self.loader.unboosted_batches(
            [(epoch, i) for i in share.utterances.tolist()] for share in shares
        )
        self.step.clock.restart()
        self.saving.timer.restart()
        self._note_printed()
        steady = False
        hidden = not (self.world.is_main and sys.stderr.isatty())
        total, done = plan.steps_per_epoch(), start // plan.window_size
        with tqdm(
            total=total,
            initial=done,
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
                if progress.step % self.settings.network.print_interval == 0:
                    self._print(rate, steady, bar)
                    steady = True
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
        """Score the validation sets if this place of the run asks for it and it has not been done yet."""
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
            record = {**self._position(), "network": progress.name(), "eer": eers}
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
        evaluations, patience = (
            self.progress.evaluations,
            self.settings.network.early_stop_evaluations,
        )
        if patience is None or not evaluations:
            return
        eers = [next(iter(evaluation["eer"].values())) for evaluation in evaluations]
        best = eers.index(min(eers))  # the first of equals: to reach it again is no gain
        since = len(evaluations) - 1 - best
        if since >= patience:
            name = evaluations[best]["network"]
            self.progress.finished = f"{since} evaluations without a better EER than that of {name}"

    def _note_printed(self) -> None:
        self._printed = (time.monotonic(), self.progress.position, self.step.clock.seconds())

    def _print(self, rate: float, steady: bool, bar: tqdm) -> None:
        """Log a progress line, for the steps since the last one, and call the callbacks."""
        progress, plan = self.progress, self.plan
        since, position, clock = self._printed
        self._note_printed()
        seconds = {part: now - clock[part] for part, now in self._printed[2].items()}
        speed = (progress.position - position) / (self._printed[0] - since)
        seconds_left = self.time_left.seconds(progress)
        left = self.time_left.describe(seconds_left)
        loss = progress.loss_since_printed()
        LOG.info(
            "epoch %d, utterance %d of %d, step %d: loss %.4f, learning rate %.3g, %.1f utterances/s, %s",
            progress.epochs + 1,
            progress.position,
            plan.size,
            progress.step,
            loss,
            rate,
            speed,
            left,
        )
        bar.set_postfix_str(left)
        advice = self.data_wait.advice(seconds, steady)
        if advice:
            LOG.info("%s", advice)
        record = {
            **self._position(),
            "loss": loss,
            "learning_rate": rate,
            "utterances_per_s": speed,
            "data_wait": waiting(seconds),
            "seconds_left": seconds_left,
            **self._loss_scale(),
        }
        self.callbacks.call("on_step", record)

    def _loss_scale(self) -> dict[str, Any]:
        """fp16's loss scale, and the steps that it skipped since the last progress line, of which the log hears."""
        last = self.step.last
        if last.loss_scale is None:
            return {}
        skipped = last.take_skipped()
        if skipped:
            LOG.info(
                "fp16 skipped %d step%s since the last line, whose gradients were not finite: loss scale %g",
                skipped,
                "s" * (skipped != 1),
                last.loss_scale,
            )
        return {"loss_scale": last.loss_scale, "skipped_steps": skipped}

    def _position(self) -> dict[str, Any]:
        progress = self.progress
        return {
            "step": progress.step,
            "epoch": progress.epochs + progress.position / self.plan.size,
        }

    def _scoring_precision(self) -> str:
        """What EERs of validation are computed in."""
        return agree_on_precision(self.settings.computing.scoring_precision, self.world).name

    def _stopped(self) -> Stopped:
        self.saving.settle()
        return Stopped(self.world.agree(self.stop.reason), f"after step {self.progress.step}")


def _divides(interval: int | None, step: int) -> bool:
    return interval is not None and step % interval == 0
