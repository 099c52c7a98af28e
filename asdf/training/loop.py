"""The training loop: epochs, validation, checkpoints, and when it ends.

Invariant: all ranks go the same way. Whether to stop or to save is summed over them with each step; whether an
evaluation is due follows from the progress, which is the same on all of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn
from tqdm import tqdm

from asdf.data.decoders import tell_fallbacks
from asdf.data.lists import UtteranceList
from asdf.data.loaders import BatchLoader
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.world import World
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.callbacks import Callback
from asdf.training.checkpoints import save_checkpoint
from asdf.training.data_wait import DataWait, waiting
from asdf.training.network_files import RESUME, write_evaluations
from asdf.training.optimisers import plateau_end, update_plateau
from asdf.training.profile import StepProfile
from asdf.training.progress import Progress
from asdf.training.retention import remove_networks
from asdf.training.step import Step

Evaluate = Callable[[nn.Module, str], dict[str, float]]


class Trainer:
    """Trains a network; the names of the files that it writes to `folder` are those of `Progress.name`.

    Profiles are written beside that folder.

    Args:
        loader: reads clips of `utterances` by the keys (epoch, utterance).
        evaluate: scores the validation sets with a network of the given name and returns their EERs, the same on
            every rank; an empty result means that there is nothing to evaluate.
        callbacks: called on the main rank.
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
        callbacks: list[Callback],
    ) -> None:
        net = settings.network
        self.step, self.utterances, self.loader = step, utterances, loader
        self.settings, self.world, self.folder = settings, world, folder
        self.evaluate, self.stop, self.callbacks = evaluate, stop, callbacks
        size, seed = len(utterances), settings.recipe.seed
        self.plan = TrainingPlan(size, net.minibatch_size, net.optimizer_step_interval, world.size, world.rank, seed)
        self.progress = Progress(world_size=world.size, list_digest=utterances.digest())
        self.profile = StepProfile(settings.computing.profile_steps, folder.parent / "profile", step.clock, world)
        self.data_wait = DataWait(loader.workers, loader.cores)
        self._saved_at = time.monotonic()
        self._note_printed()

    def resume(self, content: dict[str, Any], evaluations: list[dict[str, Any]]) -> None:
        """Go on from the content of a checkpoint whose weights the network already has.

        Args:
            evaluations: what is known of the networks up to there; an evaluation may be newer than its checkpoint.
        """
        self.step.load_state(content)
        progress = Progress(**content["progress"])
        if progress.list_digest != self.utterances.digest():
            LOG.warning("the training list is not the one that the checkpoint was trained on: its epoch begins anew")
            progress.position, progress.loss_sum, progress.weight_sum = 0, 0.0, 0.0
        if progress.world_size != self.world.size:
            LOG.warning(
                "trained by %d processes so far, by %d from here on: every utterance still has its one turn in this "
                "epoch, but the steps differ from those of a run that was never stopped",
                progress.world_size,
                self.world.size,
            )
        progress.world_size, progress.list_digest = self.world.size, self.utterances.digest()
        progress.evaluations = [one for one in evaluations if one["step"] <= progress.step]
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
        self._tell("on_start", self.progress.step)
        self.profile.begin(self.progress.step)
        self.step.network.train()
        try:
            self._evaluate_if_due()
            while not self.finished():
                self._train_epoch()
        finally:
            self.profile.close()
        self._tell("on_end", {**self._place(), "reason": self.finished()})

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
        clips = self.loader.batches([(epoch, i) for i in share.utterances.tolist()] for share in shares)
        self.step.clock.restart()
        self._note_printed()
        steady = False
        hidden = not (self.world.is_main and sys.stderr.isatty())
        total, done = plan.steps_per_epoch(), start // plan.window_size
        with tqdm(total=total, initial=done, desc=f"epoch {epoch}", unit="step", leave=False, disable=hidden) as bar:
            for window in plan.windows(epoch, start):
                flags = [float(bool(self.stop)), float(self._is_late() and self.world.is_main)]
                self.profile.before_step(progress.step + 1)
                rate, stop, late = self.step.take(window, clips, progress, flags)
                bar.update()
                if progress.step % self.settings.network.print_interval == 0:
                    self._print(rate, steady)
                    steady = True
                if window.end < plan.size:
                    self._inside_epoch(bool(stop), bool(late))
                    if self.finished():
                        return
                self.profile.after_step(progress.step)
        decoded = self.loader.decoded_by_ffmpeg
        tell_fallbacks(f"training, epoch {epoch}", decoded, self.utterances, plan.size - start, self.world)
        self._end_epoch(bool(stop))

    def _inside_epoch(self, stop: bool, late: bool) -> None:
        """Evaluate, save or stop after a step that is not the last of its epoch."""
        net, step = self.settings.network, self.progress.step
        if _divides(net.evaluation_interval_steps, step) or self.finished():
            self._save(self.progress.name())
            self._evaluate_if_due()
        elif stop or late or _divides(net.checkpoint_interval_steps, step):
            self._save(RESUME)
        if stop and not self.finished():
            raise self._stopped()

    def _end_epoch(self, stop: bool) -> None:
        self.profile.end()
        progress = self.progress
        loss = progress.loss_sum / progress.weight_sum
        progress.epochs += 1
        progress.position, progress.loss_sum, progress.weight_sum = 0, 0.0, 0.0
        LOG.info("epoch %d: training loss %.4f", progress.epochs, loss)
        line = update_plateau(self.settings, progress, loss)
        if line:
            LOG.info("%s", line)
        self._save(progress.name())
        self.world.run_on_main(lambda: (self.folder / RESUME).unlink(missing_ok=True))
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
        eers = self.evaluate(self.step.network, progress.name())
        if eers:
            record = {**self._place(), "network": progress.name(), "eer": eers}
            progress.evaluations.append(record)
            self._tell("on_evaluation", record)
            self._early_stop()
        self.world.run_on_main(self._tidy)

    def _tidy(self) -> None:
        write_evaluations(self.folder, self.progress.evaluations)
        remove_networks(self.folder, self.settings, self.progress.evaluations)

    def _early_stop(self) -> None:
        evaluations, patience = self.progress.evaluations, self.settings.network.early_stop_evaluations
        if patience is None or not evaluations:
            return
        eers = [next(iter(evaluation["eer"].values())) for evaluation in evaluations]
        best = eers.index(min(eers))  # the first of equals: to reach it again is no gain
        since = len(evaluations) - 1 - best
        if since >= patience:
            name = evaluations[best]["network"]
            self.progress.finished = f"{since} evaluations without a better EER than that of {name}"

    def _is_late(self) -> bool:
        interval = self.settings.network.checkpoint_interval_s
        return interval is not None and time.monotonic() - self._saved_at > interval

    def _save(self, name: str) -> None:
        path, step = self.folder / name, self.step
        self.world.broadcast_buffers(step.network)
        self.world.run_on_main(
            lambda: save_checkpoint(path, step.network, step.optimiser, step.scaler, self.progress, self.settings)
        )
        self._saved_at = time.monotonic()
        self._tell("on_checkpoint", path)

    def _note_printed(self) -> None:
        self._printed = (time.monotonic(), replace(self.progress), self.step.clock.seconds())

    def _print(self, rate: float, steady: bool) -> None:
        progress, (since, before, clock) = self.progress, self._printed
        self._note_printed()
        seconds = {part: now - clock[part] for part, now in self._printed[2].items()}
        loss = (progress.loss_sum - before.loss_sum) / (progress.weight_sum - before.weight_sum)
        speed = (progress.position - before.position) / (time.monotonic() - since)
        place = f"epoch {progress.epochs + 1}, utterance {progress.position} of {self.plan.size}, step {progress.step}"
        LOG.info("%s: loss %.4f, learning rate %.3g, %.1f utterances/s", place, loss, rate, speed)
        advice = self.data_wait.advice(seconds, steady)
        if advice:
            LOG.info("%s", advice)
        record = {**self._place(), "loss": loss, "learning_rate": rate, "utterances_per_s": speed}
        record["data_wait"] = waiting(seconds)
        self._tell("on_step", record)

    def _tell(self, event: str, what: Any) -> None:
        if self.world.is_main:
            for callback in self.callbacks:
                getattr(callback, event)(what)

    def _place(self) -> dict[str, Any]:
        progress = self.progress
        return {"step": progress.step, "epoch": progress.epochs + progress.position / self.plan.size}

    def _stopped(self) -> Stopped:
        return Stopped(self.world.agree(self.stop.reason), f"after step {self.progress.step}")


def _divides(interval: int | None, step: int) -> bool:
    return interval is not None and step % interval == 0
