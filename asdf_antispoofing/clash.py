"""Another distribution of the import name asdf, the file format library of astronomy.

Installed in one folder, each of the two overwrites files of the other. This module works without
`asdf`, which may be the other one.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

DISTRIBUTION = "asdf-antispoofing"
_FOLDER = Path(__file__).resolve().parent.parent
_REINSTALL = f"pip install --force-reinstall --no-deps {DISTRIBUTION}"


def describe_neighbour() -> str:
    """Return what another distribution called asdf in this folder means; '' for none."""
    for folder in _FOLDER.glob("asdf-*.dist-info"):
        name = folder.name.removesuffix(".dist-info").replace("-", " ", 1)
        return (
            f"{name} is installed beside {DISTRIBUTION} in {_FOLDER}, and both are imported as "
            "asdf: install them in separate environments, and mend this one with pip uninstall "
            f"asdf; {_REINSTALL}"
        )
    return ""


def warn_of_neighbour() -> None:
    """Warn where such a distribution is installed beside this one."""
    text = describe_neighbour()
    if text:
        warnings.warn(text, stacklevel=3)


def check_loaded() -> None:
    """Refuse the `asdf` that this process has imported if it is another one.

    Raises:
        ImportError: it is; the message says what to do.
    """
    loaded = sys.modules["asdf"]
    if vars(loaded).get("DISTRIBUTION") == DISTRIBUTION:
        return
    where = getattr(loaded, "__file__", None) or "a folder without __init__.py"
    advice = describe_neighbour() or f"Move it away, or mend this environment: {_REINSTALL}"
    raise ImportError(f"asdf is {where}, which is not the one of {DISTRIBUTION}. {advice}")
