"""The user's own code in a run: its files, their digests, and copies in the system folder.

Invariant: a file is identified by its content, whether or not it is committed or in a repository.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from asdf.runs.files import atomic_write

# Code files have some kilobytes; of larger files only the digest is saved.
_LARGEST_COPIED = 1_000_000
_PACKAGE = Path(__file__).resolve().parents[1]


def code_files(recipe_folder: Path, class_paths: Iterable[str]) -> dict[str, Path]:
    """Return the files of a run's own code by the names of their copies.

    These are run.py, the configs, the loaded modules in the recipe's folder, and the modules of
    `class_paths` anywhere. The project's own modules and those of a Python environment installed in
    that folder are left out.
    """
    recipe_folder = recipe_folder.resolve()
    modules = []
    for class_path in class_paths:
        # Torch's optimisers are not the user's code; the record states torch's version.
        if not class_path.startswith("torch."):
            modules.append(class_path.rpartition(".")[0])
    paths = [recipe_folder / "run.py", *sorted((recipe_folder / "configs").glob("*.py"))]
    paths += sorted(_modules_in(recipe_folder, modules))
    files = {str(path.relative_to(recipe_folder)): path for path in paths if path.is_file()}
    for module in modules:
        path = _file_of(module)
        if path and not path.is_relative_to(_PACKAGE) and not path.is_relative_to(recipe_folder):
            files[f"elsewhere/{module}{path.suffix}"] = path
    return files


def _modules_in(recipe_folder: Path, modules: Iterable[str]) -> set[Path]:
    """Return the user's modules in the recipe's folder: all loaded ones, and `modules`."""
    # Modules that only other stages need are not loaded, but named in a setting.
    candidates = {recipe_folder / f"{module.replace('.', '/')}.py" for module in modules}
    # Iterate over a copy, since another thread may import a module meanwhile.
    for module in list(sys.modules):
        path = _file_of(module)
        if path:
            candidates.add(path)
    paths = set()
    for path in candidates:
        if path.is_relative_to(recipe_folder) and not _is_installed(path, recipe_folder):
            paths.add(path)
    return paths


def _is_installed(path: Path, recipe_folder: Path) -> bool:
    """Whether a module in the recipe's folder belongs to an environment or to this package."""
    for folder in (_PACKAGE, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()):
        if folder.is_relative_to(recipe_folder) and path.is_relative_to(folder):
            return True
    return False


def save_code(files: Mapping[str, Path], folder: Path) -> dict[str, str]:
    """Copy the files to `folder`, remove all others there, and return each file's SHA-256 digest.

    Raises:
        AsdfError: the folder cannot be written.
    """
    digests = {}
    for name, path in files.items():
        # Read once, so that digest and copy have the same content.
        content = path.read_bytes()
        digests[name] = hashlib.sha256(content).hexdigest()
        if len(content) <= _LARGEST_COPIED:
            with atomic_write(folder / name, "wb") as file:
                file.write(content)
    # Remove the copies of an earlier start.
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in digests:
            path.unlink()
    return digests


def _file_of(module: str) -> Path | None:
    """Return the file of a module; None if it is not loaded or is built in."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if not isinstance(file, str) or not Path(file).is_file():
        return None
    return _resolved(file)


# Each start asks for thousands of modules, and resolving a path looks up each of its parts.
@cache
def _resolved(file: str) -> Path:
    return Path(file).resolve()
