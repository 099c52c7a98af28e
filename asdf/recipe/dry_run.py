"""`--dry-run`: what a run would do, with everything checked that can be checked without doing it.

torch is loaded only where a stage computes with the network, whose memory is then computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from asdf.audio.augmentation import open_chain
from asdf.audio.speech_activity import check_detector
from asdf.data.training_plan import TrainingPlan, minibatch_per_process
from asdf.distributed.devices import describe_mapping
from asdf.distributed.launchers import Launch
from asdf.errors import AsdfError
from asdf.recipe.checks import failures
from asdf.recipe.corpora import Corpus, check_classes, find_corpus, scores_only, sets_in_use
from asdf.recipe.folders import Folders
from asdf.recipe.memory import describe_memory, takes_memory
from asdf.recipe.selection import select_networks
from asdf.recipe.stage_list import Stage
from asdf.recipe.stage_plan import describe_stages
from asdf.settings.class_path import look_for_class
from asdf.settings.sections import Sections
from asdf.text import lines_and_more
from asdf.training.callbacks import find_callbacks
from asdf.trials.lists import check_files
from asdf.trials.trial_list import TrialList

_MOST_DEVICES = 16


@dataclass
class Plan:
    """What a run would do, a line each, and what would keep it from doing so."""

    lines: list[str]
    errors: list[AsdfError] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def plan_run(
    config: str,
    settings: Sections,
    folders: Folders,
    corpora: Mapping[str, Corpus],
    stages: Mapping[int, Stage] | None,
    launch: Launch,
) -> Plan:
    """Plan a run, and find what it lacks: lists, recordings, weights, classes, networks, augmentation.

    Args:
        launch: how this process was started; a launch of one stands for `computing.processes`.
    """
    plan = Plan([f"config {config}: dry run, nothing is computed or written"])
    world_size = launch.size if launch.size > 1 else settings.computing.processes
    _add(plan, "devices", lambda: describe_mapping(settings.computing, launch), _MOST_DEVICES)
    lists = _add_corpora(plan, settings, folders, corpora)
    _add(plan, "batches", lambda: _batches(settings, lists, world_size))
    trains = settings.recipe.execute_stage(1) and not scores_only(settings)
    if takes_memory(settings):
        title = "memory of each process"
        _add(plan, title, lambda: describe_memory(settings, folders, world_size))
    if stages is not None:
        _add(plan, "stages", lambda: describe_stages(settings, folders, stages))
    checks: list[Callable[[], object]] = [
        lambda: check_classes(list(lists.values()), settings),
        lambda: check_files(list(lists.values())),
    ]
    if trains:
        checks += [
            lambda: open_chain(settings.augmentation, folders.database),
            partial(_look_for_network, settings, folders.recipe, world_size),
            lambda: find_callbacks(settings, folders.recipe),
        ]
    elif settings.recipe.execute_stage(2) or settings.recipe.execute_stage(3):
        checks.append(lambda: select_networks(settings, folders.layout))
    if sets_in_use(settings):
        checks.append(lambda: check_detector(settings.sad))
    plan.errors += failures(checks)
    return plan


def _add(
    plan: Plan, title: str, describe: Callable[[], list[str]], most: int | None = None
) -> None:
    """Add a paragraph, or note why it cannot be written."""
    plan.lines += ["", title]
    try:
        lines = describe()
    except AsdfError as error:
        plan.lines.append("  PROBLEM, see below")
        plan.errors.append(error)
    else:
        plan.lines.append(lines_and_more(lines, most or len(lines)).removeprefix("\n"))


def _add_corpora(
    plan: Plan, settings: Sections, folders: Folders, corpora: Mapping[str, Corpus]
) -> dict[str, TrialList]:
    """Add the corpora that the stages read, and return the lists of those that are there."""
    lists: dict[str, TrialList] = {}
    plan.lines += ["", "corpora"]
    for name in sets_in_use(settings):
        try:
            plan.lines += _corpus(name, find_corpus(name, corpora), folders.database, lists)
        except AsdfError as error:
            plan.lines.append(f"  {name}: PROBLEM, see below")
            plan.errors.append(error)
    return lists


def _corpus(
    name: str, corpus: Corpus, database: Path, lists: dict[str, TrialList]
) -> Iterator[str]:
    place = corpus.place(database)
    if corpus.make is not None and not place.exists():
        yield f"  {name}: {place} (will be made)"
        return
    utterances, notes = corpus.read_noted(name, database)
    lists[name] = utterances
    bona_fide = int(utterances.labels.sum())
    place = place if corpus.list else utterances.folder
    yield f"  {name}: {place}: {bona_fide} bona fide, {len(utterances) - bona_fide} spoof"
    yield from (f"    warning: {note}" for note in notes)


def _batches(settings: Sections, lists: Mapping[str, TrialList], world_size: int) -> list[str]:
    """What an optimiser step consists of, and an epoch, if the number of training utterances is known.

    Raises:
        UsageError: the global minibatch does not divide by the number of processes.
    """
    network, names = settings.network, settings.recipe.training_sets
    minibatch, interval = (
        minibatch_per_process(network, world_size),
        network.optimizer_step_interval,
    )
    size = sum(len(lists[name]) for name in names if name in lists)
    plan = TrainingPlan(size, minibatch, interval, world_size)
    lines = [
        f"minibatch {minibatch} x {world_size} process{'es' * (world_size > 1)} x "
        f"{interval} minibatches per step = {plan.window_size} utterances per optimiser step"
    ]
    if settings.computing.shard_network:
        lines.append(_sharding(world_size))
    if all(name in lists for name in names):
        steps = plan.steps_per_epoch()
        total = min(steps * network.max_epochs, network.max_steps or steps * network.max_epochs)
        lines.append(
            f"{size} training utterances = {steps} steps per epoch, at most {network.max_epochs} epochs and "
            f"{total:,} steps"
        )
    return lines


def _sharding(world_size: int) -> str:
    if world_size == 1:
        return "computing.shard_network: one process keeps the network whole"
    return f"weights, gradients and moments are divided over the {world_size} processes"


def _look_for_network(settings: Sections, recipe_folder: Path, world_size: int) -> None:
    # With weights the network is built, which finds its class and more.
    if not settings.front_end.weights:
        look_for_class(settings.network.network_class, recipe_folder, "network.network_class")
    if settings.computing.shard_network and world_size > 1:
        from asdf.networks.units import check_network_divisible

        check_network_divisible(settings, recipe_folder)
