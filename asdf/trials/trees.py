"""A corpus as it was distributed: files below a folder, or in a file that stands for one.

Invariant: names are relative to the tree's root, with slashes, and sorted, so a corpus gives the
same list wherever it lies. Hidden files and folders and the files that other systems add (`._*`)
are excluded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from asdf.errors import AsdfError
from asdf.places import Place, find_container, folder_name, folder_suffixes
from asdf.trials.text_lines import NumberedLines, file_lines


class Tree:
    """The files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Return the path of the file `name`, for `asdf.audio.read_audio`."""
        return self.root / name

    def exists(self, name: str) -> bool:
        """Whether the tree has a file or a folder `name`.

        Raises:
            AsdfError: this user has no permission to look there.
        """
        try:
            return self.path(name).exists()
        except OSError as error:
            raise AsdfError(
                f"cannot look for {self.path(name)}: {error.strerror}. Check its permissions."
            ) from None

    def files(self, under: str = "") -> list[str]:
        """Return the names of all files in the folder `under` and below it, sorted.

        A file in it that stands for a folder counts as this folder.
        """
        return sorted(_files(self.root, under))

    def lines(self, name: str) -> NumberedLines:
        """Yield the lines of a text file, such as a protocol, that are not blank.

        Raises:
            AsdfError: the file does not exist, or is not text (see `asdf.trials.text_lines`).
        """
        advice = (
            "The corpus is read as it is distributed: check paths.database_folder and that the "
            "archive was unpacked completely."
        )
        return file_lines(self.path(name), kind="file", advice=advice)


class PlaceTree(Tree):
    """The files of a place other than a folder, read through paths into it."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.path)
        self._place = place

    def exists(self, name: str) -> bool:
        return self._place.find(name) is not None or self._place.is_folder(name)

    def files(self, under: str = "") -> list[str]:
        start = f"{under}/" if under else ""
        names = self._place.names(under)
        # Without hidden files, and those in hidden folders.
        return sorted(start + name for name in names if "/." not in f"/{name}")


def open_tree(folder: Path) -> Tree:
    """Open the tree below `folder`, or in a place that stands for it or contains it.

    Raises:
        AsdfError: it does not exist, or the place cannot be read.
    """
    with suppress(PermissionError):
        if folder.is_dir():
            return Tree(folder)
    place = find_container(folder)
    if place is not None and place.is_folder():
        return PlaceTree(place)
    nor = ""
    for suffix in folder_suffixes():
        if folder.suffix != suffix:
            nor += f", nor {folder.name}{suffix}"
    raise AsdfError(
        f"there is no folder {folder}{nor}. Check paths.database_folder, and that the corpus is "
        "there as it is distributed."
    )


def _files(root: Path, under: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(root / under))
    except FileNotFoundError:
        return
    except OSError as error:
        raise AsdfError(
            f"cannot list the folder {root / under}: {error.strerror}. Check its permissions."
        ) from None
    names = {entry.name for entry in entries}
    for entry in entries:
        if entry.name.startswith("."):
            continue
        name = f"{under}/{entry.name}" if under else entry.name
        unpacked = folder_name(entry.name)
        if entry.is_dir():
            yield from _files(root, name)
        elif unpacked == entry.name or unpacked in names:
            # It stands for no folder, or was left where it was unpacked.
            yield name
        else:
            folder = folder_name(name)
            for inner in open_tree(root / folder).files():
                yield f"{folder}/{inner}"
