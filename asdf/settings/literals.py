"""The value of one Python literal.

Invariant: nothing that is read is ever run. Only what `tokens.py` lets through gets as far as `ast.parse`, only
arithmetic on numbers is computed, and sizes are bounded, so that no input calls anything or computes for long
(`9**9**9`).
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

from asdf.settings.mistakes import Complaint
from asdf.settings.tokens import KINDS, scan

MAX_BITS = 1024
MAX_LENGTH = 100_000

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def parse_literal(text: str) -> Any:
    """The value of one Python literal.

    Raises:
        Complaint: `text` is anything else; `line` says which line of `text` is meant, counted from 0.
    """
    text = text.strip(" \t\f\n")
    if not text:
        raise Complaint(f"there is no value; {KINDS}")
    if len(text) > MAX_LENGTH:
        raise Complaint(f"a value of more than {MAX_LENGTH} characters is refused")
    scan(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        line = min(max(error.lineno or 1, 1) - 1, text.count("\n"))
        raise Complaint(f"Python cannot read it ({error.msg}); {KINDS}", line) from None
    except (ValueError, MemoryError, RecursionError):
        raise Complaint(f"Python cannot read it; {KINDS}") from None
    return _value(tree.body)


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and (
        node.value is None or isinstance(node.value, bool | int | float | str)
    ):
        return _bounded(node.value, node)
    if isinstance(node, ast.Tuple):
        return tuple(_value(element) for element in node.elts)
    if isinstance(node, ast.List):
        return [_value(element) for element in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number = _number(node.operand)
        return -number if isinstance(node.op, ast.USub) else number
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _calculated(node, _number(node.left), _number(node.right))
    raise Complaint(f"this is no literal; {KINDS}", node.lineno - 1)


def _number(node: ast.expr) -> int | float:
    value = _value(node)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Complaint("only numbers can be calculated with", node.lineno - 1)
    return value


def _calculated(node: ast.BinOp, left: int | float, right: int | float) -> int | float:
    line = node.lineno - 1
    if (
        isinstance(node.op, ast.Pow)
        and isinstance(left, int)
        and isinstance(right, int)
        and abs(left) > 1
        and (left.bit_length() - 1) * abs(right) > MAX_BITS
    ):
        raise Complaint("the number is out of range", line)
    try:
        result = _BINARY[type(node.op)](left, right)
    except ZeroDivisionError:
        raise Complaint("division by zero", line) from None
    except ArithmeticError:
        raise Complaint("the number is out of range", line) from None
    if isinstance(result, complex):
        raise Complaint("the root of a negative number is no number", line)
    return _bounded(result, node)


def _bounded(value: Any, node: ast.expr) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise Complaint("the number is out of range", node.lineno - 1)
    if isinstance(value, float) and math.isinf(value):
        raise Complaint("the number is out of range", node.lineno - 1)
    return value
