"""Which networks `recipe.selected_epochs` means; no torch here, so that a dry run can say so."""

from __future__ import annotations

from collections.abc import Sequence

from asdf.errors import AsdfError, UsageError
from asdf.recipe.corpora import scores_only, validation_sets
from asdf.runs.evaluations import evaluated_networks
from asdf.runs.layout import Layout
from asdf.runs.network_names import AVERAGE, NetworkName, describe_networks, list_networks
from asdf.settings.sections import Sections


def select_networks(settings: Sections, layout: Layout) -> list[str]:
    """Return the file names of the networks that `recipe.selected_epochs` names.

    It has numbers, 'best', 'average' and 'last'; None is the last epoch.

    Raises:
        AsdfError: there is no such network; the message names those that there are.
    """
    folder = layout.networks
    resume = settings.network.resume_epoch
    chosen: Sequence[int | str] | None = settings.recipe.selected_epochs
    if chosen is None:
        chosen = [-resume] if isinstance(resume, int) and resume < 0 else ["last"]
    names = list(dict.fromkeys(_file_name(epoch, layout) for epoch in chosen))
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise AsdfError(
            f"{folder} holds no {', '.join(missing)}. {describe_networks(folder)} "
            "Choose with recipe.selected_epochs."
        )
    return names


def check_choices(settings: Sections) -> None:
    """Raise a UsageError when a network is requested that these settings' training won't make."""
    recipe = settings.recipe
    average = settings.network.average_best_networks
    if not recipe.execute_stage(1) or scores_only(settings):
        return
    chosen = (recipe.selected_epochs or ()) if recipe.execute_stage(2) else ()
    if "average" in chosen and not average:
        raise UsageError(
            "recipe.selected_epochs names 'average', but network.average_best_networks is 0."
        )
    if not validation_sets(settings) and (average or "best" in chosen):
        what = "network.average_best_networks" if average else "recipe.selected_epochs = 'best'"
        raise UsageError(
            f"{what} chooses among networks by their EER, but recipe.validation_sets is empty: "
            "name one."
        )


def _file_name(epoch: int | str, layout: Layout) -> str:
    if isinstance(epoch, int):
        return NetworkName.after_epoch(epoch).file
    if epoch == "average":
        return AVERAGE.file
    if epoch == "best":
        networks = evaluated_networks(layout)
        if not networks:
            raise AsdfError(
                f"recipe.selected_epochs names 'best', but no network in {layout.networks} has "
                "been evaluated: set recipe.validation_sets before training, or name an epoch."
            )
        return networks[0].file
    networks = list_networks(layout.networks)
    if not networks:
        raise AsdfError(
            f"there are no networks in {layout.networks}: run stage 1 first, or check "
            "paths.system_folder."
        )
    return networks[-1].file
