"""Copy a recipe of ASDF to a new folder, where you can change and extend it.

    python -m asdf new-recipe my_recipe
    python my_recipe/run.py --list

The copy is self-contained: run.py with the stages, the configs, and a README. A loss, front end or
other class of your own is a file next to run.py that a config names.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from asdf.commands.options import Command, argument
from asdf.commands.outputs import show
from asdf.recipe.supplied import MAIN_RECIPE, copy_recipe


@dataclass(frozen=True, kw_only=True)
class NewRecipeOptions:
    """Options of the command."""

    folder: Path = argument("new folder", "FOLDER")


COMMAND = Command("new-recipe", __doc__, NewRecipeOptions)


def main(arguments: list[str]) -> int:
    """Copy a recipe, print what to do with it, and return 0.

    Raises:
        UsageError: the folder is not empty.
    """
    args = COMMAND.read(arguments)
    copy_recipe(args.folder)
    # Quoted, so that the commands can be copied for any name of a folder.
    run_file = shlex.quote(str(args.folder / "run.py"))
    configs = shlex.quote(str(args.folder / "configs" / "run_configs.py"))
    show(
        f"copied {MAIN_RECIPE} to {args.folder}. Next:\n"
        f"  python {run_file} --list                    # the configs, as a tree\n"
        f"  python {run_file} quickstart                # a minute, on a demo corpus\n"
        f"  python {run_file} train-ssl-aasist --dry-run    # what a config needs and would do\n"
        f"  {configs}: the configs to change"
    )
    return 0
