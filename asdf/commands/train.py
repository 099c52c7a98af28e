"""Run configs of a recipe, like `python RECIPE/run.py CONFIG ...`.

    python -m asdf train recipes/wav2vec_aasist quickstart                        # one config
    python -m asdf train recipes/wav2vec_aasist quickstart network.max_epochs=2   # change a setting
    python -m asdf train recipes/wav2vec_aasist --list                            # list the configs
    torchrun --nproc_per_node=2 -m asdf train recipes/wav2vec_aasist quickstart   # two processes

RECIPE is the folder of a recipe, or its run.py. The remaining arguments are passed to the recipe:
configs, settings, and options such as --dry-run and --explain. To change a recipe of ASDF, copy it
with `new-recipe`; to run many configs in parallel, use `launch`.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import asdf
from asdf.commands.options import Command, argument
from asdf.errors import UsageError
from asdf.text import TYPED, program_name


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of the command."""

    recipe: Path = argument("folder of a recipe, or its run.py", "RECIPE")
    words: tuple[str, ...] = argument(
        "configs, settings and options of the recipe", "CONFIG", default=(), rest=True
    )


COMMAND = Command("train", __doc__, TrainOptions)


def main(arguments: list[str]) -> int:
    """Become the recipe's run.py, which runs the configs.

    Raises:
        UsageError: there is no such recipe.
    """
    args = COMMAND.read(arguments)
    become_recipe(find_run_file(args.recipe), args.words)
    raise AssertionError("this process is another program now")


def find_run_file(recipe: Path) -> Path:
    """Return the run.py of a recipe, given by it or by its folder.

    Raises:
        UsageError: there is none.
    """
    run_file = recipe / "run.py" if recipe.is_dir() else recipe
    if run_file.is_file():
        return run_file
    raise UsageError(
        f"{run_file} is not a file. Give the folder of a recipe, or its run.py. To create one: "
        "python -m asdf new-recipe my_recipe"
    )


def become_recipe(run_file: Path, words: tuple[str, ...]) -> None:
    """Replace this process by the recipe's, which keeps its signals and exit status."""
    environment = dict(os.environ)
    home = Path(asdf.__file__).resolve().parents[1]
    if (home / "pyproject.toml").is_file():
        # A checkout that is not installed can be imported only from its own folder.
        inherited = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), inherited)))
    # What the recipe tells to do next is told as it was typed here.
    environment[TYPED] = program_name()
    # execve does not flush: buffered output would be lost.
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, str(run_file), *words]
    os.execve(sys.executable, command, environment)
