"""The user's own code of a run: which files it is, their digests, and copies of them in the system folder.

Invariant: a file is known by what it holds. Whether it is committed, or anywhere near a repository,
does not matter.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from asdf.runs.files import atomic_write

# Code is text of some kilobytes; of anything larger the digest has to do.
_LARGEST_COPIED = 1_000_000
_PACKAGE = Path(__file__).resolve().parents[1]


def code_files(recipe_folder: Path, class_paths: Iterable[str]) -> dict[str, Path]:
    """The files of a run's own code by the names that their copies get.

    These are run.py, the configs, the loaded modules of the recipe's folder, and those of
    `class_paths`, wherever they lie, but for the project's own and those of a Python that is
    installed in that folder.
    """
    recipe_folder = recipe_folder.resolve()
    found = [recipe_folder / "run.py", *sorted((recipe_folder / "configs").glob("*.py"))]
    files = {str(path.relative_to(recipe_folder)): path for path in found if path.is_file()}
    modules = [class_path.rpartition(".")[0] for class_path in class_paths]
    # Those that no chosen stage needs are not loaded.
    named = [recipe_folder / f"{module.replace('.', '/')}.py" for module in modules]
    loaded = [path for path in map(_file_of, list(sys.modules)) if path]
    for path in sorted({*loaded, *named}):
        if (
            path.is_relative_to(recipe_folder)
            and path.is_file()
            and not _is_installed(path, recipe_folder)
        ):
            files[str(path.relative_to(recipe_folder))] = path
    for module in modules:
        elsewhere = _file_of(module)
        if elsewhere and not any(map(elsewhere.is_relative_to, (_PACKAGE, recipe_folder))):
            files[f"elsewhere/{module}{elsewhere.suffix}"] = elsewhere
    return files


def _is_installed(path: Path, recipe_folder: Path) -> bool:
    """Whether a module belongs to an environment in the recipe's folder, or to this package there."""
    installed = (_PACKAGE, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
    inside = [folder for folder in installed if folder.is_relative_to(recipe_folder)]
    return any(map(path.is_relative_to, inside))


def save_code(files: Mapping[str, Path], folder: Path) -> dict[str, str]:
    """Copy the files to `folder`, in which only they are left, and return the SHA-256 digest of each by its name.

    Raises:
        AsdfError: the folder cannot be written.
    """
    digests = {}
    for name, path in files.items():
        content = path.read_bytes()
        digests[name] = hashlib.sha256(content).hexdigest()
        if len(content) <= _LARGEST_COPIED:
            with atomic_write(folder / name, "wb") as file:
                file.write(content)
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in digests:
            path.unlink()
    return digests


def _file_of(module: str) -> Path | None:
    """The file of a module; None where it is not loaded, or is built in."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if isinstance(file, str) and Path(file).is_file() else None
