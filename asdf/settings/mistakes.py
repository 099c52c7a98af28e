"""What is wrong in a config, and where: collected, so that one error names every mistake at once.

Invariant: a mistake reaches the user with the location where it was written, and only once, however many of the
configs to run share the line. A reader who mends what one error lists does not meet a second one. However many
mistakes a file holds, a message lists `MOST_SHOWN` of them and counts the rest; names are searched for one that is
near only where the search is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TypeVar

from asdf.errors import UsageError
from asdf.text import closest, lines_and_more, shorten

T = TypeVar("T")

FEW = 12
MOST_SHOWN = 30


@dataclass(frozen=True)
class Location:
    """Where a value was written: a line of a file, or something without lines such as the command line."""

    file: str
    line: int | None = None
    block: str = ""

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def with_block(self, *, short: bool = False) -> str:
        """The location with the config it lies in; short: without the folder of the file."""
        location = (
            Location(PurePath(self.file).name, self.line)
            if short and self.line is not None
            else self
        )
        return f"{location} ({self.block})" if self.block else str(location)


COMMAND_LINE = Location("command line")
RECIPE_CODE = Location("recipe code")


@dataclass(frozen=True)
class Mistake:
    """A location, what is wrong there and what to do; `advice` is worked out when it is shown."""

    location: Location
    text: str
    advice: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.location}: {self.text}{self.advice() if self.advice else ''}"


class Complaint(ValueError):
    """What is wrong with a value or a name, raised where its location is not known.

    `line` is the line that is meant, counted from 0 at the value's first line; `advice`: as of a `Mistake`.
    """

    def __init__(self, text: str, line: int = 0, advice: Callable[[], str] | None = None) -> None:
        super().__init__(text, line)
        self.text = text
        self.line = line
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.text}{self.advice() if self.advice else ''}"

    def at(self, location: Location, about: str = "") -> Mistake:
        """The mistake of this complaint about something that was written at `location`."""
        if self.line and location.line is not None:
            location = Location(location.file, location.line + self.line, location.block)
        return Mistake(location, f"{about}: {self.text}" if about else self.text, self.advice)


class SettingsError(UsageError):
    """All mistakes that were found in configs, their files and the overrides: by file and line, each once."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        unique = list(dict.fromkeys(mistakes))
        files = [mistake.location.file for mistake in unique]

        def order(mistake: Mistake) -> tuple[bool, int, int]:
            location = mistake.location
            return location.line is None, files.index(location.file), location.line or 0

        self.mistakes = tuple(sorted(unique, key=order))
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        if len(self.mistakes) == 1:
            return str(self.mistakes[0])
        lines = lines_and_more([str(mistake) for mistake in self.mistakes], MOST_SHOWN)
        return f"{len(self.mistakes):,} mistakes in the settings:{lines}"


class UnknownName(UsageError, AttributeError):
    """Code asked for, or assigned to, a setting or section that there is not."""


class Collector:
    """Gathers mistakes, so that looking for them goes on behind the first one."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def add(self, location: Location, text: str, advice: Callable[[], str] | None = None) -> None:
        """Note one mistake."""
        self.mistakes.append(Mistake(location, text, advice))

    def attempt(self, work: Callable[[], T], location: Location, about: str = "") -> T | None:
        """The result of `work`, or None where it complained; the complaint is noted."""
        try:
            return work()
        except Complaint as complaint:
            self.mistakes.append(complaint.at(location, about))
            return None


def raise_all(mistakes: Iterable[Mistake]) -> None:
    """Raise one error that names all of these, if there are any.

    Raises:
        SettingsError: there was at least one mistake.
    """
    mistakes = list(mistakes)
    if mistakes:
        raise SettingsError(mistakes)


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause that names the known name nearest to `name`, or all of them where they are few and none is near."""
    names = list(known)
    near = closest(name, names)
    if near:
        return f"; the nearest is '{near}'"
    listed = ", ".join(shortened(known_name) for known_name in names[:FEW])
    return f"; it has {listed}" if 0 < len(names) <= FEW else ""


def shortened(text: str, width: int = 60) -> str:
    """`text` on one line of at most `width` characters, for use in a message."""
    return shorten(" ".join(text.split()), width)
