"""Version information for problem reports, without importing torch."""

from __future__ import annotations

import platform
from pathlib import Path

import asdf
from asdf.distributed.devices import installed_torch
from asdf.text import PROGRAM


def describe_version() -> str:
    """Return the versions of ASDF, torch and Python, and the location of ASDF."""
    build = installed_torch()
    torch = str(build) if build.version else "no torch"
    folder = Path(asdf.__file__).resolve().parent
    return f"{PROGRAM} {asdf.__version__}, {torch}, Python {platform.python_version()} ({folder})"
