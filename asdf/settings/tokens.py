"""The tokens of a literal: where a value ends in a text, and what of it may go on to the parser.

Invariant: what passes `scan` is made of numbers, strings, True, False, None, round and square
brackets, commas and arithmetic only, and nests no deeper than `MAX_DEPTH`, so that no input
exhausts the stack of Python's parser.
"""

from __future__ import annotations

import re
from string import ascii_letters

from asdf.settings.mistakes import Complaint, shortened

MAX_DEPTH = 60
KINDS = "a value is a number, a string in quotes, True, False, None, or a tuple or list of these"

# A string ends with its line: an unclosed quote must not swallow the rest of the file.
TOKEN = re.compile(
    r"""
      (?P<comment>  \#[^\n]* )
    | (?P<newline>  \n )
    | (?P<space>    [ \t\f]+ )
    | (?P<string>   [A-Za-z]{0,2} (?: '''(?:\\[^\n]|(?!''')[^\\\n])*'''
                                    | \"\"\"(?:\\[^\n]|(?!\"\"\")[^\\\n])*\"\"\"
                                    | '(?:\\[^\n]|[^'\\\n])*'
                                    | "(?:\\[^\n]|[^"\\\n])*" ) )
    | (?P<number>   \.?[0-9](?:[eE][+-]|[\w.])* )
    | (?P<name>     [^\W\d]\w* )
    | (?P<open>     [(\[{] )
    | (?P<close>    [)\]}] )
    | (?P<comma>    , )
    | (?P<operator> \*\*|//|[-+*/%] )
    | (?P<other>    . )
    """,
    re.VERBOSE | re.DOTALL,
)
ASSIGNMENT_LINE = re.compile(r"[ \t]*[^\W\d]\w*(?:\.\w+)+[ \t]*=(?!=)")
_ANY_ASSIGNMENT_LINE = re.compile(r"[ \t]*[^\W\d]\w*(?:\.\w+)*[ \t]*=")
_BLANK_LINE = re.compile(r"[ \t\f]*(?:\n|\Z)")

_STARTS = {"string", "number", "name", "open"}
_ENDS = {"string", "number", "name", "close"}
# As JSON and YAML write them.
_SPELLINGS = {"true": "True", "false": "False", "none": "None", "null": "None"}


def find_end(text: str, start: int) -> tuple[int, str]:
    """Return where the value that starts at `start` ends, and the comment after it.

    A value ends with its line, unless a bracket is still open there. The end lies before the
    comment. A bracket that is never closed is not searched for beyond the next value of the file,
    so that a file is read in a time that grows with its length: an assignment ends the search, and
    after a blank line (where reading goes on after a broken value) so does a line 'name =' without
    a section.

    Raises:
        Complaint: a quote or a bracket is not closed.
    """
    opened: list[int] = []
    next_value = ASSIGNMENT_LINE
    for token in TOKEN.finditer(text, start):
        kind = token.lastgroup
        if kind == "open":
            opened.append(token.start())
        elif kind == "close" and opened:
            opened.pop()
        elif kind == "other" and token[0] in "'\"":
            line = text.count("\n", start, token.start())
            raise Complaint(f"the quote {token[0]} is not closed on its line", line)
        elif kind == "comment" and not opened:
            return token.start(), token[0].lstrip("#").strip()
        elif kind == "newline":
            if not opened:
                return token.start(), ""
            # The bracket was forgotten: the next line is another setting.
            if next_value.match(text, token.end()):
                break
            if _BLANK_LINE.match(text, token.end()):
                next_value = _ANY_ASSIGNMENT_LINE
    _check_closed(text, start, opened)
    return len(text), ""


def split_values(text: str) -> list[str]:
    """Split a text at the commas that stand outside of strings and brackets.

    Raises:
        Complaint: a value is empty, or a quote or a bracket is not closed.
    """
    opened: list[int] = []
    commas = []
    for token in TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "open":
            opened.append(token.start())
        elif kind == "close" and opened:
            opened.pop()
        elif kind == "other" and token[0] in "'\"":
            raise Complaint(f"the quote {token[0]} is not closed")
        elif kind == "comma" and not opened:
            commas.append(token.start())
    _check_closed(text, 0, opened)
    starts = [0, *(comma + 1 for comma in commas)]
    values = []
    for start, end in zip(starts, [*commas, len(text)], strict=True):
        values.append(text[start:end].strip())
    if "" in values:
        raise Complaint("there is no value before or behind a comma")
    return values


def _check_closed(text: str, start: int, opened: list[int]) -> None:
    """Raise a Complaint about the last of the `opened` brackets, if there is one."""
    if opened:
        line = text.count("\n", start, opened[-1])
        raise Complaint(f"the bracket {text[opened[-1]]} is not closed", line)


def scan(text: str) -> None:
    """Refuse whatever is no literal, or nests too deep for the parser.

    Raises:
        Complaint: on the first token that is refused.
    """
    # Python's tree is at most as deep as there are brackets and operators between two commas of
    # each open level.
    levels = [0]
    previous_kind = ""
    previous_word = ""
    for token in TOKEN.finditer(text):
        kind = token.lastgroup or ""
        if kind in ("comment", "space", "newline"):
            continue
        problem = _token_problem(kind, token)
        # Strings that follow each other are one text; inside a tuple they are a forgotten comma.
        is_joined = kind == previous_kind == "string" and len(levels) == 1
        if not problem and previous_kind in _ENDS and kind in _STARTS and not is_joined:
            between = f"{shortened(previous_word, 30)} and {shortened(token[0], 30)}"
            problem = f"is a comma missing between {between}?"
        _count_depth(kind, levels)
        if not problem and sum(levels) > MAX_DEPTH:
            problem = f"more than {MAX_DEPTH} brackets or operators within each other are refused"
        if problem:
            raise Complaint(problem, text.count("\n", 0, token.start()))
        previous_kind = kind
        previous_word = token[0]


def _count_depth(kind: str, levels: list[int]) -> None:
    """Count brackets and operators since the last comma, for each level of brackets."""
    if kind in ("open", "operator"):
        levels[-1] += 1
    if kind == "open":
        levels.append(0)
    elif kind == "close" and len(levels) > 1:
        levels.pop()
    elif kind == "comma":
        levels[-1] = 0


def _token_problem(kind: str, token: re.Match[str]) -> str:
    """Return what is wrong with this token by itself; empty if nothing is."""
    word = token[0]
    if kind == "other" and word in "'\"":
        return f"the quote {word} is not closed on its line"
    if kind == "other":
        return f"{word!r} cannot stand in a value; {KINDS}"
    if word in "{}":
        return f"dicts and sets are no values here; {KINDS}"
    if kind == "name" and word not in ("True", "False", "None"):
        return _name_problem(word, token.string[token.end() :].lstrip(" \t"))
    if kind == "string":
        prefix = word[: len(word) - len(word.lstrip(ascii_letters))]
        return _prefix_problem(prefix)
    return ""


def _prefix_problem(prefix: str) -> str:
    if prefix.lower() in ("", "r", "u"):
        return ""
    if "f" in prefix.lower():
        return f"an f-string is no plain string; {KINDS}"
    return f"a string with the prefix {prefix} is no plain string; {KINDS}"


def _name_problem(word: str, rest: str) -> str:
    if word.lower() in _SPELLINGS:
        return f"{word} is written {_SPELLINGS[word.lower()]}"
    if rest.startswith("("):
        return f"{shortened(word, 30)}(...) is a call, and nothing in a config is run; {KINDS}"
    return f"{shortened(word, 30)} is a name; {KINDS}"
