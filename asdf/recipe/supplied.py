"""Recipes that come with ASDF: their location, and copies to start from.

They are data of the installed package, or `recipes` of a checkout; nothing is written there.
Invariant: a copy is complete or absent. The folders of further configs that run.py names lie inside
of it, since those next to it are none of ASDF's.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import asdf_antispoofing
from asdf.errors import AsdfError, UsageError
from asdf.recipe.command_line import config_folders

MAIN_RECIPE = "wav2vec_aasist"
_LEFT_BEHIND = {"output", "__pycache__"}


def recipes_folder() -> Path:
    """Return the folder of the recipes that come with this ASDF.

    Raises:
        AsdfError: the folder is missing, so the installation is incomplete.
    """
    package = Path(asdf_antispoofing.__file__).resolve().parent
    # The second folder is that of a checkout, which an editable installation uses directly.
    for folder in (package / "recipes", package.parent / "recipes"):
        if (folder / MAIN_RECIPE / "run.py").is_file():
            return folder
    raise AsdfError(
        f"no recipes next to {package}: this installation is incomplete. Reinstall it: pip install "
        "--force-reinstall --no-deps asdf-antispoofing"
    )


def copy_recipe(folder: Path) -> None:
    """Copy the recipe of ASDF to `folder`, which must not exist or be empty.

    Raises:
        UsageError: `folder` is not empty.
        AsdfError: `folder` cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} already exists: name a new folder.")
    source, folder = recipes_folder() / MAIN_RECIPE, folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as workshop:
            copy = Path(workshop) / "copy"
            _copy_files(source, copy)
            run_file = copy / "run.py"
            for configs in config_folders(run_file):
                inside = Path(configs).name
                _copy_files(source / configs, copy / inside)
                text = run_file.read_text(encoding="utf-8").replace(f'"{configs}"', f'"{inside}"')
                run_file.write_text(text, encoding="utf-8")
            # A rename replaces an empty folder, too.
            copy.replace(folder)
    except OSError as error:
        raise AsdfError(
            f"cannot copy a recipe to {folder}: {error.strerror or error}. Nothing was left there: "
            "name a writable folder."
        ) from error


def _copy_files(source: Path, copy: Path) -> None:
    """Copy all but what runs and Python leave in a recipe's folder."""
    for path in sorted(source.rglob("*")):
        if not path.is_file() or not _LEFT_BEHIND.isdisjoint(path.relative_to(source).parts):
            continue
        target = copy / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Copy only the content, because files of an installation may be read-only.
        shutil.copyfile(path, target)
