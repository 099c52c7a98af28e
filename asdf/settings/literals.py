"""The value of one Python literal.

Invariant: nothing that is read is ever run. Only what `tokens.py` lets through gets as far as
`ast.parse`, which runs nothing either; only arithmetic on numbers is computed, and sizes are
bounded, so that no input calls anything or computes for long (`9**9**9`).
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

from asdf.settings.mistakes import Complaint, shortened
from asdf.settings.tokens import KINDS, scan

# As many as the largest float has; no setting takes a larger number.
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
_PLAIN = bool | int | float | str | None
# As JSON and YAML write them.
_SPELLINGS = {"true": "True", "false": "False", "none": "None", "null": "None"}


def parse_literal(text: str) -> Any:
    """Return the value of one Python literal.

    Raises:
        Complaint: `text` is anything else; `line` says which line of `text`, counted from 0.
    """
    text = text.strip(" \t\f\n")
    if not text:
        raise Complaint(f"there is no value; {KINDS}")
    if len(text) > MAX_LENGTH:
        raise Complaint(f"a value of more than {MAX_LENGTH} characters is refused")
    scan(text)
    try:
        with warnings.catch_warnings():
            # Such as of an unknown escape sequence: a matter of the text, not of the value.
            warnings.simplefilter("ignore")
            tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        # Python may name the line after the last one, or none at all.
        line = min(max(error.lineno or 1, 1) - 1, text.count("\n"))
        raise Complaint(f"Python cannot read it ({error.msg}); {KINDS}", line) from None
    except (ValueError, MemoryError, RecursionError):
        raise Complaint(f"Python cannot read it; {KINDS}") from None
    return _evaluate(tree.body)


def _evaluate(node: ast.expr) -> Any:
    # Bytes, complex numbers and the ellipsis are constants as well.
    if isinstance(node, ast.Constant) and isinstance(node.value, _PLAIN):
        return _bounded(node.value, node)
    if isinstance(node, ast.Tuple):
        return tuple(map(_evaluate, node.elts))
    if isinstance(node, ast.List):
        return list(map(_evaluate, node.elts))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate_number(node.operand)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd):
        return _evaluate_number(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left = _evaluate_number(node.left)
        right = _evaluate_number(node.right)
        return _calculate(node, left, right)
    raise Complaint(_describe_other(node), node.lineno - 1)


def _describe_other(node: ast.expr) -> str:
    """Return why an expression is not a literal."""
    text = shortened(ast.unparse(node), 30)
    if text.lower() in _SPELLINGS:
        return f"{text} is written {_SPELLINGS[text.lower()]}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        name = shortened(ast.unparse(node.func), 30)
        return f"{name}(...) is a call, and nothing in a config is run; {KINDS}"
    # (1, 2)(3, 4) and [1][2]: what Python takes for a call and an item.
    if isinstance(node, ast.Call | ast.Subscript):
        return f"is a comma missing in {text}?"
    if isinstance(node, ast.Name | ast.Attribute):
        return f"{text} is a name; {KINDS}"
    if isinstance(node, ast.Dict | ast.Set):
        return f"dicts and sets are no values here; {KINDS}"
    return f"{text} is no literal; {KINDS}"


def _evaluate_number(node: ast.expr) -> int | float:
    # True + 1 is 2 in Python; in a config it is a slip.
    value = _evaluate(node)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Complaint("only numbers can be calculated with", node.lineno - 1)
    return value


def _calculate(node: ast.BinOp, left: int | float, right: int | float) -> int | float:
    line = node.lineno - 1
    is_huge = False
    if isinstance(node.op, ast.Pow) and isinstance(left, int) and isinstance(right, int):
        # Judged without computing it.
        is_huge = abs(left) > 1 and (left.bit_length() - 1) * abs(right) > MAX_BITS
    if is_huge:
        raise Complaint("the number is out of range", line)
    try:
        result = _BINARY[type(node.op)](left, right)
    except ZeroDivisionError:
        raise Complaint("division by zero", line) from None
    except ArithmeticError:
        raise Complaint("the number is out of range", line) from None
    # What Python makes of (-8) ** 0.5.
    if isinstance(result, complex):
        raise Complaint("the root of a negative number is no number", line)
    number: int | float = _bounded(result, node)
    return number


def _bounded(value: Any, node: ast.expr) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise Complaint("the number is out of range", node.lineno - 1)
    if isinstance(value, float) and math.isinf(value):
        raise Complaint("the number is out of range", node.lineno - 1)
    return value
