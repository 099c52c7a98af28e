"""Options of commands as frozen dataclasses, and the reader that makes parsers from them.

Invariant: an option is written once: --help, docs/commands.md and shell completion are generated
from its field, next to its type and its check.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from inspect import get_annotations
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from asdf.errors import UsageError
from asdf.text import as_typed, program_name

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NETWORK_HELP = (
    "network file or folder, folder of a run (its best network), fused system (.json), or network "
    "on the hub (hub:ORG/NAME)"
)

MIN_REPLICATES = 20
"""Minimum number: with fewer, less than one replicate is beyond either end of a 95 % interval."""

T = TypeVar("T", bound="DataclassInstance")
_DEFAULT = "%(default)s"
# With spaces, so that it cannot be the name of a field.
_BY_SUFFIX = "outputs by their suffix"


@dataclass(frozen=True)
class Details:
    """The properties of an option besides its name, its type and its default.

    Attributes:
        meaning: Line of --help. A default that is a number or a word is shown at its end, or in
            place of %(default)s.
        metavar: Placeholder of the value; two of them for an option with two values.
        short: Short name, such as '-o'.
        aliases: Older names, which are accepted but not shown.
        choices: Accepted values, if the type is not a Literal of them; None: any.
        check: Function that raises a UsageError for an invalid value.
        one_of: Common key of options that exclude each other.
        positional: Whether it is an argument without dashes.
        repeated: Whether the option is given once per value; otherwise the values follow it.
        rest: Whether it takes all following arguments, including those that look like options.
        needed: Whether the usage lists the option.
        hidden: Whether the option is accepted but not shown.
    """

    meaning: str
    metavar: str | tuple[str, ...] | None = None
    short: str = ""
    aliases: tuple[str, ...] = ()
    choices: Collection[str] | None = None
    check: Callable[[Any], None] | None = None
    one_of: str = ""
    positional: bool = False
    repeated: bool = False
    rest: bool = False
    needed: bool = False
    hidden: bool = False


def option(meaning: str, metavar: Any = None, default: Any = None, **details: Any) -> Any:
    """Return the field of an option, whose name is that of the field: `--ignore-others`.

    Args:
        default: Value without the option; MISSING if it is required.
        details: Further attributes of `Details`.
    """
    return field(default=default, metadata={"details": Details(meaning, metavar, **details)})


def flag(meaning: str, **details: Any) -> Any:
    """Return the field of an option without a value, which is True if given."""
    return option(meaning, default=False, **details)


def argument(meaning: str, metavar: str, default: Any = MISSING, **details: Any) -> Any:
    """Return the field of an argument without dashes; the default () allows any number."""
    return option(meaning, metavar, default, positional=True, **details)


def replicates_option(meaning: str, *, may_be_none: bool = True) -> Any:
    """Return the field of --replicates, 1,000 by default.

    Args:
        may_be_none: Whether 0 is allowed, and omits the intervals.
    """

    def check(replicates: int) -> None:
        if replicates < MIN_REPLICATES and (replicates or not may_be_none):
            alternative = ", or 0 for no intervals" if may_be_none else ""
            raise UsageError(
                f"--replicates {replicates}: a 95 % interval needs at least {MIN_REPLICATES} "
                f"replicates. Give {MIN_REPLICATES} or more{alternative}."
            )

    return option(meaning, "N", 1000, check=check)


@dataclass(frozen=True, kw_only=True)
class WeightsOptions:
    """Parts of the network in other files."""

    base: str | None = option(
        "pretrained weights, for a network file that holds only the trained layers", "WEIGHTS"
    )
    network_folder: Path | None = option(
        "folder with the module of a network class of your own", "FOLDER"
    )


@dataclass(frozen=True)
class _Entry:
    """A field of a dataclass of options.

    Attributes:
        group: Heading in --help; '' for 'options'.
        kind: Type of one value.
        choices: Accepted values; None: any.
        count: Number of values, in the form of argparse; None for exactly one.
    """

    group: str
    name: str
    kind: Any
    choices: Collection[str] | None
    count: int | str | None
    default: Any
    details: Details

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def usage(self) -> str:
        """Text in the usage; '' if it does not list the option."""
        metavar = self.details.metavar or self.name.upper()
        is_needed = self.default is MISSING or self.details.needed
        if self.details.hidden or not (is_needed or self.details.positional):
            return ""
        if not self.details.positional:
            return f"{self.flag} {metavar}"
        text = f"{metavar} ..." if self.count in ("*", "+", argparse.REMAINDER) else str(metavar)
        return text if is_needed else f"[{text}]"

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add the option to a parser; an option that is not given has no value there."""
        # The dataclass alone has the defaults, because options are also built without a parser.
        words: dict[str, Any] = {"default": argparse.SUPPRESS, "help": self._help()}
        if self.kind is bool:
            words["action"] = "store_true"
        else:
            details = self.details
            words.update(type=self.kind, metavar=details.metavar, choices=self.choices)
            words["nargs"] = None if details.repeated else self.count
            words["action"] = "append" if details.repeated else "store"
        if self.details.positional:
            if self.default is not MISSING:
                # argparse would convert the string for "no default" to the type.
                words["default"] = self.default
            parser.add_argument(self.name, **words)
            return
        words["dest"] = self.name
        short = [self.details.short] if self.details.short else []
        parser.add_argument(*short, self.flag, required=self.default is MISSING, **words)
        for alias in self.details.aliases:
            parser.add_argument(alias, **{**words, "help": argparse.SUPPRESS})

    def _help(self) -> str:
        if self.details.hidden:
            return argparse.SUPPRESS
        meaning = as_typed(self.details.meaning)
        is_shown = isinstance(self.default, int | float | str) and self.kind is not bool
        if not is_shown or self.default == "":
            return meaning
        default = f"{self.default:g}" if isinstance(self.default, float) else str(self.default)
        if _DEFAULT in meaning:
            return meaning.replace(_DEFAULT, default)
        return f"{meaning} ({default})"


def entries_of(options: type) -> Iterator[_Entry]:
    """Yield the fields of a dataclass of options: arguments, own options, inherited options.

    The docstring of the class from which options are inherited is their heading.
    """
    # Annotations are strings in modules with `from __future__ import annotations`.
    kinds = get_type_hints(options)
    by_name = {one.name: one for one in fields(options)}
    for one in fields(options):
        if one.metadata["details"].positional:
            yield _entry_of(by_name.pop(one.name), kinds[one.name], "")
    for owner in options.__mro__:
        heading = "" if owner is options else (owner.__doc__ or "").partition("\n")[0].rstrip(".")
        for name in get_annotations(owner):
            # A redeclared field belongs to the redeclaring class.
            if name in by_name:
                yield _entry_of(by_name.pop(name), kinds[name], heading)


def _entry_of(one: Field[Any], kind: Any, heading: str) -> _Entry:
    details: Details = one.metadata["details"]
    if get_origin(kind) is UnionType:
        [kind] = [member for member in get_args(kind) if member is not NoneType]
    count: int | str | None = None
    if get_origin(kind) is tuple:
        members = get_args(kind)
        kind = members[0]
        count = len(members)
        if Ellipsis in members:
            count = "*" if details.positional and one.default == () else "+"
    elif details.positional and one.default is not MISSING:
        count = "?"
    if details.rest:
        count = argparse.REMAINDER
    choices = details.choices
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        kind = str
    return _Entry(heading, one.name, kind, choices, count, one.default, details)


@dataclass(frozen=True)
class Command(Generic[T]):
    """A command: its name, its description in --help, and its options.

    Attributes:
        description: Docstring of the module, shown verbatim.
        options: Frozen dataclass with `option` and `argument` fields.
        by_suffix: Option that --output stands for, by the suffix of the file, for a command with
            several outputs.
        first: Options that --help shows, for a command with many; `--help all` shows the rest.
    """

    name: str
    description: str | None
    options: type[T]
    by_suffix: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()

    def read(self, arguments: Sequence[str]) -> T:
        """Parse a command line.

        Raises:
            SystemExit: --help was shown, or argparse reported an error.
            UsageError: a value is not valid.
        """
        is_whole = [*arguments[-2:]] in (["-h", "all"], ["--help", "all"])
        parser = self.parser(is_whole)
        entries = list(entries_of(self.options))
        # Options may stand between arguments, unless the rest belongs to another program.
        has_rest = any(entry.details.rest for entry in entries)
        parse = parser.parse_args if has_rest else parser.parse_intermixed_args
        given = vars(parse(list(arguments)))
        for path in given.pop(_BY_SUFFIX, ()):
            name = self.by_suffix.get(path.suffix.lower())
            if name is None:
                raise UsageError(
                    f"--output {path}: unknown suffix. The suffix selects the output: "
                    f"{self._describe_suffixes()}."
                )
            if name in given:
                raise UsageError(
                    f"--output {path} means --{name} {path}, but --{name} {given[name]} is also "
                    "given. Give one of the two."
                )
            given[name] = path
        for entry in entries:
            if isinstance(given.get(entry.name), list):
                given[entry.name] = tuple(given[entry.name])
            if entry.name in given and entry.details.check is not None:
                entry.details.check(given[entry.name])
        return self.options(**given)

    def parser(self, is_whole: bool = True) -> argparse.ArgumentParser:
        """Make the parser of the command line.

        Args:
            is_whole: Whether its help shows all options, not only the first ones.
        """
        program = f"{program_name()} {self.name}"
        entries = list(entries_of(self.options))
        usage = [entry.usage for entry in entries if entry.usage]
        rest = 0
        if self.first and not is_whole:
            for index, entry in enumerate(entries):
                if not (entry.details.positional or entry.usage or entry.name in self.first):
                    hidden = replace(entry.details, hidden=True)
                    entries[index] = replace(entry, details=hidden)
                    rest += 1
        parser = argparse.ArgumentParser(
            prog=program,
            # argparse's own usage lists every option, which takes many lines for some commands.
            usage=" ".join([program, *usage, "[options]"]),
            description=as_typed(self.description or ""),
            epilog=f"`{program} --help all` shows {rest} more options." if rest else None,
            # Descriptions contain examples, whose lines must not be joined.
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if self.by_suffix:
            parser.add_argument(
                "-o",
                "--output",
                dest=_BY_SUFFIX,
                default=argparse.SUPPRESS,
                type=Path,
                action="append",
                metavar="OUT",
                help=f"output file; the suffix selects the format: {self._describe_suffixes()}",
            )
        groups: dict[str, argparse._ActionsContainer] = {"": parser}
        for entry in entries:
            key = entry.details.one_of or entry.group
            if entry.group not in groups:
                groups[entry.group] = parser.add_argument_group(entry.group)
            if key not in groups:
                groups[key] = groups[entry.group].add_mutually_exclusive_group()
            entry.add_to(groups[key])
        return parser

    def _describe_suffixes(self) -> str:
        """Return the suffixes of --output and the options that they stand for."""
        suffixes: dict[str, list[str]] = {}
        for suffix, name in self.by_suffix.items():
            suffixes.setdefault(name, []).append(suffix)
        return ", ".join(f"{' or '.join(known)} as --{name}" for name, known in suffixes.items())
