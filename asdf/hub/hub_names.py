"""Names of repositories on the hub: 'hub:ORG/NAME', and 'ORG/NAME' where that is no path.

Invariant: what exists on this machine, or looks like a file or lies in a folder of this machine, is
never taken for a name of the hub, so that a slip in a path sends nothing anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asdf.errors import UsageError
from asdf.settings.weights_names import BUNDLE
from asdf.text import shorten

PREFIX = "hub:"
SUFFIXES = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
"""How the names of files with weights end."""

# The hub's rules: letters, digits, '-', '_' and '.', of which the last three are at neither end.
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|[A-Za-z0-9_]+"
_REPOSITORY = re.compile(rf"(?:{_PART})/(?:{_PART})")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")
_FORBIDDEN = ("--", "..")
_MAX_LENGTH = 96
# A repository whose name ends so is a path that does not exist.
_OF_FILES = (*SUFFIXES, ".onnx", ".ts", ".json", ".git", ".tar", ".zip", ".wav", ".flac", ".mp3")


@dataclass(frozen=True)
class HubName:
    """A repository of the hub.

    Attributes:
        repository: 'ORG/NAME'.
        revision: a branch, a tag or a commit; None: the newest of the branch main.
        is_explicit: whether it was written with 'hub:'; else it may be a path that is missing.
        kind: Kind of the repository, as the hub calls it.
    """

    repository: str
    revision: str | None = None
    is_explicit: bool = True
    kind: Literal["model", "dataset"] = "model"

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"{PREFIX}{self.repository}{revision}"


def parse_name(text: str | Path) -> HubName | None:
    """Return the name of the hub that `text` is; None where it is a path.

    Raises:
        UsageError: it begins with 'hub:', but no name of a repository follows.
    """
    text = str(text)
    is_explicit = text.startswith(PREFIX)
    repository, at, revision = text.removeprefix(PREFIX).partition("@")
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
            f"'{shorten(text)}' is not a name of the hub: write hub:ORG/NAME or "
            "hub:ORG/NAME@REVISION, where REVISION is a branch, a tag or a commit, such as "
            "hub:nii-yamagishilab/mms-300m-anti-deepfake."
        )
    # A folder 'networks' is here, so 'networks/epoch' is a slip in a path.
    if not is_name:
        return None
    is_here = (
        repository.lower().endswith(_OF_FILES)
        or Path(text).exists()
        or Path(repository).parent.exists()
    )
    if is_here and not is_explicit:
        return None
    return HubName(repository, revision or None, is_explicit)


def hub_name(weights: str | None) -> HubName | None:
    """Return the repository of the hub that `front_end.weights` names; None of all else.

    Raises:
        UsageError: it begins with 'hub:', but no name of a repository follows.
    """
    if weights is None or weights.startswith(BUNDLE):
        return None
    return parse_name(weights)
