"""What several command lines share: a parser with its usage, and the bootstrap's replicates."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from asdf.errors import UsageError

PROGRAM = "asdf-antispoofing"
"""The program that an installation brings, besides `python -m asdf`."""

NETWORK_HELP = (
    "a network file or folder of ASDF, the folder of a run (its best network), a fused system "
    "(.json), or the name of a network on the hub: hub:ORG/NAME"
)

MIN_REPLICATES = 20
"""Of fewer replicates, fewer than one lies beyond either end of a 95 % interval."""


def program_name() -> str:
    """Return what the user typed before the command: `python -m asdf`, or the installed program."""
    name = Path(sys.argv[0]).name
    if name == PROGRAM:
        return name
    return "python -m asdf"


def command_parser(
    name: str, description: str | None, usage: str | None = None
) -> argparse.ArgumentParser:
    """Make the parser of a command.

    Args:
        description: the module's docstring, shown by --help as it is written.
        usage: Words that follow the name; None where argparse's own line is readable.
    """
    program = f"{program_name()} {name}"
    return argparse.ArgumentParser(
        prog=program,
        usage=None if usage is None else f"{program} {usage}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_replicates(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add --replicates, 1,000 by default; `meaning` is its line in --help."""
    parser.add_argument("--replicates", type=int, metavar="N", default=1000, help=meaning)


def check_replicates(replicates: int, may_be_none: bool) -> None:
    """Refuse a number of replicates that no 95 % interval can be read from.

    Args:
        may_be_none: 0 is allowed, and leaves the intervals out.

    Raises:
        UsageError: too few.
    """
    if replicates >= MIN_REPLICATES or (may_be_none and replicates == 0):
        return
    alternative = "; 0 leaves the intervals out" if may_be_none else ""
    raise UsageError(
        f"--replicates {replicates}: {MIN_REPLICATES} or more are needed for a 95 % interval"
        f"{alternative}."
    )
