"""Networks chosen by `recipe.selected_epochs`, without torch, so that a dry run is fast."""

from __future__ import annotations

from collections.abc import Sequence

from asdf.errors import AsdfError
from asdf.recipe.declared_corpora import scores_only
from asdf.runs.evaluations import EER, evaluated_networks
from asdf.runs.layout import AVERAGE, Layout, NetworkName, describe_networks, list_networks
from asdf.settings.sections import Sections


def select_networks(settings: Sections, layout: Layout) -> list[str]:
    """Return the file names of the chosen networks, each once.

    Raises:
        AsdfError: a network does not exist; the message lists those that do.
    """
    folder = layout.networks
    # Two choices may be the same network: the best is often the last one.
    metric = settings.network.validation_metric
    # None means the epoch that was only scored, or the last.
    chosen: Sequence[int | str] = settings.recipe.selected_epochs or ()
    if settings.recipe.selected_epochs is None:
        resume = settings.network.resume_epoch
        chosen = [-int(resume)] if scores_only(settings.network) else ["last"]
    names = list(dict.fromkeys(_file_name(epoch, layout, metric) for epoch in chosen))
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise AsdfError(
            f"{folder} holds no {', '.join(missing)}. {describe_networks(folder)} Choose with "
            "recipe.selected_epochs."
        )
    return names


def _file_name(epoch: int | str, layout: Layout, metric: str) -> str:
    """Return the file of an epoch number, of 'best' by `metric`, 'average' or 'last'."""
    if isinstance(epoch, int):
        return NetworkName.after_epoch(epoch).file
    if epoch == "average":
        return AVERAGE.file
    if epoch == "best":
        networks = evaluated_networks(layout, metric)
        if not networks:
            by_metric = "" if metric == EER else f" by network.validation_metric = {metric!r}"
            raise AsdfError(
                f"recipe.selected_epochs names 'best', but no network in {layout.networks} has "
                f"been evaluated{by_metric}: set recipe.validation_sets before training, or name "
                "an epoch."
            )
        return networks[0].file
    networks = list_networks(layout.networks)
    if not networks:
        raise AsdfError(
            f"there are no networks in {layout.networks}: run stage 1 first, or check "
            "paths.system_folder."
        )
    return networks[-1].file
