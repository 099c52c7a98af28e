"""The value of one Python literal, and where it ends in the text of a file.

Invariant: nothing that is read is executed. `ast.literal_eval` reads the values; only arithmetic on
numbers is computed before it, with bounded sizes, so that no input computes for long (`9**9**9`).

The tokens differ from those of Python's `tokenize`, whose treatment of an unclosed quote or bracket
differs between versions of Python, and which reads on to the end of the file.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from asdf.settings.mistakes import Complaint, shortened

KINDS = "a value is a number, a string in quotes, True, False, None, or a tuple or list of these"

# A string ends with its line, so that an unclosed quote does not swallow the rest of the file.
TOKEN = re.compile(
    r"""
      (?P<comment>  \#[^\n]* )
    | (?P<newline>  \n )
    | (?P<string>   [A-Za-z]{0,2} (?: '''(?:\\[^\n]|(?!''')[^\\\n])*'''
                                    | \"\"\"(?:\\[^\n]|(?!\"\"\")[^\\\n])*\"\"\"
                                    | '(?:\\[^\n]|[^'\\\n])*'
                                    | "(?:\\[^\n]|[^"\\\n])*" ) )
    | (?P<open>     [(\[{] )
    | (?P<close>    [)\]}] )
    | (?P<comma>    , )
    | (?P<quote>    ['"] )
    | (?P<space>    [ \t\f]+ )
    | (?P<other>    [\w.]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
# With a section, since a line 'name=1' may be an argument within a call.
ASSIGNMENT_LINE = re.compile(r"[ \t]*[^\W\d]\w*(?:\.\w+)+[ \t]*=(?!=)")
_ANY_ASSIGNMENT_LINE = re.compile(r"[ \t]*[^\W\d]\w*(?:\.\w+)*[ \t]*=")
_BLANK_LINE = re.compile(r"[ \t\f]*(?:\n|\Z)")

Tokens = Iterator[tuple[re.Match[str], list[int]]]


def _tokens(text: str, start: int = 0) -> Tokens:
    """Yield the tokens of a text, each with the positions of the brackets open after it.

    Raises:
        Complaint: a quote or a bracket is not closed.
    """
    opened: list[int] = []
    for token in TOKEN.finditer(text, start):
        if token.lastgroup == "open":
            opened.append(token.start())
        elif token.lastgroup == "close" and opened:
            opened.pop()
        elif token.lastgroup == "quote":
            line = text.count("\n", start, token.start())
            raise Complaint(f"the quote {token[0]} is not closed on its line", line)
        yield token, opened
    if opened:
        raise _unclosed(text, start, opened)


def _unclosed(text: str, start: int, opened: list[int]) -> Complaint:
    line = text.count("\n", start, opened[-1])
    return Complaint(f"the bracket {text[opened[-1]]} is not closed", line)


def find_end(text: str, start: int) -> tuple[int, str]:
    """Return where the value that starts at `start` ends, and the comment after it.

    A value ends with its line, unless a bracket is still open. The end lies before the comment. The
    search for a missing bracket stops at the next value of the file, so that reading takes time
    linear in its length: an assignment ends the search, and after a blank line (where reading
    resumes after a broken value) so does a line 'name =' without a section.

    Raises:
        Complaint: a quote or a bracket is not closed.
    """
    next_value = ASSIGNMENT_LINE
    for token, opened in _tokens(text, start):
        if token.lastgroup == "comment" and not opened:
            return token.start(), token[0].lstrip("#").strip()
        if token.lastgroup == "newline":
            if not opened:
                return token.start(), ""
            # The bracket was forgotten: the next line is another setting.
            if next_value.match(text, token.end()):
                raise _unclosed(text, start, opened)
            if _BLANK_LINE.match(text, token.end()):
                next_value = _ANY_ASSIGNMENT_LINE
    return len(text), ""


def split_values(text: str) -> list[str]:
    """Split a text at commas outside strings and brackets.

    Raises:
        Complaint: a value is empty, or a quote or a bracket is not closed.
    """
    values = [""]
    for token, opened in _tokens(text):
        if token.lastgroup == "comma" and not opened:
            values.append("")
        else:
            values[-1] += token[0]
    values = [value.strip() for value in values]
    if "" in values:
        raise Complaint("a value is missing before or after a comma")
    return values


# The largest float needs this many bits, and no setting takes a larger number.
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
# The spellings of JSON and YAML.
_SPELLINGS = {"true": "True", "false": "False", "none": "None", "null": "None"}


def parse_literal(text: str) -> Any:
    """Return the value of one Python literal.

    Raises:
        Complaint: `text` is anything else; `line` is the line in `text`, counted from 0.
    """
    # Not strip() alone, which also takes characters that are no white space in Python's syntax.
    text = text.strip(" \t\f\n")
    if not text:
        raise Complaint(f"there is no value; {KINDS}")
    if len(text) > MAX_LENGTH:
        raise Complaint(f"a value of more than {MAX_LENGTH} characters is not allowed")
    previous = None
    for token, opened in _tokens(text):
        # Adjacent strings are concatenated; inside a tuple they mean a forgotten comma.
        if previous is not None and token.lastgroup == "string" and opened:
            between = f"{shortened(previous[0], 30)} and {shortened(token[0], 30)}"
            line = text.count("\n", 0, token.start())
            raise Complaint(f"is a comma missing between {between}?", line)
        if token.lastgroup not in ("comment", "space", "newline"):
            previous = token if token.lastgroup == "string" else None
    try:
        with warnings.catch_warnings():
            # For example about an unknown escape sequence, which does not affect the value.
            warnings.simplefilter("ignore")
            tree = ast.parse(text, mode="eval").body
        return ast.literal_eval(_Arithmetic().visit(tree))
    except Complaint as complaint:
        # Python counts a lone carriage return as a line end, but the file does not.
        complaint.line = min(complaint.line, text.count("\n"))
        raise
    except SyntaxError as error:
        # Python may report the line after the last one, or none at all.
        line = min(max(error.lineno or 1, 1) - 1, text.count("\n"))
        reason = error.msg
        # Such as a minus sign of a word processor, which looks like a hyphen.
        odd = next((sign for sign in text if not (sign.isascii() or sign.isalnum())), "")
        if odd and odd not in reason:
            reason += f" at '{odd}' (U+{ord(odd):04X})"
        raise Complaint(f"Python cannot read it ({reason}); {KINDS}", line) from None
    # A NUL character, or nesting that Python cannot parse.
    except (ValueError, MemoryError, RecursionError):
        raise Complaint(f"Python cannot read it; {KINDS}") from None


class _Arithmetic(ast.NodeTransformer):
    """Computes the arithmetic in a literal, and refuses what is no value of a setting."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Tuple | ast.List | ast.Load):
            return self.generic_visit(node)
        assert isinstance(node, ast.expr)
        line = node.lineno - 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            sign = -1 if isinstance(node.op, ast.USub) else 1
            value: Any = sign * self._number(node.operand)
        elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            value = _calculate(node.op, self._number(node.left), self._number(node.right), line)
        # Bytes, complex numbers and the ellipsis are also constants.
        elif isinstance(node, ast.Constant) and isinstance(node.value, _PLAIN):
            value = node.value
        else:
            text = shortened(ast.unparse(node), 30)
            is_name = isinstance(node, ast.Name | ast.Attribute)
            problem = f"{text} is {'a name' if is_name else 'not a literal'}; {KINDS}"
            if text.lower() in _SPELLINGS:
                problem = f"{text} is written {_SPELLINGS[text.lower()]}"
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = shortened(ast.unparse(node.func), 30)
                problem = f"{name}(...) is a call, and nothing in a config is run; {KINDS}"
            # Python reads (1, 2)(3, 4) and [1][2] as a call and a subscript.
            elif isinstance(node, ast.Call | ast.Subscript):
                problem = f"is a comma missing in {text}?"
            raise Complaint(problem, line)
        is_huge = isinstance(value, int) and value.bit_length() > MAX_BITS
        if is_huge or (isinstance(value, float) and math.isinf(value)):
            raise Complaint("the number is out of range", line)
        return ast.copy_location(ast.Constant(value), node)

    def _number(self, node: ast.expr) -> int | float:
        # True + 1 is 2 in Python; in a config it is a mistake.
        value = getattr(self.visit(node), "value", None)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Complaint("arithmetic is only allowed on numbers", node.lineno - 1)
        return value


def _calculate(kind: ast.operator, left: int | float, right: int | float, line: int) -> Any:
    """Return the result of an operation; infinity if it is out of range."""
    bits = left.bit_length() - 1 if isinstance(left, int) and isinstance(right, int) else 0
    # Decided without computing it.
    if isinstance(kind, ast.Pow) and bits * abs(right) > MAX_BITS:
        return math.inf
    try:
        result = _BINARY[type(kind)](left, right)
    except ZeroDivisionError:
        raise Complaint("division by zero", line) from None
    except ArithmeticError:
        return math.inf
    # Python's result of (-8) ** 0.5 is complex.
    if isinstance(result, complex):
        raise Complaint("a negative number has no real root", line)
    return result
