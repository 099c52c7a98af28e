"""The blocks of code of a document: what is fenced, and what is indented by four spaces."""

import ast
import re
from dataclasses import dataclass

PROGRAMS = (
    "python|torchrun|pip|asdf-antispoofing|curl|ffmpeg|tar|gunzip|bsdtar|export|cd|sbatch|scancel|"
    "module|zcat|hf|pytest|ruff|mypy|mkdocs|pre-commit|podman|docker|systemctl|cp|mkdir"
)
SHELL = re.compile(rf"(\w+=\S+ )*(\S+/bin/)?({PROGRAMS})\b")
SETTING = re.compile(r"(\w+\.\w+ = \S|[\w-]+ < [\w-]+$)")
LANGUAGES = {"python": "python", "bash": "shell", "sh": "shell", "text": "output", "": "output"}


@dataclass(frozen=True)
class Block:
    """A block of a document.

    Attributes:
        line: where it begins in the document, from 1.
        kind: 'shell', 'python', 'config', 'output', or another language that a fence names.
    """

    line: int
    kind: str
    text: str


def blocks_of(document: str) -> list[Block]:
    """Return the blocks of a document in Markdown, from its first to its last."""
    lines = document.splitlines()
    blocks = []
    index = 0
    while index < len(lines):
        fence = re.match(r"( *)```(\w*)", lines[index])
        is_indented = lines[index].startswith("    ") and not lines[max(index - 1, 0)].strip()
        if not fence and not is_indented:
            index += 1
            continue
        start = index
        if fence:
            index += 1
            while not lines[index].strip().startswith("```"):
                index += 1
            inner = lines[start + 1 : index]
            index += 1
        else:
            while index < len(lines) and (lines[index].startswith("    ") or not lines[index]):
                index += 1
            inner = lines[start:index]
        text = dedent(inner)
        kind = LANGUAGES.get(fence[2], fence[2]) if fence else kind_of(text)
        blocks.append(Block(start + 1, kind, text))
    return blocks


def dedent(lines: list[str]) -> str:
    """Return the lines without the spaces that all begin with, and without empty last ones."""
    width = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[width:] for line in lines).rstrip() + "\n"


def kind_of(text: str) -> str:
    """Return what an indented block is by its first line."""
    first = next(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    if SHELL.match(first):
        return "shell"
    if SETTING.match(first):
        return "config"
    return "python" if re.match(r"(import|from) \w", first) and is_python(text) else "output"


def is_python(text: str) -> bool:
    """Return whether Python can parse it."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def commands_of(block: Block) -> list[str]:
    """Return the commands of a block of the shell, without comments."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    commands = []
    for line in joined.splitlines():
        command = re.split(r"\s+# ", line.strip())[0]
        if command and not command.startswith("#"):
            commands.append(command)
    return commands
