"""What can be known to be wrong with a run before it starts.

Invariant: a problem that the settings alone show is found in every config of a command before the
first one runs, and all problems are in one message, each once. What needs the disk is found by
`--dry-run` and, as the first thing that it does, by the run itself, with the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.distributed.determinism import check_workspace
from asdf.distributed.devices import check_one_process
from asdf.distributed.launchers import Launch
from asdf.errors import AsdfError, UsageError
from asdf.recipe.corpora import Corpus, find_corpus, scores_only, set_parts, validation_sets
from asdf.recipe.folders import Folders, folders_of
from asdf.recipe.leaving_out import left_out_of
from asdf.recipe.selection import check_choices
from asdf.recipe.stage_list import Stage, check_stages, check_work
from asdf.settings import Configs
from asdf.settings.sections import Sections
from asdf.settings.weights_names import BUNDLE, missing_weights

if TYPE_CHECKING:
    from torch import nn

Check = Callable[[], object]
_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Problem:
    """What is wrong with a config."""

    config: str
    error: AsdfError


def failures(checks: Iterable[Check]) -> list[AsdfError]:
    """Do all checks and return what they raise, in their order."""
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
    """Return what the settings, and how many processes were started, show to be wrong.

    Args:
        folder: the recipe's.
        stages: Stages of the recipe; None where they are not known.
    """
    problems = []
    process_counts = set()
    for config in configs:
        settings = config.sections()
        # The processes are started once and stay for all configs.
        process_counts.add(settings.computing.processes)
        # All configs are checked, though only the first runs now: hours later is too late.
        errors = settings_failures(settings, folder, corpora, stages)
        errors += failures(
            [
                partial(check_workspace, settings.computing.deterministic),
                partial(check_processes, settings, launch.size),
            ]
        )
        problems += [Problem(config.name, error) for error in errors]
    if len(process_counts) > 1:
        error = UsageError(
            "configs of one command need the same computing.processes: name them in separate "
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
    """Return what is wrong with the settings of a run, without a look at the disk.

    Args:
        folder: the recipe's.
    """
    recipe = settings.recipe
    names = list(recipe.training_sets)
    for scored in (*validation_sets(settings), *recipe.evaluation_sets):
        names += set_parts(scored, corpora)
    checks: list[Check] = [partial(folders_of, settings.paths, folder)]
    checks += [partial(find_corpus, name, corpora) for name in dict.fromkeys(names)]
    if stages is not None:
        checks.append(partial(check_stages, recipe, stages))
        checks.append(partial(check_work, settings, stages))
    checks.append(partial(check_choices, settings))
    checks.append(partial(left_out_of, settings))
    return failures(checks)


def check_processes(settings: Sections, processes: int) -> None:
    """Refuse to train in as many processes as a launcher started, where the settings need one.

    Raises:
        UsageError: the settings need one process.
    """
    if settings.recipe.execute_stage(1) and not scores_only(settings):
        check_one_process(settings.computing, processes)


def raise_problems(problems: Sequence[Problem], configs: Sequence[str]) -> None:
    """Raise one error that names all problems, if any; with several `configs` also whose they are.

    Raises:
        UsageError: one of them is a mistake in a config.
        AsdfError: all of them are of another kind, such as a file that is not there.
    """
    if not problems:
        return
    configs_of: dict[str, list[str]] = {}
    for problem in problems:
        # A mistake that configs share is shown once, with the names of all of them.
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


def is_bundle(weights: str | None) -> bool:
    """Whether `front_end.weights` names a bundle of torchaudio, fetched when first needed."""
    return weights is not None and weights.startswith(BUNDLE)


def describe_download(settings: Sections, folders: Folders) -> str:
    """Return what a run downloads from the hub before it trains; empty where it needs nothing.

    Raises:
        UsageError, AsdfError: the hub has no such repository, or gives no answer.
    """
    from asdf.interchange import bytes_to_fetch

    weights = folders.weights(settings.front_end.weights)
    size = 0 if weights is None else bytes_to_fetch(weights)
    return f"the run downloads {size / _MEGABYTE:,.1f} MB of {weights}" if size else ""


def build_with_weights(settings: Sections, folders: Folders, recipe_folder: Path) -> nn.Module:
    """Build the network of the settings with the pretrained weights that they name.

    Raises:
        UsageError: the network's class is not there.
        AsdfError: the weights are not there, cannot be read or do not fit; the constructor of the
            class fails.
    """
    from asdf.interchange import build_pretrained, names_path

    weights = folders.weights(settings.front_end.weights)
    if weights is not None and names_path(weights) and not Path(weights).exists():
        raise AsdfError(missing_weights(Path(weights)))
    front_end = replace(settings.front_end, weights=weights)
    return build_pretrained(replace(settings, front_end=front_end), recipe_folder)
