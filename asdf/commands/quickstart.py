"""Make a demo corpus, train a small network on it from scratch, score it and report.

    asdf-antispoofing quickstart                        # in ./asdf-quickstart
    asdf-antispoofing quickstart --folder demo          # elsewhere
    asdf-antispoofing quickstart network.max_epochs=2   # with a setting changed

The folder gets a copy of the recipe, as `new-recipe` makes it, and all that it writes. The same
command goes on where a stopped one has ended. Nothing is downloaded.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import asdf
from asdf.commands.options import command_parser
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.recipe.supplied import MAIN_RECIPE, copy_recipe

CONFIG = "quickstart"
_FOLDER = "asdf-quickstart"


def main(arguments: list[str]) -> int:
    """Become the recipe's run.py, which runs the config.

    Raises:
        UsageError: the folder holds something other than this recipe; a word is no override.
    """
    parser = command_parser(
        "quickstart", __doc__, "[--folder FOLDER] [section.name=value ...] [--dry-run]"
    )
    parser.add_argument(
        "--folder", metavar="FOLDER", default=_FOLDER, help=f"where it works ({_FOLDER})"
    )
    parser.add_argument("overrides", nargs="*", metavar="section.name=value", help="settings")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, check it, and stop"
    )
    args = parser.parse_intermixed_args(arguments)
    for word in args.overrides:
        if "=" not in word:
            raise UsageError(
                f"'{word}' is no setting of the form section.name=value. Other configs run with "
                "python FOLDER/run.py CONFIG"
            )
    folder = Path(args.folder)
    run_file = folder / "run.py"
    if not run_file.is_file():
        copy_recipe(MAIN_RECIPE, folder)
        show(f"the recipe {MAIN_RECIPE} is copied to {folder}")
    words = [CONFIG, *args.overrides]
    if args.dry_run:
        words.append("--dry-run")
    _become(run_file, words)
    raise AssertionError("this process is another program now")


def _become(run_file: Path, words: list[str]) -> None:
    """Replace this process by the recipe's, whose signals and exit status stay the command's."""
    environment = dict(os.environ)
    home = Path(asdf.__file__).resolve().parents[1]
    if (home / "pyproject.toml").is_file():
        # A checkout that is not installed is importable from its own folder alone.
        inherited = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), inherited)))
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, str(run_file), *words]
    os.execve(sys.executable, command, environment)
