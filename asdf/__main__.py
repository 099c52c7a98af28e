"""`python -m asdf COMMAND ...`; a command is imported when it is used, so that help and mistakes answer at once.

A command is a module of `asdf.commands` with `main(arguments: list[str]) -> int`, which returns the exit status.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from asdf.errors import AsdfError

COMMANDS = {
    "launch": "run many configs of a recipe, as many side by side as there are GPUs",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command that `arguments` (None: those of this process) name; what a user can mend is told in a line."""
    width = max(map(len, COMMANDS))
    parser = argparse.ArgumentParser(
        prog="python -m asdf",
        usage="python -m asdf COMMAND ...",
        description="commands:\n" + "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items()),
        epilog="python -m asdf COMMAND --help tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    try:
        status: int = importlib.import_module(f"asdf.commands.{given.command}").main(given.arguments)
        return status
    except AsdfError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
