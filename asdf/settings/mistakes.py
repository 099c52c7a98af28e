"""Mistakes in configs with their locations, collected so that one error names all of them.

Invariant: a mistake is reported with the location where it was written, and only once, even if
several configs share the line. Fixing everything that one error lists does not lead to a second
error. A message lists at most `MAX_SHOWN` mistakes and counts the rest; the nearest known name is
searched for only for those shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from asdf.errors import UsageError
from asdf.text import closest, lines_and_more, shorten

# A longer list of names would not help in a message.
FEW = 12
MAX_SHOWN = 30

Advice = Callable[[], str]


@dataclass(frozen=True)
class Location:
    """The location of a value: a line of a file, or a source without lines."""

    file: str
    line: int | None = None
    block: str = ""

    def __str__(self) -> str:
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}"

    def with_block(self, *, short: bool = False) -> str:
        """Return the location with its config; `short` leaves out the folder of the file."""
        location = str(self)
        if short and self.line is not None:
            location = f"{PurePath(self.file).name}:{self.line}"
        if self.block:
            return f"{location} ({self.block})"
        return location


COMMAND_LINE = Location("command line")
RECIPE_CODE = Location("recipe code")


@dataclass(frozen=True)
class Mistake:
    """A location, what is wrong there and a fix; `advice` is computed only when it is shown."""

    location: Location
    text: str
    # Not compared, so that mistakes with the same text are one.
    advice: Advice | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.location}: {_with_advice(self.text, self.advice)}"


class Complaint(ValueError):
    """A problem with a value or a name, raised where its location is not known.

    Attributes:
        line: Line of the problem, counted from 0 at the value's first line.
        advice: Advice as in a `Mistake`.
    """

    def __init__(self, text: str, line: int = 0, advice: Advice | None = None) -> None:
        super().__init__(text, line)
        self.text = text
        self.line = line
        self.advice = advice

    def __str__(self) -> str:
        return _with_advice(self.text, self.advice)

    def at(self, location: Location, about: str = "") -> Mistake:
        """Return this complaint as a mistake at `location`."""
        if self.line and location.line is not None:
            location = Location(location.file, location.line + self.line, location.block)
        text = f"{about}: {self.text}" if about else self.text
        return Mistake(location, text, self.advice)


def _with_advice(text: str, advice: Advice | None) -> str:
    if advice is None:
        return text
    return text + advice()


class SettingsError(UsageError):
    """All mistakes in configs, their files and the overrides, by file and line, each once."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        # Configs of the command that inherit the same line have all reported its mistake.
        unique = list(dict.fromkeys(mistakes))
        files = [mistake.location.file for mistake in unique]

        def order(mistake: Mistake) -> tuple[bool, int, int]:
            location = mistake.location
            # Files in the order of reading, then the command line, which has no lines.
            return location.line is None, files.index(location.file), location.line or 0

        self.mistakes = tuple(sorted(unique, key=order))
        # An error is pickled by its arguments when it travels to another process.
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        if len(self.mistakes) == 1:
            return str(self.mistakes[0])
        lines = lines_and_more([str(mistake) for mistake in self.mistakes], MAX_SHOWN)
        return f"{len(self.mistakes):,} mistakes in the settings:{lines}"


# Also an AttributeError, so that hasattr() and getattr() with a default work on settings.
class UnknownName(UsageError, AttributeError):
    """Code read or assigned a setting or section that does not exist."""


class Collector:
    """Collects mistakes, so that checking continues after the first one."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def add(self, location: Location, text: str, advice: Advice | None = None) -> None:
        """Add one mistake."""
        self.mistakes.append(Mistake(location, text, advice))

    @contextmanager
    def collecting(self, location: Location, about: str = "") -> Iterator[None]:
        """Add a complaint that ends the block as a mistake at `location`."""
        try:
            yield
        except Complaint as complaint:
            self.mistakes.append(complaint.at(location, about))


def raise_all(mistakes: Iterable[Mistake]) -> None:
    """Raise one error that names all of these mistakes, if there are any.

    Raises:
        SettingsError: there is at least one mistake.
    """
    mistakes = list(mistakes)
    if mistakes:
        raise SettingsError(mistakes)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a clause with the known name closest to `name`, or with all if they are few."""
    names = list(known)
    near = closest(name, names)
    if near:
        return f"; the nearest is '{near}'"
    if not 0 < len(names) <= FEW:
        return ""
    return f"; it has {', '.join(map(shortened, names))}"


def shortened(text: str, width: int = 60) -> str:
    """Return `text` on one line of at most `width` characters, for messages."""
    return shorten(" ".join(text.split()), width)


class KnownNames:
    """Rejects assignments to unknown settings, so that a typo in a recipe's code raises."""

    # Hidden from type checkers, which report unknown names only without it.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            names = self.__dataclass_fields__
            if name not in names:
                raise UnknownName(
                    f"{type(self).__name__} has no setting '{name}'{nearest(name, names)}"
                )
            super().__setattr__(name, value)
