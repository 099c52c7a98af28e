"""`--dry-run`: the plan of a run, with all checks that are possible without running it.

torch is loaded only if a network is trained, to build it and, on a GPU, to take a step with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.recipe.left_out import left_out_of
from asdf.recipe.problems import Check, Problem, Stage, describe_stages, failures
from asdf.recipe.run_folders import Folders, folders_of, select_networks
from asdf.recipe.used_sets import UsedSets, check_classes, find_overlaps, sets_in_use, trains
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

    def add(self, title: str, describe: Callable[[], list[str]], shown: int | None = None) -> None:
        """Add a paragraph, or a note if it cannot be written.

        The plan continues then: a single run of --dry-run should find all problems.
        """
        self.lines += ["", title]
        try:
            lines = describe()
        except AsdfError as error:
            self.lines.append(f"  {_SEE_BELOW}")
            self.errors.append(error)
        else:
            self.lines.append(lines_and_more(lines, shown or len(lines)).removeprefix("\n"))


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
        plans.append("\n".join(plan.lines))
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
    size = launch.size if launch.size > 1 else settings.computing.processes
    plan.add("devices", lambda: describe_mapping(settings.computing, launch), _SHOWN_DEVICES)
    lists = _read_lists(plan, settings, corpora, folders.database)
    recipe = settings.recipe
    sets = UsedSets(recipe, lists)
    evaluates_part = recipe.evaluate_left_out and recipe.execute_stage(2)
    leaves_out = bool(recipe.leave_out or recipe.leave_out_speakers) and recipe.execute_stage(1)
    if evaluates_part or leaves_out:
        plan.add("left out", lambda: _describe_left_out(settings, sets))
    plan.add("batches", lambda: _describe_batches(settings, sets, folders.recipe, size))
    if trains(settings):
        plan.add("network", lambda: _describe_network(settings, sets, folders, size))
    if stages is not None:
        plan.add("stages", lambda: describe_stages(settings, folders, stages))
    plan.errors += failures(_checks(settings, folders, lists))
    return plan


def _read_lists(
    plan: Plan, settings: Sections, corpora: Mapping[str, Corpus], database: Path
) -> list[TrialList]:
    """Describe the corpora of the chosen stages, and return the lists that exist."""
    lists: dict[str, TrialList] = {}
    plan.lines += ["", "corpora"]
    parts_of_sets = {name: set_parts(name, corpora) for name in sets_in_use(settings)}
    for name in dict.fromkeys(chain.from_iterable(parts_of_sets.values())):
        try:
            corpus = find_corpus(name, corpora)
            path = corpus.path(database)
            if corpus.make is not None and not path.exists():
                plan.lines.append(f"  {name}: {path} (will be created)")
                continue
            reading = corpus.read_with_notes(name, database)
        except AsdfError as error:
            plan.lines.append(f"  {name}: {_SEE_BELOW}")
            plan.errors.append(error)
            continue
        lists[name] = reading.utterances
        place = path if corpus.list else reading.utterances.folder
        plan.lines.append(f"  {name}: {place}: {describe_labels(reading.utterances)}")
        plan.lines += [f"    warning: {note}" for note in reading.notes]
    for name, parts in parts_of_sets.items():
        if len(parts) > 1:
            plan.lines.append(f"  {name}: these together")
            if all(part in lists for part in parts):
                lists[name] = join([lists[part] for part in parts])
    overlaps = find_overlaps(list(lists.values()), settings.recipe, corpora)
    plan.lines += [f"  warning: {overlap}" for overlap in overlaps]
    return list(lists.values())


def _checks(settings: Sections, folders: Folders, lists: list[TrialList]) -> list[Check]:
    """Return the checks for the chosen stages and the classes in the settings."""
    recipe = settings.recipe
    checks: list[Check] = [partial(check_classes, lists, settings), partial(check_files, lists)]
    if lists and (recipe.execute_stage(1) or recipe.execute_stage(2)):
        checks.append(partial(_check_references, settings, folders.recipe, lists))
    if trains(settings):
        from asdf.training.steps.training_step import find_training_step

        if settings.augmentation.chain:
            checks.append(partial(open_chain, settings, folders.database, folders.recipe))
        if settings.vocoding.vocoders:
            checks.append(partial(try_vocoders, settings, folders.recipe))
        checks.append(partial(_check_network, settings, folders.recipe))
        checks.append(partial(find_sampler, settings, folders.recipe))
        checks.append(partial(find_training_step, settings, folders.recipe))
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


def _describe_batches(
    settings: Sections, sets: UsedSets, recipe_folder: Path, world_size: int
) -> list[str]:
    """Describe an optimiser step, and an epoch if the number of utterances is known.

    Raises:
        UsageError: the number of processes does not divide the global minibatch.
        AsdfError: the sampler does not fit the training sets, or fails.
    """
    network = settings.network
    minibatch = minibatch_per_process(network, world_size)
    interval = network.optimizer_step_interval
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
    if sets.training and sets.has_training:
        parts = sets.trained()
        turns = check_sampler(settings, parts, recipe_folder)
        lines.append(_describe_epoch(settings, parts, turns, plan))
    return lines


def _describe_network(
    settings: Sections, sets: UsedSets, folders: Folders, world_size: int
) -> list[str]:
    from asdf.recipe.network_trial import describe_network

    utterances = None
    if sets.training and sets.has_training:
        # If nothing remains, other paragraphs describe the problem.
        with suppress(AsdfError):
            utterances = join_with_copies(sets.trained(), settings)
    return describe_network(settings, folders, world_size, utterances)


def _describe_left_out(settings: Sections, sets: UsedSets) -> list[str]:
    """Describe what is left out of training, and the validation and evaluation sets."""
    lines = []
    recipe = settings.recipe
    if trains(settings) and sets.has_training:
        for whole, part in zip(sets.training, sets.trained(), strict=True):
            removed = len(whole) - len(part)
            lines.append(f"{whole.name}: trained on without {removed} of {len(whole)} utterances")
        left_out = left_out_of(recipe)
        if left_out is not None:
            lines += left_out.whole_parts(sets.training)
    if not sets.knows_parts:
        return lines
    scored = sets.validated() if recipe.execute_stage(1) else []
    if recipe.evaluate_left_out and recipe.execute_stage(2):
        scored += sets.evaluated()
    return lines + [f"{part.name}: {describe_labels(part)}" for part in scored]


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
