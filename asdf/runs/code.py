"""The user's own code of a run: its files, their digests, and copies in the system folder.

Invariant: a file is known by what it holds. Whether it is committed, or anywhere near a repository,
does not matter.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from asdf.runs.files import atomic_write

# Code is text of some kilobytes; of anything larger only the digest is saved.
_LARGEST_COPIED = 1_000_000
_PACKAGE = Path(__file__).resolve().parents[1]


def code_files(recipe_folder: Path, class_paths: Iterable[str]) -> dict[str, Path]:
    """Return the files of a run's own code by the names that their copies get.

    These are run.py, the configs, the loaded modules of the recipe's folder, and the modules of
    `class_paths`, wherever they lie; but not the project's own, nor those of a Python that is
    installed in that folder.
    """
    recipe_folder = recipe_folder.resolve()
    modules = []
    for class_path in class_paths:
        # torch's optimisers are nobody's own code: its version is in the record.
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
    """Return the user's modules in the recipe's folder: all that are loaded, and `modules`."""
    # Those that no chosen stage needs are not loaded, but named in a setting.
    candidates = {recipe_folder / f"{module.replace('.', '/')}.py" for module in modules}
    # A copy: another thread may import something meanwhile.
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
    """Whether a module of the recipe's folder belongs to an environment or to this package."""
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
        # Read once, so that digest and copy are of the same content.
        content = path.read_bytes()
        digests[name] = hashlib.sha256(content).hexdigest()
        if len(content) <= _LARGEST_COPIED:
            with atomic_write(folder / name, "wb") as file:
                file.write(content)
    # What an earlier start had copied is not part of this one.
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in digests:
            path.unlink()
    return digests


def _file_of(module: str) -> Path | None:
    """Return the file of a module; None if it is not loaded, or is built in."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if not isinstance(file, str) or not Path(file).is_file():
        return None
    return _resolved(file)


# Thousands of modules are asked for at each start, and each part of a path is looked up.
@cache
def _resolved(file: str) -> Path:
    return Path(file).resolve()
