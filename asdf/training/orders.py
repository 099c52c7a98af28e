"""The order in which utterances are read: one of all ranks, also where a checkpoint goes on.

Invariant: an epoch is read in one order from its start to its end. Where a checkpoint's order is
not this run's, its epoch begins anew.
"""

from __future__ import annotations

from asdf.data.orders import Orders
from asdf.data.samplers import SETTING
from asdf.data.training_plan import TrainingPlan, minibatch_per_process
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.progress import Progress
from asdf.training.step import Step
from asdf.trials.trial_list import TrialList


def plan_training(step: Step, orders: Orders) -> TrainingPlan:
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


def agree_on_order(orders: Orders, epoch: int, settings: Sections, world: World) -> str:
    """Return the digest of the order of `epoch`, which must be the same on all ranks.

    Raises:
        AsdfError: a rank has another order; on every rank.
    """
    digest = orders.digest(epoch)
    others = world.sum([float(digest != world.agree(digest))])[0]
    if others:
        raise AsdfError(
            f"{SETTING} = {settings.recipe.sampler!r}: {others:.0f} of the "
            f"{world.size} processes have another order of epoch {epoch} than the first. "
            "An order must follow from the seed and the epoch alone, not from the process, the "
            "clock or hash()."
        )
    return digest


def adapt_progress(progress: Progress, utterances: TrialList, orders: Orders, world: World) -> None:
    """Adapt a checkpoint's progress to this run's list and processes; warn of differences."""
    if progress.list_digest != utterances.digest():
        LOG.warning(
            "the training list is not the one that the checkpoint was trained on: "
            "its epoch begins anew"
        )
        # A position in the order of another list would skip and repeat utterances.
        progress.begin_epoch()
    elif progress.order_digest:
        _adapt_to_orders(progress, orders)
    if progress.world_size != world.size:
        LOG.warning(
            "trained by %d processes so far, by %d from here on: every turn of this epoch is "
            "still taken once, but the steps differ from those of an uninterrupted run",
            progress.world_size,
            world.size,
        )
    progress.world_size = world.size
    progress.list_digest = utterances.digest()


def _adapt_to_orders(progress: Progress, orders: Orders) -> None:
    """Begin an epoch anew whose order is another one now; warn of it."""
    last = progress.epochs + bool(progress.position)
    if progress.order_digest == orders.digest(last):
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
