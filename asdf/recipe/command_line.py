"""The command line of a recipe."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import UsageError
from asdf.hub import parse_name
from asdf.settings.weights_names import BUNDLE

# A relative path that is typed starts in the current folder; one in a config in the recipe's.
_WEIGHTS = "front_end.weights"
_TYPED_PATHS = ("paths.output_folder", "paths.database_folder", _WEIGHTS)


@dataclass(frozen=True)
class CommandLine:
    """What the command line requests.

    Attributes:
        explain: a setting or section, '' for all of them; None without --explain.
        local_rank: what `python -m torch.distributed.launch` adds; the environment has it as well.
    """

    configs: list[str]
    overrides: list[str]
    show_list: bool
    explain: str | None
    dry_run: bool
    local_rank: int | None = None


def parse_command_line(arguments: list[str], description: str) -> CommandLine:
    """Read the arguments of `run.py CONFIG [CONFIG ...] [section.name=value ...]`.

    Raises:
        UsageError: no config is named.
    """
    args = _build_parser(description).parse_intermixed_args(arguments)
    # The name of a config has no equals sign, and an override always has one.
    configs = [word for word in args.words if "=" not in word]
    overrides = [from_current_folder(word) for word in args.words if "=" in word]
    explain = args.explain
    if explain and "." not in explain and not configs:
        # `--explain CONFIG` reads as naturally as `CONFIG --explain`.
        configs = [explain]
        explain = ""
    if not configs and not args.list:
        raise UsageError(
            "no config named. Use: run.py CONFIG [section.name=value ...]; run.py --list shows "
            "them."
        )
    return CommandLine(configs, overrides, args.list, explain, args.dry_run, args.local_rank)


def _build_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run.py",
        usage="run.py CONFIG [CONFIG ...] [section.name=value ...]\n"
        "              [--list] [--explain [section.name]] [--dry-run]",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "words", nargs="*", metavar="CONFIG", help="run configs, one after another, and overrides"
    )
    parser.add_argument(
        "--list", action="store_true", help="show the configs and what they inherit from"
    )
    parser.add_argument(
        "--explain",
        nargs="?",
        const="",
        metavar="section.name",
        help="show each value and where it comes from",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show what would be done, check what it needs, and stop",
    )
    parser.add_argument("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)
    return parser


def from_current_folder(override: str) -> str:
    """Make a relative path absolute: it is meant from the current folder, not from the recipe's."""
    name, _, value = override.partition("=")
    path = value.strip().strip("'\"")
    # A variable and a home folder are expanded later, to paths that do not depend on this folder.
    is_relative = path not in ("", "None") and not path.startswith(("/", "$", "~", BUNDLE))
    if name.strip() == _WEIGHTS and is_relative and parse_name(path) is not None:
        return override
    if name.strip() in _TYPED_PATHS and is_relative:
        return f"{name.strip()}={str(Path.cwd() / path)!r}"
    return override
