"""The command line of a recipe."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import UsageError

# A path that is typed means the folder that it is typed in; one in a config means the recipe's folder.
_TYPED_PATHS = ("paths.output_folder", "paths.database_folder", "front_end.weights")


@dataclass(frozen=True)
class CommandLine:
    """What was asked for.

    Attributes:
        explain: None when it was not, '' for all settings.
        local_rank: what `python -m torch.distributed.launch` adds; it says the same in the environment.
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
    given = parser.parse_intermixed_args(arguments)
    configs = [word for word in given.words if "=" not in word]
    overrides = [_from_here(word) for word in given.words if "=" in word]
    if given.explain and "." not in given.explain and not configs:
        # `--explain CONFIG` reads as naturally as `CONFIG --explain`.
        configs, given.explain = [given.explain], ""
    if not configs and not given.list:
        raise UsageError(
            "no config named. Use: run.py CONFIG [section.name=value ...]; run.py --list shows "
            "them."
        )
    return CommandLine(
        configs, overrides, given.list, given.explain, given.dry_run, given.local_rank
    )


def _from_here(override: str) -> str:
    name, _, value = override.partition("=")
    path = value.strip().strip("'\"")
    relative = path and path != "None" and not path.startswith(("/", "$", "~", "torchaudio:"))
    if name.strip() in _TYPED_PATHS and relative:
        return f"{name.strip()}={str(Path.cwd() / path)!r}"
    return override
