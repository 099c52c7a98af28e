"""What the chosen stages of a recipe would do, for a dry run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from asdf.recipe.corpora import scores_only, validation_sets
from asdf.recipe.folders import Folders
from asdf.recipe.stage_list import MEASURES, REPORTS, SCORES, TRAINS, Stage, chosen_stages
from asdf.settings.sections import Sections


def describe_stages(settings: Sections, folders: Folders, stages: Mapping[int, Stage]) -> list[str]:
    """Each chosen stage by its number and in the words of its function, and what is known of its work below it."""
    lines = []
    for stage in chosen_stages(settings.recipe, stages):
        lines.append(f"{stage.number}  {stage.summary}")
        lines += [f"   {detail}" for detail in _details(stage, settings, folders)]
    return lines


def _details(stage: Stage, settings: Sections, folders: Folders) -> Iterator[str]:
    """What the functions of the framework that the stage calls would do."""
    recipe = settings.recipe
    sets, validation = ", ".join(recipe.evaluation_sets), ", ".join(validation_sets(settings))
    if stage.calls & MEASURES:
        names = [*recipe.training_sets, *validation_sets(settings), *recipe.evaluation_sets]
        yield f"of {', '.join(dict.fromkeys(names))}"
        yield f"writes {folders.sad}"
    if stage.calls & TRAINS and scores_only(settings):
        yield f"no training: score {validation} with epoch {-int(settings.network.resume_epoch)}"
        yield f"writes {folders.layout.scores}"
    elif stage.calls & TRAINS:
        yield f"train on {', '.join(recipe.training_sets)}, validate on {validation or 'nothing'}"
        yield from _front_end(settings, folders)
        yield f"writes {folders.networks}"
    if stage.calls & SCORES:
        yield f"score {sets} with {_selected(settings)} of {folders.networks}"
        yield f"writes {folders.layout.scores}"
    if stage.calls & REPORTS:
        yield f"of {sets}"
        yield f"writes {folders.results}"


def _front_end(settings: Sections, folders: Folders) -> Iterator[str]:
    front_end = settings.front_end
    if front_end.weights:
        yield f"front end from {front_end.weights}"
    if front_end.cache_features:
        yield f"its features are saved in {folders.features}"


def _selected(settings: Sections) -> str:
    chosen = settings.recipe.selected_epochs
    if chosen is not None:
        return "epochs " + ", ".join(map(str, chosen))
    if scores_only(settings):
        return f"epoch {-int(settings.network.resume_epoch)}"
    return "the last epoch"
