"""Which networks `recipe.selected_epochs` means; no torch here, so that a dry run can tell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.recipe.corpora import scores_only, validation_sets
from asdf.runs.network_files import (
    AVERAGE,
    by_eer,
    network_files,
    networks_present,
    read_evaluations,
)
from asdf.settings.sections import Sections


def select_networks(settings: Sections, folder: Path) -> list[str]:
    """File names in `folder` for numbers, 'best', 'average' and 'last'; None is the last epoch.

    Raises:
        AsdfError: there is no such network; the message names those that there are.
    """
    resume = settings.network.resume_epoch
    chosen: Sequence[int | str] | None = settings.recipe.selected_epochs
    if chosen is None:
        chosen = [-resume] if isinstance(resume, int) and resume < 0 else ["last"]
    names = list(dict.fromkeys(_file_name(epoch, folder) for epoch in chosen))
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise AsdfError(
            f"{folder} holds no {', '.join(missing)}. {networks_present(folder)} Choose with recipe.selected_epochs."
        )
    return names


def check_choices(settings: Sections) -> None:
    """Raise a UsageError when a network is asked for that the training of these settings will not make."""
    recipe, average = settings.recipe, settings.network.average_best_networks
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
            f"{what} chooses among networks by their EER, but recipe.validation_sets is empty: name one."
        )


def _file_name(epoch: int | str, folder: Path) -> str:
    if isinstance(epoch, int):
        return f"epoch.{epoch}.pt"
    if epoch == "average":
        return AVERAGE
    if epoch == "best":
        evaluations = [
            one for one in read_evaluations(folder) if (folder / one["network"]).exists()
        ]
        if not evaluations:
            raise AsdfError(
                f"recipe.selected_epochs names 'best', but no network in {folder} has been evaluated: set "
                "recipe.validation_sets before training, or name an epoch."
            )
        return str(by_eer(evaluations)[0]["network"])
    files = list(network_files(folder))
    if not files:
        raise AsdfError(
            f"there are no networks in {folder}: run stage 1 first, or check paths.system_folder."
        )
    return files[-1].name
