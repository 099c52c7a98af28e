"""Content of the hub library's cache for a repository, and which files were verified.

Invariant: a file counts as verified while it has the size and time that it had when its content was
compared with the hub's digest: SHA-256 for large files, git's own digest for small ones.

huggingface_hub documents the layout: `blobs` holds contents by digest, `snapshots` a folder of
links for each commit, `refs` the commits of branches. The folder `asdf` is ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from asdf.errors import AsdfError
from asdf.hub.hub_names import HubName
from asdf.hub.library import cache_folder
from asdf.runs.files import sha256_of, write_text

_PIECE = 1 << 20
_SHA256_DIGITS = 64
_MAX_LISTING_BYTES = 20_000_000


@dataclass(frozen=True)
class HubFile:
    """A file of a repository.

    Attributes:
        size: Size, in bytes.
        git_digest: Git's digest of the content; for large files, of the pointer.
        sha256: SHA-256 of the content of a large file; None for a small one.
    """

    size: int
    git_digest: str
    sha256: str | None = None

    @property
    def blob(self) -> str:
        """The name of its content in the cache."""
        return self.sha256 or self.git_digest

    def is_content(self, path: Path) -> bool:
        """Whether a file has this content.

        Raises:
            OSError: it cannot be read.
        """
        if path.stat().st_size != self.size:
            return False
        if self.sha256:
            return sha256_of(path) == self.sha256
        # The digest of a blob in git's object store.
        # Not for security: some builds of Python refuse SHA-1 otherwise.
        digest = hashlib.sha1(f"blob {self.size}\0".encode(), usedforsecurity=False)
        with path.open("rb") as file:
            for piece in iter(lambda: file.read(_PIECE), b""):
                digest.update(piece)
        return digest.hexdigest() == self.git_digest


class CachedRepository:
    """The folder of a repository in the cache."""

    def __init__(self, name: HubName) -> None:
        parts = [f"{name.kind}s", *name.repository.split("/")]
        self.folder = Path(cache_folder()) / "--".join(parts)

    def snapshot(self, commit: str) -> Path:
        """Return the folder of a commit's files."""
        return self.folder / "snapshots" / commit

    def blob_path(self, file: HubFile) -> Path:
        """Return the path for the content of a file."""
        return self.folder / "blobs" / file.blob

    def commit_of(self, revision: str) -> str | None:
        """Return the commit of a branch or tag at its last lookup."""
        with suppress(OSError, UnicodeDecodeError):
            return (self.folder / "refs" / revision).read_text(encoding="utf-8").strip()
        return None

    def note_commit(self, revision: str, commit: str) -> None:
        """Save the commit of a branch or tag, for use without a network."""
        if revision != commit and self.commit_of(revision) != commit:
            write_text(self.folder / "refs" / revision, commit)

    def listing(self, commit: str) -> dict[str, HubFile] | None:
        """Return the saved files of a commit; None if none are known.

        For a commit that another program downloaded, they are the files in the cache.
        """
        path = self._listing_path(commit)
        with suppress(OSError, ValueError, TypeError, AttributeError):
            if path.stat().st_size <= _MAX_LISTING_BYTES:
                content = json.loads(path.read_text(encoding="utf-8"))
                return {name: HubFile(**entry) for name, entry in content.items()}
        return self._linked(commit) or None

    def _linked(self, commit: str) -> dict[str, HubFile]:
        """Return the files in a commit's folder, whose links state the digests of the contents."""
        files = {}
        folder = self.snapshot(commit)
        for path in sorted(folder.rglob("*")):
            digest = path.resolve().name
            # Without links, as on some systems, the folder does not state digests.
            if path.is_file() and path.is_symlink():
                sha256 = digest if len(digest) == _SHA256_DIGITS else None
                files[str(path.relative_to(folder))] = HubFile(path.stat().st_size, digest, sha256)
        return files

    def note_listing(self, commit: str, files: Mapping[str, HubFile]) -> None:
        """Save the files of a commit, which never change."""
        entries = {name: asdict(file) for name, file in files.items()}
        write_text(self._listing_path(commit), json.dumps(entries, indent=1) + "\n")

    def is_checked(self, path: Path, file: HubFile) -> bool:
        """Whether a file has the content that the hub states; it is read at most once."""
        if not path.is_file():
            return False
        note = self._note_path(file)
        if note.is_file():
            # A damaged note, which may not be text, is like a missing one.
            noted = note.read_text(encoding="utf-8", errors="replace")
            if noted.split() == _state_of(path):
                return True
        if not file.is_content(path):
            return False
        self.note_checked(path, file)
        return True

    def note_checked(self, path: Path, file: HubFile) -> None:
        """Record that the content of a file was verified."""
        # A cache may be read-only; the file is then verified each time.
        with suppress(AsdfError):
            write_text(self._note_path(file), " ".join(_state_of(path)) + "\n")

    def _listing_path(self, commit: str) -> Path:
        return self.folder / "asdf" / f"{commit}.json"

    def _note_path(self, file: HubFile) -> Path:
        return self.folder / "asdf" / "checked" / file.blob


def _state_of(path: Path) -> list[str]:
    state = path.stat()
    return [str(state.st_size), str(state.st_mtime_ns)]
