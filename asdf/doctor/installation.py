"""Checks of Python, ASDF itself and its extras."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

import asdf
from asdf.doctor.finding import OK, WARNING, Finding, Step
from asdf_antispoofing import clash

_REINSTALL = f"pip install --force-reinstall --no-deps {clash.DISTRIBUTION}"
# 'av>=12; extra == "av"'
_OF_EXTRA = re.compile(r"""^([\w.-]+).*\bextra\s*==\s*['"]([\w-]+)['"]""")
_FOR_DEVELOPERS = {"test", "docs"}


def steps() -> Sequence[Step]:
    """Return the steps of this group."""
    return [
        Step("Python", look_at_python, "Reinstall ASDF in a fresh environment"),
        Step("ASDF", look_at_asdf, _REINSTALL),
        Step("extras", look_at_extras, _REINSTALL, failed=WARNING),
    ]


def look_at_python() -> Iterable[Finding]:
    """Yield the version of Python."""
    yield Finding("Python", OK, f"{platform.python_version()}, {sys.executable}")


def look_at_asdf() -> Iterable[Finding]:
    """Yield the version of ASDF, and whether another package has its import name."""
    folder = Path(asdf.__file__).resolve().parent
    yield Finding("ASDF", OK, f"{asdf.__version__}, {folder}")
    if clash.is_overwritten():
        text, _, mend = clash.describe_overwritten().partition(" Install ")
        yield Finding("import name", WARNING, text, f"Install {mend}")
        return
    text, _, mend = clash.describe_neighbour().partition(" Install ")
    if text:
        yield Finding("import name", WARNING, text, f"Install {mend}")


def look_at_extras() -> Iterable[Finding]:
    """Yield which extras are installed, and how to install the others."""
    try:
        requirements = metadata.requires(clash.DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        text = "unknown: ASDF is not installed but runs from a folder on the path"
        yield Finding("extras", OK, text, "pip install -e . in that folder")
        return
    packages: dict[str, list[str]] = {}
    for requirement in requirements:
        match = _OF_EXTRA.match(requirement)
        # An extra may refer to another one.
        if match and match[1] != clash.DISTRIBUTION:
            packages.setdefault(match[2], []).append(match[1])
    yield _describe_extras(packages)


def _describe_extras(packages: dict[str, list[str]]) -> Finding:
    """Return the finding on all extras, from the packages of each."""
    installed = []
    absent = []
    for extra, names in packages.items():
        if extra in _FOR_DEVELOPERS:
            continue
        if all(map(_is_installed, names)):
            installed.append(extra)
        else:
            absent.append(extra)
    text = f"installed: {', '.join(installed) or 'none'}"
    if not absent:
        return Finding("extras", OK, text)
    mend = f"where needed: pip install '{clash.DISTRIBUTION}[{','.join(absent)}]'"
    return Finding("extras", OK, f"{text}; not installed: {', '.join(absent)}", mend)


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
