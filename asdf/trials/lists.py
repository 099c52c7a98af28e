"""Lists of recordings: ASDF's own formats, and the countermeasure protocols of ASVspoof 2019.

Invariant: a list keeps the order of its file and has no invalid label or repeated recording; ids
are the paths in the file, so score files and lists can be joined line by line.

A corpus as it was distributed: files below a folder, or in a file that stands for one.

Invariant: names are relative to the tree's root, with slashes, and sorted, so a corpus gives the
same list wherever it lies. Hidden files and folders and the files that other systems add (`._*`)
are excluded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from asdf.errors import AsdfError
from asdf.places import (
    Place,
    find_container,
    folder_name,
    folder_suffixes,
    list_names,
    near_name,
    split_part,
)
from asdf.runs.log import LOG
from asdf.text import lines_and_more, quoted_and_more
from asdf.trials.label_files import (
    ASVSPOOF,
    delimiter_of,
    is_csv_list,
    parse_any_table,
    parse_protocol,
)
from asdf.trials.label_words import Columns
from asdf.trials.table import TrialCollector, is_trials_file, parse_table
from asdf.trials.text_lines import NumberedLines, file_lines, peek
from asdf.trials.trial_list import LABELS, REFERENCE, UNLABELLED, TrialList


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
    others = [suffix for suffix in folder_suffixes() if folder.suffix != suffix]
    nor = "".join(f", nor {folder.name}{suffix}" for suffix in others)
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


_SHOWN = 10


def read_list(
    path: Path,
    folder: Path,
    name: str = "",
    columns: Columns | None = None,
    unlabelled: bool = False,
) -> TrialList:
    """Read a list in ASDF's format: `relative/path.flac 1` per line; 1 is bona fide, 0 is spoof.

    A table of trials (see `asdf.trials.table`) is also a list, as is a csv whose header contains
    `path,label` or `file_name,label`, or any table of recordings and labels (see
    `asdf.trials.label_files`); their columns are included.

    Args:
        folder: Folder that the paths in the list are relative to.
        columns: Names of columns, and values that mean bona fide, in a table of others.
        unlabelled: Whether lines of ASDF's format may be paths alone, for recordings without a
            label; existing labels are dropped.

    Raises:
        AsdfError: the list is missing or empty, a label is invalid, or an utterance is repeated;
            with file and line.
    """
    first, lines = peek(_list_lines(path))
    if is_trials_file(first):
        trials = parse_table(lines, path, listed=True)
    elif columns is None and is_csv_list(first):
        trials = parse_protocol(lines, path)
    elif columns is not None or (is_any_table(first) and not unlabelled):
        trials = parse_any_table(lines, path, columns)
    else:
        trials = _parse_lines(lines, path, unlabelled)
    return replace(trials, name=name, folder=folder)


def _parse_lines(lines: NumberedLines, path: Path, unlabelled: bool) -> TrialList:
    """Read lines of ASDF's format."""
    collector = TrialCollector(path)
    for number, line in lines:
        text = line.strip()
        # Split from the right, since a path may contain spaces.
        utterance, _, label = text.rpartition(" ")
        # A recording may itself be called '1'.
        has_label = label in LABELS and utterance.strip() != ""
        if unlabelled:
            # The labels of a labelled list are dropped.
            collector.add(number, utterance.strip() if has_label else text, UNLABELLED)
            continue
        if not has_label:
            raise AsdfError(
                f"{path}, line {number}: {text[:120]!r} is not 'relative/path.flac 1', a path, a "
                "space, and 1 (bona fide) or 0 (spoof). Recordings without labels are a corpus "
                "with unlabelled=True."
            )
        collector.add(number, utterance.strip(), LABELS[label])
    return collector.trials()


def is_any_table(first_line: str) -> bool:
    """Whether a list with this first line is a table of others, rather than a line of our own."""
    is_ours = first_line.rstrip().rpartition(" ")[2] in LABELS
    return not is_ours and delimiter_of(first_line) != ""


def read_asvspoof2019_protocol(path: Path, folder: Path, audio: str, name: str = "") -> TrialList:
    """Read `SPEAKER UTT - ATTACK KEY` lines; the recordings are `audio/UTT.flac` below `folder`.

    Raises:
        AsdfError: the protocol is missing or empty, a line is malformed, or an utterance is
            repeated.
    """
    trials = parse_protocol(_list_lines(path), path, layout=ASVSPOOF[5])
    # A protocol without speakers has '-' in the whole column, which is then dropped.
    columns = {
        name: trials.columns[name] for name in ("speaker", "attack") if name in trials.columns
    }
    ids = [f"{audio}/{utterance}.flac" for utterance in trials.ids]
    return TrialList(ids, trials.labels, columns=columns, name=name, folder=folder)


def _list_lines(path: Path) -> NumberedLines:
    advice = "Check paths.database_folder and the corpus's entry in the recipe."
    return file_lines(path, kind="list", advice=advice)


def check_both_classes(
    utterances: TrialList, use: str, without_spoofs: str = "", without_bona_fide: str = ""
) -> None:
    """Raise an AsdfError if a class is missing, since loss and EER would have no meaning.

    Args:
        use: Use that needs both classes, for the message.
        without_spoofs: Further advice if spoofs are missing.
        without_bona_fide: Further advice if genuine speech is missing.
    """
    for label, kind in ((1, "bona fide"), (0, "spoof")):
        if not (utterances.labels == label).any():
            raise AsdfError(
                f"the list {utterances.name} has {len(utterances)} utterances, none of them "
                f"{kind}: {use} needs both classes. Is it the right list? 1 is bona fide, 0 is "
                f"spoof.{without_bona_fide if label else without_spoofs}"
            )


def check_files(lists: Iterable[TrialList]) -> None:
    """Raise one AsdfError that counts and names all missing recordings of `lists`.

    Each folder is listed once instead of checking every file, which is far quicker on a parallel
    file system. For a folder in a tar, the archive's index is read. For a joined list, `lists` must
    contain its parts.
    """
    found = [
        (each, missing_files(each.ids, each.folder, each.name), f"of the {len(each)} files")
        for each in lists
        if each.origin is None
    ]
    advice = (
        "\nCheck paths.database_folder and the corpus's entry in the recipe: recordings are "
        "searched for below paths.database_folder, including those of a list with an absolute "
        "path; folder= changes both. Nothing has been started."
    )
    _refuse_missing(found, "recordings", advice)


def check_references(lists: Iterable[TrialList]) -> None:
    """Raise one AsdfError for all references of trials that do not exist; parts as `check_files`.

    This is for networks that take references.
    """
    found = []
    for each in lists:
        named = dict.fromkeys(each.columns.get(REFERENCE, ()) if each.origin is None else ())
        missing = [path for path in named if path and not (each.folder / path).exists()]
        found.append((each, missing, "references"))
    _refuse_missing(found, "references")


def _refuse_missing(
    found: Iterable[tuple[TrialList, list[str], str]], kind: str, advice: str = ""
) -> None:
    problems = []
    for utterances, missing, what in found:
        if missing:
            folder = utterances.folder
            near = near_name(folder / missing[0])
            problems.append(
                f"{len(missing)} {what} of {utterances.name} are not in {folder}:"
                + lines_and_more(missing, _SHOWN, indent=" " * 4)
                + (f"\n {near}" if near else "")
            )
    if problems:
        raise AsdfError(f"missing {kind}:\n  " + "\n  ".join(problems) + advice)


def missing_files(ids: Iterable[str], folder: Path, name: str = "") -> list[str]:
    """Return the ids whose recordings do not exist; log other names of one recording.

    These are hard links, and names that differ only in letter case.

    Args:
        folder: Folder that the ids are relative to.
        name: Name of the list for the log.

    Raises:
        AsdfError: a folder cannot be listed.
    """
    present: dict[str, Mapping[str, tuple[int, int] | None]] = {}
    first: dict[object, str] = {}
    missing: list[str] = []
    alike: list[str] = []
    for utterance in ids:
        is_part = "#" in utterance
        where, file = os.path.split(split_part(utterance)[0] if is_part else utterance)
        if where not in present:
            present[where] = names_in(folder / where)
        if file not in present[where]:
            missing.append(utterance)
        elif not is_part:
            inode = present[where][file]
            earlier = first.setdefault(utterance.casefold(), utterance)
            if inode is not None and earlier == utterance:
                earlier = first.setdefault(inode, utterance)
                # On some file systems, the number in a folder's list does not identify a file.
                if earlier != utterance and not (folder / earlier).samefile(folder / utterance):
                    earlier = utterance
            if earlier != utterance:
                alike.append(f"{utterance} (as {earlier})")
    if alike:
        what = f"{len(alike)} recordings of {name or 'the list'} seem to be listed under two names"
        why = "by hard links or in another letter case, and count as two"
        LOG.warning("warning: %s, %s: %s", what, why, quoted_and_more(alike, _SHOWN))
    return missing


def names_in(folder: Path) -> Mapping[str, tuple[int, int] | None]:
    """Return the names of the files in a folder, or in one of a tar; empty if it does not exist."""
    try:
        return list_names(folder)
    except OSError as error:
        raise AsdfError(
            f"cannot list the folder {folder}: {error.strerror}. Check its permissions."
        ) from None
