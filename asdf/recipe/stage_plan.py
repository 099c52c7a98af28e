"""What the chosen stages of a recipe would do, for a dry run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from asdf.recipe.checks import describe_download
from asdf.recipe.corpora import scores_only, validation_sets
from asdf.recipe.folders import Folders
from asdf.recipe.stage_list import MEASURES, REPORTS, SCORES, TRAINS, Stage, chosen_stages
from asdf.settings.sections import Sections


def describe_stages(settings: Sections, folders: Folders, stages: Mapping[int, Stage]) -> list[str]:
    """Return a line for each chosen stage, and below it what is known of its work."""
    lines = []
    for stage in chosen_stages(settings.recipe, stages):
        lines.append(f"{stage.number}  {stage.summary}")
        lines += [f"   {detail}" for detail in _describe_work(stage, settings, folders)]
    return lines


def _describe_work(stage: Stage, settings: Sections, folders: Folders) -> Iterator[str]:
    """Yield what the functions of the framework that the stage calls would do."""
    recipe = settings.recipe
    if stage.calls & MEASURES:
        names = [*recipe.training_sets, *validation_sets(settings), *recipe.evaluation_sets]
        yield f"of {', '.join(dict.fromkeys(names))}"
        yield f"writes {folders.sad}"
    if stage.calls & TRAINS:
        yield from _describe_training(settings, folders)
    scored = ", ".join(recipe.evaluation_sets)
    if stage.calls & SCORES:
        yield f"score {scored} with {_describe_selection(settings)} of {folders.networks}"
        yield f"writes {folders.layout.scores}"
    if stage.calls & REPORTS:
        yield f"of {scored}"
        yield f"writes {folders.results}"


def _describe_training(settings: Sections, folders: Folders) -> Iterator[str]:
    validation = ", ".join(validation_sets(settings))
    if scores_only(settings):
        yield f"no training: score {validation} with {_describe_resumed(settings)}"
        yield f"writes {folders.layout.scores}"
        return
    training = ", ".join(settings.recipe.training_sets)
    yield f"train on {training}, validate on {validation or 'nothing'}"
    if settings.front_end.weights:
        yield f"front end from {settings.front_end.weights}"
        download = describe_download(settings, folders)
        if download:
            yield download
    if settings.front_end.cache_features:
        yield f"its features are saved in {folders.features}"
    yield f"writes {folders.networks}"


def _describe_selection(settings: Sections) -> str:
    chosen = settings.recipe.selected_epochs
    if chosen is not None:
        return "epochs " + ", ".join(map(str, chosen))
    if scores_only(settings):
        return _describe_resumed(settings)
    return "the last epoch"


def _describe_resumed(settings: Sections) -> str:
    return f"epoch {-int(settings.network.resume_epoch)}"
