"""`python -m asdf COMMAND ...`; a command is imported when it is used, so that help and mistakes answer at once.

A command is a module of `asdf.commands` with `main(arguments: list[str]) -> int`, which returns the exit status.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from asdf.errors import AsdfError

COMMANDS = {
    "score": "score recordings with a network: files, folders, lists",
    "calibrate": "turn a network's scores into log-likelihood ratios with a threshold",
    "evaluate": "EER, minDCF, t-DCF and more of score files, by condition, with intervals; tables and submissions",
    "networks": "the networks there are, with their sizes and costs",
    "corpora": "the corpora that are known by name, and whether one of them is whole",
    "import": "turn a published or older detector into a network of ASDF",
    "export": "write a network in the layouts that other systems load: published ones, ONNX, TorchScript, a hub folder",
    "detplot": "DET curves of score files, as PDF, PNG or SVG",
    "compare": "what differs between two runs: settings, code, results with a significance test",
    "report": "a page with the results, curves, attacks, training and settings of one or several runs",
    "launch": "run many configs of a recipe, as many side by side as there are GPUs",
}

# `import` is a word of Python's, so no module can have that name.
_MODULES = {"import": "import_network", "export": "export_network"}


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
        module = _MODULES.get(given.command, given.command)
        status: int = importlib.import_module(f"asdf.commands.{module}").main(given.arguments)
        return status
    except AsdfError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # `asdf networks | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
