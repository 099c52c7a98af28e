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

from asdf.commands.options import Command, argument, flag, option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.recipe.supplied import MAIN_RECIPE, copy_recipe, recipe_names, recipes_folder


@dataclass(frozen=True, kw_only=True)
class NewRecipeOptions:
    """Options of the command."""

    folder: str | None = argument("new folder", "FOLDER", default=None)
    recipe: str = option("recipe to copy", "NAME", default=MAIN_RECIPE)
    list: bool = flag("list the available recipes")


COMMAND = Command("new-recipe", __doc__, NewRecipeOptions)


def main(arguments: list[str]) -> int:
    """Copy a recipe, print what to do with it, and return 0.

    Raises:
        UsageError: the folder is missing or not empty, or there is no such recipe.
    """
    args = COMMAND.read(arguments)
    if args.list:
        for name in recipe_names():
            show(f"{name}  {_first_line(name)}")
        return 0
    if args.folder is None:
        raise UsageError(
            "the new folder is missing. Use: new-recipe FOLDER; --list shows the recipes."
        )
    folder = Path(args.folder)
    copy_recipe(args.recipe, folder)
    # Quoted, so that the commands can be copied for any name of a folder.
    run_file = shlex.quote(str(folder / "run.py"))
    configs = shlex.quote(str(folder / "configs" / "run_configs.py"))
    show(
        f"copied {args.recipe} to {folder}. Next:\n"
        f"  python {run_file} --list                    # the configs, as a tree\n"
        f"  python {run_file} quickstart                # a minute, on a demo corpus\n"
        f"  python {run_file} train-ssl-aasist --dry-run    # what a config needs and would do\n"
        f"  {configs}: the configs to change"
    )
    return 0


def _first_line(name: str) -> str:
    """Return the description of a recipe, the first line of its README."""
    readme = recipes_folder() / name / "README.md"
    if not readme.is_file():
        return ""
    return readme.read_text(encoding="utf-8").splitlines()[0].strip("# ")
