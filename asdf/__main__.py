"""`python -m asdf COMMAND ...`, also installed as the program `asdf-antispoofing`.

A command is a module with `main(arguments: list[str]) -> int`, which returns the exit status. It
lies in the folder of its subject, as `command.py` or in a folder `commands` (`asdf.tasks.sasv`,
`asdf.launcher`); the commands that every run needs are in `asdf.commands`, with what several share.
Only the requested command is imported, so that `--help` and usage errors appear quickly.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys

from asdf import removed
from asdf.errors import AsdfError, UsageError, explain_killed_worker
from asdf.ports import provided
from asdf.runs.files import explain_path
from asdf.runs.log import progress_on_stderr
from asdf.runs.streams import (
    NobodyReadsError,
    OutputError,
    close_streams,
    discard_output,
    open_streams,
    show_error,
)
from asdf.text import PROGRAM, did_you_mean, program_name

GROUPS = {
    "start": {
        "quickstart": "train, score and report a small network on a demo corpus, in a minute",
        "doctor": "check what works on this machine, and how to fix what does not",
        "new-recipe": "copy a recipe to a new folder, to change it",
    },
    "judge recordings": {
        "score": "score recordings, folders or lists with a network",
        "detectors": "list published detectors with their error rates and licences",
    },
    "train": {
        "train": "run the configs of a recipe",
        "launch": "run many configs of a recipe in parallel on the available GPUs",
        "report": "write a page with results, curves, training and settings of runs",
        "compare": "compare two runs: settings, code, results with a significance test",
    },
    "measure": {
        "evaluate": "compute EER, minDCF, t-DCF etc. of score files, with intervals; submissions",
        "fuse": "fuse several systems: weights from score files, the gain, fused scores",
        "lists": "make training and test lists of a folder or table, with disjoint speakers",
        "embed": "write the embeddings of recordings",
    },
    "exchange": {
        "export": "convert a network for other programs, or push it to a repository on the hub",
        "corpora": "list the supported corpora, or check whether one is complete",
    },
}
"""Summary of each command, grouped by the user's goal."""

FORMER = {"localise": "frames", "trace": "sources", "sasv": "sasv", "submission": "submission"}
"""Commands that `evaluate` does now, with the kind of their files: understood, and not listed."""

for _name, (_group, _summary, _) in provided("COMMANDS").items():
    GROUPS[_group][_name] = _summary

COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}

# `import` is a Python keyword, so no module can have that name.
_MODULES = {
    "corpora": "corpora.command",
    "detectors": "hub.command",
    "doctor": "doctor.command",
    "export": "interchange.command",
    "fuse": "tasks.fusion.command",
    "launch": "launcher.command",
    "new-recipe": "commands.new_recipe",
    "quickstart": "demo.command",
    "report": "report.command",
}
"""The module of each command that is not one of `asdf.commands` by the command's name."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status; an `AsdfError` is printed as one message.

    Args:
        arguments: Arguments of the command line; None for those of this process.
    """
    try:
        open_streams()
        status = _run(arguments)
    except SystemExit as end:  # --help, or a mistake that argparse reports
        if close_streams(0) and not end.code:
            raise SystemExit(OutputError.exit_status) from None
        raise
    except AsdfError as error:
        if isinstance(error, OutputError):
            discard_output()
        status = _report(error)
    except NobodyReadsError:  # `asdf corpora | head`: nobody reads on
        status = 0
    except (OSError, RuntimeError) as error:
        explained = explain_killed_worker(error) or explain_path(error)
        if explained is None:
            raise
        status = _report(explained)
    except KeyboardInterrupt:
        status = 130
    return close_streams(status)


def module_name(command: str) -> str:
    """Return the module of a command."""
    if command in provided("COMMANDS"):
        return str(provided("COMMANDS")[command][2])
    module = _MODULES.get(command, f"commands.{command}")
    return f"asdf.{module}"


def _run(arguments: list[str] | None) -> int:
    from asdf.commands.outputs import WarningFormatter, describe_version, show

    args = _build_parser().parse_args(arguments)
    if args.version:
        show(describe_version())
        return 0
    if args.completion:
        show(_completion_script(args.completion))
        return 0
    if args.command is None:
        show(_build_parser().format_help().rstrip())
        return UsageError.exit_status
    if args.command in removed.COMMANDS:
        raise UsageError(f"{args.command} has left ASDF. {removed.COMMANDS[args.command]}")
    if args.command not in (*COMMANDS, *FORMER):
        raise UsageError(
            f"there is no command {args.command!r}.{did_you_mean(args.command, COMMANDS)} "
            f"{program_name()} --help lists all of them."
        )
    left = removed.option_has_left(args.command, args.arguments)
    if left:
        raise UsageError(left)
    kind = FORMER.get(args.command)
    module = importlib.import_module(module_name(args.command if kind is None else "evaluate"))
    # Of a command without a log, for example what limits all verdicts of a network.
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(WarningFormatter())
    with progress_on_stderr():
        status: int = module.main(args.arguments, *([] if kind is None else [kind]))
    return status


def _build_parser() -> argparse.ArgumentParser:

    width = max(map(len, COMMANDS))
    lines = []
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:<{width}}  {summary}" for name, summary in commands.items()]
    program = program_name()
    parser = argparse.ArgumentParser(
        prog=program,
        usage=f"{program} COMMAND ...",
        description="\n".join(lines).lstrip(),
        epilog=f"{program} COMMAND --help says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument(
        "--version", action="store_true", help="the versions of ASDF, torch and Python"
    )
    parser.add_argument(
        "--completion",
        choices=("bash", "zsh", "tcsh"),
        metavar="SHELL",
        help="print what lets a shell complete commands, options and files, by the package shtab: "
        f'eval "$({program} --completion bash)"; also zsh, tcsh',
    )
    return parser


def _completion_script(shell: str) -> str:
    try:
        import shtab
    except ModuleNotFoundError:
        raise AsdfError("--completion needs the package shtab: pip install shtab.") from None
    parser = argparse.ArgumentParser(PROGRAM)
    commands = parser.add_subparsers()
    for name, summary in COMMANDS.items():
        own = importlib.import_module(module_name(name)).COMMAND.parser()
        for action in own._actions:
            action.complete = shtab.FILE
        commands.add_parser(name, parents=[own], add_help=False, help=summary)
    return str(shtab.complete(parser, shell))


def _report(error: AsdfError) -> int:
    show_error(f"error: {error}")
    return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
