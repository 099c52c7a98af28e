"""The tokens of a literal: where a value ends in a text, and what of it may go on to the parser.

Invariant: what passes `scan` holds plain strings only, and nests no deeper than `MAX_DEPTH`, so
that no input exhausts the stack of Python's parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    | (?P<word>     [\w.]+ )
    | (?P<open>     [(\[{] )
    | (?P<close>    [)\]}] )
    | (?P<comma>    , )
    | (?P<quote>    ['"] )
    | (?P<operator> . )
    """,
    re.VERBOSE | re.DOTALL,
)
ASSIGNMENT_LINE = re.compile(r"[ \t]*[^\W\d]\w*(?:\.\w+)+[ \t]*=(?!=)")
_ANY_ASSIGNMENT_LINE = re.compile(r"[ \t]*[^\W\d]\w*(?:\.\w+)*[ \t]*=")
_BLANK_LINE = re.compile(r"[ \t\f]*(?:\n|\Z)")

Tokens = Iterator[tuple[re.Match[str], list[int]]]


def _tokens(text: str, start: int = 0) -> Tokens:
    """Yield the tokens of a text, each with the positions of the brackets that are open after it.

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

    A value ends with its line, unless a bracket is still open there. The end lies before the
    comment. A bracket that is never closed is not searched for beyond the next value of the file,
    so that a file is read in a time that grows with its length: an assignment ends the search, and
    after a blank line (where reading goes on after a broken value) so does a line 'name =' without
    a section.

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
    """Split a text at the commas that stand outside of strings and brackets.

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
        raise Complaint("there is no value before or behind a comma")
    return values


def scan(text: str) -> None:
    """Refuse what nests too deep for the parser, and strings that are not plain.

    Raises:
        Complaint: on the first token that is refused.
    """
    # Python's tree is at most as deep as there are brackets, dots, operators and words in a row,
    # such as 'not not', between two commas of each open level.
    levels = [0]
    previous = ""
    previous_text = ""
    for token, opened in _tokens(text):
        kind = token.lastgroup or ""
        if kind in ("comment", "space", "newline"):
            continue
        line = text.count("\n", 0, token.start())
        if kind == "word":
            levels[-1] += token[0].count(".") + (previous in ("word", "string"))
        levels[-1] += kind in ("open", "operator")
        del levels[len(opened) + 1 :]
        levels += [0] * (len(opened) + 1 - len(levels))
        if kind == "comma":
            levels[-1] = 0
        if sum(levels) > MAX_DEPTH:
            raise Complaint(
                f"more than {MAX_DEPTH} brackets or operators within each other are refused", line
            )
        # Strings that follow each other are one text; inside a tuple they are a forgotten comma.
        if kind == previous == "string" and opened:
            between = f"{shortened(previous_text, 30)} and {shortened(token[0], 30)}"
            raise Complaint(f"is a comma missing between {between}?", line)
        prefix = token[0][: len(token[0]) - len(token[0].lstrip(ascii_letters))]
        if kind == "string" and prefix.lower() not in ("", "r", "u"):
            raise Complaint(f"a string with the prefix {prefix} is no plain string; {KINDS}", line)
        previous = kind
        previous_text = token[0]
