"""Check the audit file of a service, in which each line contains a hash of the previous one.

    python -m asdf audit-file verdicts.jsonl
    python -m asdf audit-file verdicts.jsonl --noted 9f86d081884c7d65...   # a hash noted earlier

The file is written by `serve --audit`. The first line that was changed, removed, inserted or moved
is reported. Lines removed at the end can only be detected with a hash that was noted elsewhere,
such as the one that this command prints. Exit status: 0 the chain is intact, 1 it is broken.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asdf.commands.options import Command, argument, option
from asdf.commands.outputs import show
from asdf.runs.streams import show_error
from asdf.service import check_audit_file


@dataclass(frozen=True, kw_only=True)
class AuditFileOptions:
    """Options of the command."""

    file: Path = argument("audit file of a service", "FILE")
    noted: str = option("hash of a line that the file must contain", metavar="HASH", default="")


COMMAND = Command("audit-file", __doc__, AuditFileOptions)


def main(arguments: list[str]) -> int:
    """Check an audit file; return 1 if its chain is broken, else 0.

    Raises:
        AsdfError: the file cannot be read.
    """
    args = COMMAND.read(arguments)
    chain = check_audit_file(args.file, args.noted.lower())
    if chain.problem:
        where = "" if chain.problem.startswith("no line") else f", line {chain.lines + 1}"
        show_error(
            f"{args.file}{where}: {chain.problem}. The {chain.lines:,} lines before it are intact."
        )
        return 1
    show(f"{args.file}: {chain.lines:,} lines, the chain is intact; last hash {chain.last}")
    return 0
