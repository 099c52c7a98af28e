"""A corpus as it was distributed: a tree of files below a folder, which may be an uncompressed tar.

Invariant: names are relative to the tree's root, with slashes, and sorted, so that a corpus gives the same list
wherever it lies; what other systems leave beside the real files (`._*`, hidden files and folders) is not in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from asdf.archives import Archive, find_folder, open_file
from asdf.errors import AsdfError
from asdf.trials.lines import lines_of


class Tree:
    """The files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """The file `name`, to be given to `asdf.audio.read_audio`."""
        return self.root / name

    def exists(self, name: str) -> bool:
        """Whether there is a file or a folder `name`.

        Raises:
            AsdfError: this user may not look there.
        """
        try:
            return self.path(name).exists()
        except OSError as error:
            raise AsdfError(
                f"cannot look for {self.path(name)}: {error.strerror}. Check its permissions."
            ) from None

    def files(self, under: str = "") -> list[str]:
        """Names of all files in the folder `under` and below it, sorted; a tar in it is the folder of its name."""
        return sorted(_files(self.root, under))

    def lines(self, name: str) -> Iterator[tuple[int, str]]:
        """The lines of a text file, such as a protocol, that are not blank, each with its number (from 1).

        Raises:
            AsdfError: the file is not there, or is not text (see `asdf.trials.lines`).
        """
        path = self.path(name)
        try:
            file = open_file(path)
        except (FileNotFoundError, NotADirectoryError):
            raise AsdfError(
                f"there is no file {path}. The corpus is read as it is distributed: check paths.database_folder and "
                "that the archive was unpacked whole."
            ) from None
        except OSError as error:
            raise AsdfError(
                f"cannot read {path}: {error.strerror}. Check its permissions."
            ) from None
        with file:
            yield from lines_of(file, path, strip="\r\n")


class TarTree(Tree):
    """The files of a tar below a folder in it, read in place; the paths that it gives go on into the archive."""

    def __init__(self, root: Path, archive: Archive, inner: str) -> None:
        super().__init__(root)
        self._archive, self._inner = archive, inner

    def exists(self, name: str) -> bool:
        inner = self._in_archive(name)
        return self._archive.find(inner) is not None or self._archive.is_folder(inner)

    def files(self, under: str = "") -> list[str]:
        start = f"{under}/" if under else ""
        names = self._archive.names(self._in_archive(under))
        return sorted(start + name for name in names if not _is_hidden(name))

    def _in_archive(self, name: str) -> str:
        return "/".join(part for part in (self._inner, name) if part)


def open_tree(folder: Path) -> Tree:
    """The tree below `folder`; where there is no such folder, that in `folder.tar`, or in a tar that it lies in.

    Raises:
        AsdfError: it is not there; or the tar is compressed, cut off or damaged.
    """
    with suppress(PermissionError):
        if folder.is_dir():
            return Tree(folder)
    found = find_folder(folder)
    if found is not None and found.archive.is_folder(found.name):
        archive, inner = found
        return TarTree(archive.path / inner, archive, inner)
    tar = "" if folder.suffix == ".tar" else f", nor {folder.name}.tar"
    raise AsdfError(
        f"there is no folder {folder}{tar}. Check paths.database_folder, and that the corpus lies "
        "there as it is distributed."
    )


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _files(root: Path, under: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(root / under))
    except FileNotFoundError:
        return
    except OSError as error:
        raise AsdfError(
            f"cannot list the folder {root / under}: {error.strerror}. Check its permissions."
        ) from None
    taken = {entry.name for entry in entries}
    for entry in entries:
        if entry.name.startswith("."):
            continue
        name = f"{under}/{entry.name}" if under else entry.name
        folder = name.removesuffix(".tar")
        if entry.is_dir():
            yield from _files(root, name)
        elif folder != name and entry.name.removesuffix(".tar") not in taken:
            yield from (f"{folder}/{inner}" for inner in open_tree(root / folder).files())
        else:
            yield name
