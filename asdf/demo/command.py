"""Make a demo corpus, train a small network on it from scratch, score it and write a report.

    python -m asdf quickstart                        # in ./asdf-quickstart
    python -m asdf quickstart --folder demo          # in another folder
    python -m asdf quickstart network.max_epochs=2   # with another value of a setting

The folder gets a copy of the recipe, as made by `new-recipe`, and all outputs. After a stop, the
same command resumes. Nothing is downloaded.
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

    folder: str = option("folder for the recipe and all outputs", "FOLDER", "asdf-quickstart")
    overrides: tuple[str, ...] = argument("settings to change", "section.name=value", default=())
    dry_run: bool = flag("show and check what would be done, without doing it")


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
                f"'{word}' is not a setting of the form section.name=value. To run another config: "
                "python FOLDER/run.py CONFIG"
            )
    folder = Path(args.folder)
    run_file = folder / "run.py"
    if not run_file.is_file():
        copy_recipe(folder)
        show(f"copied the recipe {MAIN_RECIPE} to {folder}")
    words = (CONFIG, *args.overrides)
    if args.dry_run:
        words += ("--dry-run",)
    become_recipe(run_file, words)
    raise AssertionError("this process is another program now")
