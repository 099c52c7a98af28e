"""What the cache of the hub's library holds of a repository, and what of it was checked.

Invariant: a file counts as checked while its size and its time are those that it had when its
content was compared with the digest that the hub announces: SHA-256 of large files, git's own
digest of small ones.

The layout is documented by huggingface_hub: `blobs` holds contents by their digest, `snapshots` a
folder of links for each commit, `refs` the commits of branches. The folder `asdf` is ours.
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
        size: in bytes.
        git_digest: Digest of the content as git counts it; of large files that of a pointer.
        sha256: SHA-256 of the content of a large file; None of a small one.
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
        """Return where the content of a file belongs."""
        return self.folder / "blobs" / file.blob

    def commit_of(self, revision: str) -> str | None:
        """Return the commit that a branch or tag was when it was last looked up."""
        with suppress(OSError, UnicodeDecodeError):
            return (self.folder / "refs" / revision).read_text(encoding="utf-8").strip()
        return None

    def note_commit(self, revision: str, commit: str) -> None:
        """Save which commit a branch or tag is, for times without a network."""
        if revision != commit and self.commit_of(revision) != commit:
            write_text(self.folder / "refs" / revision, commit)

    def listing(self, commit: str) -> dict[str, HubFile] | None:
        """Return the files of a commit as they were saved; None where none are known.

        Of a commit that another program fetched they are those in the cache.
        """
        path = self._listing_path(commit)
        with suppress(OSError, ValueError, TypeError, AttributeError):
            if path.stat().st_size <= _MAX_LISTING_BYTES:
                content = json.loads(path.read_text(encoding="utf-8"))
                return {name: HubFile(**entry) for name, entry in content.items()}
        return self._linked(commit) or None

    def _linked(self, commit: str) -> dict[str, HubFile]:
        """Return the files of a commit's folder, whose links name the digests of the contents."""
        files = {}
        folder = self.snapshot(commit)
        for path in sorted(folder.rglob("*")):
            digest = path.resolve().name
            if path.is_file() and path.is_symlink():
                sha256 = digest if len(digest) == _SHA256_DIGITS else None
                files[str(path.relative_to(folder))] = HubFile(path.stat().st_size, digest, sha256)
        return files

    def note_listing(self, commit: str, files: Mapping[str, HubFile]) -> None:
        """Save the files of a commit, which never change."""
        entries = {name: asdict(file) for name, file in files.items()}
        write_text(self._listing_path(commit), json.dumps(entries, indent=1) + "\n")

    def is_checked(self, path: Path, file: HubFile) -> bool:
        """Whether a file has the content that the hub announces; it is read at most once."""
        if not path.is_file():
            return False
        note = self._note_path(file)
        if note.is_file() and note.read_text(encoding="utf-8").split() == _state_of(path):
            return True
        if not file.is_content(path):
            return False
        self.note_checked(path, file)
        return True

    def note_checked(self, path: Path, file: HubFile) -> None:
        """Note that the content of a file was compared."""
        # A cache of others cannot be written: then it is compared each time.
        with suppress(AsdfError):
            write_text(self._note_path(file), " ".join(_state_of(path)) + "\n")

    def _listing_path(self, commit: str) -> Path:
        return self.folder / "asdf" / f"{commit}.json"

    def _note_path(self, file: HubFile) -> Path:
        return self.folder / "asdf" / "checked" / file.blob


def _state_of(path: Path) -> list[str]:
    state = path.stat()
    return [str(state.st_size), str(state.st_mtime_ns)]
