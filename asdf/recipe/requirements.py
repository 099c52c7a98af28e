"""What a run needs before any work starts: classes, weights, lists, recordings.

All problems of lists come in one message, and a wrong name of a class comes before any measuring.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from asdf.audio.speech import check_detector
from asdf.audio.vocoding import try_vocoders
from asdf.data.sampler_orders import check_sampler, find_sampler
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.metrics.validation import ChosenMetric, check_metric
from asdf.networks.build import check_audio, find_network_class
from asdf.networks.interface import takes_references
from asdf.networks.split import check_split
from asdf.networks.ssl_detector import find_back_end_class, find_front_end_class
from asdf.recipe.declared_corpora import set_parts
from asdf.recipe.left_out import UsedSets, evaluated_name
from asdf.recipe.lists import RunLists
from asdf.recipe.problems import Check, failures
from asdf.recipe.run_folders import Folders
from asdf.recipe.used_sets import check_classes, count_overlaps, find_overlaps, sets_in_use, trains
from asdf.runs.layout import RESUME, Layout, list_networks
from asdf.runs.log import LOG
from asdf.settings import Sections
from asdf.training.losses.loss_building import find_loss_class
from asdf.training.optimisers import check_named_optimiser
from asdf.training.schedules import find_schedule
from asdf.training.steps.training_step import find_training_step
from asdf.training.task import find_tasks
from asdf.trials.lists import check_files, check_references
from asdf.trials.scored_files import read_shared, write_shared
from asdf.trials.trial_list import TrialList


def class_checks(settings: Sections, folder: Path) -> list[Check]:
    """Return the checks of the classes that training uses, which need neither lists nor weights.

    Args:
        folder: Folder of the recipe with the user's own modules.
    """
    # Separately, so that a dry run reports all that are missing.
    found: list[Check] = [
        partial(find_network_class, settings.network.network_class, folder),
        partial(find_front_end_class, settings.front_end, folder),
        partial(find_back_end_class, settings.back_end, folder),
        partial(ChosenMetric, settings, folder),
    ]
    checks = (
        check_inputs,
        find_loss_class,
        check_tasks,
        find_sampler,
        check_named_optimiser,
        find_schedule,
        find_training_step,
    )
    return [*found, *(partial(check, settings, folder) for check in checks)]


def check_inputs(settings: Sections, folder: Path) -> None:
    """Check the audio, or the saved features, that network and front end shall take.

    Raises:
        UsageError: they do not take the audio of the settings, or features of the front end cannot
            be saved; or a class is missing.
    """
    network_class = find_network_class(settings.network.network_class, folder)
    front_end_class = find_front_end_class(settings.front_end, folder)
    check_audio(settings.audio, network_class, front_end_class, settings.front_end)
    if settings.front_end.cache_features:
        check_split(network_class, front_end_class)


def check_tasks(settings: Sections, folder: Path) -> None:
    """Check the classes of tasks, and the metric that chooses networks, on detection or on a task.

    Raises:
        UsageError: one is missing or does not fit.
        AsdfError: one fails.
    """
    tasks = find_tasks(settings, folder).requested()
    tasks.check()
    check_metric(settings, folder, tasks.keys)


def check_requirements(settings: Sections, folders: Folders, lists: RunLists, world: World) -> None:
    """Find missing data before any work starts; all ranks call this together.

    Raises:
        UsageError: a vocoder or the speech activity detector is missing.
        AsdfError: lists or recordings are missing, all of them in one message; a list lacks a
            class; the sampler fails.
    """
    recipe = settings.recipe
    on_main = world.run_on_main
    if trains(settings):
        on_main(partial(try_vocoders, settings, folders.recipe))
    names = sets_in_use(settings)
    if names:
        on_main(partial(check_detector, settings.sad))
    with lists.read_together():
        # Every list is tried, so that one message names all missing ones.
        missing = failures(partial(lists.read, name) for name in names)
        if missing:
            raise AsdfError("\n".join(dict.fromkeys(map(str, missing))))
        used = [lists.read(name) for name in names]
        parts = [part for name in names for part in set_parts(name, lists.corpora)]
        whole = [lists.read(part) for part in dict.fromkeys(parts)]
        on_main(partial(check_files, whole))
        if names and (recipe.execute_stage(1) or recipe.execute_stage(2)):
            network_class = find_network_class(settings.network.network_class, folders.recipe)
            if takes_references(network_class):
                on_main(partial(check_references, whole))
        check_classes(used, settings)
        for overlap in on_main(partial(find_overlaps, used, recipe, lists.corpora)):
            if world.is_main:
                LOG.warning("%s", overlap)
        if trains(settings) or recipe.execute_stage(2):
            _record_overlaps(used, lists, settings, folders.layout, world)
    if trains(settings):
        trained = UsedSets(recipe, used).trained
        on_main(lambda: check_sampler(settings, trained(), folders.recipe))


def _record_overlaps(
    used: list[TrialList], lists: RunLists, settings: Sections, layout: Layout, world: World
) -> None:
    """Record the recordings that scored sets share with training and validation sets."""
    recipe = settings.recipe

    def has_recorded_sets() -> bool:
        """Whether an earlier start compared all evaluation sets with the training sets."""
        known = read_shared(layout)
        return all(evaluated_name(recipe, name) in known for name in recipe.evaluation_sets)

    trains_here = trains(settings) or world.run_on_main(layout.metrics.exists)
    names = {utterances.name for utterances in used}
    unread = [name for name in recipe.training_sets if name not in names]
    if trains_here and unread and not world.run_on_main(has_recorded_sets):
        # A start that only scores needs no training set: a missing one is not compared.
        with suppress(AsdfError):
            used = [*used, *map(lists.read, unread)]

    def write() -> None:
        counts = count_overlaps(used, recipe, trains_here)
        networks = [*list_networks(layout.networks), *layout.networks.glob(RESUME.file)]
        # The training data of removed networks is irrelevant for new ones.
        write_shared(layout, counts, afresh=trains(settings) and not networks)

    world.run_on_main(write)
