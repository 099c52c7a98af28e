"""Limits on how much one line and one function carry, so that the package stays quick to read."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.sources import FILES, nodes, parse, relative

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MAX_FUNCTION_LINES = 60
# Words that a reader of this field would have to translate: logged, index, result, saved.
DIALECT = re.compile(r"(^|_)(told|tells?|place|found|kept|given|aloud)(_|$)")

# An entry of a docstring, and the beginnings of those without a noun of their own: "names: of the
# systems.", "failed: the status then.". A word of code may begin in lower case.
SECTION = re.compile(r"(Args|Attributes|Returns|Yields):")
ENTRY = re.compile(r"    (?:\*{0,2}\w[\w, *]*?(?: \([^)]*\))?: )?(\S.*)")
WITHOUT_NOUN = re.compile(
    r"(?:[a-z]|(?:That|Of|Which|How|What|Where|When|As|In|For|Whose|By|After|If|Until|To|None|With|Not"
    r"|Before|From|On|At|And|Or|But|Is|Are|Without|Who|This|These|It|They|There)\b)"
)

WORD = re.compile(r"\w+")
PRIVATE = re.compile(r"_[^_]")

# What Python itself calls a method: the position in a file.
NAMES_OF_PYTHON = {"tell"}


@cache
def docstring_lines(tree: ast.AST) -> set[int]:
    """The numbers of all lines that belong to texts standing alone, as docstrings do."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def code_lines(path: Path, tree: ast.AST, first: int = 1, last: int | None = None) -> int:
    """Count the lines that are neither empty nor a comment nor in a docstring."""
    documented = docstring_lines(tree)
    count = 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        inside = number >= first and (last is None or number <= last)
        text = line.strip()
        if inside and text and not text.startswith("#") and number not in documented:
            count += 1
    return count


def inner_nodes(node: ast.AST, kinds: type | tuple[type, ...]) -> Iterator[ast.AST]:
    for inner in ast.walk(node):
        if inner is not node and isinstance(inner, kinds):
            yield inner


def only_builds_a_table(function: ast.AST) -> bool:
    """Whether a function has no branch and no loop: rows of one kind, as a command's options."""
    branches = (ast.If, ast.For, ast.While, ast.Try, ast.With, *COMPREHENSIONS)
    return not any(inner_nodes(function, branches))


def test_expressions_are_not_nested() -> None:
    kinds = {
        COMPREHENSIONS: "a comprehension in a comprehension",
        ast.IfExp: "a conditional expression in another",
    }
    nested = []
    for path in FILES:
        for node in nodes(path):
            for kind, name in kinds.items():
                if isinstance(node, kind) and any(inner_nodes(node, kind)):
                    nested.append(f"{relative(path)}, line {node.lineno}: {name}")
    assert nested == []


def test_functions_are_short() -> None:
    long = []
    for path in FILES:
        tree = parse(path)
        for node in nodes(path):
            if isinstance(node, FUNCTIONS) and not only_builds_a_table(node):
                lines = code_lines(path, tree, node.lineno, node.end_lineno)
                if lines > MAX_FUNCTION_LINES:
                    long.append(f"{relative(path)}, {node.name}: {lines} lines of code")
    assert long == []


def test_names_are_plain_words() -> None:
    names = [
        f"{relative(path)}, {node.name}"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef))
        and DIALECT.search(node.name)
        and node.name not in NAMES_OF_PYTHON
    ]
    assert names == []


def entries(docstring: str) -> Iterator[str]:
    """Yield the texts of the entries of arguments and attributes, and of what is returned."""
    section = ""
    for line in docstring.splitlines():
        begins = SECTION.fullmatch(line)
        if begins or (line and not line.startswith(" ")):
            section = begins[1] if begins else ""
            continue
        entry = ENTRY.fullmatch(line)
        is_named = section in ("Args", "Attributes") and ": " in line
        if entry and (is_named or section in ("Returns", "Yields")):
            yield entry[1] if is_named else line.strip()
        if section in ("Returns", "Yields"):
            section = ""


def test_entries_of_docstrings_begin_with_a_noun() -> None:
    bare = []
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
                for entry in entries(ast.get_docstring(node) or ""):
                    if WITHOUT_NOUN.match(entry):
                        bare.append(f"{relative(path)}: {entry}")
    assert bare == []


def test_documented_arguments_are_parameters_and_each_is_described_once() -> None:
    wrong = []
    for path in FILES:
        for node in nodes(path):
            if not isinstance(node, FUNCTIONS):
                continue
            parameters = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            _, _, section = (ast.get_docstring(node) or "").partition("\nArgs:\n")
            section, *_ = re.split(r"\n(?=\S)", section)
            named = []
            for names in re.findall(r"^    (\*{0,2}\w[\w, *]*?): \S", section, re.MULTILINE):
                named += names.replace("*", "").split(", ")
            if len(set(named)) < len(named) or not parameters.issuperset(named):
                wrong.append(f"{relative(path)}: {node.name}: {', '.join(named)}")
    assert wrong == []
