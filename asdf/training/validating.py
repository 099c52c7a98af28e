"""Validation during training: when networks are scored, which are retained, and their average.

Invariant: whether an evaluation is due depends on the progress, which is the same on all ranks. A
network is complete on the disk before others are removed in its favour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from asdf.data.training_plan import TrainingPlan
from asdf.errors import AsdfError
from asdf.runs.evaluations import (
    EER,
    Evaluation,
    ValidationResult,
    best_first,
    last_improvement,
    other_metrics,
    other_precisions,
    write_evaluations,
)
from asdf.runs.layout import AVERAGE, Layout, NetworkName, list_networks
from asdf.runs.log import LOG
from asdf.scoring.computing import agree_on_precision
from asdf.settings.sections import Sections
from asdf.training.callback_group import CallbackGroup
from asdf.training.checkpoints import Saving, read_checkpoint, write_checkpoint
from asdf.training.profile import StepProfile
from asdf.training.step import Step
from asdf.training.training_progress import Progress, position_of

# Scores the validation sets with a network; all ranks call it together and get the same result,
# None if there is nothing to validate on.
Validate = Callable[[nn.Module, NetworkName], ValidationResult | None]


def remove_networks(layout: Layout, settings: Sections, evaluations: list[Evaluation]) -> None:
    """Remove the networks that the settings do not retain.

    Retained are the latest ones, the best ones, one in every so many epochs, and those that the
    settings of later stages name.
    """
    training = settings.network
    if training.keep_last_networks is None:
        return
    existing = list_networks(layout.networks)
    # Networks that will be averaged must still exist at the end of training.
    best = max(training.keep_best_networks, training.average_best_networks)
    ranked = best_first(evaluations, training.validation_metric)
    retained = {evaluation.network for evaluation in ranked[:best]}
    retained.update(existing[-training.keep_last_networks :])
    for epoch in settings.recipe.selected_epochs or ():
        if isinstance(epoch, int):
            retained.add(NetworkName.after_epoch(epoch))
    for name in existing:
        if name not in retained:
            layout.network_file(name).unlink(missing_ok=True)


def average_networks(
    layout: Layout, evaluations: list[Evaluation], count: int, metric: str | None = None
) -> Path:
    """Write the mean of the weights of the best `count` networks to networks/average.pt.

    Floating-point weights and statistics are averaged in float64; counters are copied from the
    best.

    Args:
        metric: Metric as in `best_first`.

    Returns:
        Path of the average.

    Raises:
        AsdfError: no network has been evaluated.
    """
    best = [evaluation.network for evaluation in best_first(evaluations, metric)][:count]
    names = [name for name in best if layout.network_file(name).exists()]
    if not names:
        raise AsdfError(
            "network.average_best_networks asks for an average, but no network has been evaluated: "
            "set recipe.validation_sets, or network.average_best_networks = 0."
        )
    files = [name.file for name in names]
    first = read_checkpoint(layout.network_file(names[0]), mapped=True)
    sums = {}
    for name, tensor in first.state.items():
        if tensor.is_floating_point():
            sums[name] = tensor.double()
    for other in names[1:]:
        # Only one network is in memory at a time.
        weights = read_checkpoint(layout.network_file(other), mapped=True).state
        for name in sums:
            sums[name] += weights[name].double()
    # The mean of counters, such as batch norm's of its batches, is not an integer.
    mean = dict(first.state)
    for name, total in sums.items():
        mean[name] = (total / len(names)).to(first.state[name].dtype)
    path = layout.network_file(AVERAGE)
    write_checkpoint(path, first.with_weights(mean, files))
    LOG.info("averaged %s into %s", ", ".join(files), AVERAGE.file)
    return path


@dataclass(frozen=True, kw_only=True)
class Validation:
    """The evaluations of a training, and the removal of networks based on them.

    Attributes:
        step: Step whose network is scored.
        profile: Profile, which ends before scoring, since that is not a training step.
        saving: Saving of the networks, whose timer restarts after scoring.
    """

    step: Step
    plan: TrainingPlan
    layout: Layout
    validate: Validate
    callbacks: CallbackGroup
    saving: Saving
    profile: StepProfile

    def score_if_due(self, progress: Progress, finished: str) -> None:
        """Score the validation sets if this is due at this step and not done yet."""
        intervals = self.step.settings.network
        if progress.step == 0 or progress.evaluated():
            return
        ends_epochs = progress.position == 0 and (
            progress.epochs % intervals.epochs_per_train_call == 0
        )
        is_requested = divides(intervals.evaluation_interval_steps, progress.step)
        if not (ends_epochs or is_requested or finished):
            return
        self.profile.end()
        # Each rank scores its share of the sets, so all must have the same running statistics.
        self.step.world.broadcast_buffers(self.step.network)
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
            self.stop_early(progress)

        def write() -> None:
            write_evaluations(self.layout, progress.evaluations)
            remove_networks(self.layout, self.step.settings, progress.evaluations)

        self.step.world.run_on_main(write)
        self.saving.timer.restart()

    def restore(self, progress: Progress, evaluations: list[Evaluation]) -> None:
        """Restore the evaluations of the run so far up to a checkpoint's step.

        A warning is logged if their numbers are not comparable with future ones.
        """
        # The steps of later evaluations are repeated, and evaluated again.
        progress.evaluations = [
            evaluation for evaluation in evaluations if evaluation.step <= progress.step
        ]
        remarks = [
            other_precisions(progress.evaluations, self._scoring_precision()),
            other_metrics(progress.evaluations, self.step.settings.network.validation_metric),
        ]
        for remark in filter(None, remarks):
            LOG.warning("warning: %s", remark)

    def stop_early(self, progress: Progress) -> None:
        """End training if the metric has not improved for `network.early_stop_evaluations`."""
        patience = self.step.settings.network.early_stop_evaluations
        metric = self.step.settings.network.validation_metric
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
        return agree_on_precision(
            self.step.settings.computing.scoring_precision, self.step.world
        ).name


def divides(interval: int | None, step: int) -> bool:
    """Whether a step is a multiple of an interval; None matches no step."""
    return interval is not None and step % interval == 0
