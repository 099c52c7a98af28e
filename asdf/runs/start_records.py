"""What a run records at each start: its environment, and the user's own code.

Invariant: a file of code is identified by its content, whether or not it is in a repository.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from asdf.runs.files import atomic_write, write_text
from asdf.runs.log import LOG

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
    # Torch's optimisers are not the user's code; the record states torch's version.
    own = [class_path for class_path in class_paths if not class_path.startswith("torch.")]
    modules = [class_path.rpartition(".")[0] for class_path in own]
    paths = [recipe_folder / "run.py", *sorted((recipe_folder / "configs").glob("*.py"))]
    # Modules that only other stages need are not loaded, but named in a setting.
    candidates = {recipe_folder / f"{module.replace('.', '/')}.py" for module in modules}
    # An environment or this package may be installed in the recipe's folder.
    installed = (_PACKAGE, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
    # Thousands of modules are of packages, and resolving a path looks up each of its parts.
    packages = tuple(f"{path}{os.sep}" for path in installed if path not in recipe_folder.parents)
    # A copy, since another thread may import a module meanwhile.
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and not file.startswith(packages):
            candidates.add(Path(file).resolve())
    others = tuple(folder for folder in installed if folder.is_relative_to(recipe_folder))
    inside = [path for path in candidates if path.is_relative_to(recipe_folder)]
    paths += sorted(path for path in inside if not any(map(path.is_relative_to, others)))
    files = {str(path.relative_to(recipe_folder)): path for path in paths if path.is_file()}
    for name in modules:
        file = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(file, str):
            path = Path(file).resolve()
            is_known = path.is_relative_to(_PACKAGE) or path.is_relative_to(recipe_folder)
            if path.is_file() and not is_known:
                files[f"elsewhere/{name}{path.suffix}"] = path
    return files


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


_PACKAGES = ("asdf-antispoofing", "torch", "torchaudio", "numpy", "soundfile", "tqdm")
_MAX_FILES = 200
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_RESTART_COUNT",
)
# Variables of torch and its libraries, which may change numbers, speed or memory.
_PREFIXES = ("CUBLAS_", "CUDA_", "CUDNN_", "GLOO_", "NCCL_", "PYTORCH_", "TORCH_")


def environment_record(
    devices: list[str], recipe_folder: Path, libraries: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the record as plain values.

    Args:
        devices: Description of the device of each process, in order of rank.
        recipe_folder: Folder of run.py, possibly in another repository than the project's.
        libraries: Versions of the GPU's libraries, by name.
    """
    named = [name for name in os.environ if name in _VARIABLES or name.startswith(_PREFIXES)]
    versions: dict[str, str | None] = dict.fromkeys(_PACKAGES)
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "started": now(),
        "command": shlex.join([sys.executable, *sys.argv]),
        "working_directory": str(Path.cwd()),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
        "libraries": dict(libraries),
        "git": git_state(Path(__file__).parent),
        "recipe_git": git_state(recipe_folder),
        "devices": devices,
        "environment": {name: os.environ[name] for name in sorted(named)},
    }


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Append `record` to the list in the JSON file `path`, one entry per start of the run."""
    write_text(path, json.dumps([*_read_records(path), record], indent=1) + "\n")


def update_record(path: Path, values: Mapping[str, Any]) -> None:
    """Add `values` to the record of the latest start."""
    # The record of the start may have been damaged or removed meanwhile.
    *earlier, last = _read_records(path) or [{}]
    write_text(path, json.dumps([*earlier, {**last, **values}], indent=1) + "\n")


def read_starts(path: Path) -> list[dict[str, Any]]:
    """Return the records of all starts, oldest first; empty if they cannot be read."""
    try:
        records = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(records, list):
        return []
    return [record if isinstance(record, dict) else {} for record in records]


def was_finished(path: Path) -> bool:
    """Whether the latest run in the folder completed all of its work.

    Return False if it was stopped on request, if it failed, or without a record.
    """
    starts = read_starts(path)
    return bool(starts and starts[-1].get("finished"))


def _read_records(path: Path) -> list[Any]:
    """Read the records of earlier starts; an unreadable file is renamed, with a warning."""
    try:
        records = json.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError):
        records = None
    if isinstance(records, list):
        return records
    aside = path.with_suffix(".damaged")
    # Renamed rather than removed, so that somebody can inspect it.
    path.replace(aside)
    LOG.warning(
        "warning: %s is damaged: it was renamed to %s, and a new record begins", path, aside
    )
    return []


def git_state(folder: Path) -> dict[str, Any] | None:
    """Return commit, branch, changed and untracked files of the checkout around `folder`.

    Files that git ignores are left out; an untracked folder is listed without its files.

    Returns:
        State of the checkout; None if there is no checkout.
    """
    try:
        lines = _run_git(folder, "status", "--porcelain", "--untracked-files=normal")
        untracked = [line.removeprefix("?? ") for line in lines if line.startswith("?? ")]
        changed = [line for line in lines if not line.startswith("?? ")]
        return {
            "commit": _run_git(folder, "rev-parse", "HEAD")[0],
            "branch": _run_git(folder, "rev-parse", "--abbrev-ref", "HEAD")[0],
            "changed": _bounded(changed),
            "untracked": _bounded(untracked),
        }
    except (OSError, subprocess.TimeoutExpired):
        return None


def _run_git(folder: Path, *words: str) -> list[str]:
    """Return the lines of output of a git command.

    Raises:
        OSError: git is not installed or failed.
    """
    finished = subprocess.run(
        # No locks: many runs may start at once, and the user may be committing.
        ["git", "--no-optional-locks", "-C", str(folder), *words],
        capture_output=True,
        text=True,
        # A checkout on an unresponsive disk must not block the run.
        timeout=20,
    )
    if finished.returncode:
        raise OSError(finished.stderr)
    return finished.stdout.splitlines()


def _bounded(names: list[str]) -> list[str]:
    rest = len(names) - _MAX_FILES
    return [*names[:_MAX_FILES], f"and {rest:,} more"] if rest > 0 else names


def now() -> str:
    """Return the current time in the format of records, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
