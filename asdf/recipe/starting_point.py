"""Starting point of training: the newest checkpoint, one given in the settings, or none.

Invariant: no network of an earlier training is overwritten. Every rank checks this before anything
else.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from asdf.errors import AsdfError
from asdf.recipe.run import Run
from asdf.recipe.stale import mark_evaluations
from asdf.recipe.starts import record_training
from asdf.runs.evaluations import Evaluation, describe_stale
from asdf.runs.layout import RESUME, NetworkName, describe_networks, list_networks
from asdf.runs.log import LOG

if TYPE_CHECKING:
    from asdf.training.loop import Trainer


def find_starting_point(run: Run) -> str | None:
    """Return the checkpoint to resume from: 'auto' for the newest, a file name, or None.

    Raises:
        AsdfError: the run would overwrite networks, or the checkpoint does not exist.
    """
    epoch = run.settings.network.resume_epoch
    folder = run.folders.networks
    if epoch == "auto":
        return "auto"
    # Compare positions, not numbers: training from epoch 2 overwrites epoch.3.step.50.
    later = []
    for name in list_networks(folder):
        if name.position is not None and name.position > (epoch, 0):
            later.append(name.file)
    if run.folders.layout.network_file(RESUME).exists():
        later.append(RESUME.file)
    if later:
        raise AsdfError(
            f"network.resume_epoch = {epoch} would overwrite {', '.join(later[:4])} in {folder}. "
            "Use 'auto' to go on from the newest, choose another paths.system_folder, or move "
            "these networks away."
        )
    if epoch == 0:
        return None
    start = NetworkName.after_epoch(epoch)
    if not run.folders.layout.network_file(start).exists():
        raise AsdfError(
            f"network.resume_epoch = {epoch}: there is no {start.file} in {folder}. "
            f"{describe_networks(folder)}"
        )
    return start.file


def check_evaluations(run: Run) -> list[Evaluation]:
    """Return the evaluations so far, marking those whose recordings were replaced.

    All ranks call this together. Stale evaluations are logged as a warning.
    """
    lists = [run.validation_utterances(name)[0] for name in run.validation_sets]
    evaluations = mark_evaluations(run, lists)
    for sentence in describe_stale(evaluations):
        if run.world.is_main:
            LOG.warning("warning: %s", sentence)
    return evaluations


def resume_training(run: Run, trainer: Trainer, start: str | None) -> None:
    """Resume from `start`, the result of `find_starting_point`."""
    from asdf.training.checkpoints import (
        fill_network,
        newest_checkpoint,
        progress_in,
        read_checkpoint,
    )

    folder = run.folders.networks
    # Only the main rank looks: on a shared disk the ranks may see different newest files.
    if start == "auto":
        path = run.world.run_on_main(lambda: newest_checkpoint(folder))
    else:
        path = folder / start if start else None
    if path is None:
        record_training(run, 0)
        return
    # The ranks of a node share the memory of the file, and none of them holds all of it.
    checkpoint = read_checkpoint(path, mapped=True)
    if progress_in(checkpoint) is None:
        raise AsdfError(
            f"{path} contains weights but no training progress, like files of other programs. It "
            "can be scored (recipe.start_stage=2); to train, give this run another "
            "paths.system_folder."
        )
    fill_network(trainer.step.network, checkpoint)
    evaluations = check_evaluations(run)
    trainer.resume(checkpoint, evaluations)
    if start == "auto" and path.name != RESUME.file:
        # This file was left by a run that was killed while writing the newer checkpoint.
        resume = run.folders.layout.network_file(RESUME)
        run.world.run_on_main(partial(resume.unlink, missing_ok=True))
    LOG.info(
        "going on from %s: epoch %d, step %d",
        path.name,
        trainer.progress.epochs,
        trainer.progress.step,
    )
    record_training(run, trainer.progress.step)
