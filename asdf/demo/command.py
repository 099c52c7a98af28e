"""Make a demo corpus, train a small network on it from scratch, score it and report.

    python -m asdf quickstart                        # in ./asdf-quickstart
    python -m asdf quickstart --folder demo          # elsewhere
    python -m asdf quickstart network.max_epochs=2   # with a setting changed

The folder gets a copy of the recipe, as `new-recipe` makes it, and all that it writes. The same
command goes on where a stopped one has ended. Nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asdf.commands.options import Command, argument, flag, option
from asdf.commands.outputs import show
from asdf.commands.train import become_recipe
from asdf.errors import UsageError
from asdf.recipe.supplied import MAIN_RECIPE, copy_recipe

CONFIG = "quickstart"


@dataclass(frozen=True, kw_only=True)
class QuickstartOptions:
    """Options of the command."""

    folder: str = option("where it works", "FOLDER", default="asdf-quickstart")
    overrides: tuple[str, ...] = argument("settings", "section.name=value", default=())
    dry_run: bool = flag("show what would be done, check it, and stop")


COMMAND = Command("quickstart", __doc__, QuickstartOptions)


def main(arguments: list[str]) -> int:
    """Become the recipe's run.py, which runs the config.

    Raises:
        UsageError: the folder contains something other than this recipe, or an argument is not an
            override.
    """
    args = COMMAND.read(arguments)
    for word in args.overrides:
        if "=" not in word:
            raise UsageError(
                f"'{word}' is not a setting of the form section.name=value. Other configs run with "
                "python FOLDER/run.py CONFIG"
            )
    folder = Path(args.folder)
    run_file = folder / "run.py"
    if not run_file.is_file():
        copy_recipe(MAIN_RECIPE, folder)
        show(f"the recipe {MAIN_RECIPE} is copied to {folder}")
    words = (CONFIG, *args.overrides)
    if args.dry_run:
        words += ("--dry-run",)
    become_recipe(run_file, words)
    raise AssertionError("this process is another program now")
