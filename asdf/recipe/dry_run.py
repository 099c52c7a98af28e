"""`--dry-run`: the plan of a run, with all checks that are possible without running it.

torch is loaded only if a network is trained, to build it and, on a GPU, to take a step with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path

from asdf.audio.augmentation import open_chain
from asdf.audio.speech import check_detector
from asdf.audio.vocoding import try_vocoders
from asdf.data.sampler_orders import check_sampler, describe_copies, find_sampler, join_with_copies
from asdf.data.training_plan import TrainingPlan, minibatch_per_process
from asdf.distributed.devices import describe_mapping
from asdf.distributed.launchers import Launch
from asdf.errors import AsdfError, UsageError
from asdf.metrics.validation import check_metric
from asdf.recipe.chosen_sets import check_classes, find_overlaps, sets_in_use
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.recipe.leaving_out import (
    evaluation_lists,
    left_out_of,
    needs_training_lists,
    training_lists,
    validation_lists,
)
from asdf.recipe.problems import Check, Problem, Stage, describe_stages, failures
from asdf.recipe.run_folders import Folders, folders_of, select_networks
from asdf.runs.evaluations import EER
from asdf.settings import Configs
from asdf.settings.catalogue import class_settings, named_classes
from asdf.settings.class_path import look_for_class
from asdf.settings.sections import Sections
from asdf.text import count_of, lines_and_more, printable
from asdf.training.callbacks import find_callbacks
from asdf.trials.lists import check_files, check_references
from asdf.trials.trial_list import TrialList, describe_labels, join

# A launch may have hundreds of processes, with one line each.
_SHOWN_DEVICES = 16
_SEE_BELOW = "PROBLEM, see below"
NETWORK_CLASS = "network.network_class"
# Settings whose classes a dry run imports and tests, which is cheap.
_IMPORTED = (
    "augmentation.chain",
    "network.callbacks",
    "network.validation_metric",
    "recipe.sampler",
    "vocoding.vocoders",
)
_DEFAULT_SAMPLER = Sections().recipe.sampler


@dataclass
class Plan:
    """The plan of a run, line by line, and the problems that would prevent it."""

    lines: list[str]
    errors: list[AsdfError] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def dry_run(
    configs: Configs,
    folder: Path,
    corpora: Mapping[str, Corpus],
    stages: Mapping[int, Stage] | None,
    launch: Launch,
) -> list[Problem]:
    """Print the plan of every config, and return the problems that would prevent the runs."""
    plans = []
    problems = []
    for config in configs:
        settings = config.sections()
        try:
            folders = folders_of(settings.paths, folder)
        except UsageError:  # a problem of the settings, which `find_problems` returns
            continue
        plan = plan_run(config.name, settings, folders, corpora, stages, launch)
        plans.append(plan.text)
        problems += [Problem(config.name, error) for error in plan.errors]
    print(printable("\n\n".join(plans)), flush=True)
    return problems


def plan_run(
    config: str,
    settings: Sections,
    folders: Folders,
    corpora: Mapping[str, Corpus],
    stages: Mapping[int, Stage] | None,
    launch: Launch,
) -> Plan:
    """Plan a run, and find missing lists, recordings, weights, classes, networks ...

    Args:
        launch: Launch of this process; if it has a single process, `computing.processes` applies.
    """
    plan = Plan([f"config {config}: dry run, nothing is computed or written"])
    # A single process stands for those that run.py would start.
    world_size = launch.size if launch.size > 1 else settings.computing.processes
    _add(plan, "devices", lambda: describe_mapping(settings.computing, launch), _SHOWN_DEVICES)
    lists: dict[str, TrialList] = {}
    plan.lines += ["", "corpora"]
    parts_of_sets = {name: set_parts(name, corpora) for name in sets_in_use(settings)}
    for name in dict.fromkeys(chain.from_iterable(parts_of_sets.values())):
        try:
            corpus = find_corpus(name, corpora)
            plan.lines += _describe_corpus(name, corpus, folders.database, lists)
        except AsdfError as error:
            plan.lines.append(f"  {name}: {_SEE_BELOW}")
            plan.errors.append(error)
    for name, parts in parts_of_sets.items():
        if len(parts) > 1:
            plan.lines.append(f"  {name}: these together")
            if all(part in lists for part in parts):
                lists[name] = join([lists[part] for part in parts])
    overlaps = find_overlaps(list(lists.values()), settings.recipe, corpora)
    plan.lines += [f"  warning: {overlap}" for overlap in overlaps]
    recipe = settings.recipe
    evaluates_part = recipe.evaluate_left_out and recipe.execute_stage(2)
    leaves_out = bool(recipe.leave_out or recipe.leave_out_speakers) and recipe.execute_stage(1)
    if evaluates_part or leaves_out:
        _add(plan, "left out", lambda: _describe_left_out(settings, lists))
    _add(plan, "batches", lambda: _describe_batches(settings, lists, folders.recipe, world_size))
    if recipe.execute_stage(1) and not settings.network.scores_only:
        _add(plan, "network", lambda: _describe_network(settings, folders, world_size, lists))
    if stages is not None:
        _add(plan, "stages", lambda: describe_stages(settings, folders, stages))
    plan.errors += failures(_checks(settings, folders, list(lists.values()), world_size))
    return plan


def _checks(
    settings: Sections, folders: Folders, lists: list[TrialList], world_size: int
) -> list[Check]:
    """Return the checks for the chosen stages and the classes in the settings."""
    recipe = settings.recipe
    checks: list[Check] = [partial(check_classes, lists, settings), partial(check_files, lists)]
    if lists and (recipe.execute_stage(1) or recipe.execute_stage(2)):
        checks.append(partial(_check_references, settings, folders.recipe, lists))
    if recipe.execute_stage(1) and not settings.network.scores_only:
        if settings.augmentation.chain:
            checks.append(partial(open_chain, settings, folders.database, folders.recipe))
        if settings.vocoding.vocoders:
            checks.append(partial(try_vocoders, settings, folders.recipe))
        checks.append(partial(_check_network, settings, folders.recipe))
        checks.append(partial(find_sampler, settings, folders.recipe))
        checks.append(partial(_check_training_step, settings, folders.recipe))
        if settings.network.validation_metric != EER:
            checks.append(partial(check_metric, settings, folders.recipe))
    # Without training, the networks must exist already.
    elif recipe.execute_stage(2) or recipe.execute_stage(3):
        checks.append(partial(select_networks, settings, folders.layout))
    if settings.network.callbacks and any(map(recipe.execute_stage, (1, 2, 3))):
        checks.append(partial(find_callbacks, settings, folders.recipe))
    if settings.sad.mode != "off" and sets_in_use(settings):
        checks.append(partial(check_detector, settings.sad))
    return checks


def _add(
    plan: Plan, title: str, describe: Callable[[], list[str]], shown: int | None = None
) -> None:
    """Add a paragraph, or a note if it cannot be written."""
    plan.lines += ["", title]
    try:
        lines = describe()
    # The plan continues: a single run of --dry-run should find all problems.
    except AsdfError as error:
        plan.lines.append(f"  {_SEE_BELOW}")
        plan.errors.append(error)
    else:
        plan.lines.append(lines_and_more(lines, shown or len(lines)).removeprefix("\n"))


def _describe_corpus(
    name: str, corpus: Corpus, database: Path, lists: dict[str, TrialList]
) -> Iterator[str]:
    """Describe a corpus, and add its list to `lists`."""
    path = corpus.path(database)
    if corpus.make is not None and not path.exists():
        yield f"  {name}: {path} (will be created)"
        return
    reading = corpus.read_with_notes(name, database)
    utterances = lists[name] = reading.utterances
    if not corpus.list:
        path = utterances.folder
    yield f"  {name}: {path}: {describe_labels(utterances)}"
    for note in reading.notes:
        yield f"    warning: {note}"


def _describe_batches(
    settings: Sections, lists: Mapping[str, TrialList], recipe_folder: Path, world_size: int
) -> list[str]:
    """Describe an optimiser step, and an epoch if the number of utterances is known.

    Raises:
        UsageError: the number of processes does not divide the global minibatch.
        AsdfError: the sampler does not fit the training sets, or fails.
    """
    network = settings.network
    minibatch = minibatch_per_process(network, world_size)
    interval = network.optimizer_step_interval
    training_sets = settings.recipe.training_sets
    plan = TrainingPlan(0, minibatch, interval, world_size)
    processes = count_of(world_size, "process")
    minibatches = count_of(interval, "minibatch")
    lines = []
    if settings.lengths.minibatch_s is None:
        lines.append(
            f"minibatch {minibatch} x {processes} x {minibatches} per step = "
            f"{plan.window_size} utterances per optimiser step"
        )
    else:
        lines.append(
            f"minibatches of up to {settings.lengths.minibatch_s:g} s and {minibatch} utterances x "
            f"{processes} x {minibatches} per optimiser step"
        )
    if training_sets and all(name in lists for name in training_sets):
        parts = training_lists(settings.recipe, [lists[name] for name in training_sets])
        turns = check_sampler(settings, parts, recipe_folder)
        lines.append(_describe_epoch(settings, parts, turns, plan))
    return lines


def _describe_network(
    settings: Sections, folders: Folders, world_size: int, lists: Mapping[str, TrialList]
) -> list[str]:
    from asdf.recipe.network_trial import describe_network

    utterances = None
    names = settings.recipe.training_sets
    if names and all(name in lists for name in names):
        # If nothing remains, other paragraphs describe the problem.
        with suppress(AsdfError):
            parts = training_lists(settings.recipe, [lists[name] for name in names])
            utterances = join_with_copies(parts, settings)
    return describe_network(settings, folders, world_size, utterances)


def _describe_left_out(settings: Sections, lists: Mapping[str, TrialList]) -> list[str]:
    """Describe what is left out of training, and the validation and evaluation sets."""
    lines = []
    recipe = settings.recipe
    training = [lists[name] for name in recipe.training_sets if name in lists]
    # The left-out part of an unreadable set is unknown.
    has_training = len(training) == len(recipe.training_sets)
    trains = recipe.execute_stage(1)
    if trains and not settings.network.scores_only and has_training:
        for whole, part in zip(training, training_lists(settings.recipe, training), strict=True):
            removed = len(whole) - len(part)
            lines.append(f"{whole.name}: trained on without {removed} of {len(whole)} utterances")
        left_out = left_out_of(settings.recipe)
        if left_out is not None:
            lines += left_out.whole_parts(training)
    if needs_training_lists(settings.recipe) and not has_training:
        return lines
    scored: list[TrialList] = []
    if trains:
        validated = [lists[name] for name in settings.recipe.validated_sets if name in lists]
        scored += validation_lists(settings.recipe, validated, training)
    if recipe.evaluate_left_out and recipe.execute_stage(2):
        evaluated = [lists[name] for name in recipe.evaluation_sets if name in lists]
        scored += evaluation_lists(settings.recipe, evaluated, training)
    for part in scored:
        lines.append(f"{part.name}: {describe_labels(part)}")
    return lines


def _describe_epoch(
    settings: Sections, parts: list[TrialList], turns: int, plan: TrainingPlan
) -> str:
    """Describe an epoch of the training sets `parts`, and the maximum length of training."""
    network = settings.network
    steps = replace(plan, size=turns).steps_per_epoch()
    total = steps * network.max_epochs
    if network.max_steps:
        total = min(total, network.max_steps)
    described = f"{sum(map(len, parts))} training utterances"
    if settings.vocoding.vocoders:
        utterances = join_with_copies(parts, settings)
        described = (
            f"{len(utterances)} training utterances, of which {describe_copies(utterances)},"
        )
    if settings.recipe.sampler != _DEFAULT_SAMPLER:
        described = f"{turns} turns of the {described} ({settings.recipe.sampler})"
    if settings.lengths.minibatch_s is not None:
        most = f" and {network.max_steps:,} steps" if network.max_steps else ""
        return (
            f"{described}, whose lengths decide the steps per epoch; at most {network.max_epochs} "
            f"epochs{most}"
        )
    return (
        f"{described} = {steps} steps per epoch, at most {network.max_epochs} epochs and "
        f"{total:,} steps"
    )


def _check_training_step(settings: Sections, recipe_folder: Path) -> None:
    from asdf.training.steps.training_step import find_training_step

    find_training_step(settings, recipe_folder)


def _check_references(settings: Sections, recipe_folder: Path, lists: list[TrialList]) -> None:
    from asdf.networks.build import find_network_class
    from asdf.networks.interface import takes_references

    class_path = settings.network.network_class
    try:
        look_for_class(class_path, recipe_folder, NETWORK_CLASS)
    except AsdfError:
        # `_check_network` reports this, and a file without the class is not executed.
        return
    network_class = find_network_class(class_path, recipe_folder)
    if takes_references(network_class):
        check_references(lists)


def _check_network(settings: Sections, recipe_folder: Path) -> None:
    for name in class_settings():
        # Building the network with weights checks its class too.
        is_built = name == NETWORK_CLASS and settings.front_end.weights
        if name in _IMPORTED or is_built:
            continue
        for class_path in named_classes(name, attrgetter(name)(settings)):
            look_for_class(class_path, recipe_folder, name)
