"""Names of shards, such as `shards-{000000..000999}.tar` or `part-*.tar`, and their recordings.

Invariant: every named shard exists, or the missing ones are reported before anything is read;
shards found by a `*` are sorted by name. Labels come from words, or from the value that the user
states as bona fide, and are never guessed; all problems of recordings are in one message that names
them.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError, UsageError
from asdf.text import lines_and_more, quoted_and_more
from asdf.trials.label_files import cells_of_trial, likely_labels, our_name
from asdf.trials.label_words import Columns, labels_of_values
from asdf.trials.table import TrialCollector
from asdf.trials.trial_list import UNLABELLED, TrialList

_SHOWN = 5
# A mistyped range must not use the memory for the names of this many files.
_MOST = 1_000_000
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_WILD = re.compile(r"[{*\[]")


def find_shards(
    pattern: str, folder: Path, is_shard: Callable[[str], bool] | None = None, without: str = ""
) -> tuple[Path, list[str]]:
    """Return the folder that contains all shards of a pattern, and their paths relative to it.

    Args:
        pattern: Path, with `{000..099}`, `{de,en}` or `*` for several shards.
        folder: Folder that the pattern is relative to.
        is_shard: Function of the name of a file that says whether it is a shard, for a path of a
            folder of them; None: the folder is itself the only one.
        without: Sentence about a folder without shards.

    Raises:
        AsdfError: shards do not exist, or there are none.
        UsageError: a range is malformed.
    """
    path = folder / Path(pattern).expanduser()
    parts = str(path).split("/")
    # The name of the folder that the pattern is relative to is not expanded.
    given = len(parts) - len(pattern.split("/"))
    wild = [number for number, part in enumerate(parts) if number >= given and _WILD.search(part)]
    if not wild and path.is_dir():
        names = [""]
        if is_shard is not None:
            names = sorted(filter(is_shard, (each.name for each in path.iterdir())))
        if not names:
            raise AsdfError(f"{path}: {without}")
        return path, names
    root, names = path.parent, [path.name]
    if wild:
        root = Path("/".join(parts[: wild[0]]) or ("/" if str(path).startswith("/") else "."))
        names = []
        for name in _expand("/".join(parts[wild[0] :])):
            if "*" not in name and "[" not in name:
                names.append(name)
            else:
                names += sorted(found.relative_to(root).as_posix() for found in root.glob(name))
    if not names:
        raise AsdfError(f"{root}: nothing matches {pattern}. Check the path.")
    # Patterns such as {a*,ab*} overlap, and a shard that is read twice would repeat its trials.
    names = list(dict.fromkeys(names))
    missing = [name for name in names if not (root / name).exists()]
    if missing:
        raise AsdfError(
            f"{root}: {len(missing)} of the {len(names)} named shards do not exist: "
            f"{quoted_and_more(missing, _SHOWN)}. Check the path, or leave them out of the name."
        )
    return root, names


def _expand(pattern: str) -> Iterator[str]:
    """Yield the expansions of a pattern with braces, in the order of its numbers and words."""
    match = _BRACES.search(pattern)
    if match is None:
        yield pattern
        return
    inside = match.group(1)
    words = inside.split(",")
    if limits := _RANGE.fullmatch(inside):
        first, last = map(int, limits.groups())
        if not 0 <= last - first < _MOST:
            raise UsageError(
                f"{pattern!r}: the range {{{inside}}} names {max(last - first + 1, 0):,} shards; 1 "
                f"to {_MOST:,} are possible."
            )
        # As in shells, a leading zero means numbers of one width.
        width = len(limits[1]) * limits[1].startswith("0")
        words = [f"{number:0{width}d}" for number in range(first, last + 1)]
    elif len(words) == 1:
        raise UsageError(
            f"{pattern!r}: braces must hold a range or words, such as {{000..999}} or {{de,en}}."
        )
    for word in words:
        for rest in _expand(pattern[match.end() :]):
            yield pattern[: match.start()] + word + rest


NO_LABEL = "none"
"""Value of `?label=` for recordings without labels."""

_LISTED = 10
# Number of values examined to find out what a field holds.
_LOOKED_AT = 200
_RESERVED = ("", "utterance", "label")
# A class number in shards is a label whose meaning the user must state.
_CLASS_NUMBER = "cls"


class ShardRows:
    """Recordings with their fields, added one after another.

    Attributes:
        path: Path or pattern as given, for messages.
        problems: Problems of single recordings.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self.problems: list[str] = []
        self._ids: list[str] = []
        # As Python integers, line numbers would take several times the memory.
        self._lines = array("L")
        self._columns: dict[str, list[str]] = {}
        # Equal values share one string: a string for each would need gigabytes.
        self._shared: dict[str, str] = {}

    def add(self, utterance: str, fields: Mapping[str, str], line: int = 0) -> None:
        """Add a recording.

        Args:
            line: Line that describes it; 0: its number.
        """
        count = len(self._ids)
        self._ids.append(utterance)
        self._lines.append(line or count + 1)
        for name, value in fields.items():
            column = self._columns.setdefault(name, [])
            # Earlier recordings lack this field.
            column += [""] * (count - len(column))
            column.append(self._shared.setdefault(value, value))

    @contextmanager
    def noting(self, where: str) -> Iterator[None]:
        """Record an `AsdfError` of the block as a problem of the recording at `where`."""
        try:
            yield
        except AsdfError as error:
            self.problems.append(f"{where}: {error}")

    def trials(self, columns: Columns) -> TrialList:
        """Return all recordings as trials.

        Raises:
            AsdfError: recordings have problems, a label is missing or has no meaning, or a
                recording is repeated.
        """
        # Damaged rows may lack the very field that is the label, and would mislead the search.
        self._refuse_problems()
        count = len(self._ids)
        for column in self._columns.values():
            column += [""] * (count - len(column))
        label = self._label_column(columns)
        labels: Sequence[int] = [UNLABELLED] * count
        if label:
            words = self._columns[label]
            pairs = zip(self._ids, words, strict=True)
            self.problems += [f"{name}: it has no {label}" for name, word in pairs if not word]
            self._refuse_problems()
            advice = (
                "After the name, specify the values that are bona fide, ?bona_fide=VALUE; all "
                f"others are then spoofs. To score recordings without labels: ?label={NO_LABEL}"
            )
            bona_fide = columns.bona_fide_values
            labels = labels_of_values(label, words, str(self.path), bona_fide, advice)
        ours = {theirs: name for name, theirs in columns.names.items()}
        others: dict[str, list[str]] = {}
        for name, values in self._columns.items():
            known = ours.get(name, our_name(name))
            if known not in _RESERVED and known not in others and name != label:
                others[known] = values
        collector = TrialCollector(Path(self.path), list(others))
        # zip() without columns would yield no rows.
        rows = zip(*others.values(), strict=True) if others else iter([()] * count)
        for line, name, value, row in zip(self._lines, self._ids, labels, rows, strict=True):
            collector.add(line, name, value, cells_of_trial(value, others, row))
        return collector.trials()

    def _refuse_problems(self) -> None:
        if self.problems:
            raise AsdfError(
                f"{self.path}: {len(self.problems)} problems with its recordings, of which "
                f"{len(self._ids):,} were read:{lines_and_more(self.problems, _LISTED)}\nFix the "
                "program that wrote them, or leave them out."
            )

    def _label_column(self, columns: Columns) -> str:
        """Return the field with the label; '' if the user states that there is none.

        Raises:
            AsdfError: no field, or more than one, may be the label.
        """
        stated = columns.names.get("label", "")
        if stated == NO_LABEL and NO_LABEL not in self._columns:
            return ""
        # A field may have an empty name.
        if stated and stated in self._columns:
            return stated
        names = list(self._columns)
        values = self._columns.values()
        firsts = [list(islice(filter(None, each), _LOOKED_AT)) for each in values]
        likely = [] if stated else likely_labels(names, firsts)
        if len(likely) == 1:
            return names[likely[0]]
        if not stated and not likely and _CLASS_NUMBER in self._columns:
            return _CLASS_NUMBER
        problem = "no field is a label of the two classes"
        if stated:
            problem = f"there is no field {stated!r}"
        elif likely:
            named = ", ".join(names[index] for index in likely)
            problem = f"several fields may be the label ({named})"
        pairs = zip(names, firsts, strict=True)
        shown = [f"{name} ({next(iter(first), 'empty')[:40]})" for name, first in pairs]
        raise AsdfError(
            f"{self.path}: {problem}. Fields and the first value of each: "
            f"{', '.join(shown) or 'none'}. After the name, choose the label and the value that is "
            f"bona fide, ?label=FIELD,bona_fide=VALUE, or score without labels: ?label={NO_LABEL}."
        )


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object in a text.

    Raises:
        AsdfError: it is not one.
    """
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise AsdfError(f"it is not JSON ({reason})") from None
    if not isinstance(entries, dict):
        raise AsdfError("it is JSON, but not an object {...}")
    return entries


def plain_fields(entries: object) -> dict[str, str]:
    """Return the entries of a JSON object that are texts, numbers or booleans, as texts.

    Nested entries do not describe a trial in one word, and are left out.
    """
    if not isinstance(entries, dict):
        return {}
    # TABs and line breaks would corrupt tables of trials.
    return {
        str(name): " ".join(str(value).split())
        for name, value in entries.items()
        if isinstance(value, str | int | float)
    }
