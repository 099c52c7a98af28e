"""The networks that a run retains, and the average of the best ones."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from asdf.errors import AsdfError
from asdf.runs.evaluations import Evaluation, best_first
from asdf.runs.layout import AVERAGE, Layout, NetworkName, list_networks
from asdf.runs.log import LOG
from asdf.training.checkpoints import read_checkpoint, write_checkpoint
from asdf.training.training_sections import TrainingSections


def remove_networks(
    layout: Layout, settings: TrainingSections, evaluations: list[Evaluation]
) -> None:
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
    path = layout.network_file(AVERAGE)
    write_checkpoint(path, first.with_weights(_mean_weights(layout, first.state, names), files))
    LOG.info("averaged %s into %s", ", ".join(files), AVERAGE.file)
    return path


def _mean_weights(
    layout: Layout, first: dict[str, Tensor], names: list[NetworkName]
) -> dict[str, Tensor]:
    """Return the mean over the networks `names`, the first of which has the weights `first`."""
    sums = {name: tensor.double() for name, tensor in first.items() if tensor.is_floating_point()}
    for other in names[1:]:
        # Only one network is in memory at a time.
        weights = read_checkpoint(layout.network_file(other), mapped=True).state
        for name in sums:
            sums[name] += weights[name].double()
    # The mean of counters, such as batch norm's of its batches, is not an integer.
    mean = dict(first)
    for name, total in sums.items():
        mean[name] = (total / len(names)).to(first[name].dtype)
    return mean
