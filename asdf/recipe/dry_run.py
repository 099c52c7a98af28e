"""`--dry-run`: what a run would do, with everything checked that can be checked without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from asdf.audio.augmentation import open_chain
from asdf.audio.speech_activity import check_detector
from asdf.data.lists import check_files
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.devices import describe_mapping
from asdf.errors import AsdfError
from asdf.networks.class_path import look_for_class
from asdf.recipe.corpora import Corpus, check_classes, find_corpus, scores_only, sets_in_use, validation_sets
from asdf.recipe.folders import Folders
from asdf.recipe.selection import check_choices, select_networks
from asdf.settings.sections import Sections


def dry_run(
    config: str, settings: Sections, folders: Folders, recipe_folder: Path, corpora: Mapping[str, Corpus]
) -> str:
    """The plan of a run as text.

    Raises:
        AsdfError: what is missing (lists, recordings, weights, classes), all of it in one message, after the plan.
    """
    recipe, net = settings.recipe, settings.network
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", settings.computing.processes))
    world_size = int(os.environ.get("WORLD_SIZE", processes))
    lines = [f"config {config}: dry run, nothing is computed or written", "", "devices"]
    lines += [f"  {line}" for line in describe_mapping(settings.computing, processes)]
    mistakes: list[str] = []
    sizes = {}
    lines += ["", "corpora"]
    lists = []
    for name in sets_in_use(settings):
        corpus = find_corpus(name, corpora)
        place = corpus.place(folders.database)
        if corpus.make is not None and not place.exists():
            lines.append(f"  {name}: {place} (will be made)")
            continue
        try:
            utterances, notes = corpus.read_noted(name, folders.database)
            sizes[name] = len(utterances)
            bona_fide = int(utterances.labels.sum())
            place = place if corpus.list else utterances.folder
            lines.append(f"  {name}: {place}: {bona_fide} bona fide, {len(utterances) - bona_fide} spoof")
            lines += [f"    warning: {note}" for note in notes]
            lists.append(utterances)
            check_files([utterances])
        except AsdfError as error:
            lines.append(f"  {name}: {place}: PROBLEM, see below")
            mistakes.append(str(error))
    lines += ["", "batches"]
    batch = net.minibatch_size * world_size * net.optimizer_step_interval
    lines.append(
        f"  minibatch {net.minibatch_size} x {world_size} process{'es' * (world_size > 1)} x "
        f"{net.optimizer_step_interval} minibatches a step = {batch} utterances an optimiser step"
    )
    if all(name in sizes for name in recipe.training_sets):
        size = sum(sizes[name] for name in recipe.training_sets)
        plan = TrainingPlan(size, net.minibatch_size, net.optimizer_step_interval, world_size)
        steps = plan.steps_per_epoch()
        lines.append(f"  {size} training utterances = {steps} steps an epoch, at most {net.max_epochs} epochs")
    lines += ["", "stages", *_stages(settings, folders)]
    checks: list[Callable[[], object]] = [
        lambda: check_classes(lists, settings),
        lambda: check_choices(settings),
        lambda: _check_audio(settings, folders),
        lambda: _check_networks(settings, folders),
        *(partial(look_for_class, path, recipe_folder, setting) for path, setting in _own_code(settings)),
    ]
    for check in checks:
        try:
            check()
        except AsdfError as error:
            mistakes.append(str(error))
    if mistakes:
        raise AsdfError("\n".join(lines) + "\n\n" + "\n".join(mistakes))
    return "\n".join(lines)


def _check_audio(settings: Sections, folders: Folders) -> None:
    """What augmentation and speech activity detection need."""
    if settings.recipe.execute_stage(1) and not scores_only(settings):
        open_chain(settings.augmentation, folders.database)
    if sets_in_use(settings):
        check_detector(settings.sad)


def _check_networks(settings: Sections, folders: Folders) -> None:
    """What the stages read that no stage before them writes."""
    weights, recipe = folders.weights(settings.front_end.weights), settings.recipe
    trains = recipe.execute_stage(1) and not scores_only(settings)
    if trains and weights and not weights.startswith("torchaudio:") and not Path(weights).exists():
        raise AsdfError(f"there is no file {weights}: check front_end.weights.")
    if not trains and (recipe.execute_stage(2) or recipe.execute_stage(3)):
        select_networks(settings, folders.networks)


def _own_code(settings: Sections) -> Iterator[tuple[str, str]]:
    """Class paths that training will need, each with its setting."""
    if settings.recipe.execute_stage(1) and not scores_only(settings):
        yield settings.network.network_class, "network.network_class"
        for path in settings.network.callbacks:
            yield path, "network.callbacks"


def _stages(settings: Sections, folders: Folders) -> list[str]:
    recipe = settings.recipe
    measured = dict.fromkeys([*recipe.training_sets, *validation_sets(settings), *recipe.evaluation_sets])
    weights = settings.front_end.weights
    stages = {
        0: (f"measure the utterances: {', '.join(measured)}", folders.sad),
        1: (
            f"train on {', '.join(recipe.training_sets)}"
            + (f", front end from {weights}" if weights else "")
            + (f", its features kept in {folders.features}" if settings.front_end.cache_features else "")
            + f", validate on {', '.join(validation_sets(settings)) or 'nothing'}",
            folders.networks,
        ),
        2: (
            f"score {', '.join(recipe.evaluation_sets)} with {_selected(settings)} of {folders.networks}",
            folders.system / "scores",
        ),
        3: ("report the results", folders.results),
    }
    return [
        f"  {number}  {what}\n     writes {where}"
        for number, (what, where) in stages.items()
        if recipe.execute_stage(number)
    ]


def _selected(settings: Sections) -> str:
    chosen = settings.recipe.selected_epochs
    if chosen is None:
        return f"epoch {-int(settings.network.resume_epoch)}" if scores_only(settings) else "the last epoch"
    return "epochs " + ", ".join(map(str, chosen))
