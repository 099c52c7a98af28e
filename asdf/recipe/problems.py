"""The stages in a run.py, and the problems of a run that can be found before it starts.

Invariants: run.py is parsed, not executed. If a stage number is computed, the stages are unknown:
nothing is refused, and a dry run does not list them. A problem that is visible in the settings is
found in every config of a command before the first one runs, and one message lists all problems,
each once. Problems that need the disk are found by `--dry-run`, and by the run itself as its first
action, with the same functions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from asdf.distributed.determinism import check_workspace
from asdf.errors import AsdfError, UsageError
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.recipe.left_out import left_out_of
from asdf.recipe.run_folders import folders_of
from asdf.recipe.used_sets import sets_in_use, trains
from asdf.settings import Configs
from asdf.settings.front_end_values import pretrained_weights
from asdf.settings.relations import has_front_end
from asdf.settings.sections import SAMPLERS, Recipe, Sections

# The work of a stage is determined by the framework functions that it calls.
MEASURES = "lengths"
TRAINS = "train_network"
SCORES = "evaluate_network"
REPORTS = "report_results"


@dataclass(frozen=True)
class Stage:
    """A stage: its number, the first line of its function's docstring, and the calls in it."""

    number: int
    summary: str
    calls: frozenset[str]


def read_stages(run_file: Path) -> dict[int, Stage] | None:
    """Return the stages by number, in order; None if run.py does not write them out."""
    try:
        tree = ast.parse(run_file.read_bytes(), str(run_file))
    except (OSError, SyntaxError, ValueError):
        return None
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    stages: dict[int, Stage] = {}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in calls:
        if getattr(call.func, "attr", "") != "stage":
            continue
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        named |= dict(zip(("number", "function"), call.args, strict=False))
        number, function = named.get("number"), named.get("function")
        # True is an int too, but not a valid stage number.
        if not isinstance(number, ast.Constant) or type(number.value) is not int or not function:
            return None
        name = ast.unparse(function)
        # A function that run.py imports is not parsed: only its name is known.
        summary, called = name, {name}
        if name in functions:
            summary = (ast.get_docstring(functions[name]) or name).splitlines()[0]
            inside = [node for node in ast.walk(functions[name]) if isinstance(node, ast.Call)]
            # 'f' for a call of f(...) or x.f(...).
            called = {getattr(node.func, "id", getattr(node.func, "attr", "")) for node in inside}
        stages[number.value] = Stage(number.value, summary, frozenset(called))
    return dict(sorted(stages.items())) or None


def check_stages(recipe: Recipe, stages: Mapping[int, Stage]) -> None:
    """Compare `recipe.start_stage` and `recipe.end_stage` with the stages of the recipe.

    Raises:
        UsageError: one of them is beyond the last stage, or there is no stage between them.
    """
    last = max(stages)
    # The default means the last stage, whichever it is.
    is_beyond = recipe.end_stage > last and recipe.end_stage != Recipe().end_stage
    if recipe.start_stage > last or is_beyond or not chosen_stages(recipe, stages):
        known = ", ".join(f"{stage.number} ({stage.summary})" for stage in stages.values())
        raise UsageError(
            f"recipe.start_stage = {recipe.start_stage} and recipe.end_stage = {recipe.end_stage} "
            f"do not fit the stages of this recipe: {known}. Choose among these."
        )


def check_work(settings: Sections, stages: Mapping[int, Stage]) -> None:
    """Check that the chosen stages have work to do.

    Raises:
        UsageError: they would do nothing at all, or train on nothing.
    """
    recipe = settings.recipe
    chosen = chosen_stages(recipe, stages)
    scores_only = settings.network.scores_only
    is_training = any(TRAINS in stage.calls for stage in chosen)
    if is_training and not scores_only and not recipe.training_sets:
        raise UsageError(
            "recipe.training_sets is empty: there is nothing to train on. Name a corpus."
        )
    reasons: list[str] = []
    for stage in chosen:
        if MEASURES in stage.calls and not sets_in_use(settings):
            reasons.append("no corpus is named")
        elif TRAINS in stage.calls and scores_only and not recipe.validated_sets:
            reasons.append("recipe.validation_sets is empty")
        elif stage.calls & {SCORES, REPORTS} and not recipe.evaluation_sets:
            reasons.append("recipe.evaluation_sets is empty")
        elif stage.calls & {SCORES, REPORTS} and recipe.selected_epochs == ():
            reasons.append("recipe.selected_epochs is empty")
    if chosen and len(reasons) == len(chosen):
        raise UsageError(f"nothing would be done: {' and '.join(dict.fromkeys(reasons))}.")


def chosen_stages(recipe: Recipe, stages: Mapping[int, Stage]) -> list[Stage]:
    """Return the stages between `recipe.start_stage` and `recipe.end_stage`."""
    return [stage for stage in stages.values() if recipe.execute_stage(stage.number)]


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
        recipe = settings.recipe
        # The processes are started once for all configs.
        process_counts.add(settings.computing.processes)
        names = dict.fromkeys(recipe.training_sets)
        for scored in (*recipe.validated_sets, *recipe.evaluation_sets):
            names |= dict.fromkeys(set_parts(scored, corpora))
        # All configs are checked now, because an error hours later would be too late.
        checks: list[Check] = [partial(folders_of, settings.paths, folder)]
        checks += [partial(find_corpus, name, corpora) for name in names]
        if stages is not None:
            checks += [partial(check_stages, recipe, stages), partial(check_work, settings, stages)]
        checks += [partial(check_choices, settings), partial(left_out_of, recipe)]
        if config.values["front_end.weights"] is None:
            checks.append(partial(check_weights_are_named, settings, folder))
        checks.append(partial(check_workspace, settings.computing.deterministic))
        problems += [Problem(config.name, error) for error in failures(checks)]
    if len(process_counts) > 1:
        error = UsageError(
            "configs of one command need the same computing.processes: run them in separate "
            "commands."
        )
        problems += [Problem(config.name, error) for config in configs]
    return problems


def check_choices(settings: Sections) -> None:
    """Refuse to choose a network that training will not make, and turns that it will not use.

    Raises:
        UsageError: a choice is impossible; the message says what it needs.
    """
    # Without training here, the networks of earlier runs count, which `select_networks` finds.
    if not trains(settings):
        return
    recipe = settings.recipe
    average = settings.network.average_best_networks
    # A user's own sampler may read them.
    unread = SAMPLERS.keys() - {"weighted_corpora"}
    if recipe.set_weights is not None and recipe.sampler in unread:
        raise UsageError(
            f"recipe.set_weights = {recipe.set_weights} has no effect with recipe.sampler = "
            f"{recipe.sampler!r}: set recipe.sampler to 'weighted_corpora', or recipe.set_weights "
            "= None."
        )
    chosen = (recipe.selected_epochs or ()) if recipe.execute_stage(2) else ()
    if "average" in chosen and not average:
        raise UsageError(
            "recipe.selected_epochs names 'average', but network.average_best_networks is 0."
        )
    if not settings.recipe.validated_sets and (average or "best" in chosen):
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
    if not has_front_end(network.network_class) or network.resume_epoch not in ("auto", 0):
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
