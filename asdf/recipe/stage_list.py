"""The stages of a recipe, read from the calls of `run.stage(NUMBER, function)` in its run.py.

Invariant: run.py is parsed, not executed. If a stage number is computed, the stages are unknown:
nothing is refused, and a dry run does not list them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import UsageError
from asdf.recipe.declared_corpora import scores_only, sets_in_use, validation_sets
from asdf.recipe.run_folders import Folders
from asdf.settings.sections import Network, Recipe, Sections

# The work of a stage is determined by the framework functions that it calls.
MEASURES = frozenset({"lengths"})
TRAINS = frozenset({"train_network"})
SCORES = frozenset({"evaluate_network"})
REPORTS = frozenset({"report_results"})


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
        number = _argument(call, 0, "number")
        function = _argument(call, 1, "function")
        # True is an int too, but not a valid stage number.
        if not isinstance(number, ast.Constant) or type(number.value) is not int:
            return None
        if function is None:
            return None
        name = ast.unparse(function)
        stages[number.value] = _read_stage(number.value, name, functions.get(name))
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
    chosen = chosen_stages(settings.recipe, stages)
    trains = any(stage.calls & TRAINS for stage in chosen) and not scores_only(settings.network)
    if trains and not settings.recipe.training_sets:
        raise UsageError(
            "recipe.training_sets is empty: there is nothing to train on. Name a corpus."
        )
    reasons = [_idle_reason(stage, settings) for stage in chosen]
    if reasons and all(reasons):
        raise UsageError(f"nothing would be done: {' and '.join(dict.fromkeys(reasons))}.")


def chosen_stages(recipe: Recipe, stages: Mapping[int, Stage]) -> list[Stage]:
    """Return the stages between `recipe.start_stage` and `recipe.end_stage`."""
    return [stage for stage in stages.values() if recipe.execute_stage(stage.number)]


def _idle_reason(stage: Stage, settings: Sections) -> str:
    """Return why a stage would do nothing; '' if it does something, or if unknown."""
    recipe = settings.recipe
    if stage.calls & MEASURES and not sets_in_use(settings):
        return "no corpus is named"
    if (
        stage.calls & TRAINS
        and scores_only(settings.network)
        and not validation_sets(settings.recipe)
    ):
        return "recipe.validation_sets is empty"
    if stage.calls & (SCORES | REPORTS):
        if not recipe.evaluation_sets:
            return "recipe.evaluation_sets is empty"
        if recipe.selected_epochs == ():
            return "recipe.selected_epochs is empty"
    return ""


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    if position < len(call.args):
        return call.args[position]
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return None


def _read_stage(number: int, name: str, function: ast.FunctionDef | None) -> Stage:
    # A function that run.py imports is not parsed: only its name is known.
    if function is None:
        return Stage(number, name, frozenset({name}))
    calls = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            # 'f' for a call of f(...) or x.f(...).
            calls.add(getattr(node.func, "id", getattr(node.func, "attr", "")))
    document = ast.get_docstring(function) or name
    return Stage(number, document.splitlines()[0], frozenset(calls))


def describe_stages(settings: Sections, folders: Folders, stages: Mapping[int, Stage]) -> list[str]:
    """Return a line for each chosen stage, followed by what is known about its work."""
    lines = []
    for stage in chosen_stages(settings.recipe, stages):
        lines.append(f"{stage.number}  {stage.summary}")
        lines += [f"   {detail}" for detail in _describe_work(stage, settings, folders)]
    return lines


def _describe_work(stage: Stage, settings: Sections, folders: Folders) -> Iterator[str]:
    """Yield descriptions of the framework functions that the stage calls."""
    recipe = settings.recipe
    if stage.calls & MEASURES:
        names = [*recipe.training_sets, *validation_sets(settings.recipe), *recipe.evaluation_sets]
        yield f"of {', '.join(dict.fromkeys(names))}"
        yield f"writes {folders.sad}"
    if stage.calls & TRAINS:
        yield from _describe_training(settings, folders)
    scored = ", ".join(recipe.evaluation_sets)
    if stage.calls & SCORES:
        selected = "the last epoch"
        if recipe.selected_epochs is not None:
            selected = "epochs " + ", ".join(map(str, recipe.selected_epochs))
        elif scores_only(settings.network):
            selected = _describe_resumed(settings.network)
        yield f"score {scored} with {selected} of {folders.networks}"
        yield f"writes {folders.layout.scores}"
    if stage.calls & REPORTS:
        yield f"of {scored}"
        yield f"writes {folders.results}"


def _describe_training(settings: Sections, folders: Folders) -> Iterator[str]:
    validation = ", ".join(validation_sets(settings.recipe))
    if scores_only(settings.network):
        yield f"no training: score {validation} with {_describe_resumed(settings.network)}"
        yield f"writes {folders.layout.scores}"
        return
    training = ", ".join(settings.recipe.training_sets)
    yield f"train on {training}, validate on {validation or 'nothing'}"
    if settings.network.initial_network:
        yield f"begins with {settings.network.initial_network}"
    if settings.front_end.weights:
        yield f"front end from {settings.front_end.weights}"
        download = folders.describe_download(settings.front_end.weights)
        if download:
            yield download
    if settings.front_end.cache_features:
        yield f"its features are saved in {folders.features}"
    yield f"writes {folders.networks}"


def _describe_resumed(network: Network) -> str:
    return f"epoch {-int(network.resume_epoch)}"
