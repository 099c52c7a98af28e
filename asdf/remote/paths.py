"""Paths of objects in stores, usable like a `Path`.

Invariant: a remote path prints as its address, joining a name gives another remote path, and
`exists` asks the store. It is a `Path`, so code that handles paths need not know about stores;
`str`, `os.fspath` and messages give the address. An address is recognised by its scheme alone,
however it was spelled: `Path("s3://b/x")` prints as `s3:/b/x`, and both are the same. Checking a
local path costs almost nothing.
"""

from __future__ import annotations

import errno
import io
import os
import posixpath
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from asdf.remote.addresses import PACKAGES
from asdf.remote.stores import (
    is_folder,
    list_objects,
    object_state,
    read_whole,
    remove_object,
)
from asdf.text import AnyPath

if TYPE_CHECKING:
    _Base = Path
else:
    # Before Python 3.12, only the system's own path class can be subclassed.
    _Base = type(Path())

_FILE_MODE = 0o100644
_MOST_BYTES = 2**30


class RemotePath(_Base):
    """The path of an object, or of a prefix used as a folder, in a store.

    Examples:
        >>> path = RemotePath("s3://bucket/corpus") / "LA.tar" / "flac/a.flac"
        >>> str(path), path.name, str(path.parent)
        ('s3://bucket/corpus/LA.tar/flac/a.flac', 'a.flac', 's3://bucket/corpus/LA.tar/flac')
    """

    def __str__(self) -> str:
        text = super().__str__().replace("\\", "/")
        return address_of(text) or text

    def __fspath__(self) -> str:
        return str(self)

    def as_posix(self) -> str:
        return str(self)

    def __truediv__(self, name: Any) -> Any:
        return join_path(self, name)

    def is_absolute(self) -> bool:
        return True

    def absolute(self) -> RemotePath:
        return self

    def resolve(self, strict: bool = False) -> RemotePath:
        return self

    def expanduser(self) -> RemotePath:
        return self

    def exists(self, **_: Any) -> bool:
        return self.is_file() or self.is_dir()

    def is_file(self, **_: Any) -> bool:
        return object_state(str(self)) is not None

    def is_dir(self, **_: Any) -> bool:
        return is_folder(str(self))

    def is_fifo(self) -> bool:
        return False

    def is_symlink(self) -> bool:
        return False

    def stat(self, **_: Any) -> os.stat_result:
        """Return the size of the object; its version in the store replaces the modification time.

        Raises:
            FileNotFoundError: the object does not exist.
        """
        state = object_state(str(self))
        if state is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        size, version = state
        return os.stat_result((_FILE_MODE, 0, 0, 1, 0, 0, size, version, version, version))

    def open(  # type: ignore[override]
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open the whole content for reading; writing goes through `atomic_write`."""
        if set(mode) - set("rbt"):
            raise OSError(errno.EROFS, "objects are written whole", str(self))
        content = io.BytesIO(self.read_bytes())
        if "b" in mode:
            return content
        return io.TextIOWrapper(content, encoding or "utf-8", errors, newline)

    def read_bytes(self) -> bytes:
        """Return the whole content, up to a gibibyte, enough for the longest lists."""
        return read_whole(str(self), _MOST_BYTES)

    def read_text(self, encoding: str | None = None, errors: str | None = None, **_: Any) -> str:
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def iterdir(self) -> Generator[Any, None, None]:
        for name in list_objects(str(self)):
            yield self / name

    def glob(self, *_: Any, **__: Any) -> Iterator[Any]:  # type: ignore[override]
        """Yield nothing, since stores hold no unfinished files to clean up."""
        return iter(())

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Do nothing, since a store has no folders."""

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            remove_object(str(self))
        except FileNotFoundError:
            if not missing_ok:
                raise


def address_of(path: AnyPath) -> str | None:
    """Return a path's address, without '.', '..' and '//'; None for a local path.

    Examples:
        >>> address_of("s3:/bucket/a/../b.tar"), address_of("corpora/LA.tar")
        ('s3://bucket/b.tar', None)
    """
    scheme, slash, rest = os.fspath(path).partition(":/")
    # A local folder may be called `memory`.
    if not slash or scheme not in PACKAGES:
        return None
    return f"{scheme}:/{posixpath.normpath('/' + rest.lstrip('/'))}"


def is_remote(path: AnyPath) -> bool:
    """Whether a path is the address of an object in a store."""
    scheme, slash, _ = os.fspath(path).partition(":/")
    return bool(slash) and scheme in PACKAGES


def as_path(text: AnyPath) -> Path:
    """Return a user's path or address as a `Path`, remote for an address."""
    if isinstance(text, Path) and not is_remote(text):
        return text
    return RemotePath(text) if is_remote(text) else Path(text)


def join_path(folder: Path, name: AnyPath) -> Path:
    """Return `folder / name`; an absolute path or an address as `name` replaces `folder`."""
    if is_remote(name):
        return RemotePath(name)
    if not is_remote(folder):
        return folder / name
    if os.fspath(name).startswith("/"):
        return Path(name)
    return folder.joinpath(name)
