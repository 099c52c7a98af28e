"""`python -m asdf COMMAND ...`.

A command is a module of `asdf.commands` with `main(arguments: list[str]) -> int`, which returns the
exit status. It is imported when it is used, so that help and mistakes answer at once.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from asdf.errors import AsdfError
from asdf.runs.files import removed_folder_error
from asdf.runs.log import progress_on_stderr
from asdf.runs.streams import (
    NobodyReadsError,
    OutputError,
    close_streams,
    discard_output,
    open_streams,
    show_error,
)

COMMANDS = {
    "score": "score recordings with a network: files, folders, lists",
    "serve": "an HTTP service that scores recordings, with a page for people",
    "calibrate": "turn a network's scores into log-likelihood ratios with a threshold",
    "evaluate": "EER, minDCF, t-DCF and more of score files, by condition, with intervals; tables "
    "and submissions",
    "networks": "the networks of ASDF, with their sizes and costs",
    "detectors": "published detectors: their error rates, training data, licences, and how to use "
    "them by name",
    "corpora": "the corpora that are known by name, and whether one of them is whole",
    "import": "turn a published or older detector into a network of ASDF",
    "export": "write a network in the layouts that other systems load: published ones, ONNX, "
    "TorchScript, a hub folder",
    "detplot": "DET curves of score files, as PDF, PNG or SVG",
    "compare": "what differs between two runs: settings, code, results with a significance test",
    "report": "a page with the results, curves, attacks, training and settings of one or several "
    "runs",
    "launch": "run many configs of a recipe, as many side by side as there are GPUs",
}

# `import` is a word of Python's, so no module can have that name.
_MODULES = {"import": "import_network", "export": "export_network"}


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status; what a user can mend is one message.

    Args:
        arguments: None for those of this process.
    """
    try:
        open_streams()
        status = _run(arguments)
    except SystemExit as end:  # --help, or a mistake that argparse reports
        if close_streams(0) and not end.code:
            raise SystemExit(OutputError.exit_status) from None
        raise
    except OutputError as error:
        discard_output()
        status = _report(error)
    except AsdfError as error:
        status = _report(error)
    except FileNotFoundError:
        removed = removed_folder_error()
        if removed is None:
            raise
        status = _report(removed)
    except NobodyReadsError:  # `asdf networks | head`: nobody reads on
        status = 0
    except KeyboardInterrupt:
        status = 130
    return close_streams(status)


def _run(arguments: list[str] | None) -> int:
    args = _build_parser().parse_args(arguments)
    name = _MODULES.get(args.command, args.command)
    module = importlib.import_module(f"asdf.commands.{name}")
    with progress_on_stderr():
        status: int = module.main(args.arguments)
    return status


def _build_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="python -m asdf",
        usage="python -m asdf COMMAND ...",
        description="\n".join(["commands:", *lines]),
        epilog="python -m asdf COMMAND --help says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _report(error: AsdfError) -> int:
    show_error(f"error: {error}")
    return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
