"""The versions that a report of a problem needs, without a start of torch."""

from __future__ import annotations

import platform
from pathlib import Path

import asdf
from asdf.commands.options import PROGRAM
from asdf.distributed.builds import installed_torch


def describe_version() -> str:
    """Return the versions of ASDF, torch and Python, and where ASDF lies."""
    build = installed_torch()
    torch = str(build) if build.version else "no torch"
    folder = Path(asdf.__file__).resolve().parent
    return f"{PROGRAM} {asdf.__version__}, {torch}, Python {platform.python_version()} ({folder})"
