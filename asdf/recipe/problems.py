"""Problems of a run that can be found before it starts.

Invariant: a problem that is visible in the settings is found in every config of a command before
the first one runs, and one message lists all problems, each once. Problems that need the disk are
found by `--dry-run`, and by the run itself as its first action, with the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from asdf.distributed.determinism import check_workspace
from asdf.distributed.devices import check_one_process
from asdf.distributed.launchers import Launch
from asdf.errors import AsdfError, UsageError
from asdf.recipe.declared_corpora import (
    Corpus,
    find_corpus,
    scores_only,
    set_parts,
    validation_sets,
)
from asdf.recipe.leaving_out import left_out_of
from asdf.recipe.run_folders import folders_of
from asdf.recipe.stage_list import Stage, check_stages, check_work
from asdf.settings import Configs
from asdf.settings.front_end_values import pretrained_weights
from asdf.settings.relations import WITHOUT_FRONT_END
from asdf.settings.sections import SAMPLERS, Sections

Check = Callable[[], object]


@dataclass(frozen=True)
class Problem:
    """A problem of a config."""

    config: str
    error: AsdfError


def failures(checks: Iterable[Check]) -> list[AsdfError]:
    """Run all checks and return the errors that they raise, in order."""
    errors = []
    for check in checks:
        try:
            check()
        except AsdfError as error:
            errors.append(error)
    return errors


def find_problems(
    configs: Configs,
    folder: Path,
    corpora: Mapping[str, Corpus],
    stages: Mapping[int, Stage] | None,
    launch: Launch,
) -> list[Problem]:
    """Return the problems in the settings and the number of started processes.

    Args:
        folder: Folder of the recipe.
        stages: Stages of the recipe; None if unknown.
    """
    problems = []
    process_counts = set()
    for config in configs:
        settings = config.sections()
        # The processes are started once for all configs.
        process_counts.add(settings.computing.processes)
        # All configs are checked now, because an error hours later would be too late.
        errors = settings_failures(settings, folder, corpora, stages)
        if config.values["front_end.weights"] is None:
            errors += failures([partial(check_weights_are_named, settings, folder)])
        errors += failures(
            [
                partial(check_workspace, settings.computing.deterministic),
                partial(check_processes, settings, launch.size),
            ]
        )
        problems += [Problem(config.name, error) for error in errors]
    if len(process_counts) > 1:
        error = UsageError(
            "configs of one command need the same computing.processes: run them in separate "
            "commands."
        )
        problems += [Problem(config.name, error) for config in configs]
    return problems


def settings_failures(
    settings: Sections,
    folder: Path,
    corpora: Mapping[str, Corpus],
    stages: Mapping[int, Stage] | None,
) -> list[AsdfError]:
    """Return the errors in the settings of a run, without reading the disk.

    Args:
        folder: Folder of the recipe.
    """
    recipe = settings.recipe
    names = list(recipe.training_sets)
    for scored in (*validation_sets(settings.recipe), *recipe.evaluation_sets):
        names += set_parts(scored, corpora)
    checks: list[Check] = [partial(folders_of, settings.paths, folder)]
    checks += [partial(find_corpus, name, corpora) for name in dict.fromkeys(names)]
    if stages is not None:
        checks.append(partial(check_stages, recipe, stages))
        checks.append(partial(check_work, settings, stages))
    checks.append(partial(check_choices, settings))
    checks.append(partial(left_out_of, settings.recipe))
    return failures(checks)


def check_choices(settings: Sections) -> None:
    """Refuse to choose a network that training will not make, and turns that it will not use.

    Raises:
        UsageError: a choice is impossible; the message says what it needs.
    """
    recipe = settings.recipe
    average = settings.network.average_best_networks
    # Without training here, the networks of earlier runs count, which `select_networks` finds.
    if not recipe.execute_stage(1) or scores_only(settings.network):
        return
    # A user's own sampler may read them.
    unread = SAMPLERS.keys() - {"weighted_corpora"}
    if recipe.set_weights is not None and recipe.sampler in unread:
        raise UsageError(
            f"recipe.set_weights = {recipe.set_weights} has no effect with recipe.sampler = "
            f"{recipe.sampler!r}: set recipe.sampler to 'weighted_corpora', or recipe.set_weights "
            "= None."
        )
    chosen: Sequence[int | str] = ()
    if recipe.execute_stage(2):
        chosen = recipe.selected_epochs or ()
    if "average" in chosen and not average:
        raise UsageError(
            "recipe.selected_epochs names 'average', but network.average_best_networks is 0."
        )
    if not validation_sets(settings.recipe) and (average or "best" in chosen):
        what = "network.average_best_networks" if average else "recipe.selected_epochs = 'best'"
        raise UsageError(
            f"{what} needs validation results, but recipe.validation_sets is empty: name a corpus "
            "there."
        )


def check_weights_are_named(settings: Sections, folder: Path) -> None:
    """Refuse to train a pretrained encoder from random numbers that nobody asked for.

    Args:
        folder: Folder of the recipe.

    Raises:
        UsageError: training starts afresh, and the architecture of our network's front end is one
            that has pretrained weights.
    """
    network = settings.network
    ours = network.network_class.startswith("asdf.")
    if not settings.recipe.execute_stage(1) or not ours or network.initial_network is not None:
        return
    if network.network_class in WITHOUT_FRONT_END or network.resume_epoch not in ("auto", 0):
        return
    # Training that goes on has its weights; only to make out whether it does, the disk is read.
    networks = folders_of(settings.paths, folder).networks
    if network.resume_epoch == "auto" and any(networks.glob("*.pt")):
        return
    front_end = settings.front_end
    weights = pretrained_weights(front_end.front_end_class, front_end.architecture)
    if weights is not None:
        raise UsageError(
            f"front_end.weights = None would train front_end.architecture = "
            f"{front_end.architecture!r} from random numbers. Write front_end.weights = "
            f"{weights!r}, the path of a checkpoint (front_end.weights = 'xlsr2_300m.pt'), or "
            "front_end.weights = 'random' if that is meant."
        )


def check_processes(settings: Sections, processes: int) -> None:
    """Refuse to train in several processes if the settings require a single one.

    Raises:
        UsageError: the settings require a single process.
    """
    if settings.recipe.execute_stage(1) and not scores_only(settings.network):
        check_one_process(settings.computing, processes)


def raise_problems(problems: Sequence[Problem], configs: Sequence[str]) -> None:
    """Raise one error with all problems, if any, and the config of each if there are several.

    Raises:
        UsageError: at least one problem is an error in a config.
        AsdfError: all problems are of another kind, such as a missing file.
    """
    if not problems:
        return
    configs_of: dict[str, list[str]] = {}
    for problem in problems:
        # A problem that configs share is shown once, with all their names.
        configs_of.setdefault(str(problem.error), []).append(problem.config)
    messages = []
    for message, names in configs_of.items():
        if len(configs) > 1:
            message = f"config {', '.join(dict.fromkeys(names))}: {message}"
        messages.append(message)
    text = "\n  ".join(messages)
    if any(isinstance(problem.error, UsageError) for problem in problems):
        raise UsageError(text)
    raise AsdfError(text)
