"""What is wrong in a config, and where: collected, so that one error names every mistake at once.

Invariant: a mistake reaches the user with the place where it was written, and only once, however many of the
configs to run share the line. A reader who mends what one error lists does not meet a second one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeVar

from asdf.errors import UsageError

T = TypeVar("T")

FEW = 12


@dataclass(frozen=True)
class Place:
    """Where a value was written: a line of a file, or something without lines such as the command line."""

    file: str
    line: int | None = None
    block: str = ""

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def with_block(self, *, short: bool = False) -> str:
        """The place with the config it lies in; short: without the folder of the file."""
        place = Place(PurePath(self.file).name, self.line) if short and self.line is not None else self
        return f"{place} ({self.block})" if self.block else str(place)


COMMAND_LINE = Place("command line")
RECIPE_CODE = Place("recipe code")


@dataclass(frozen=True)
class Mistake:
    """A place, what is wrong there and what to do."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class Complaint(ValueError):
    """What is wrong with a value or a name, raised where its place is not known.

    `line` is the line that is meant, counted from 0 at the value's first line.
    """

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text, line)
        self.text = text
        self.line = line

    def at(self, place: Place, about: str = "") -> Mistake:
        """The mistake of this complaint about something that was written at `place`."""
        if self.line and place.line is not None:
            place = Place(place.file, place.line + self.line, place.block)
        return Mistake(place, f"{about}: {self.text}" if about else self.text)


class SettingsError(UsageError):
    """All mistakes that were found in configs, their files and the overrides: by file and line, each once."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        unique = list(dict.fromkeys(mistakes))
        files = [mistake.place.file for mistake in unique]

        def order(mistake: Mistake) -> tuple[bool, int, int]:
            place = mistake.place
            return place.line is None, files.index(place.file), place.line or 0

        self.mistakes = tuple(sorted(unique, key=order))
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        if len(self.mistakes) == 1:
            return str(self.mistakes[0])
        lines = "".join(f"\n  {mistake}" for mistake in self.mistakes)
        return f"{len(self.mistakes)} mistakes in the settings:{lines}"


class UnknownName(UsageError, AttributeError):
    """Code asked for, or assigned to, a setting or section that there is not."""


class Collector:
    """Gathers mistakes, so that looking for them goes on behind the first one."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def add(self, place: Place, text: str) -> None:
        """Note one mistake."""
        self.mistakes.append(Mistake(place, text))

    def attempt(self, work: Callable[[], T], place: Place, about: str = "") -> T | None:
        """The result of `work`, or None where it complained; the complaint is noted."""
        try:
            return work()
        except Complaint as complaint:
            self.mistakes.append(complaint.at(place, about))
            return None


def raise_all(mistakes: Iterable[Mistake]) -> None:
    """Raise one error that names all of these, if there are any.

    Raises:
        SettingsError: there was at least one mistake.
    """
    mistakes = list(mistakes)
    if mistakes:
        raise SettingsError(mistakes)


def closest(name: str, known: Iterable[str]) -> str:
    """The known name nearest to `name`, capitals aside; empty where none is near."""
    spelled = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), spelled, n=1)
    return spelled[close[0]] if close else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause that names the known name nearest to `name`, or all of them where they are few and none is near."""
    names = list(known)
    near = closest(name, names)
    if near:
        return f"; the nearest is '{near}'"
    return f"; it has {', '.join(names)}" if 0 < len(names) <= FEW else ""


def shortened(text: str, width: int = 60) -> str:
    """`text` on one line of at most `width` characters, for use in a message."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."
