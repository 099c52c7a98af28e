"""The stages of a recipe, read off the calls of `run.stage(NUMBER, function)` in its run.py.

Invariant: run.py is read here, never run. A number that is computed is not guessed: the stages of
such a recipe are not known, nothing is refused for them and a dry run does not list them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import UsageError
from asdf.recipe.corpora import scores_only, sets_in_use, validation_sets
from asdf.settings.sections import Recipe, Sections

# What a stage does is known by the functions of the framework that it calls.
MEASURES = frozenset({"lengths"})
TRAINS = frozenset({"train_network"})
SCORES = frozenset({"evaluate_network"})
REPORTS = frozenset({"report_results"})


@dataclass(frozen=True)
class Stage:
    """A stage: its number, the first line that its function says of itself, and the names of what that calls."""

    number: int
    summary: str
    calls: frozenset[str]


def read_stages(run_file: Path) -> dict[int, Stage] | None:
    """The stages in the order of their numbers; None where run.py does not write them out."""
    try:
        tree = ast.parse(run_file.read_bytes(), str(run_file))
    except (OSError, SyntaxError, ValueError):
        return None
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    stages: dict[int, Stage] = {}
    for call in _stage_calls(tree):
        number, function = _argument(call, 0, "number"), _argument(call, 1, "function")
        if not (isinstance(number, ast.Constant) and type(number.value) is int) or function is None:
            return None
        name = ast.unparse(function)
        stages[number.value] = _stage(number.value, name, functions.get(name))
    return dict(sorted(stages.items())) or None


def check_stages(recipe: Recipe, stages: Mapping[int, Stage]) -> None:
    """Hold `recipe.start_stage` and `recipe.end_stage` against the stages that there are.

    Raises:
        UsageError: one of them lies behind the last stage, or no stage lies between them.
    """
    last = max(stages)
    # The default means: to the last one, whichever it is.
    beyond = recipe.end_stage > last and recipe.end_stage != Recipe().end_stage
    if recipe.start_stage > last or beyond or not chosen_stages(recipe, stages):
        there = ", ".join(f"{stage.number} ({stage.summary})" for stage in stages.values())
        raise UsageError(
            f"recipe.start_stage = {recipe.start_stage} and recipe.end_stage = {recipe.end_stage} "
            "do not fit the "
            f"stages of this recipe: {there}. Choose among these."
        )


def check_work(settings: Sections, stages: Mapping[int, Stage]) -> None:
    """Raise a UsageError when the chosen stages would do nothing at all, or train on nothing."""
    chosen = chosen_stages(settings.recipe, stages)
    trains = any(stage.calls & TRAINS for stage in chosen) and not scores_only(settings)
    if trains and not settings.recipe.training_sets:
        raise UsageError(
            "recipe.training_sets is empty: there is nothing to train on. Name a corpus."
        )
    reasons = [_idle_reason(stage, settings) for stage in chosen]
    if reasons and all(reasons):
        raise UsageError(f"nothing would be done: {' and '.join(dict.fromkeys(reasons))}.")


def chosen_stages(recipe: Recipe, stages: Mapping[int, Stage]) -> list[Stage]:
    """Those that `recipe.start_stage` and `recipe.end_stage` choose."""
    return [stage for stage in stages.values() if recipe.execute_stage(stage.number)]


def _idle_reason(stage: Stage, settings: Sections) -> str:
    """Why a stage would do nothing; empty where it does something, or where nobody knows what it does."""
    recipe = settings.recipe
    if stage.calls & MEASURES and not sets_in_use(settings):
        return "no corpus is named"
    if stage.calls & TRAINS and scores_only(settings) and not validation_sets(settings):
        return "recipe.validation_sets is empty"
    if stage.calls & (SCORES | REPORTS):
        if not recipe.evaluation_sets:
            return "recipe.evaluation_sets is empty"
        if recipe.selected_epochs == ():
            return "recipe.selected_epochs is empty"
    return ""


def _stage_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "stage":
            yield node


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    if position < len(call.args):
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _stage(number: int, name: str, function: ast.FunctionDef | None) -> Stage:
    if function is None:  # imported: what it does is not known
        return Stage(number, name, frozenset({name}))
    document = ast.get_docstring(function) or name
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    names = [getattr(target, "id", getattr(target, "attr", "")) for target in called]
    return Stage(number, document.splitlines()[0], frozenset(names))
