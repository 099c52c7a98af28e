"""Names of repositories on the hub: 'hub:ORG/NAME', and 'ORG/NAME' if that is not a path.

Invariant: a name that exists on this machine, looks like a file, or is in a folder of this machine
is never taken for a name on the hub, so that a mistyped path sends no request.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asdf.errors import UsageError
from asdf.settings.front_end_values import BUNDLE
from asdf.text import shorten

PREFIX = "hub:"
SUFFIXES = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
"""Suffixes of files with weights."""

# The hub's rules: letters, digits, '-', '_' and '.'; the last three not at either end.
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|[A-Za-z0-9_]+"
_REPOSITORY = re.compile(rf"(?:{_PART})/(?:{_PART})")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")
# Refused by huggingface_hub, whose cache separates the parts of a name by '--'.
_FORBIDDEN = ("--", "..")
_MAX_LENGTH = 96
# A repository name with such a suffix is a path that does not exist.
_OF_FILES = (*SUFFIXES, ".onnx", ".ts", ".json", ".git", ".tar", ".zip", ".wav", ".flac", ".mp3")


@dataclass(frozen=True)
class HubName:
    """A repository on the hub.

    Attributes:
        repository: Name of the repository, 'ORG/NAME'.
        revision: Branch, tag or commit; None: the newest commit of the branch main.
        is_explicit: Whether it was written with 'hub:'; otherwise it may be a missing path.
        kind: Kind of the repository, in the hub's terms.
    """

    repository: str
    revision: str | None = None
    is_explicit: bool = True
    kind: Literal["model", "dataset"] = "model"

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"{PREFIX}{self.repository}{revision}"


def parse_name(text: str | Path) -> HubName | None:
    """Return the name on the hub in `text`; None if it is a path.

    Raises:
        UsageError: it begins with 'hub:' but is not a valid repository name.
    """
    text = str(text)
    is_explicit = text.startswith(PREFIX)
    repository, at, revision = text.removeprefix(PREFIX).partition("@")
    # The revision becomes a part of a path in the cache.
    has_forbidden = any(part in repository for part in _FORBIDDEN) or ".." in revision
    is_name = (
        _REPOSITORY.fullmatch(repository) is not None
        and len(repository) <= _MAX_LENGTH
        and (not at or _REVISION.fullmatch(revision) is not None)
        and not revision.endswith("/")
        and not has_forbidden
    )
    if is_explicit and not is_name:
        raise UsageError(
            f"'{shorten(text)}' is not a hub name: write hub:ORG/NAME or hub:ORG/NAME@REVISION, "
            "where REVISION is a branch, a tag or a commit, such as "
            "hub:nii-yamagishilab/mms-300m-anti-deepfake."
        )
    if not is_name:
        return None
    # If a folder 'networks' exists here, 'networks/epoch' is a mistyped path.
    is_here = (
        repository.lower().endswith(_OF_FILES)
        or Path(text).exists()
        or Path(repository).parent.exists()
    )
    if is_here and not is_explicit:
        return None
    return HubName(repository, revision or None, is_explicit)


def hub_name(weights: str | None) -> HubName | None:
    """Return the repository on the hub in `front_end.weights`; None for other values.

    Raises:
        UsageError: it begins with 'hub:' but is not a valid repository name.
    """
    if weights is None or weights.startswith(BUNDLE):
        return None
    return parse_name(weights)
