"""The values of a config from its layers: defaults, init_config, blocks, the command line.

Invariants: a log only grows, in the order in which values are applied, and the last step of a
setting is its value, so the value and its stated origin cannot contradict each other. Environment
variables and `~` are expanded only in the final value of a path, so an unset variable in one layer
does no harm if a later layer overrides it. An empty variable counts as unset: '$SCRATCH/LA' must
not silently become '/LA'.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from asdf.removed import SETTINGS, setting_has_left
from asdf.settings.catalogue import Catalogue, name_today, our_catalogue
from asdf.settings.config_files import Assignment
from asdf.settings.front_end_values import RANDOM
from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import COMMAND_LINE, Collector, Complaint, Location, Mistake, shortened
from asdf.settings.relations import contradictions
from asdf.settings.sections import Sections, assign
from asdf.settings.value_checks import check_value, takes_string

# A name begins with a letter, so that 'cost $5' is no variable.
VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([^{}]*)\})")


def expand(text: str) -> str:
    """Return `text` with `$NAME`, `${NAME}` and a leading `~` replaced.

    Raises:
        Complaint: variables are unset or empty; the message names all of them.
    """
    names = [plain or braced for plain, braced in VARIABLE.findall(text)]
    # Report all missing variables of a path together, each once.
    missing = [name for name in dict.fromkeys(names) if not os.environ.get(name)]
    if missing:
        listed = shortened(", ".join(f"${name}" for name in missing), 200)
        unset = f"variable {listed} is" if len(missing) == 1 else f"variables {listed} are"
        raise Complaint(
            f"the environment {unset} not set; export {shortened(missing[0])}=... first, or write "
            "the path in full"
        )
    filled = VARIABLE.sub(lambda match: os.environ[match[1] or match[2]], text)
    return os.path.expanduser(filled)  # noqa: PTH111 - a Path would also drop a leading './'


@dataclass(frozen=True)
class Step:
    """A value that a layer assigns to a setting; `broken` if it does not fit.

    Attributes:
        location: Location in a file or on the command line; None for the default.
    """

    setting: str
    value: Any
    location: Location | None = None
    comment: str = ""
    broken: bool = False


Log = Sequence[Step]


@dataclass(frozen=True)
class Config:
    """A config with all layers applied.

    Attributes:
        header: Description for the user, including where the config is written.
        values: Value of each setting by full name, with environment variables expanded.
        unset: Mistakes of paths with unset variables, which `values` holds unexpanded.
    """

    header: str
    log: Log
    values: Mapping[str, Any]
    unset: Mapping[str, Mistake] = field(default_factory=dict)
    name: str = ""
    catalogue: Catalogue = field(default_factory=our_catalogue)

    def sections(self) -> Sections:
        """Return the values as plain dataclasses, a new copy for each call."""
        sections = _sections_of(self.catalogue, self.values)
        if sections.front_end.weights == RANDOM:
            sections.front_end.weights = None
        return sections


def _sections_of(catalogue: Catalogue, values: Mapping[str, Any]) -> Sections:
    declared = {name: kind() for name, kind in catalogue.declared.items()}
    sections = Sections(declared=declared)
    assign(sections, values)
    return sections


def defaults(catalogue: Catalogue, sections: Iterable[str] | None = None) -> list[Step]:
    """Return the lowest layer, for some sections or for all."""
    chosen = catalogue.sections if sections is None else set(sections)
    known = [known for known in catalogue.settings.values() if known.section in chosen]
    return [Step(entry.full, entry.default) for entry in known]


def steps_of(
    assignments: Iterable[Assignment], catalogue: Catalogue, collector: Collector
) -> list[Step]:
    """Return the layer of these assignments; report unknown settings and unsuitable values."""
    steps = []
    for assignment in assignments:
        target, value, location = assignment.target, assignment.value, assignment.location
        left = SETTINGS.get(target)
        if left is not None and target not in catalogue.settings:
            if assignment.broken or value != left.default:
                collector.add(location, setting_has_left(target))
            continue
        with collector.collecting(location):
            known, broken = catalogue.look_up(target), True
            if not assignment.broken:
                with collector.collecting(location, f"{target} = {shortened(assignment.text)}"):
                    value, broken = check_value(known, value), False
            steps.append(Step(target, value, location, assignment.comment, broken))
    return steps


def read_overrides(
    overrides: Iterable[str], catalogue: Catalogue, collector: Collector
) -> list[Assignment]:
    """Read the command line's `section.name=value`, at most one per setting.

    Two values for one setting may be meant as two runs, so this is reported as a mistake.
    """
    assignments: dict[str, Assignment] = {}
    for text in overrides:
        assignment = _read_override(text, catalogue, collector)
        if assignment is None:
            continue
        # Repeating the same value is harmless: scripts append overrides to a given command.
        earlier = assignments.setdefault(assignment.target, assignment)
        if earlier.text != assignment.text:
            collector.add(
                COMMAND_LINE,
                f"{shortened(assignment.target)} is set to both {shortened(earlier.text, 30)} and "
                f"{shortened(assignment.text, 30)}: remove one; to run both, write a config for "
                "each",
            )
    return list(assignments.values())


def _read_override(override: str, catalogue: Catalogue, collector: Collector) -> Assignment | None:
    target, equals, text = (part.strip() for part in override.partition("="))
    target = name_today(target, str(COMMAND_LINE))
    if not equals:
        written = f"'{shortened(override)}'"
        collector.add(COMMAND_LINE, f"{written} is not an override of the form section.name=value")
        return None
    # `steps_of` reports an unknown setting once, with the nearest name.
    known = catalogue.settings.get(target)
    try:
        value = parse_literal(text)
        # A folder's name may look like a number, and the shell has removed its quotes.
        if known and known.annotation in (str, str | None) and type(value) in (int, float):
            value = text
        return Assignment(target, value, text, COMMAND_LINE)
    except Complaint as complaint:
        problem = complaint
    # The shell removed the quotes, or there were none; a text that begins with a quote or a bracket
    # is a literal with a mistake. Whether an unknown setting takes a bare string cannot be known.
    if known and text and text[0] not in "'\"([{\u2018\u2019\u201c\u201d":
        if takes_string(known.annotation):
            return Assignment(target, text, text, COMMAND_LINE)
        with suppress(Complaint):
            words = check_value(known, list(map(str.strip, text.split(","))))
            problem = Complaint(f'in a shell, this tuple is written "{words!r}"')
    if known:
        collector.mistakes.append(problem.at(COMMAND_LINE, f"{target} = {shortened(text)}"))
    return Assignment(target, None, text, COMMAND_LINE, broken=True)


def resolve(header: str, log: Log, catalogue: Catalogue, name: str = "") -> Config:
    """Apply the steps of a log that has a default for every setting of the catalogue."""
    latest = _latest_steps(log)
    values = {}
    unset = {}
    for known in catalogue.settings.values():
        step = latest[known.full]
        values[known.full] = step.value
        if known.metadata["check"] == "path" and not step.broken:
            try:
                if isinstance(step.value, str):
                    values[known.full] = expand(step.value)
                elif isinstance(step.value, tuple):
                    values[known.full] = tuple(map(expand, step.value))
            except Complaint as complaint:
                written = f"{known.full} = {shortened(repr(step.value))}"
                unset[known.full] = complaint.at(step.location or Location("default"), written)
    return Config(header, log, values, unset, name, catalogue)


def _latest_steps(log: Log) -> dict[str, Step]:
    return {step.setting: step for step in log}


def final_mistakes(config: Config) -> list[Mistake]:
    """Return the mistakes in a config's final values: unset variables and contradictions."""
    latest = _latest_steps(config.log)
    mistakes = list(config.unset.values())
    # Broken values are already reported, and their defaults replace them.
    sound = {name: config.values[name] for name in latest if not latest[name].broken}
    sections = _sections_of(config.catalogue, sound)
    for contradiction in contradictions(sections):
        first = latest[contradiction.first]
        second = latest[contradiction.second]
        if first.broken or second.broken:
            continue
        # Report the line that was applied last, since it caused the contradiction.
        written = [
            step.location
            for step in config.log
            if step.setting in (first.setting, second.setting) and step.location
        ]
        location = written[-1] if written else Location("default")
        text = f"{_describe(first, config)} {contradiction.relation} {_describe(second, config)}"
        mistakes.append(Mistake(location, text))
    return mistakes


def _describe(step: Step, config: Config) -> str:
    value = shortened(repr(config.values[step.setting]))
    return f"{step.setting} = {value} ({step.location or 'default'})"
