"""Reduction of the syntax of functions and classes to branches that can be taken.

Invariant: the reduced code computes the same, provided that the known facts hold. Annotations,
comments and all but the first paragraph of docstrings are removed too.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import torch

from asdf.errors import AsdfError
from asdf.networks.autocast import is_short_on_gpu
from asdf.networks.fast_functions import is_on_cpu, learns_on_cpu
from asdf.networks.traced_sizes import is_traced

OURS = "asdf."
# Calls with a known result without a tracer and without replaced operations.
_KNOWN_CALLS: dict[Callable[..., Any], bool] = {
    learns_on_cpu: False,
    # A GPU computes gradients differently, and in other layouts, with the same values.
    is_on_cpu: True,
    is_short_on_gpu: False,
    is_traced: False,
    torch.onnx.is_in_onnx_export: False,
}
# Blocks that affect only the speed, or whether a front end is trained.
_DROPPED_BLOCKS = ("weights_cast_together", "_gradients")
REPLACED_NAMES = {"AsdfError": "ValueError", "UsageError": "ValueError"}


class UnportableError(AsdfError):
    """A network whose code cannot be extracted from ASDF."""


@dataclass(frozen=True)
class NotNone:
    """A value that is known only to be not None."""


Known = Mapping[str, Any]


def reduced(function: FunctionType, known: Known) -> ast.FunctionDef:
    """Return the syntax of a method or function without branches that are never taken.

    Args:
        known: Values of attributes of `self`; `NotNone` if only that is known.
    """
    module, *path = function.__module__, *function.__qualname__.split(".")
    node = top_level(module, path[0])
    for name in path[1:]:
        node = next(inner for inner in node.body if getattr(inner, "name", None) == name)
    result = reduced_node(node, function.__globals__, known)
    assert isinstance(result, ast.FunctionDef)
    return result


@cache
def _module_syntax(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


def top_level(module: str, name: str) -> Any:
    for node in _module_syntax(module).body:
        if getattr(node, "name", None) == name:
            return node
    raise UnportableError(f"the code of {module}.{name} is not at the top of its file")


def reduced_node(node: Any, names: Mapping[str, Any], known: Known) -> Any:
    """Return a reduced copy of a function's or class's syntax."""
    # A copy, since folding changes the syntax, and the module's is cached.
    copy = ast.parse(ast.unparse(node)).body[0]
    previous = ""
    # Each folding may reveal more constant local variables.
    while (text := ast.dump(copy)) != previous:
        previous = text
        copy = _Reducer(names, known).visit(copy)
    return ast.fix_missing_locations(copy)


_LOOKED_AT: set[tuple[str, str]] = set()


def _constant_result(module: str, name: str) -> Any:
    """Return the constant that a function of ASDF always returns; `NotNone` without one."""
    # A recursive function is not constant.
    if (module, name) in _LOOKED_AT:
        return NotNone()
    _LOOKED_AT.add((module, name))
    try:
        return _find_constant(module, name)
    finally:
        _LOOKED_AT.discard((module, name))


# Cached here alone, since what is returned within a recursion is not the result.
@cache
def _find_constant(module: str, name: str) -> Any:
    return constant_result(reduced_node(top_level(module, name), vars(sys.modules[module]), {}))


def constant_result(node: Any) -> Any:
    """Return the constant that a reduced function always returns; `NotNone` without one."""
    if not isinstance(node, ast.FunctionDef):
        return NotNone()
    body = [each for each in node.body if not _is_docstring(each)]
    if not body or isinstance(body[0], ast.Pass):
        return None
    if len(body) == 1 and isinstance(body[0], ast.Return):
        value = body[0].value
        if isinstance(value, ast.Constant):
            return value.value
    return NotNone()


class _Reducer(ast.NodeTransformer):
    """Folds known values, and removes annotations and unreachable code."""

    def __init__(self, names: Mapping[str, Any], known: Known) -> None:
        self._names = names
        self._known = known
        self._locals: dict[str, Any] = {}
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        before = self._locals
        self._locals = _constants_of(node)
        self._depth += 1
        node.returns = None
        for argument in (*node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        for variadic in (node.args.vararg, node.args.kwarg):
            if variadic is not None:
                variadic.annotation = None
        self.generic_visit(node)
        node.body = _flat(node.body, self._locals)
        self._locals = before
        self._depth -= 1
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        # The fields of a dataclass are its annotations.
        if not self._depth:
            return node
        self.generic_visit(node)
        return ast.Assign([node.target], node.value) if node.value is not None else None

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load):
            if node.id in self._locals:
                return ast.Constant(self._locals[node.id])
            node.id = REPLACED_NAMES.get(node.id, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        value = self._value_of(node)
        if isinstance(node.ctx, ast.Load) and (value is None or isinstance(value, bool | str)):
            return ast.Constant(value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "self":
            result = self._known.get(f"{node.func.attr}()", _UNKNOWN)
            if result is not _UNKNOWN:
                return ast.Constant(result)
        function = self._resolve(node.func)
        if isinstance(function, FunctionType):
            path = f"{function.__module__}.{function.__qualname__}"
            if function in _KNOWN_CALLS:
                return ast.Constant(_KNOWN_CALLS[function])
            if path.startswith(OURS) and function.__qualname__ in vars(
                sys.modules[function.__module__]
            ):
                result = _constant_result(function.__module__, function.__qualname__)
                if not isinstance(result, NotNone):
                    return ast.Constant(result)
        self.generic_visit(node)
        return node

    def visit_With(self, node: ast.With) -> Any:
        self.generic_visit(node)
        items = [item for item in node.items if not _is_dropped(item.context_expr)]
        if not items:
            return node.body
        node.items = items
        node.body = _flat(node.body, self._locals)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.body = _flat(node.body, self._locals)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Constant):
            return ast.Constant(not node.operand.value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)
        values: list[ast.expr] = []
        for value in node.values:
            if not isinstance(value, ast.Constant):
                values.append(value)
            elif bool(value.value) is decides:
                # The following values are never evaluated; the preceding ones may be.
                values.append(value)
                break
        if not values:
            return ast.Constant(not decides)
        if len(values) == 1 or isinstance(values[0], ast.Constant):
            return values[0]
        node.values = values
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        is_single = len(node.ops) == 1 and isinstance(node.comparators[0], ast.Constant)
        if is_single and isinstance(node.ops[0], ast.Is | ast.IsNot):
            left = self._value_of(node.left)
            if isinstance(node.left, ast.Constant):
                left = node.left.value
            if left is not _UNKNOWN and node.comparators[0].value is None:  # type: ignore[attr-defined]
                return ast.Constant((left is None) is isinstance(node.ops[0], ast.Is))
        self.generic_visit(node)
        if is_single and isinstance(node.left, ast.Constant):
            left, right = node.left.value, node.comparators[0].value  # type: ignore[attr-defined]
            if isinstance(node.ops[0], ast.Eq | ast.NotEq):
                return ast.Constant((left == right) is isinstance(node.ops[0], ast.Eq))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        return node

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse or None
        node.body = _flat(node.body, self._locals)
        return node

    def _value_of(self, node: ast.AST) -> Any:
        """Return the known value of an attribute."""
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return _UNKNOWN
        if node.value.id == "self":
            return self._known.get(node.attr, _UNKNOWN)
        owner = self._names.get(node.value.id)
        # An object of ASDF that lives as long as the process, such as options of a pass.
        is_ours = f"{type(owner).__module__}.".startswith(OURS)
        if is_ours and not isinstance(owner, FunctionType | type | ModuleType):
            return getattr(owner, node.attr, _UNKNOWN)
        return _UNKNOWN

    def _resolve(self, node: ast.AST) -> Any:
        """Return the function that is called, if its name determines it."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._resolve(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        return None


_UNKNOWN = object()


def _is_dropped(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name in _DROPPED_BLOCKS


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _constants_of(node: ast.FunctionDef) -> dict[str, Any]:
    """Return the local variables that are assigned once, to True, False or None."""
    stored: dict[str, int] = {}
    constants: dict[str, Any] = {}
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            stored[argument.arg] = 1
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            stored[inner.id] = stored.get(inner.id, 0) + 1
        name = _set_alone(inner)
        if name and isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Constant):
            value = inner.value.value
            if value is None or isinstance(value, bool):
                constants[name] = value
    return {name: value for name, value in constants.items() if stored.get(name) == 1}


def _set_alone(node: ast.AST) -> str:
    """Return the only variable that an assignment sets; '' for other statements."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        return target.id if isinstance(target, ast.Name) else ""
    return ""


def _flat(body: Iterable[ast.stmt], constants: Mapping[str, Any]) -> list[ast.stmt]:
    """Return statements up to the first that ends the block, without those that do nothing."""
    result: list[ast.stmt] = []
    for number, node in enumerate(body):
        is_set = _set_alone(node) in constants
        is_nothing = isinstance(node, ast.Pass) or (number and _is_docstring(node))
        if is_set or is_nothing:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if not isinstance(node.value.value, str):
                continue
            # The rest of a docstring is for developers of ASDF.
            summary = inspect.cleandoc(node.value.value).split("\n\n")[0]
            node.value = ast.Constant(" ".join(summary.split("\n")))
        result.append(node)
        if isinstance(node, ast.Return | ast.Raise):
            break
    return result or [ast.Pass()]
