"""Which `asdf` Python imports: this distribution's, or another of the same import name.

A wheel holds the package twice: as `asdf`, and below `_copy`, where no other distribution writes. A
checkout and an editable installation have no copy: nobody overwrites files there.

This module works without `asdf`, which may be the other one.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType

DISTRIBUTION = "asdf-antispoofing"
_HERE = Path(__file__).resolve().parent
# The folder that holds `asdf` next to this package: site-packages, or a checkout.
_INSTALLED = _HERE.parent
_COPY = _HERE / "_copy"
_INIT = Path("asdf") / "__init__.py"


def use_this_asdf() -> None:
    """Let `import asdf` find this distribution's package, here and in processes started from here.

    Raises:
        ImportError: another `asdf` is imported already; one process cannot have two.
    """
    if "asdf" in sys.modules:
        check_loaded()
        return
    if is_overwritten():
        warnings.warn(describe_overwritten(), stacklevel=3)
    elif _file_to_import() == _INSTALLED / _INIT:
        return
    home = _COPY if _COPY.is_dir() else _INSTALLED
    sys.path.insert(0, str(home))
    # For processes of a launcher, and of loaders.
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), inherited)))


def check_loaded() -> None:
    """Refuse the `asdf` that this process has imported if it is another distribution's.

    Raises:
        ImportError: it is; the message says what happened and what to do.
    """
    loaded = sys.modules["asdf"]
    if _is_this(loaded):
        return
    where = getattr(loaded, "__file__", None) or "a folder without asdf/__init__.py"
    if is_overwritten():
        raise ImportError(describe_overwritten())
    raise ImportError(
        f"the asdf that this process has imported ({where}) is not the one of {DISTRIBUTION}. The "
        "file format library of astronomy has the same import name, and one process cannot have "
        "two: start with `import asdf_antispoofing`, in a process that does not need the other."
    )


def warn_of_neighbour() -> None:
    """Warn where a distribution called asdf lies in the folder that this one is installed in."""
    text = describe_neighbour()
    if text:
        warnings.warn(text, stacklevel=3)


def describe_neighbour() -> str:
    """Return what another distribution called asdf means here, and what to do; '' for none."""
    neighbour = _find_neighbour()
    if not neighbour or is_overwritten():
        return ""
    return (
        f"{neighbour}, another distribution with the import name asdf, is installed in "
        f"{_INSTALLED} as well. `import asdf` is ASDF, the Artificial Speech Detection Framework, "
        "there; programs that expect the other one fail. Install the two in separate environments."
    )


def is_overwritten() -> bool:
    """Whether another distribution has replaced or removed asdf/__init__.py of this one.

    Any distribution of that import name has this file, so it stands for all of them.
    """
    if not _COPY.is_dir():
        return False
    return _read(_INSTALLED / _INIT) != _read(_COPY / _INIT)


def describe_overwritten() -> str:
    """Return what happened to `asdf`, and what to do about it."""
    neighbour = _find_neighbour()
    culprit = neighbour or "another distribution with the import name asdf, since removed,"
    removal = f"pip uninstall {neighbour.partition(' ')[0]}; " if neighbour else ""
    return (
        f"{culprit} has overwritten files of {DISTRIBUTION} in {_INSTALLED}: `import asdf` no "
        "longer leads to ASDF, the Artificial Speech Detection Framework. `import "
        f"asdf_antispoofing` and the command {DISTRIBUTION} go on working, from a copy. Install "
        f"the two in separate environments, and mend this one: {removal}pip install "
        f"--force-reinstall --no-deps {DISTRIBUTION}"
    )


def _find_neighbour() -> str:
    """Return 'asdf 4.1.0' for a distribution called asdf in the same folder; '' for none."""
    for folder in _INSTALLED.glob("asdf-*.dist-info"):
        return folder.name.removesuffix(".dist-info").replace("-", " ", 1)
    return ""


def _is_this(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if not file:
        return False
    loaded = Path(file).resolve()
    if loaded == _INSTALLED / _INIT:
        return not is_overwritten()
    return loaded == _COPY / _INIT


def _file_to_import() -> Path | None:
    """Return the file that `import asdf` would load."""
    spec = importlib.util.find_spec("asdf")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).resolve()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
